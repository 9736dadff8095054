/* The memory table's protocol, as a Spin model.
 *
 * The table (src/store/table.c) lets any number of threads charge, insert, evict and forget entries without a lock on a
 * hit, and lets a limit change its number while they go on. This model is that protocol and nothing else: no hashing, no
 * lines, no rates. run.sh explores every interleaving of a few processes over a few slots and keys; what holds here for
 * three processes and two slots has no reason to fail for more, since slots and keys are treated alike.
 *
 * What is abstracted
 *   An entry is a tag (key, number of the limit) and a state, read in one step and changed in one step: the table's 16
 *   bytes and its 128-bit compare-and-swap. Key 0 is "empty".
 *   The state is the reading of the clock at which the bucket is full again, as in the table; one token a tick. An entry
 *   with state <= now is expired, which is the same as absent. TICKS 0 is a bucket without refill.
 *   Every key may live in every slot: the candidate slots of keys that collide.
 *   Each key has its own insertion lock: the fewest exclusions that striping by key can give.
 *
 * What is asserted, after every step that changes the table (holds()):
 *   one entry   no key has two entries under one limit, old and new number taken together
 *   no loss     without refill: what a key was granted is what its entry holds plus what evictions, counted, and resets
 *               took away. With refill: what it was granted is at most CAP plus the ticks gone by plus the same, but for
 *               late inserts: a call that read the clock, was overtaken by the moment at which its key's bucket was full,
 *               and finds the entry gone to another key, takes its token as of an instant at which there was none. It is
 *               the price of "a full bucket is the same as an absent one" where `now` is an argument (no call can gain
 *               more than its own cost), and it does not exist for a call that reads the clock after it missed.
 *   no ghost    no entry carries a number that was swept and not given out again
 * and when everybody is done:
 *   exact       a key that was neither evicted nor reset was granted exactly min(CAP, asked), if nothing refills
 *   A denial is true when it is read: that key's bucket had no token left. A key that a reset or a peek does not find was
 *   absent at some instant of that call. Spin itself finds a process that waits for ever (an invalid end state).
 *
 * SHORT_WAY is how the table takes from a key that it expects to find: it reads tag and state one after the other, relies
 * on the swap to notice when they do not belong together, and looks a second time before it denies.
 *
 * Parameters (-D): SLOTS, KEYS, CAP, TICKS, TAKERS, TAKES (calls a taker makes), RESETS, CHANGES (new numbers in a row),
 * REUSE (a second limit gets the number that the first change freed). -DMUTANT_x breaks the protocol in one place, so that
 * one can see that the assertions are able to fail; run.sh names them.
 */

#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef KEYS
#define KEYS 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef TICKS
#define TICKS 0
#endif
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef TAKES
#define TAKES 1
#endif
#ifndef RESETS
#define RESETS 0
#endif
#ifndef CHANGES
#define CHANGES 0
#endif

#ifdef REUSE
#define LIMITS 2
#else
#define LIMITS 1
#endif

#define NONE 0       /* no key, no number */
#define NOWHERE 255  /* no slot */
#define NUMBERS (CHANGES + 2)

/* The table. */
byte key_of[SLOTS], number_of[SLOTS], full_at[SLOTS];

/* Insertion locks, one a key; index 0 is unused. */
bool locked[KEYS + 1];

/* The published version of each limit. `version` counts publications: who holds an old count holds an old version. */
byte number[LIMITS], previous[LIMITS], version[LIMITS];

byte clock = 0;

/* Who is inside a call on limit 0, and with which version: what a reuse of a number has to wait for. */
bool inside[TAKERS];
byte inside_version[TAKERS];

/* Bookkeeping that the protocol does not see. Index: limit * (KEYS + 1) + key. */
#define AT(l, k) ((l) * (KEYS + 1) + (k))
byte asked[LIMITS * (KEYS + 1)];     /* tokens that were asked for */
byte granted[LIMITS * (KEYS + 1)];   /* tokens that were granted */
byte forgotten[LIMITS * (KEYS + 1)]; /* tokens of debt that went with an eviction (counted) or a reset */
byte late[LIMITS * (KEYS + 1)];      /* tokens granted by an insert at an instant that was over when it was written */
bool absent[LIMITS * (KEYS + 1)];    /* was absent at some instant since a reset began to look */
bool swept[NUMBERS + 1];             /* numbers that no entry may carry */
byte done = 0;

