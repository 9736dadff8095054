"""Leases as they run: several servers, one key, and what all of them admit held against the bound, while servers stop, die and come
again, on one node and on a cluster.

B + r·(t + ttl), or B + r·t with strict_bound, for every interval that the clients saw, and for the whole by the servers' own counters."""

import contextlib
import signal
import time

import pytest

import program
from asking import Load, ask, policy, scrape, wait_until_shared
from client import get
from crowd import Crowd
from waiting import DEADLINE_S, until

BURST, RATE, TTL_S = 1000, 2000, 0.1
SERVERS = 4

BOUNDS = {
    "leased": ("sharing: leased", lambda seconds: BURST + RATE * (seconds + TTL_S)),
    "strict_bound": ("sharing: leased, lease: {strict_bound: true}", lambda seconds: BURST + RATE * seconds),
}


def hot(words):
    # What fails closed stays within the bound; what fails open has none.
    return f"name: hot, rate: {RATE}/s, burst: {BURST}, on_store_failure: deny, {words}"


def decisions(server, **labels):
    return scrape(server).sum("caudal_decisions_total", limit="hot", **labels)


@pytest.fixture
def seconds(long_run):
    return 30 if long_run else 5


@pytest.fixture
def start(tmp_path):
    """Starts servers that may be killed by the test."""
    started = []

    def one(text):
        folder = tmp_path / f"mortal{len(started)}"
        folder.mkdir()
        started.append(program.Server(text, folder))
        return started[-1].wait_until_up()

    yield one
    for server in started:
        with contextlib.suppress(ProcessLookupError):
            server.signal(signal.SIGCONT)
        assert server.stop() in (0, -signal.SIGKILL), server.log()
        assert "Sanitizer" not in server.log() and "runtime error:" not in server.log(), server.log()


def held(crowd, bound, step):
    """The clients' view of every interval; returns what they were granted in all."""
    excess = crowd.worst(bound, step)
    assert excess is not None and excess <= 0, f"{excess} more than the bound"
    return crowd.admitted()


@pytest.mark.parametrize("name", BOUNDS)
def test_one_key_of_four_servers(farm, start, seconds, name):
    words, bound = BOUNDS[name]
    text = policy(farm.node().url, hot(words), deadline="100ms")
    servers = [start(text) for _ in range(SERVERS)]
    for server in servers:
        wait_until_shared(server, "hot")
    before = {server: decisions(server, verdict="allow") for server in servers}
    with Crowd(servers) as crowd:
        crowd.run(seconds)
    granted = held(crowd, bound, seconds / 50)
    counted = sum(decisions(server, verdict="allow") - before[server] for server in servers)
    assert granted == counted <= bound(crowd.ended - crowd.began)
    assert counted >= 0.9 * RATE * seconds, "the limit is not used"
    sources = {source for server in servers for source in scrape(server).values_of("caudal_decisions_total", "source")}
    assert {"lease", "deny_cache", "store"} <= sources


@pytest.mark.parametrize("name", BOUNDS)
def test_servers_that_stop_and_die_meanwhile(farm, start, seconds, name):
    words, bound = BOUNDS[name]
    stop_and_die(farm.node().url, start, seconds, words, bound)


def test_servers_of_a_cluster_that_stop_and_die_meanwhile(cluster, start, seconds):
    stop_and_die(cluster.url, start, seconds, *BOUNDS["leased"])


def stop_and_die(url, start, seconds, words, bound):
    text = policy(url, hot(words), deadline="100ms")
    servers = [start(text) for _ in range(SERVERS)]
    for server in servers:
        wait_until_shared(server, "hot")
    before = {server: decisions(server, verdict="allow") for server in servers}
    with Crowd(servers) as crowd:
        crowd.run(seconds * 0.2)
        servers[0].signal(signal.SIGSTOP)
        crowd.run(seconds * 0.35)
        servers[1].process.kill()
        crowd.run(seconds * 0.4)
        servers[0].signal(signal.SIGCONT)  # what it held has died meanwhile
        servers.append(start(text))
        before[servers[-1]] = 0
        crowd.join(servers[-1])
        crowd.run(seconds * 0.7)
        servers[2].process.kill()
        crowd.run(seconds)
    held(crowd, bound, seconds / 50)
    dead = servers[1:3]
    counted = sum(decisions(server, verdict="allow") - before[server] for server in servers if server not in dead)
    seen = sum(batch.admitted for server in dead for batch in crowd.batches[server])
    assert counted + seen <= bound(crowd.ended - crowd.began)
    assert counted + seen >= 0.8 * RATE * seconds, "what died did not come back"


