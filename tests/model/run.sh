#!/usr/bin/env bash
# Verifies table.pml and lease.pml with Spin: every interleaving of each configuration below, no bitstate hashing, so that "ok" means
# that there is no violation and not that none was met. Then breaks the protocols in one place at a time and expects Spin to see
# it: a model that cannot fail shows nothing.
#
#     tests/model/run.sh          about a minute, under 1 GB
#     tests/model/run.sh long     the same and larger configurations: some minutes, up to 6 GB
#
# One TAP line a configuration. Needs spin and a C compiler (CC, default cc).
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mode=${1:-normal}
memory_mb=1500
[ "$mode" = long ] && memory_mb=6000

# expected|what it shows|parameters
properties='
holds|hits and inserts of two keys|TAKERS=3 KEYS=2 TAKES=2
holds|more is asked than there is: exactly the capacity is granted|TAKERS=3 KEYS=1 TAKES=2
holds|inserts into free slots by different keys|TAKERS=3 KEYS=3 SLOTS=3
holds|tag and state read one after the other|SHORT_WAY TAKERS=2 KEYS=3 TAKES=2
holds|tag and state read one after the other, and resets|SHORT_WAY TAKERS=2 KEYS=2 TAKES=2 RESETS=1
holds|evictions are counted to the last token|TAKERS=3 KEYS=3
holds|evictions from a single slot|TAKERS=3 KEYS=3 SLOTS=1
holds|resets|TAKERS=2 KEYS=2 TAKES=2 RESETS=1
holds|resets and evictions|TAKERS=2 KEYS=3 RESETS=2
holds|expired entries are free space|TAKERS=2 KEYS=2 TAKES=2 TICKS=2 CAP=1
holds|expired entries and evictions|TAKERS=2 KEYS=2 TAKES=2 TICKS=2 SLOTS=1
holds|a limit changes its number|TAKERS=2 KEYS=2 TAKES=2 CHANGES=1
holds|a limit changes its number twice|TAKERS=2 KEYS=2 CHANGES=2
holds|a limit changes its number while keys are evicted|TAKERS=2 KEYS=3 CHANGES=1
holds|a limit changes its number while entries expire|TAKERS=2 KEYS=1 TICKS=2 CHANGES=1
holds|a limit changes its number while keys are reset|TAKERS=2 KEYS=1 CHANGES=1 RESETS=1
holds|the old number goes to another limit|TAKERS=2 KEYS=2 TAKES=2 CHANGES=1 REUSE
'
mutants='
fails|mutant NO_LOCK (insert without the insertion lock) is caught|TAKERS=2 KEYS=1
fails|mutant NO_SECOND_LOOK (insert without looking again under the lock) is caught|TAKERS=2 KEYS=1
fails|mutant BLIND_STORE (read, compute, write back) is caught|TAKERS=3 KEYS=1
fails|mutant STATE_WITHOUT_TAG (the state is swapped without its tag) is caught|TAKERS=2 KEYS=3 TAKES=2
fails|mutant TORN_READ (no second look before a denial) is caught|SHORT_WAY TAKERS=2 KEYS=3 TAKES=2 RESETS=1
fails|mutant NO_VERSION_CHECK (insert without checking the version of the limit) is caught|TAKERS=2 KEYS=2 CHANGES=1
fails|mutant PUBLISH_UNLOCKED (a new number without the insertion locks) is caught|TAKERS=2 KEYS=2 CHANGES=1
fails|mutant SWEEP_GIVES_UP (the sweep does not try again) is caught|TAKERS=2 KEYS=2 CHANGES=1
fails|mutant NO_THIRD_LOOK (new, old, but not new again) is caught|TAKERS=1 KEYS=1 CHANGES=1 RESETS=1
fails|mutant RESET_BELIEVES_MISS (reset without checking the version) is caught|TAKERS=1 KEYS=1 CHANGES=1 RESETS=1
fails|mutant REUSE_AT_ONCE (the old number reused while calls still know it) is caught|TAKERS=2 KEYS=2 TAKES=2 CHANGES=1 REUSE
fails|mutant NO_ALLOWANCE (the bound without its exception for late inserts) is caught|TAKERS=2 KEYS=2 TAKES=2 TICKS=2 CAP=1
'
larger='
holds|long: three takers, three keys|TAKERS=3 KEYS=3 TAKES=2
holds|long: evictions from a single slot|TAKERS=3 KEYS=2 TAKES=2 SLOTS=1
holds|long: three slots|TAKERS=3 KEYS=3 TAKES=2 SLOTS=3
holds|long: resets, evictions|TAKERS=2 KEYS=3 TAKES=2 RESETS=2
holds|long: tag and state read one after the other, resets, evictions|SHORT_WAY TAKERS=2 KEYS=3 TAKES=2 RESETS=1
holds|long: tag and state read one after the other, change|SHORT_WAY TAKERS=2 KEYS=2 TAKES=2 CHANGES=1
holds|long: expiry among three|TAKERS=3 KEYS=2 TICKS=2 CAP=1
holds|long: a change, expiry|TAKERS=2 KEYS=1 TAKES=2 TICKS=2 CHANGES=1
holds|long: a change among three|TAKERS=3 KEYS=2 CHANGES=1
holds|long: two changes|TAKERS=2 KEYS=2 TAKES=2 CHANGES=2
holds|long: change, reset|TAKERS=2 KEYS=2 CHANGES=1 RESETS=1
holds|long: change, eviction, expiry|TAKERS=2 KEYS=2 SLOTS=1 TAKES=2 TICKS=1 CHANGES=1
holds|long: reuse among three|TAKERS=3 KEYS=1 TAKES=2 CHANGES=1 REUSE
'

