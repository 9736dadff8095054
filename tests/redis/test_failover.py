"""Sentinels and clusters: a primary that dies takes at most one full bucket a key with it, and slots move unnoticed."""

import concurrent.futures
import time

import pytest

import caudal
from asking import Load, ask, events, policy, wait_until_shared
from caudal import CaudalError, Limit, Request
from client import post
from waiting import until

S, DAY = 10**9, 86400 * 10**9
NEVER_REFILLED = "rate: 0/day burst 1000000"


# ---------------------------------------------------------------------------------------------------------- failovers


def lose_what_follows(primary, replicas):
    """From now on nothing that is written reaches a replica: they stand still, and what is on its way to them is cut off."""
    for replica in replicas:
        replica.pause()
    primary("CLIENT", "KILL", "TYPE", "REPLICA")


def take_all_there_is(server, limit, asked):
    """How many of so many takes were admitted by the store."""
    answers = [ask(server, "take", limit=limit) for _ in range(asked)]
    return sum(answer["verdict"] == "allow" and answer["source"] == "store" for answer in answers)


@pytest.mark.measured
def test_a_primary_that_is_killed_with_unreplicated_writes(farm, serve):
    """Everything that a bucket of 50 holds is taken and none of it has reached a replica when the primary dies. What the replica
    does not know may be taken once more, and no more than that: (1 + F)·B. The promotion is when the sentinels know of it: they
    look at the replica once a second, and nobody else can say that it is the primary now."""
    group = farm.sentinel_group()
    server = serve(policy(group.url, "name: one, rate: 0/day burst 50, on_store_failure: deny",
                          f"name: load, {NEVER_REFILLED}, on_store_failure: deny", deadline="100ms"))
    wait_until_shared(server, "load")
    lose_what_follows(group.primary, group.replicas)
    admitted = take_all_there_is(server, "one", 60)
    assert admitted == 50
    with Load(server, ["load"], 200) as load:
        until(lambda: len(load.answers) > 50, "the load is on")
        group.primary.kill()
        for replica in group.replicas:
            replica.go_on()
        until(lambda: all(group.named(index) is not group.primary for index in range(3)), "a replica is promoted")
        promotion = time.monotonic()
        until(lambda: time.monotonic() > promotion + 1.5, "a second and a half has passed")
    assert not load.lost
    assert {answer.status for answer in load.answers} == {200, 503}, "nobody noticed"
    assert {answer.source for answer in load.since(promotion + 1)} == {"store"}
    admitted += take_all_there_is(server, "one", 60)
    assert 50 < admitted <= 2 * 50, "nothing was lost: nothing was shown"
    assert take_all_there_is(server, "one", 60) == 0
    assert server.process.poll() is None


def test_a_failover_without_loss_gives_nothing_away(farm, serve):
    """The replicas are in step: what was spent is spent."""
    group = farm.sentinel_group()
    server = serve(policy(group.url, "name: one, rate: 0/day burst 50, on_store_failure: deny", deadline="100ms"))
    wait_until_shared(server, "one")
    admitted = take_all_there_is(server, "one", 30)
    assert group.primary("WAIT", 2, 5000) == 2
    group.primary.kill()
    until(lambda: group.named() is not group.primary, "a replica is promoted")
    wait_until_shared(server, "one")
    assert admitted + take_all_there_is(server, "one", 60) == 50
    assert events(server, "lost") + events(server, "connect") > 0


def test_a_cluster_whose_primary_is_killed(farm, serve):
    cluster = farm.cluster(replicas=1)
    server = serve(policy(cluster.url, "name: one, per: [id], rate: 0/day burst 50, on_store_failure: deny", deadline="100ms"))
    wait_until_shared(server, "one", key="k0")
    keys = [f"k{number}" for number in range(30)]
    for key in keys:
        assert ask(server, "take", limit="one", key=key, cost=40)["verdict"] == "allow"
    for node in cluster.primaries:
        node("WAIT", 1, 5000)
    cluster.primaries[0].kill()
    until(lambda: all(ask_key_status(server, key, cost=0) == 200 for key in keys), "every slot is served again")
    for key in keys:
        assert 0 <= ask(server, "peek", limit="one", key=key, cost=0)["remaining"] <= 10
        assert ask_key_status(server, key, cost=11) == 429
    assert server.process.poll() is None


