"""The theorems that the limits are bought for, on the decisions of the store alone.

A token bucket of capacity B and rate r admits at most B + r·t in every interval t, and a client that takes all it can get is
given exactly that. A window of N admits N where it counts, and a caller who waits as long as he is told passes, but no
nanosecond earlier.
"""
import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from judge import has_exact_clock, model_limit
from strategies import (AHEAD, COSTS, INT64_MAX, T0, examples, limits, magnitudes, move, sliding_logs, token_buckets,
                        tokens, windows)

KEY = b"client"


def with_limit(store, limit, body):
    with store.limit(limit) as number:
        return body(number)


ARRIVALS = st.lists(st.tuples(AHEAD, st.sampled_from(["take", "take", "greedy"]), COSTS), min_size=1, max_size=60)
BURSTS = st.lists(st.tuples(AHEAD, st.just("greedy"), st.just(("n", 1))), min_size=1, max_size=60)
STEADY = st.builds(lambda clock, n: [(clock, "take", ("n", 1))] * n,
                   st.tuples(st.sampled_from(["ns", "tokens"]), st.integers(1, 10**9)), st.integers(1, 80))


def admitted(store, number, limit, arrivals):
    """[(instant, tokens)] of what the store grants to arrivals that never go back in time."""
    now, last, out = T0, None, []
    for clock, how, cost in arrivals:
        now = max(now, move(clock, now, limit, last))
        if how == "greedy":
            last = store.take_up_to(number, KEY, 1, 2**63, now)
        else:
            last = store.take(number, KEY, tokens(cost, limit, last), now)
        out.append((now, last.granted))
    return out


def intervals(grants):
    """(duration, tokens admitted in it) of every closed interval between two arrivals."""
    for i, (start, _) in enumerate(grants):
        total = 0
        for end, granted in grants[i:]:
            total += granted
            yield end - start, total


@examples(3)
@given(limit=token_buckets(), arrivals=st.one_of(ARRIVALS, BURSTS, STEADY))
def test_a_bucket_admits_at_most_burst_plus_rate_times_time_in_every_interval(store, limit, arrivals):
    grants = with_limit(store, limit, lambda number: admitted(store, number, limit, arrivals))
    early = 0 if has_exact_clock(limit) else 1
    for duration, total in intervals(grants):
        assert (total - limit.capacity) * limit.period_ns <= limit.count * (duration + early)


@examples(3)
@given(limit=token_buckets(least=1), parts=st.lists(st.one_of(st.just(0), magnitudes(2**20)), min_size=1, max_size=40))
def test_a_saturating_client_attains_burst_plus_rate_times_time(store, limit, parts):
    """Who comes back before the bucket is full again loses nothing. `parts` are his pauses, in 2^-20 of the time to full."""
    def body(number):
        now, total = T0, 0
        for part in parts:
            full_in = (total * limit.period_ns - limit.count * (now - T0)) // limit.count
            now = min(INT64_MAX, now + full_in * part // 2**20)
            total += store.take_up_to(number, KEY, 0, 2**63, now).granted
            exactly = limit.capacity + limit.count * (now - T0) // limit.period_ns
            if has_exact_clock(limit):
                assert total == exactly
            else:
                assert exactly <= total <= limit.capacity + limit.count * (now + 1 - T0) // limit.period_ns

    with_limit(store, limit, body)


@examples(3)
@given(limit=limits(least=1), arrivals=ARRIVALS, cost=COSTS, part=st.integers(1, 2**20 - 1))
def test_who_waits_retry_after_passes_and_not_a_nanosecond_earlier(store, limit, arrivals, cost, part):
    def body(number):
        grants = admitted(store, number, limit, arrivals)
        now = grants[-1][0]
        left = store.peek(number, KEY, 0, now)
        wanted = tokens(cost, limit, left)
        refused = store.peek(number, KEY, wanted, now)
        assume(refused.verdict == "deny" and now + refused.retry_after_ns <= INT64_MAX)
        wait = refused.retry_after_ns
        assert wait > 0
        assert store.peek(number, KEY, wanted, now + wait - 1).verdict == "deny" or wait == 1
        assert store.peek(number, KEY, wanted, now + wait * part // 2**20).verdict == "deny" or wait * part < 2**20
        assert store.take(number, KEY, wanted, now + wait).verdict == "allow"

    with_limit(store, limit, body)


@examples(1)
@given(limit=limits(least=1), arrivals=ARRIVALS)
def test_after_reset_after_a_key_is_as_one_never_seen(store, limit, arrivals):
    def body(number):
        now = admitted(store, number, limit, arrivals)[-1][0]
        key = store.peek(number, KEY, 0, now)
        assume(0 <= key.reset_after_ns <= INT64_MAX - now)
        then = now + key.reset_after_ns
        assert store.peek(number, KEY, 0, then) == store.peek(number, b"never seen", 0, then)
        if key.reset_after_ns > 0:
            assert store.peek(number, KEY, 0, then - 1).reset_after_ns == 1

    with_limit(store, limit, body)


@examples(1)
@given(limit=windows("fixed_window"), arrivals=st.one_of(ARRIVALS, BURSTS))
def test_a_fixed_window_admits_at_most_its_count_between_two_edges(store, limit, arrivals):
    grants = with_limit(store, limit, lambda number: admitted(store, number, limit, arrivals))
    for _, window in itertools.groupby(grants, key=lambda grant: grant[0] // limit.period_ns):
        assert sum(granted for _, granted in window) <= limit.count


@examples(0.3)
@given(limit=windows("fixed_window", least=1))
def test_a_fixed_window_shows_twice_its_count_across_an_edge(store, limit):
    edge = (T0 // limit.period_ns + 1) * limit.period_ns
    assume(limit.period_ns > 1 and edge < INT64_MAX)

    def body(number):
        return sum(store.take_up_to(number, KEY, 0, 2**63, at).granted for at in (edge - 1, edge))

    assert with_limit(store, limit, body) == 2 * limit.count


@examples(1)
@given(limit=sliding_logs(), arrivals=st.one_of(ARRIVALS, BURSTS, STEADY))
def test_a_sliding_log_admits_at_most_its_count_in_every_rolling_window(store, limit, arrivals):
    grants = with_limit(store, limit, lambda number: admitted(store, number, limit, arrivals))
    for duration, total in intervals(grants):
        assert duration >= limit.period_ns or total <= limit.count


@examples(1)
@given(limit=windows("sliding_window"), arrivals=st.one_of(ARRIVALS, BURSTS))
def test_a_sliding_window_admits_what_the_model_admits(store, limit, arrivals):
    grants = with_limit(store, limit, lambda number: admitted(store, number, limit, arrivals))
    key = oracle.new(model_limit(limit))
    for at, granted in grants:
        if granted > 0:
            assert key.take(at, granted).verdict == "allow"
        assert granted <= limit.count
    for duration, total in intervals(grants):
        assert duration >= limit.period_ns or total <= 2 * limit.count