#define DEBT(full, now) ((full) > (now) -> (full) - (now) : 0)
#define OWNER(n) ((LIMITS == 2 && (n) == number[LIMITS - 1] && (n) != NONE) -> LIMITS - 1 : 0)
#define ENTRY_IS(s, k, n, f) (key_of[s] == (k) && number_of[s] == (n) && full_at[s] == (f))

/* The invariants. Runs inside the step that has just changed the table. */
inline holds() {
    l_ = 0;
    do
    :: l_ < LIMITS ->
        k_ = 1;
        do
        :: k_ <= KEYS ->
            s_ = 0; entries_ = 0; debt_ = 0;
            do
            :: s_ < SLOTS ->
                if
                :: key_of[s_] == k_ && OWNER(number_of[s_]) == l_ ->
                    entries_++;
                    debt_ = debt_ + DEBT(full_at[s_], clock);
                    assert(!swept[number_of[s_]])
                :: else
                fi;
                s_++
            :: else -> break
            od;
            assert(entries_ <= 1);
            absent[AT(l_, k_)] = absent[AT(l_, k_)] || entries_ == 0;
            assert(TICKS > 0 || granted[AT(l_, k_)] == debt_ + forgotten[AT(l_, k_)]);
            assert(granted[AT(l_, k_)] <= CAP + clock + forgotten[AT(l_, k_)] + late[AT(l_, k_)]);
            k_++
        :: else -> break
        od;
        l_++
    :: else -> break
    od;
    l_ = 0; k_ = 0; s_ = 0; entries_ = 0; debt_ = 0
}

/* Reads the slots one after the other for (key, n). The pair (found_number, found_full) is what one 16-byte read saw; or,
 * with SHORT_WAY, tag and state are read one after the other, and may belong to different entries. */
inline scan(n) {
    i = 0;
    do
    :: d_step { found == NOWHERE && i < SLOTS ->
        if
        :: key_of[i] == key && number_of[i] == n ->
            found = i;
            found_number = n;
#ifndef SHORT_WAY
            found_full = full_at[i];
            was_full_ = DEBT(full_at[i], now) >= CAP
#endif
        :: else
        fi;
        i++ }
    :: else -> break
    od;
    i = 0;
#ifdef SHORT_WAY
    if
    :: d_step { found != NOWHERE ->
        found_full = full_at[found];
        was_full_ = key_of[found] == key && DEBT(full_at[found], now) >= CAP }
    :: else
    fi
#endif
}

/* Looks for the key under the version in hand. While a change is going on an entry may be turned from the old number to
 * the new one behind the reader's back, after it looked for the new and before it looked for the old: so it looks for the
 * new once more. (An insert looks twice anyway, the second time under its lock, and would not need it. A reset or a peek
 * has no lock and does.) */
inline look() {
    found = NOWHERE;
    scan(my_number);
    if
    :: found == NOWHERE && my_previous != NONE ->
        scan(my_previous);
#ifndef MUTANT_NO_THIRD_LOOK
        if
        :: found == NOWHERE -> scan(my_number)
        :: else
        fi
#endif
    :: else
    fi
}

inline snapshot() {
    d_step {
        my_number = number[limit];
        my_previous = previous[limit];
        my_version = version[limit];
        now = clock
    }
}