def ask_key_status(server, key, cost=1):
    return post(server.http, "/v1/take", {"limit": "one", "key": key, "cost": cost}).status


# ------------------------------------------------------------------------------------------------ slots that move (C51)


def hot_slot(cluster):
    """The slot of the only key that there is, and its node."""
    for node in cluster.primaries:
        with node.client() as client:
            for key in client.scan():
                return client("CLUSTER", "KEYSLOT", key), node
    raise AssertionError("there is no key")


def test_C51_a_hot_slot_that_moves_under_load(cluster, serve, long_run):
    """There and back again, key by key, while two servers of ours take from it: no error that a client sees, no lost count."""
    servers = [serve(policy(cluster.url, f"name: one, per: [id], {NEVER_REFILLED}, on_store_failure: deny", deadline="1s"))
               for _ in range(2)]
    for server in servers:
        wait_until_shared(server, "one", key="hot")
        ask(server, "take", limit="one", key="hot")
    loads = [Load(server, ["one"], 300, values=lambda _: {"key": "hot"}) for server in servers]

    def a_few_more():
        before = [len(load.answers) for load in loads]
        until(lambda: all(len(load.answers) > count + 20 for load, count in zip(loads, before)), "answers go on")

    moves = 0
    for _ in range(20 if long_run else 4):
        slot, source = hot_slot(cluster)
        target = cluster.primaries[(cluster.primaries.index(source) + 1) % 3]
        a_few_more()
        moves += cluster.migrate(slot, target, between=a_few_more)
    a_few_more()
    for load in loads:
        load.stop()
        assert not load.lost
        assert {(answer.status, answer.source) for answer in load.answers} == {(200, "store")}
    assert moves >= 4
    spent = 1_000_000 - ask(servers[0], "peek", limit="one", key="hot", cost=0)["remaining"]
    assert spent == 2 + sum(len(load.answers) for load in loads)
    assert sum(events(server, "moved") for server in servers) > 0
    assert sum(events(server, "ask") for server in servers) > 0
    # The map of slots is learned: most calls go the right way at once.
    assert sum(events(server, "moved") for server in servers) < 0.2 * spent


def test_C39_every_node_of_a_cluster_forgets_its_scripts(cluster, serve):
    server = serve(policy(cluster.url, f"name: one, per: [id], {NEVER_REFILLED}, on_store_failure: deny", deadline="1s"))
    wait_until_shared(server, "one", key="k0")
    end = time.monotonic() + 1.2
    with Load(server, ["one"], 500, values=lambda number: {"key": f"k{number % 20}"}) as load:
        while time.monotonic() < end:
            for node in cluster.primaries:
                node("SCRIPT", "FLUSH")
            time.sleep(0.1)
    assert {(answer.status, answer.source) for answer in load.answers} == {(200, "store")}
    spent = sum(1_000_000 - ask(server, "peek", limit="one", key=f"k{number}", cost=0)["remaining"] for number in range(20))
    assert spent == len(load.answers) > 0
    assert events(server, "noscript") >= 15


# ------------------------------------------------------------------------------------------------ keys and slots (C49)

ODD = [b"", b"{", b"}", b"{}", b"}{", b"{{x}}", b"a{b}c", b"{a}b", b"a}b", b"\x00", b"{\x00}", b"\r\n", b"x" * 65536,
       b"x" * 65535 + b"y", "\u00e9".encode(), b"\xff\xfe", b" ", b":", b"%7B"]