def test_a_store_that_is_away_leaves_what_is_leased_until_its_ttl(farm, serve):
    node, ttl_s = farm.node(), 1.0
    server = serve(policy(node.url, "name: hot, rate: 1000/s, sharing: leased, lease: {ttl: 1s}, on_store_failure: deny"))
    wait_until_shared(server, "hot")
    with Load(server, ["hot"], rate=400) as load:
        until(lambda: sum(answer.source == "lease" and answer.body["remaining"] > 30 for answer in load.answers[-4:]) == 4,
              "more is leased than is asked for in a moment")
        node.pause()
        paused = time.monotonic()
        until(lambda: load.answers[-1].status == 503, "the failure policy answers")
        until(lambda: time.monotonic() > paused + 2 * ttl_s, "more than the ttl is over")
        node.go_on()
        until(lambda: load.answers[-1].source == "lease", "it is leased again")
    assert not load.lost
    late = [answer for answer in load.answers if paused + ttl_s + 0.05 < answer.begin < paused + 2 * ttl_s]
    assert late and all(answer.status == 503 for answer in late)
    held_over = [answer for answer in load.answers if paused < answer.begin < paused + ttl_s and answer.source == "lease"]
    assert held_over, "nothing was spent of what was leased"


def test_what_leases_cost_is_counted(farm, serve):
    server = serve(policy(farm.node().url, hot("sharing: leased")))
    wait_until_shared(server, "hot")
    before = scrape(server)
    with Crowd([server]) as crowd:
        crowd.run(2)
    until(lambda: scrape(server).sum("caudal_lease_lots") == 0, "no lease lives")
    after = scrape(server)

    def grown(name, **labels):
        return after.sum(name, **labels) - before.sum(name, **labels)

    by_lease = grown("caudal_decisions_total", source="lease")
    by_refusal = grown("caudal_decisions_total", source="deny_cache")
    assert by_lease > 0 and by_refusal > 0
    assert grown("caudal_lease_decisions_total") == by_lease + by_refusal
    assert grown("caudal_lease_denials_total") == by_refusal
    calls = grown("caudal_lease_store_calls_total")
    assert 0 < calls < 0.1 * (by_lease + by_refusal)


def test_a_denial_is_remembered_as_long_as_it_holds_and_no_longer(farm, serve):
    server = serve(policy(farm.node().url, "name: hot, rate: 2/s, burst: 2, sharing: leased"), "--workers", "1")
    wait_until_shared(server, "hot")
    begin, admitted, sources = time.monotonic(), 0, set()
    while time.monotonic() < begin + 2:
        answer = ask(server, "take", limit="hot")
        admitted += answer["verdict"] == "allow"
        sources.add(answer["source"])
    assert "deny_cache" in sources
    assert 5 <= admitted <= 2 + 2 * (time.monotonic() - begin + TTL_S)


def test_a_reload_changes_how_a_limit_is_shared_and_keeps_what_was_spent(farm, serve):
    node = farm.node()

    def shared(words):
        return policy(node.url, f"name: slow, rate: 100/h, burst: 100, {words}", more="instances: 4\n")

    server = serve(shared("sharing: strict"))
    wait_until_shared(server, "slow")
    assert ask(server, "take", limit="slow", cost=40)["remaining"] == 60
    server.reload(shared("sharing: leased"))
    answer = ask(server, "take", limit="slow", cost=10)
    assert answer["remaining"] <= 50 and answer["source"] in ("store", "lease")
    server.reload(shared("sharing: local"))
    answer = ask(server, "take", limit="slow", cost=5)
    assert (answer["source"], answer["remaining"]) == ("local_share", 20)
    assert get(server.admin, "/v1/limits").json()["limits"][0]["sharing"] == "local"
    server.reload(shared("sharing: strict"))
    until(lambda: ask(server, "peek", limit="slow", cost=0)["remaining"] == 50, "what was leased is back", DEADLINE_S)


def test_local_sharing_asks_no_store(farm, serve):
    node = farm.node()
    text = policy(node.url, "name: hot, rate: 40/h, sharing: local, on_store_failure: deny", more="instances: 4\n")
    servers = [serve(text) for _ in range(SERVERS)]
    node.kill()
    for server in servers:
        answers = [ask(server, "take", limit="hot") for _ in range(12)]
        assert [answer["verdict"] for answer in answers] == ["allow"] * 10 + ["deny"] * 2
        assert {answer["source"] for answer in answers} == {"local_share"}
