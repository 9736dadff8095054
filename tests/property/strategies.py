"""What hypothesis draws: legal limits of every size, and the steps of a history.

A step is drawn as a rule ("the last retry_after less one nanosecond", "one more than is left") and becomes a number when it
is played, so that the interesting instants and costs are met often and a failing history shrinks to few and simple steps.
"""
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st

from caudal import CAPACITY_MAX, LOG_COUNT_MAX, REFILL_MAX_NS, Limit

US, MS, S = 10**3, 10**6, 10**9
MINUTE, HOUR, DAY = 60 * S, 3600 * S, 86400 * S
YEAR = 365 * DAY
T0 = 1764547200 * S                                      # 2025-12-01T00:00:00Z
INT64_MIN, INT64_MAX, UINT64_MAX = -2**63, 2**63 - 1, 2**64 - 1


def examples(factor):
    """Settings of a test that is worth `factor` times the examples of the profile."""
    return settings(max_examples=max(10, int(settings.default.max_examples * factor)))


@st.composite
def magnitudes(draw, most):
    """1 to `most`, every order of magnitude alike."""
    bits = draw(st.integers(0, most.bit_length() - 1))
    return min(most, draw(st.integers(2**bits, 2**(bits + 1) - 1)))


PERIODS = st.one_of(
    st.sampled_from([S, S, MINUTE, HOUR, DAY, 10 * S, 7 * S, 7 * DAY, 30 * DAY, YEAR, MS, US]),
    st.sampled_from([1, 2, 3, 7, 999_999_937, REFILL_MAX_NS - 1, REFILL_MAX_NS]),
    magnitudes(REFILL_MAX_NS))

COUNTS = st.one_of(
    st.integers(0, 10),
    st.sampled_from([10, 60, 100, 1000, 10**6, 10**9]),
    st.sampled_from([4095, 4096, 4097, 1_999_999, 999_999_937, 2**32 - 1, 2**32, 2**40, 2**40 + 1, 2**61 - 1]),
    magnitudes(2**63))


@st.composite
def token_buckets(draw, least=0):
    """Legal ones: at most a token a nanosecond, at most 2^40 tokens, full after at most 100 years."""
    period = draw(PERIODS)
    count = min(max(draw(COUNTS), least), period)
    most = CAPACITY_MAX if count == 0 else min(CAPACITY_MAX, REFILL_MAX_NS * count // period)
    burst = draw(st.one_of(st.just(-1), st.integers(0, 10), magnitudes(CAPACITY_MAX), st.just(most), st.just(count)))
    if burst < 0 and count > most:
        burst = most
    burst = min(burst, most)
    return Limit("token_bucket", count, period, burst if burst < 0 else max(burst, min(least, most)))


@st.composite
def windows(draw, algorithm, least=0):
    period = draw(PERIODS)
    return Limit(algorithm, min(max(draw(COUNTS), least), period, CAPACITY_MAX), period)


@st.composite
def sliding_logs(draw, least=0):
    period = draw(PERIODS)
    count = draw(st.one_of(st.integers(0, 30), st.integers(0, LOG_COUNT_MAX)))
    return Limit("sliding_log", min(max(count, least), period), period)


def limits(*algorithms, least=0):
    """Limits of some algorithms (all that count, by default), with a count and capacity of at least `least`."""
    return st.one_of([token_buckets(least) if name == "token_bucket" else
                      sliding_logs(least) if name == "sliding_log" else
                      windows(name, least)
                      for name in algorithms or ("token_bucket", "fixed_window", "sliding_window", "sliding_log")])


# ---- instants

STARTS = st.one_of(st.just(T0), st.integers(T0, T0 + DAY), st.sampled_from([0, -1, -T0, S]),
                   st.integers(-2**62, 2**62), st.sampled_from([INT64_MIN, INT64_MAX]))

UNITS = st.sampled_from([1, 1, US, MS, S, S, MINUTE, HOUR, DAY, YEAR])
AHEAD = st.one_of(
    st.just(("stay", 0)), st.just(("stay", 0)), st.just(("stay", 0)),
    st.tuples(st.just("retry"), st.integers(-1, 1)),
    st.tuples(st.just("reset"), st.integers(-1, 1)),
    st.tuples(st.just("tokens"), st.integers(1, 20)),
    st.tuples(st.just("edge"), st.integers(-1, 1)),
    st.tuples(st.just("ns"), st.builds(lambda n, unit: n * unit, st.integers(1, 100), UNITS)))
BACK = st.one_of(
    st.tuples(st.just("ns"), st.integers(-5, -1)),
    st.tuples(st.just("ns"), st.sampled_from([-60 * S + 1, -60 * S, -60 * S - 1])),
    st.tuples(st.just("periods"), st.integers(-3, -1)),
    st.tuples(st.just("ns"), st.builds(lambda n, unit: -n * unit, st.integers(1, 60), UNITS)))
CLOCKS = st.one_of(AHEAD, AHEAD, AHEAD, BACK)            # forward as a rule


def move(clock, now, limit, last):
    """The instant that a drawn step of the clock leads to, given the limit and the last decision (or None)."""
    kind, n = clock
    if kind == "retry":
        now += max(0, last.retry_after_ns + n) if last is not None and last.retry_after_ns > 0 else 0
    elif kind == "reset":
        now += max(0, last.reset_after_ns + n) if last is not None and last.reset_after_ns > 0 else 0
    elif kind == "tokens":
        now += n * limit.period_ns // max(1, limit.count)
    elif kind == "edge":
        period = max(1, limit.period_ns)
        now = (now // period + 1) * period + n
    elif kind == "periods":
        now += n * limit.period_ns
    else:
        now += n
    return max(INT64_MIN, min(INT64_MAX, now))


# ---- costs

COSTS = st.one_of(
    st.just(("n", 1)), st.just(("n", 1)), st.tuples(st.just("n"), st.integers(0, 8)),
    st.tuples(st.just("left"), st.integers(-1, 1)),
    st.tuples(st.just("capacity"), st.integers(-1, 1)),
    st.tuples(st.just("part"), st.integers(1, 16)),
    st.tuples(st.just("n"), magnitudes(UINT64_MAX)))


def tokens(cost, limit, last):
    kind, n = cost
    if kind == "left":
        n += last.remaining if last is not None else limit.capacity
    elif kind == "capacity":
        n += limit.capacity
    elif kind == "part":
        n = limit.capacity * n // 16
    return max(0, min(UINT64_MAX, n))


# ---- steps

@dataclass(frozen=True)
class Step:
    what: str               # take, peek, take_up_to, refund, reset, set_limit
    clock: tuple
    cost: tuple = ("n", 0)
    more: tuple = ("n", 0)  # take_up_to: the maximum
    limit: Limit = None     # set_limit


def steps(new_limits=None):
    """A step of a history; with `new_limits` some of them change the limit to one of these."""
    kinds = [st.builds(Step, st.just("take"), CLOCKS, COSTS)] * 6 + [
        st.builds(Step, st.just("peek"), CLOCKS, COSTS),
        st.builds(Step, st.just("take_up_to"), CLOCKS, COSTS, COSTS),
        st.builds(Step, st.just("refund"), CLOCKS, COSTS),
        st.builds(Step, st.just("reset"), CLOCKS)]
    if new_limits is not None:
        kinds += [st.builds(lambda clock, limit: Step("set_limit", clock, limit=limit), CLOCKS, new_limits)] * 2
    return st.one_of(kinds)