/* Takes one token at a time. `limit` and the key of each call are chosen freely. */
proctype Taker(byte me) {
    byte calls = 0, limit = 0, key = NONE, now = 0;
    byte my_number, my_previous, my_version;
    byte i, found, found_number, found_full;
    byte victim, victim_key, victim_number, victim_full;
    bool was_full_, swapped;
    byte l_, k_, s_, entries_, debt_;

next_call:
    if
    :: calls == TAKES -> goto end_of_calls
    :: else
    fi;
    atomic {
        calls++;
        select(key : 1 .. KEYS);
#ifdef REUSE
        if
        :: limit = 0
        :: number[1] != NONE -> limit = 1
        fi;
#endif
        asked[AT(limit, key)]++
    }

again:
    skip;
#ifdef REUSE
    d_step {
        snapshot();
        inside[me] = limit == 0;
        inside_version[me] = my_version
    }
#else
    snapshot();
#endif
    look();
    if
    :: found != NOWHERE -> goto hit
    :: else
    fi;

    /* A miss is believed only under the key's insertion lock. */
#ifndef MUTANT_NO_LOCK
    atomic { !locked[key] -> locked[key] = true };
#endif

look_under_lock:
#ifndef MUTANT_NO_VERSION_CHECK
    if
    :: my_version != version[limit] ->
        locked[key] = false;
        goto again
    :: else
    fi;
#endif
#ifndef MUTANT_NO_SECOND_LOOK
    look();
    if
    :: found != NOWHERE ->
#ifndef MUTANT_NO_LOCK
        locked[key] = false;
#endif
        goto hit
    :: else
    fi;
#endif

    /* Free space first, else the live entry nearest to full: the one that gives least away. */
    victim = NOWHERE;
    i = 0;
    do
    :: d_step { i < SLOTS ->
        if
        :: victim == NOWHERE ||
           (key_of[i] == NONE -> 0 : DEBT(full_at[i], now)) < (victim_key == NONE -> 0 : DEBT(victim_full, now)) ->
            victim = i;
            victim_key = key_of[i];
            victim_number = number_of[i];
            victim_full = full_at[i]
        :: else
        fi;
        i++ }
    :: else -> break
    od;
    i = 0;
    d_step {
        swapped = ENTRY_IS(victim, victim_key, victim_number, victim_full);
        if
        :: swapped ->
            if
            :: victim_key != NONE ->
                forgotten[AT(OWNER(victim_number), victim_key)] =
                    forgotten[AT(OWNER(victim_number), victim_key)] + DEBT(victim_full, now)
            :: else
            fi;
            key_of[victim] = key;
            number_of[victim] = my_number;
            full_at[victim] = now + 1;
            granted[AT(limit, key)]++;
#ifndef MUTANT_NO_ALLOWANCE
            late[AT(limit, key)] = late[AT(limit, key)] + (now < clock -> 1 : 0);
#endif
            holds()
        :: else
        fi;
        victim = 0; victim_key = 0; victim_number = 0; victim_full = 0
    }
    if
    :: !swapped -> goto look_under_lock
    :: else
    fi;
#ifndef MUTANT_NO_LOCK
    locked[key] = false;
#endif
    goto answered;

hit:
    if
    :: DEBT(found_full, now) >= CAP ->
#if defined(SHORT_WAY) && !defined(MUTANT_TORN_READ)
        if
        :: d_step { ENTRY_IS(found, key, found_number, found_full) -> was_full_ = DEBT(full_at[found], now) >= CAP }
        :: else -> goto again                           /* what was judged never was one entry */
        fi;
#endif
        assert(was_full_);                              /* a denial is true, and writes nothing */
        goto answered
    :: else
    fi;
    d_step {
#ifdef MUTANT_STATE_WITHOUT_TAG
        swapped = full_at[found] == found_full;         /* a 64-bit swap of the state alone */
#else
#ifdef MUTANT_BLIND_STORE
        swapped = true;                                 /* read, compute, write back */
#else
        swapped = ENTRY_IS(found, key, found_number, found_full);
#endif
#endif
        if
        :: swapped ->
#ifndef MUTANT_STATE_WITHOUT_TAG
            key_of[found] = key;
            number_of[found] = my_number;               /* from the old number to the new one, if it was the old */
#endif
            full_at[found] = (found_full > now -> found_full : now) + 1;
            granted[AT(limit, key)]++;
            holds()
        :: else
        fi
    }
    if
    :: !swapped -> goto again
    :: else
    fi;

answered:
    skip;
    /* Forget the locals, so that what differs only in them is one state to the verifier. */
    d_step {
#ifdef REUSE
        inside[me] = false;
        inside_version[me] = 0;
#endif
        limit = 0; key = 0; now = 0; my_number = 0; my_previous = 0; my_version = 0;
        found = 0; found_number = 0; found_full = 0; was_full_ = false; swapped = false
    }
    goto next_call;

end_of_calls:
    done++
}

#if RESETS > 0
/* Forgets a key. Without a lock; so a miss counts only if the version is still the one that was looked under. The same
 * holds for every call that believes in a miss and writes nothing: a peek, a refund. */
proctype Resetter() {
    byte calls = 0, limit = 0, key = NONE, now = 0;
    byte my_number, my_previous, my_version;
    byte i, found, found_number, found_full;
    bool was_full_, swapped;
    byte l_, k_, s_, entries_, debt_;

next_call:
    if
    :: calls == RESETS -> goto end_of_calls
    :: else
    fi;
    atomic {
        calls++;
        select(key : 1 .. KEYS);
        absent[AT(limit, key)] = false;
        d_step { holds() }
    }
again:
    skip;
    snapshot();
    look();
    if
    :: found != NOWHERE ->
        d_step {
            swapped = ENTRY_IS(found, key, found_number, found_full);
            if
            :: swapped ->
                key_of[found] = NONE; number_of[found] = NONE; full_at[found] = 0;
                forgotten[AT(limit, key)] = forgotten[AT(limit, key)] + DEBT(found_full, clock);
                holds()
            :: else
            fi
        }
        if
        :: !swapped -> goto again
        :: else
        fi
    :: else ->
#ifndef MUTANT_RESET_BELIEVES_MISS
        if
        :: my_version != version[limit] -> goto again
        :: else
        fi;
#endif
        assert(absent[AT(limit, key)])
    fi;
    d_step {
        key = 0; now = 0; my_number = 0; my_previous = 0; my_version = 0;
        found = 0; found_number = 0; found_full = 0; was_full_ = false; swapped = false
    }
    goto next_call;
end_of_calls:
    done++
}
#endif