@pytest.mark.parametrize("place", ["node", "cluster"], indirect=True)
def test_C49_odd_identities_are_distinct_and_share_a_slot_each(place):
    """Whatever braces a client sends: each identity counts by itself, and all that is counted of it is decided by one call."""
    kinds = ("token_bucket", "fixed_window", "sliding_window", "sliding_log")
    with caudal.Store(place.url, clock_ns=None, deadline_ns=10 * S) as store:
        numbers = [store.add_limit(f"odd}}{{{kind}", Limit(kind, 10, DAY)) for kind in kinds]
        for index, key in enumerate(ODD):
            overall, each = store.take_all([Request(number, key, 1 + index % 9) for number in numbers])
            assert overall.verdict == "allow"
            assert [decision.remaining for decision in each] == [9 - index % 9] * 4, key
        calls = sum(node.calls("evalsha") for node in place.primaries)
        for index, key in enumerate(ODD):
            assert [store.peek(number, key, 0).remaining for number in numbers] == [9 - index % 9] * 4, key
            assert store.take_all([Request(number, key, 0) for number in numbers])[0].verdict == "allow"
        assert sum(node.calls("evalsha") for node in place.primaries) - calls == 5 * len(ODD)
        for key in ODD:
            for number in numbers:
                store.reset(number, key)
    assert sum(node("DBSIZE") for node in place.primaries) == 0


def test_several_slots_are_all_or_nothing_when_nobody_else_asks(cluster):
    """Keys of different identities lie in different slots: what a later one refuses is given back to those before it."""
    with caudal.Store(cluster.url, clock_ns=None, deadline_ns=10 * S) as store:
        number = store.add_limit("one", Limit("token_bucket", 0, DAY, 10))
        keys = [b"key %d" % index for index in range(12)]
        assert store.take_all([Request(number, key, 4) for key in keys])[0].verdict == "allow"
        assert sum(node("DBSIZE") > 0 for node in cluster.primaries) > 1, "all in one place: nothing was shown"
        store.take(number, keys[7], 6)
        overall, each = store.take_all([Request(number, key, 3) for key in keys])
        assert (overall.verdict, overall.binding) == ("never", 7)
        assert [decision.remaining for decision in each] == [6] * 7 + [0] + [6] * 4
        assert [store.peek(number, key, 0).remaining for key in keys] == [6] * 7 + [0] + [6] * 4


def key_elsewhere(cluster, store, number, here):
    """A key that lies on another node than `here`."""
    for index in range(100):
        there = b"there %d" % index
        for key in (here, there):
            store.take(number, key)
        apart = max(node("DBSIZE") for node in cluster.primaries) == 1
        for key in (here, there):
            store.reset(number, key)
        if apart:
            return there
    raise AssertionError("all keys are on one node")


def test_several_slots_under_many_callers_admit_no_more_and_keep_nothing(cluster):
    """Of two keys in different slots one has less. What was taken of the other for those that are refused is given back."""
    with caudal.Store(cluster.url, clock_ns=None, deadline_ns=10 * S) as store:
        much = store.add_limit("much", Limit("token_bucket", 0, DAY, 1000))
        little = store.add_limit("little", Limit("token_bucket", 0, DAY, 10))
        there = key_elsewhere(cluster, store, much, b"here")
        calls = [Request(much, b"here", 1), Request(little, there, 1)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            verdicts = list(pool.map(lambda _: store.take_all(calls)[0].verdict, range(800)))
        assert verdicts.count("allow") == 10
        assert store.peek(little, there, 0).remaining == 0
        # What is given back may still be on its way when its call has been answered.
        until(lambda: store.peek(much, b"here", 0).remaining == 990, "all but ten have come back", 2)


def test_a_cluster_is_found_by_any_node_that_answers(farm):
    cluster = farm.cluster(replicas=1)
    dead, alive = cluster.replicas[0], cluster.replicas[1]
    dead.kill()
    url = f"redis-cluster://{dead.address},{alive.address}"
    with caudal.Store(url, clock_ns=None, deadline_ns=10 * S) as store, store.limit(Limit("token_bucket", 10, DAY)) as number:
        def answers():
            try:
                return [store.take(number, b"%d" % key).verdict for key in range(50)] == ["allow"] * 50
            except CaudalError:
                return False
        until(answers, "the store decides")
