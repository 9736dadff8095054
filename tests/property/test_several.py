"""Several requests in one call: all or nothing, and many independent ones."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

import caudal
import oracle
from caudal import CaudalError, Limit, Request
from judge import answer, has_exact_clock, model_limit
from strategies import CLOCKS, COSTS, DAY, MS, S, T0, UINT64_MAX, examples, limits, move, tokens

KEYS = [b"", b"a", b"b\x00c"]
UNLIMITED = Limit("unlimited")
# Clocks that are exact, so that every answer is, within a few days, so that no bucket is looked at from too far (see judge.py).
LIMITS = st.one_of(limits().filter(lambda x: x.algorithm != "token_bucket" or has_exact_clock(x)),
                   st.builds(Limit, st.just("token_bucket"), st.integers(0, 20), st.just(S), st.integers(0, 20)),
                   st.just(UNLIMITED))
STEPS = st.lists(st.tuples(CLOCKS, st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 2]), COSTS),
                                            min_size=1, max_size=6)),
                 min_size=1, max_size=15)


class Unlimited:
    """The model has none."""
    decision = oracle.Decision("allow", UINT64_MAX, 0, 0)

    def peek(self, *_):
        return self.decision

    take = peek


class Model:
    """Every key under every limit, by the reference model."""

    def __init__(self, limits_used):
        self.limits, self.states = limits_used, {}

    def state(self, limit, key):
        if (limit, key) not in self.states:
            value = self.limits[limit]
            self.states[limit, key] = Unlimited() if value == UNLIMITED else oracle.new(model_limit(value))
        return self.states[limit, key]

    def settle(self, t, limit, key):
        """A bucket that has to be anchored anew is, also when the whole is refused. The reference model's take_all only looks
        at it then: asked again and again it would be anchored at each question, and never fill."""
        state = self.state(limit, key)
        if isinstance(state, oracle.TokenBucket):
            debt, anew = state._debt_at(t)
            if anew:
                state.debt, state.last = debt, t

    def take_all(self, t, requests):
        """(verdict, [decision]). A state that is named before is asked for the sum of what was asked so far."""
        asked, planned = {}, []
        for limit, key, cost in requests:
            self.settle(t, limit, key)
            asked[limit, key] = asked.get((limit, key), 0) + cost
            planned.append(self.state(limit, key).peek(t, asked[limit, key]))
        verdicts = {d.verdict for d in planned}
        if verdicts == {"allow"}:
            return "allow", [self.state(limit, key).take(t, cost) for limit, key, cost in requests]
        unspent = [self.state(limit, key).peek(t, 0) for limit, key, _ in requests]
        return ("never" if "never" in verdicts else "deny",
                [now if plan.verdict == "allow" else plan for plan, now in zip(planned, unspent)])

    def capacity(self, limit):
        return UINT64_MAX if self.limits[limit] == UNLIMITED else self.limits[limit].capacity


def binding(verdict, each):
    """The request that an answer hangs on; of equals the first."""
    if verdict == "allow":
        return min(range(len(each)), key=lambda i: each[i].remaining)
    return max((i for i in range(len(each)) if each[i].verdict == verdict), key=lambda i: each[i].retry_after_ns)


def check_all(model, t, requests, got, peeked):
    overall, each = got
    verdict, want = model.take_all(t, requests)
    assert [answer(d) for d in each] == [answer(d) for d in want]
    assert [d.granted for d in each] == [cost if verdict == "allow" else 0 for _, _, cost in requests]
    assert [d.capacity for d in each] == [model.capacity(limit) for limit, _, _ in requests]
    assert overall.verdict == verdict
    assert overall.binding == binding(verdict, want)
    chosen = each[overall.binding]
    assert answer(overall) == answer(chosen)
    assert (overall.granted, overall.capacity, overall.status) == (chosen.granted, chosen.capacity, 0)
    peeked_overall, peeked_each = peeked                     # what peek_all said just before
    assert [answer(d) for d in peeked_each] == [answer(d) for d in each]
    assert answer(peeked_overall) == answer(overall) and peeked_overall.binding == overall.binding
    assert all(d.granted == 0 for d in [peeked_overall, *peeked_each])


def added(store, drawn):
    return [store.add_limit(f"several {i}", limit) for i, limit in enumerate(drawn)]


@examples(3)
@given(drawn=st.lists(LIMITS, min_size=1, max_size=4), history=STEPS)
def test_take_all_answers_as_the_model(store, drawn, history):
    numbers, model, now, last = added(store, drawn), Model(drawn), T0, None
    try:
        for clock, asked in history:
            now = max(T0 - 3 * DAY, min(T0 + 3 * DAY, move(clock, now, drawn[0], last)))
            requests = [(i % len(drawn), KEYS[key], tokens(cost, drawn[i % len(drawn)], last)) for i, key, cost in asked]
            calls = [Request(numbers[limit], key, cost) for limit, key, cost in requests]
            before = {r[:2]: store.peek(numbers[r[0]], r[1], 0, now) for r in requests}
            peeked = store.peek_all(calls, now)
            last, each = store.take_all(calls, now)
            check_all(model, now, requests, (last, each), peeked)
            if last.verdict != "allow":                      # a refusal spends nothing, anywhere
                assert before == {r[:2]: store.peek(numbers[r[0]], r[1], 0, now) for r in requests}
    finally:
        for number in numbers:
            store.remove_limit(number)


@examples(2)
@given(drawn=st.lists(LIMITS, min_size=1, max_size=3),
       history=st.lists(st.tuples(CLOCKS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), COSTS), max_size=40)),
                        min_size=1, max_size=6))
def test_take_batch_is_the_same_takes_one_after_the_other(store, drawn, history):
    numbers, now, last = added(store, drawn), T0, None
    try:
        for clock, asked in history:
            now = move(clock, now, drawn[0], last)
            some = [(i % len(drawn), b"%d" % key, tokens(cost, drawn[i % len(drawn)], last)) for i, key, cost in asked]
            status, got = store.take_batch([Request(numbers[i], b"batch " + key, cost) for i, key, cost in some], now)
            assert status == caudal.OK
            assert got == [store.take(numbers[i], b"alone " + key, cost, now) for i, key, cost in some]
            last = got[-1] if got else last
    finally:
        for number in numbers:
            store.remove_limit(number)


def test_a_batch_decides_all_but_the_requests_that_fail(store):
    with store.limit(Limit("token_bucket", 2, S)) as number:
        gone = store.add_limit("gone", Limit("token_bucket", 1, S))
        store.remove_limit(gone)
        too_long = b"k" * (caudal.KEY_MAX + 1)
        status, got = store.take_batch([Request(number, b"k", 1), Request(gone, b"k", 1), Request(number, too_long, 1),
                                        Request(number, b"k", 1), Request(number, b"k", 1)], T0)
    assert status == caudal.ERR_UNKNOWN
    assert [d.status for d in got] == [0, caudal.ERR_UNKNOWN, caudal.ERR_KEY, 0, 0]
    assert [d.verdict for d in got] == ["allow", None, None, "allow", "deny"]


def test_one_failing_request_spends_nothing_from_the_others(store):
    with store.limit(Limit("token_bucket", 2, S)) as number:
        gone = store.add_limit("gone", Limit("token_bucket", 1, S))
        store.remove_limit(gone)
        for bad, code in ((Request(gone, b"k", 1), caudal.ERR_UNKNOWN),
                          (Request(number, b"k" * (caudal.KEY_MAX + 1), 1), caudal.ERR_KEY)):
            for requests in ([Request(number, b"k", 1), bad], [bad, Request(number, b"k", 1)]):
                with pytest.raises(CaudalError) as failed:
                    store.take_all(requests, T0)
                assert failed.value.status == code
        for count in (0, caudal.TAKE_ALL_MAX + 1):
            with pytest.raises(CaudalError) as failed:
                store.take_all([Request(number, b"k", 0)] * count, T0)
            assert failed.value.status == caudal.ERR_ARGUMENT
        assert store.peek(number, b"k", 0, T0).remaining == 2


def test_the_same_key_twice_is_charged_twice(store):
    with store.limit(Limit("token_bucket", 10, S)) as number:
        overall, each = store.take_all([Request(number, b"k", 3)] * 3, T0)
        assert [d.remaining for d in each] == [7, 4, 1]
        assert (overall.verdict, overall.binding, overall.remaining) == ("allow", 2, 1)
        overall, each = store.take_all([Request(number, b"k", 1)] * 2, T0)
        assert (overall.verdict, overall.binding, overall.retry_after_ns) == ("deny", 1, 100 * MS)
        assert [(d.verdict, d.remaining) for d in each] == [("allow", 1), ("deny", 1)]
        assert store.peek(number, b"k", 0, T0).remaining == 1
        overall, _ = store.take_all([Request(number, b"k", 6)] * 2, T0 + S)          # twelve never fit into ten
        assert (overall.verdict, overall.binding, overall.retry_after_ns) == ("never", 1, -1)