lease_properties='
holds|two instances|ERRANDS=2 TICKS=6
holds|leases of three|INSTANCES=3 ERRANDS=2
holds|one instance fetches ahead|INSTANCES=1 ERRANDS=3
holds|what is not wanted is given back|ERRANDS=2 GIVE_BACK
holds|lowered capacity: the plain bound|CAP=3 ERRANDS=2 TICKS=5 STRICT
holds|lowered capacity and giving back|CAP=4 ERRANDS=2 STRICT GIVE_BACK
holds|withdrawals that are executed twice|ERRANDS=2 TICKS=5 REPEATED_REQUESTS
holds|a crash|ERRANDS=2 CRASHES=1
holds|a crash, giving back|INSTANCES=1 ERRANDS=2 CRASHES=1 GIVE_BACK
holds|a failover|ERRANDS=2 FAILOVERS=1
'
lease_mutants='
fails|mutant TTL_FROM_REPLY (the age of a lease is counted from the reply) is caught|ERRANDS=2
fails|mutant LIVES_ON (a lease that is not used up does not die) is caught|ERRANDS=2
fails|mutant LATE_REPLY_COUNTS (a reply that nobody waits for grants) is caught|ERRANDS=2
fails|mutant NUMBERS_AGAIN (numbers begin anew after a crash) is caught|INSTANCES=1 ERRANDS=2 CRASHES=1
fails|mutant PLAIN_REFUND (what was refilled since is given back, too) is caught|ERRANDS=2 GIVE_BACK
fails|mutant SPENT_AND_GIVEN (what is given back can still be spent) is caught|ERRANDS=2 GIVE_BACK
fails|mutant GIVEN_BACK_TWICE (a giving back is sent again) is caught|ERRANDS=2 GIVE_BACK
fails|mutant DENIAL_FROM_REPLY (the wait is counted from the reply) is caught|ERRANDS=2
fails|mutant NOT_LOWERED (the plain bound without the lowered capacity) is caught|CAP=3 ERRANDS=2 STRICT
fails|mutant NO_ALLOWANCE (the plain bound without strict_bound) is caught|ERRANDS=2
fails|mutant FAILOVER_UNCOUNTED (the bound without its exception for failovers) is caught|ERRANDS=2 FAILOVERS=1
'
lease_larger='
holds|long: three errands of two instances|ERRANDS=3
holds|long: one instance, three errands, a crash, giving back|INSTANCES=1 ERRANDS=3 CRASHES=1 GIVE_BACK
holds|long: long leases|CAP=3 TAU=3 ERRANDS=2 TICKS=6 GIVE_BACK
holds|long: a lowered capacity, giving back, a crash|CAP=4 ERRANDS=2 TICKS=6 STRICT GIVE_BACK CRASHES=1
holds|long: two failovers, giving back|ERRANDS=2 FAILOVERS=2 GIVE_BACK
holds|long: three instances, a crash, withdrawals that are executed twice|INSTANCES=3 ERRANDS=2 CRASHES=1 REPEATED_REQUESTS
'