#if CHANGES > 0
/* Gives limit 0 a new number, CHANGES times. One process: the administration has a lock of its own. */
proctype Admin() {
    byte changes = 0, old, k, i, seen_key, seen_full, now;
    bool swapped;
    byte l_, k_, s_, entries_, debt_;

    do
    :: changes < CHANGES ->
        changes++;
        old = number[0];

        /* Under all insertion locks: an insert that checked the version before this has been written by now, and one that
         * checks it later sees it changed. So from here on no entry comes in under the old number. */
#ifndef MUTANT_PUBLISH_UNLOCKED
        k = 1;
        do
        :: k <= KEYS -> atomic { !locked[k] -> locked[k] = true }; k++
        :: else -> break
        od;
#endif
        k = 0;
        d_step { previous[0] = old; number[0] = old + 1; version[0]++ };
#ifndef MUTANT_PUBLISH_UNLOCKED
        k = 1;
        do
        :: k <= KEYS -> locked[k] = false; k++
        :: else -> break
        od;
#endif
        k = 0;

        /* In place, so that a scan that goes on meanwhile cannot miss an entry that moved. */
        i = 0;
        do
        :: i < SLOTS ->
            d_step {
                now = clock;
                seen_key = (number_of[i] == old -> key_of[i] : NONE);
                seen_full = full_at[i]
            }
            if
            :: seen_key != NONE ->
                d_step {
                    swapped = ENTRY_IS(i, seen_key, old, seen_full);
                    if
                    :: swapped ->
                        key_of[i] = (seen_full > now -> seen_key : NONE);
                        number_of[i] = (seen_full > now -> number[0] : NONE);
                        full_at[i] = (seen_full > now -> seen_full : 0);
                        holds()
                    :: else
                    fi
                }
#ifdef MUTANT_SWEEP_GIVES_UP
                i++
#else
                if
                :: swapped -> i++
                :: else                                 /* somebody charged it: once more, with the charge */
                fi
#endif
            :: else -> i++
            fi
        :: else -> break
        od;
        i = 0;

        d_step {
            previous[0] = NONE;
            version[0]++;
            swept[old] = true;
            holds();
            seen_key = 0; seen_full = 0; now = 0; swapped = false
        };

#ifdef REUSE
        /* The old number goes to another limit. Nothing in the table carries it, but a call that began before may still
         * look for it, or hold a pair that carried it: wait for those to be over. */
        if
        :: changes == 1 ->
#ifndef MUTANT_REUSE_AT_ONCE
            k = 0;
            do
            :: k < TAKERS -> (!inside[k] || inside_version[k] == version[0]); k++
            :: else -> break
            od;
#endif
            k = 0;
            d_step { number[1] = old; swept[old] = false; version[1]++ }
        :: else
        fi;
#endif
        old = 0
    :: else -> break
    od;
    done++
}
#endif

#if TICKS > 0
proctype Time() {
    do
    :: clock < TICKS -> clock++
    :: else -> break
    od;
    done++
}
#endif

init {
    byte k = 1, l = 0;
    atomic {
        number[0] = 1;
        do
        :: k <= TAKERS -> run Taker(k - 1); k++
        :: else -> break
        od;
#if RESETS > 0
        run Resetter();
#endif
#if CHANGES > 0
        run Admin();
#endif
#if TICKS > 0
        run Time();
#endif
        k = 1
    };
    done == TAKERS + (RESETS > 0 -> 1 : 0) + (CHANGES > 0 -> 1 : 0) + (TICKS > 0 -> 1 : 0);
    d_step {
        do
        :: l < LIMITS ->
            k = 1;
            do
            :: k <= KEYS ->
                assert(TICKS > 0 || forgotten[AT(l, k)] > 0 ||
                       granted[AT(l, k)] == (asked[AT(l, k)] < CAP -> asked[AT(l, k)] : CAP));
                k++
            :: else -> break
            od;
            l++
        :: else -> break
        od
    }
}
