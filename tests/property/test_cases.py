"""Problems that people met with rate limiters in the field, as acceptance tests. The numbers are those of our list of cases."""
import pytest
from hypothesis import settings

import caudal
from caudal import CaudalError, Limit, Request
from strategies import DAY, HOUR, MINUTE, MS, S, T0, YEAR

KEY = b"key"
ALGORITHMS = ("token_bucket", "fixed_window", "sliding_window", "sliding_log")
SCALE = settings.default.max_examples                        # the profile
ROUNDS = min(10**6, 200 * SCALE)


@pytest.fixture
def under(store):
    """Adds limits for the length of a test: under(limit) is its number."""
    numbers = []

    def add(*limit):
        numbers.append(store.add_limit(f"case {len(numbers)}", Limit(*limit)))
        return numbers[-1]

    yield add
    for number in numbers:
        store.remove_limit(number)


def admitted(store, number, instants, key=KEY):
    """The instants at which one token was granted."""
    return [at for at in instants if store.take(number, key, 1, at).verdict == "allow"]


# ---- algorithm

def test_C01_cost_above_capacity_is_never_and_spends_nothing(store, under):
    number = under("token_bucket", 3, 2 * S)
    d = store.take(number, KEY, 4, T0)
    assert (d.verdict, d.retry_after_ns, d.remaining, d.granted) == ("never", -1, 3, 0)
    d = store.take(number, KEY, 1, T0)
    assert (d.verdict, d.remaining) == ("allow", 2)


def test_C03_a_bucket_is_not_also_refilled_at_once_each_period(store, under):
    passed = admitted(store, under("token_bucket", 3, S), range(T0, T0 + 10 * S + 1, 100 * MS))
    assert len(passed) == 33                                 # 3 + 3/s * 10 s
    assert all(sum(at <= then <= at + S for then in passed) <= 6 for at in passed)


def test_C04_a_part_of_a_token_is_not_thrown_away(store, under):
    number = under("token_bucket", 10, 30 * S)
    d = [store.take(number, KEY, 1, T0 + k * S) for k in range(11)][-1]
    assert (d.verdict, d.remaining) == ("allow", 2)          # 10 - 11 + 3


def test_C05_idle_time_never_saves_up_more_than_the_capacity(store, under):
    number = under("token_bucket", 1, S, 10)
    store.take(number, KEY, 1, T0)
    later = [store.take(number, KEY, 1, T0 + YEAR) for _ in range(100)]
    assert [d.verdict for d in later] == ["allow"] * 10 + ["deny"] * 90
    assert all(d.remaining <= 10 for d in later)


@pytest.mark.parametrize("at", [4 * S, 8 * S, 8 * S + 900 * MS, 9 * S + 500 * MS])
def test_C06_half_idle_key_gets_one_burst(store, under, at):
    number = under("token_bucket", 1, S, 10)
    store.take(number, KEY, 1, T0)
    assert len(admitted(store, number, [T0 + at] * 25)) == 10


@pytest.mark.parametrize("burst, after, wait", [(1, 200 * MS, 800 * MS), (5, 0, S)])
def test_C07_retry_after_is_the_first_moment_that_passes(store, under, burst, after, wait):
    number = under("token_bucket", 1, S, burst)
    store.take(number, KEY, burst, T0)
    d = store.take(number, KEY, 1, T0 + after)
    assert (d.verdict, d.retry_after_ns) == ("deny", wait)
    assert store.take(number, KEY, 1, T0 + after + wait - 1).verdict == "deny"
    assert store.take(number, KEY, 1, T0 + after + wait).verdict == "allow"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C09_a_limit_of_zero_refuses_everything(store, under, algorithm):
    number = under(algorithm, 0, HOUR)
    for at in (T0, T0 + HOUR, T0 + YEAR):
        d = store.take(number, KEY, 1, at)
        assert (d.verdict, d.capacity, d.remaining, d.retry_after_ns) == ("never", 0, 0, -1)