# of <model> <list>: each configuration with the model it is of.
of() {
    printf '%s' "$2" | grep . | sed "s/^/$1|/"
}

list=$(of table "$properties$mutants"; of lease "$lease_properties$lease_mutants")
[ "$mode" = long ] && list=$(printf '%s\n' "$list"; of table "$larger"; of lease "$lease_larger")

for tool in spin "${CC:-cc}"; do
    command -v "$tool" >/dev/null || { echo "Bail out! $tool is not installed"; exit 1; }
done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# Builds and runs one verifier: verify <model> <optimization> <flag>... Prints "holds", "fails" or why it says neither.
verify() {
    local model=$here/$1.pml optimization=$2
    shift 2
    rm -f pan* ./*.trail
    spin -a "$@" "$model" >spin.out 2>&1 && ! grep -qi error spin.out ||
        { echo "spin: $(grep -i error spin.out | head -1)"; return; }
    "${CC:-cc}" "$optimization" -w -DSAFETY -DCOLLAPSE -DMEMLIM=$memory_mb -o pan pan.c >cc.out 2>&1 ||
        { echo "the verifier does not compile: $(head -1 cc.out)"; return; }
    ./pan -m100000 >pan.out 2>&1
    if ls ./*.trail >/dev/null 2>&1; then
        echo fails
    elif ! grep -q 'errors: 0' pan.out || grep -q 'not completed\|max search depth too small\|aborted\|MEMLIM' pan.out; then
        echo "not exhaustive: $(grep -m1 'error:\|MEMLIM\|pan:' pan.out)"
    else
        echo holds
    fi
}

echo "1..$(printf '%s\n' "$list" | wc -l)"
number=0 failed=0
while IFS='|' read -r model expected name parameters; do
    number=$((number + 1))
    flags=()
    for parameter in $parameters; do flags+=("-D$parameter"); done
    optimization=-O1
    if [[ $name =~ ^mutant\ ([A-Z_]+) ]]; then
        flags+=("-DMUTANT_${BASH_REMATCH[1]}")
        optimization=-O0                                # soon found: most of the time goes into compiling
    fi
    result=$(verify "$model" "$optimization" "${flags[@]}")
    states=$(awk '/states, stored/ { printf "%.0f", $1 }' pan.out 2>/dev/null)
    if [ "$result" = "$expected" ]; then
        echo "ok $number - $model: $name ($parameters: ${states:-no} states)"
    else
        failed=1
        echo "not ok $number - $model: $name"
        echo "# ${flags[*]}: expected '$expected', got '$result'"
        if [ "$result" = fails ]; then
            grep -m1 'assertion violated\|invalid end state' pan.out | sed 's/^/# /'
            cp "$here/$model.pml" . && spin -t -p -g "${flags[@]}" "$model.pml" 2>/dev/null | tail -60 | sed 's/^/# /'
        fi
    fi
done <<<"$list"
exit $failed
