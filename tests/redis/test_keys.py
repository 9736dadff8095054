"""What lies in the store: one record a key, never without expiry, gone when it says nothing any more, healed when it is not
ours."""

import pytest

import caudal
from asking import ask, events, policy
from caudal import Limit, Request
from client import request

S, MINUTE, HOUR, DAY = 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
DEADLINE_NS = 10 * S
# One of each algorithm, and what a take of 7 leaves to wait until the key is as one never seen, at most.
KINDS = {"token_bucket": Limit("token_bucket", 10, MINUTE), "fixed_window": Limit("fixed_window", 10, MINUTE),
         "sliding_window": Limit("sliding_window", 10, MINUTE), "sliding_log": Limit("sliding_log", 10, MINUTE)}
FOREIGN = {"text": ("SET", "{}", "something else"), "empty text": ("SET", "{}", ""), "number": ("SET", "{}", "7"),
           "long text": ("SET", "{}", "x" * 10_000), "list": ("RPUSH", "{}", "a", "b"), "hash": ("HSET", "{}", "a", "b"),
           "set": ("SADD", "{}", "a"), "sorted set": ("ZADD", "{}", 1, "a"), "stream": ("XADD", "{}", "*", "a", "b")}


def open_store(node, **more):
    # No clock of the caller's: the store's own.
    return caudal.Store(node.url, clock_ns=None, deadline_ns=DEADLINE_NS, **more)


def the_key(node):
    """The only key that there is."""
    with node.client() as client:
        (key,) = client.scan()
        return key


# ------------------------------------------------------------------------------------------------------------- expiry


@pytest.mark.parametrize("limit", [*KINDS.values(), Limit("token_bucket", 1, 10 * S, 1), Limit("token_bucket", 5000, S, 10),
                                   Limit("token_bucket", 1, DAY, 3), Limit("sliding_window", 100, 600 * S),
                                   Limit("fixed_window", 10, DAY), Limit("sliding_log", 3, S)],
                         ids=lambda limit: f"{limit.algorithm} {limit.count}/{limit.period_ns}")
def test_C32_a_key_lives_until_it_has_recovered_and_a_second_more_at_most(farm, limit):
    node = farm.node()
    with open_store(node) as store, store.limit(limit) as number, node.client() as client:
        costs = [1, 2, 1, limit.capacity]  # the last is refused, as a rule, and writes nothing
        for cost in costs:
            store.take(number, b"k", min(cost, limit.capacity))
            left_ms = client("PTTL", *client.scan()) if client("DBSIZE") else -2
            recovery_ns = store.peek(number, b"k", 0).reset_after_ns  # later than PTTL: less is left
            if left_ms == -2:
                assert recovery_ns == 0
            else:
                assert recovery_ns <= (left_ms + 1) * 10**6
                assert left_ms * 10**6 <= recovery_ns + S + 100 * 10**6  # what the two questions take


@pytest.mark.parametrize("limit", [Limit("token_bucket", 20, S, 5), Limit("fixed_window", 3, S), Limit("sliding_log", 3, S),
                                   Limit("sliding_window", 3, S)], ids=lambda limit: limit.algorithm)
def test_a_key_that_has_recovered_is_gone(farm, limit):
    from waiting import until
    node = farm.node()
    with open_store(node) as store, store.limit(limit) as number:
        store.take(number, b"k", 3)
        assert node("DBSIZE") == 1
        until(lambda: store.peek(number, b"k", 0).reset_after_ns == 0, "the key has recovered")
        until(lambda: node("DBSIZE") == 0, "the store has forgotten it", 1.5)


def test_without_refill_a_key_lives_long_but_not_for_ever(farm):
    node = farm.node()
    with open_store(node) as store, store.limit(Limit("token_bucket", 0, S, 5)) as number:
        assert store.take(number, b"k", 5).verdict == "allow"
        assert store.take(number, b"k", 1).verdict == "never"
    assert node("PTTL", the_key(node)) >= 365 * 86400 * 1000


def test_C37_a_first_cost_of_33_has_an_expiry(farm):
    node = farm.node()
    with open_store(node) as store, store.limit(Limit("fixed_window", 100, HOUR)) as number:
        store.take(number, b"k", 33)
        assert 0 < node("PTTL", the_key(node)) <= 3601 * 1000


# ------------------------------------------------------------------------------------------------------------ healing


@pytest.fixture
def kept(farm, serve):
    """A server of ours with a limit of each algorithm, and the Redis behind it."""
    node = farm.node()
    server = serve(policy(node.url, *(f"name: {kind}, per: [id], rate: 10/minute {kind}" for kind in KINDS), deadline="5s"))
    return server, node