def test_C09_a_rate_of_zero_admits_its_burst_once(store, under):
    number = under("token_bucket", 0, S, 1)
    assert admitted(store, number, [T0, T0, T0 + DAY, T0 + 90 * YEAR]) == [T0]
    d = store.peek(number, KEY, 1, T0 + YEAR)
    assert (d.verdict, d.retry_after_ns, d.reset_after_ns) == ("never", -1, -1)


def test_C09_only_unlimited_is_off(store, under):
    d = store.take(under("unlimited"), KEY, 2**64 - 1, T0)
    assert (d.verdict, d.capacity, d.remaining, d.retry_after_ns, d.reset_after_ns) == ("allow", 2**64 - 1, 2**64 - 1, 0, 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C11_every_way_to_take_gives_the_last_unit(store, under, algorithm):
    """N of N, whichever mixture of calls spends them."""
    number = under(algorithm, 10, HOUR)
    ways = [lambda: store.take(number, KEY, 1, T0),
            lambda: store.take_up_to(number, KEY, 1, 1, T0),
            lambda: store.take_all([Request(number, KEY, 1)], T0)[0],
            lambda: store.take_batch([Request(number, KEY, 1)], T0)[1][0]]
    answers = [ways[k % len(ways)]() for k in range(12)]
    assert [d.verdict for d in answers] == ["allow"] * 10 + ["deny"] * 2
    assert [d.remaining for d in answers] == [*range(9, -1, -1), 0, 0]


@pytest.mark.parametrize("algorithm", ["token_bucket", "sliding_log"])
def test_C12_what_is_exactly_one_window_old_is_out(store, under, algorithm):
    number = under(algorithm, 1, S)
    assert admitted(store, number, [T0, T0 + 999 * MS, T0 + S, T0 + 1001 * MS]) == [T0, T0 + S]


# ---- clock

@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C15_a_clock_that_jumps_ahead_and_back(store, under, algorithm):
    number, ahead = under(algorithm, 10, MINUTE), T0 + DAY
    episode = len(admitted(store, number, [T0] * 12))
    episode += len(admitted(store, number, [ahead]))
    back = range(T0, T0 + MINUTE, S)
    episode += len(admitted(store, number, back))
    assert episode <= 20 + 1                                 # twice the limit, and the one that the wrong clock paid for
    # Within one window of the correction the key is what it was.
    normal = len(admitted(store, number, range(T0 + 2 * MINUTE, T0 + 7 * MINUTE, S)))
    assert 50 - 10 <= normal <= 50 + 10


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C15_no_key_is_blocked_for_longer_than_its_period(store, under, algorithm):
    number = under(algorithm, 10, MINUTE)
    admitted(store, number, [T0 + DAY] * 10)
    d = store.take(number, KEY, 10, T0)
    assert d.verdict == "allow" or d.retry_after_ns <= MINUTE
    assert 0 < store.peek(number, KEY, 0, T0).reset_after_ns <= 2 * MINUTE


def test_C16_a_caller_whose_clock_is_slow_gains_nothing(store, under):
    number = under("token_bucket", 2, S, 4)
    assert admitted(store, number, [T0] * 5 + [T0 - 10 * S] + [T0] * 5) == [T0] * 4


def test_C22_steady_traffic_meets_each_window(store, under):
    start = T0 // (10 * S) * 10 * S
    passed = admitted(store, under("fixed_window", 10, 10 * S), range(start, start + 60 * S, 500 * MS))
    assert [sum(at // (10 * S) == start // (10 * S) + k for at in passed) for k in range(6)] == [10] * 6


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C22_asking_again_is_not_punished(store, under, algorithm):
    number = under(algorithm, 10, 10 * S)
    admitted(store, number, [T0] * 10)
    refused = [(at, store.take(number, KEY, 1, at)) for at in range(T0, T0 + S, 10 * MS)]
    due = {at + d.retry_after_ns for at, d in refused if d.verdict == "deny"}
    assert len(due) == 1
    assert store.take(number, KEY, 1, due.pop()).verdict == "allow"


# ---- numeric range

@pytest.mark.parametrize("start, idle", [(T0, 12 * HOUR), (T0, 10 * YEAR), (0, T0)])
def test_C23_a_long_idle_gap_does_not_overflow(store, under, start, idle):
    number = under("token_bucket", 10**6, S)
    store.take(number, KEY, 10**6, start)
    d = store.take(number, KEY, 10**6, start + idle)
    assert (d.verdict, d.remaining, d.reset_after_ns) == ("allow", 0, S)
    assert store.take(number, KEY, 1, start + idle).verdict == "deny"


@pytest.mark.parametrize("rate, burst, least", [(2000, 20, 99), (6000, 60, 99), (3000, 30, 99),
                                                 (2000, 1, 90), (6000, 1, 90), (3000, 1, 90)])
def test_C24_rates_above_a_thousand_a_second(store, under, rate, burst, least):
    """At 27,000 arrivals a second: at least `least` percent of the rate, and never more than the burst above it."""
    number, seconds = under("token_bucket", rate, S, burst), 10 if SCALE >= 1000 else 1
    passed = len(admitted(store, number, [T0 + k * S // 27_000 for k in range(27_000 * seconds)]))
    assert rate * seconds * least <= 100 * passed <= 100 * (rate * seconds + burst)


def test_C24_rates_up_to_one_a_nanosecond_and_no_further(store, under):
    number = under("token_bucket", 10**6, S)
    assert store.take(number, KEY, 10**6, T0).verdict == "allow"
    assert store.take(number, KEY, 1, T0).retry_after_ns == 1000
    assert store.take(under("token_bucket", 10**9, S, 5), KEY, 5, T0).reset_after_ns == 5
    for algorithm in ALGORITHMS:
        with pytest.raises(CaudalError) as refused:
            under(algorithm, 10**9 + 1, S)
        assert refused.value.status == caudal.ERR_LIMIT


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C29_a_refund_works_on_a_key_at_its_limit_and_never_above(store, under, algorithm):
    number = under(algorithm, 10, HOUR)
    admitted(store, number, [T0] * 10)
    d = store.refund(number, KEY, 1, T0)
    assert (d.verdict, d.remaining) == ("allow", 1)
    assert [store.take(number, KEY, 1, T0).verdict for _ in range(2)] == ["allow", "deny"]
    d = store.refund(number, b"fresh", 100, T0)
    assert (d.verdict, d.remaining, d.reset_after_ns) == ("allow", 10, 0)
    assert len(admitted(store, number, [T0] * 11, b"fresh")) == 10
    d = store.refund(number, KEY, 2**64 - 1, T0)
    assert (d.remaining, d.reset_after_ns) == (10, 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C30_cost_zero_looks_and_does_not_spend(store, under, algorithm):
    number = under(algorithm, 1, HOUR)
    looks = (lambda: store.take(number, KEY, 0, T0), lambda: store.peek(number, KEY, 0, T0))
    for look in looks:
        assert (look().verdict, look().remaining, look().granted, look().reset_after_ns) == ("allow", 1, 0, 0)
    assert store.take(number, KEY, 1, T0).verdict == "allow"
    for look in looks:                                       # at the limit a look is still allowed; `remaining` tells
        assert (look().verdict, look().remaining, look().retry_after_ns) == ("allow", 0, 0)
    assert store.take(number, KEY, 1, T0).verdict == "deny"


@pytest.mark.parametrize("period", [S, 7 * S // 3, 999_999_937])
def test_C31_no_token_is_late_after_many_refills(store, under, period):
    """One per interval, asked for exactly at each interval."""
    number = under("token_bucket", 1, period)
    due = range(T0, T0 + ROUNDS * period, period)
    assert len(admitted(store, number, due)) == ROUNDS


def test_C31_three_in_seven_seconds_polled_each_millisecond(store, under):
    number = under("token_bucket", 3, 7 * S, 2)
    seconds, passed = 10_000 if SCALE >= 1000 else 1000, 0
    now, end = T0, T0 + seconds * S
    while now < end:
        d = store.take(number, KEY, 1, now)
        passed += d.verdict == "allow"
        assert d.verdict == "allow" or d.retry_after_ns > 0
        # Polls that are refused change nothing, so only those near the due moment are made.
        due = now + max(0, d.retry_after_ns - 3 * MS)
        now = max(now + MS, -(-due // MS) * MS)
    assert passed == 2 + 3 * seconds // 7


@pytest.mark.parametrize("limit", [("token_bucket", 1, 10 * S, 1), ("token_bucket", 5000, S, 11),
                                   ("fixed_window", 1, 10 * MINUTE), ("sliding_window", 5, 10 * MINUTE),
                                   ("sliding_log", 5, 10 * MINUTE)], ids=lambda limit: limit[0])
def test_C32_a_key_is_remembered_until_it_has_recovered(limit):
    """In a store that is short of room the decisions are those of one that has plenty."""
    limit = Limit(*limit)
    with caudal.Store("memory:?keys=256&wide_keys=256", clock_ns=T0) as small, \
         caudal.Store("memory:?keys=65536", clock_ns=T0) as large:
        crowds = Limit("token_bucket", 10**6, S, 1)
        stores = [(s, s.add_limit("it", limit), s.add_limit("crowd", crowds)) for s in (small, large)]
        for k in range(2000):
            now = T0 + k * limit.period_ns // (limit.count * 400)
            answers = []
            for s, number, crowd in stores:
                for other in range(8):                       # each full again when the next ones come
                    s.take(crowd, b"%d %d" % (k, other), 1, now)
                answers.append(s.take(number, KEY, 1, now))
            assert answers[0] == answers[1]
        assert small.stats().live_evictions == 0


# ---- memory

@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
def test_C97_a_key_costs_the_same_whatever_its_limit(algorithm):
    sizes = set()
    for count in (10, 70_000, 1_000_000):
        with caudal.Store("memory:?keys=10000", clock_ns=T0) as store:
            number = store.add_limit("it", Limit(algorithm, count, DAY))
            for k in range(1000):
                assert store.take(number, b"%d" % k, count, T0).verdict == "allow"
            stats = store.stats()
            assert (stats.live_keys, stats.inserted, stats.live_evictions) == (1000, 1000, 0)
            sizes.add(stats.bytes)
    assert len(sizes) == 1


def test_C97_an_exact_log_refuses_large_limits():
    assert caudal.limit_check(Limit("sliding_log", 10_000, DAY)) == caudal.OK
    for count in (10_001, 70_000, 1_000_000):
        assert caudal.limit_check(Limit("sliding_log", count, DAY)) == caudal.ERR_LIMIT


def test_C98_a_flood_of_new_keys_frees_no_blocked_one_and_forgets_no_active_one():
    with caudal.Store("memory:?keys=10000&wide_keys=1000", clock_ns=T0) as store:
        number = store.add_limit("it", Limit("token_bucket", 10, HOUR))
        victim, honest = b"blocked", b"active"
        assert store.take(number, victim, 10, T0).verdict == "allow"
        assert store.take(number, honest, 5, T0).remaining == 5
        for start in range(0, min(10**6, 200 * SCALE + 20_000), 1000):
            flood = [Request(number, b"new %d" % k, 1) for k in range(start, start + 1000)]
            assert all(d.verdict == "allow" for d in store.take_batch(flood, T0)[1])
        d = store.take(number, victim, 1, T0)
        assert (d.verdict, d.retry_after_ns) == ("deny", HOUR // 10)
        assert store.take(number, victim, 1, T0 + HOUR // 10 - 1).verdict == "deny"
        assert store.take(number, honest, 1, T0).remaining == 4
        stats = store.stats()
        assert stats.live_keys <= stats.slots < 16_000
        assert stats.live_evictions >= stats.inserted - stats.slots > 0