@pytest.mark.parametrize("kind", KINDS)
def test_C37_a_planted_key_without_expiry_is_healed_and_counted(kept, kind):
    """Used up, and without expiry: a client that would be blocked for ever."""
    server, node = kept
    assert ask(server, "take", limit=kind, key="k", cost=10)["verdict"] == "allow"
    key = the_key(node)
    assert node("PERSIST", key) == 1
    assert events(server, "healed") == 0
    assert ask(server, "take", limit=kind, key="k")["verdict"] == "deny"
    assert 0 < node("PTTL", key) <= 121_000
    assert events(server, "healed") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_C37_a_key_that_loses_its_expiry_while_it_is_charged_is_healed(kept, kind):
    server, node = kept
    for _ in range(3):
        assert ask(server, "take", limit=kind, key="k", cost=1)["verdict"] == "allow"
        node("PERSIST", the_key(node))
    # Whatever was written last, the next refusal at the latest finds it.
    for _ in range(9):
        verdict = ask(server, "take", limit=kind, key="k", cost=1)["verdict"]
    assert verdict == "deny"
    assert 0 < node("PTTL", the_key(node)) <= 121_000


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("kind", KINDS)
def test_C37_a_foreign_value_under_our_name_is_healed_and_counted(kept, kind, foreign):
    """Whatever lies there counts as nothing, and is gone at the first charge."""
    server, node = kept
    ask(server, "take", limit=kind, key="k")
    key = the_key(node)
    node("DEL", key)
    node(*(key if word == "{}" else word for word in FOREIGN[foreign]))
    assert ask(server, "peek", limit=kind, key="k", cost=0)["remaining"] == 10
    decision = ask(server, "take", limit=kind, key="k", cost=4)
    assert (decision["verdict"], decision["remaining"], decision["source"]) == ("allow", 6, "store")
    assert events(server, "healed") >= 1
    assert 0 < node("PTTL", key) <= 121_000
    assert ask(server, "take", limit=kind, key="k", cost=6)["remaining"] == 0
    assert ask(server, "take", limit=kind, key="k")["verdict"] == "deny"


def test_values_of_ours_are_not_counted_as_healed(kept):
    server, node = kept
    for kind in KINDS:
        for _ in range(12):
            ask(server, "take", limit=kind, key="k")
            ask(server, "peek", limit=kind, key="k")
            ask(server, "refund", limit=kind, key="k", cost=0)
    assert events(server, "healed") == 0


def test_C42_after_a_loss_the_counter_starts_again(kept):
    """One record a key: there is nothing to lose half of."""
    server, node = kept
    for kind in KINDS:
        before = ask(server, "take", limit=kind, key="k", cost=10)
        assert before["remaining"] == 0
        node("DEL", the_key(node))
        decision = ask(server, "take", limit=kind, key="k")
        assert (decision["verdict"], decision["remaining"]) == ("allow", 9)
        assert 0 < decision["reset_after_ns"] <= 2 * MINUTE
        node("FLUSHALL")


# ------------------------------------------------------------------------------------------------------------- resets


@pytest.mark.parametrize("secret", [b"", b"correct horse battery staple"], ids=["plain", "keyed"])
@pytest.mark.parametrize("kind", KINDS)
def test_C105_a_reset_leaves_nothing_in_the_store(farm, kind, secret):
    node = farm.node()
    with open_store(node, secret=secret) as store, store.limit(KINDS[kind]) as number:
        for key in (b"a", b"b", b"{a}", b"a}", b""):
            assert store.take(number, key, 10).verdict == "allow"
            assert store.take(number, key).verdict == "deny"
        assert node("DBSIZE") == 5
        store.reset(number, b"a")
        assert node("DBSIZE") == 4
        for key in (b"b", b"{a}", b"a}", b""):
            assert store.take(number, key).verdict == "deny"
        assert store.take(number, b"a", 10).verdict == "allow"
        for key in (b"a", b"b", b"{a}", b"a}", b""):
            store.reset(number, key)
        assert node("DBSIZE") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_C105_a_reset_by_an_administrator_leaves_nothing_in_the_store(kept, kind):
    server, node = kept
    for key in ("a", "b"):
        ask(server, "take", limit=kind, key=key, cost=10)
    answer = request(server.admin, "DELETE", f"/v1/keys/{kind}/a")
    assert answer.status == 200 and answer.json()["remaining"] == 10, answer
    assert node("DBSIZE") == 1
    assert ask(server, "take", limit=kind, key="a", cost=10)["verdict"] == "allow"
    assert ask(server, "take", limit=kind, key="b")["verdict"] == "deny"
    (line,) = [line for line in server.log().splitlines() if '"a key was reset' in line]
    assert f'"limit":"{kind}"' in line and '"by":"127.0.0.1"' in line, line


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_back_in_full_leaves_nothing_behind(farm, kind):
    node = farm.node()
    with open_store(node) as store, store.limit(KINDS[kind]) as number:
        store.take(number, b"k", 10)
        assert store.refund(number, b"k", 4).remaining == 4
        assert store.refund(number, b"k", 100).remaining == 10
        assert store.peek(number, b"k", 0).reset_after_ns == 0


# ------------------------------------------------------------------------------------------------------------ secrets


def test_identities_leave_the_process_keyed(farm):
    """With a secret nothing in the store tells who is limited, and who has another secret has other keys."""
    node = farm.node()
    name = b"203.0.113.77"
    with (open_store(node, secret=b"one secret, sixteen bytes") as store, store.limit(KINDS["token_bucket"]) as number,
          node.client() as client):
        store.take(number, name)
        first = client.scan()
        assert len(first) == 1 and name not in first[0]
        with open_store(node, secret=b"one secret, sixteen bytes") as same, same.limit(KINDS["token_bucket"]) as same_number:
            assert same.take(same_number, name).remaining == 8
            assert client.scan() == first
        with open_store(node, secret=b"another, of sixteen bytes") as other, other.limit(KINDS["token_bucket"]) as other_number:
            assert other.take(other_number, name).remaining == 9
            assert len(client.scan()) == 2


def test_several_limits_of_a_request_are_one_call(farm):
    """Their keys share a slot, as does everything that is counted of one identity."""
    node = farm.node()
    with open_store(node) as store:
        numbers = [store.add_limit(f"one of {kind}", limit) for kind, limit in KINDS.items()]
        calls = [Request(number, b"a}b{c", 1) for number in numbers]
        store.take_all(calls)
        before = node.calls("evalsha")
        assert store.take_all(calls)[0].remaining == 8
        assert node.calls("evalsha") == before + 1
        with node.client() as client:
            assert len({key.split(b"{")[1].split(b"}")[0] for key in client.scan()}) == 1
