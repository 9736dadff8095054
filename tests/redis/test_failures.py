"""When the store is slow, silent, away, full, or not what it was: what is answered, by whom, and how soon all is well again."""

import time

import pytest

import caudal
from asking import WORKERS, Load, ask, connections_to, durations, events, policy, scrape, share_within, wait_until_shared
from caudal import CaudalError, Limit
from client import Connection, get
from faulty import Way
from program import run
from resp import Error
from servers import free_port
from waiting import holds, until

S = 10**9
PLENTY = "1000000/day"
BY_POLICY = [f"name: {name}, rate: {PLENTY}, on_store_failure: {name}" for name in ("allow", "deny", "local")]


@pytest.fixture
def way(farm):
    """A faulty way to a server of its own."""
    way = Way(farm.node().port)
    yield way
    way.close()


# ------------------------------------------------------------------------------------------------------ silent (C46)


def check_answer_without_store(answer, limit):
    assert "ratelimit-remaining" not in answer.fields
    if limit == "deny":
        assert answer.status == 503, answer
    elif limit == "allow":
        assert (answer.status, answer.source) == (200, "failure_policy"), answer
    else:
        assert (answer.status, answer.source) == (200, "local_share"), answer


@pytest.mark.measured
def test_C46_a_silent_store_is_no_wait_and_no_storm(farm, serve, long_run):
    """SIGSTOP under 1,000 requests a second: the kernel goes on accepting connections, and nothing answers.

    The time of an answer is the server's own histogram, from the whole request to its answer: a client on a machine that is busy
    with other tests measures the machine. The deadline is 20 ms, so that deadline + 5 ms is one of its bounds."""
    node = farm.node()
    server = serve(policy(node.url, *BY_POLICY, deadline="20ms", more="instances: 1\n"))
    with Load(server, ["allow", "deny", "local"], 1000) as load:
        until(lambda: len(load.answers) > 500, "the load is on")
        assert {answer.source for answer in load.since(load.answers[300].begin)} == {"store"}
        begin, before = time.monotonic(), durations(server)
        node.pause()
        stopped, most = time.monotonic(), 0
        while time.monotonic() < stopped + (30 if long_run else 3):
            most = max(most, connections_to(server, node.port))
            time.sleep(0.05)
        resumed, after = time.monotonic(), durations(server)
        node.go_on()
        until(lambda: time.monotonic() > resumed + 2.5, "it has been on for a while")
    answers = load.answers
    assert not load.lost
    asked = load.since(begin)
    assert len(asked) > 500 * (resumed - begin), "the load was not what it should be"
    assert share_within(before, after, 0.025) >= 0.99
    assert share_within(before, after, 0.005) >= 0.9, "all wait for the deadline, and not only those that find out"
    assert most <= WORKERS, "a storm of connections"
    # What each limit's policy says, from the first time-out to the end.
    silent = [answer for answer in asked if stopped + 0.5 < answer.begin and answer.end < resumed]
    for answer in silent:
        if answer.status == 503:
            check_answer_without_store(answer, "deny")
        else:
            check_answer_without_store(answer, answer.body["limit"])
    assert {answer.status for answer in silent} == {200, 503}
    assert events(server, "timeout") >= 5 and events(server, "breaker") > 100
    # Steady again within 2 s.
    late = [answer for answer in answers if answer.begin > resumed + 2]
    assert len(late) > 20 and {answer.source for answer in late} == {"store"}
    assert connections_to(server, node.port) <= WORKERS


@pytest.mark.measured
def test_C46_a_slow_store_is_answered_for_at_the_deadline(way, serve):
    """Each reply comes, but always too late; that is as good as none. What is added to the deadline here is the machine's: the
    deadline itself is tested on a clock that stands still."""
    server = serve(policy(way.url, f"name: one, rate: {PLENTY}", deadline="20ms"))
    wait_until_shared(server, "one")
    way.delay_s = 0.2
    before = durations(server)
    sources = [ask(server, "take", limit="one")["source"] for _ in range(50)]
    assert "failure_policy" in sources
    assert share_within(before, durations(server), 0.05) >= 0.95
    way.delay_s = 0
    wait_until_shared(server, "one", 2)


def test_late_replies_are_nobody_elses(way, serve):
    """A reply that comes after its deadline keeps its place: those who ask next get their own."""
    server = serve(policy(way.url, f"name: big, per: [id], rate: {PLENTY}", "name: small, per: [id], rate: 7/day",
                          deadline="50ms"), "--workers", "1")
    wait_until_shared(server, "big", key="x")
    seen = iter(range(10**9))
    way.hold_s = lambda reply: 0.12 if next(seen) % 10 == 9 else 0
    store_answers = 0
    for number in range(150):
        limit, capacity = (("big", 1000000), ("small", 7))[number % 2]
        decision = ask(server, "peek", limit=limit, key=f"k{number}", cost=0)
        if decision["source"] == "store":
            store_answers += 1
            assert (decision["capacity"], decision["remaining"]) == (capacity, capacity)
    assert way.held >= 5 and store_answers >= 20 and events(server, "timeout") > 0


# -------------------------------------------------------------------------------------------------- swallowed (C40)


def test_C40_a_call_whose_reply_is_lost_is_executed_once_at_most(way, long_run):
    """One reply in a hundred is dropped and its connection reset: the call may have been executed, so it is never sent again. Each
    has a key of its own, which tells how often it was executed."""
    calls = 3000 if long_run else 800
    with (caudal.Store(way.url, clock_ns=None, deadline_ns=2 * S) as store,
          store.limit(Limit("token_bucket", 10, 86400 * S)) as number):
        for count in range(10):
            store.take(number, b"warm-up", 0)
        seen = iter(range(10**9))
        way.swallow = lambda reply: next(seen) % 100 == 99
        failed = []
        for count in range(calls):
            try:
                assert store.take(number, b"%d" % count).remaining == 9
            except CaudalError as problem:
                assert problem.status == caudal.ERR_STORE
                failed.append(count)
                until(lambda: peek_or_none(store, number, b"warm-up"), "the store answers again")
        way.swallow = lambda reply: False
        until(lambda: peek_or_none(store, number, b"warm-up"), "the store answers")
        executed = [10 - store.peek(number, b"%d" % count, 0).remaining for count in range(calls)]
    assert max(executed) == 1
    assert all(executed[count] == 1 for count in range(calls) if count not in failed)
    assert way.swallowed >= calls // 100
    assert any(executed[count] == 1 for count in failed), "no reply of a call was lost: nothing was shown"


def peek_or_none(store, number, key):
    try:
        return store.peek(number, key, 0)
    except CaudalError:
        return None


def test_C40_the_server_never_sends_twice_either(way, serve):
    server = serve(policy(way.url, "name: one, per: [id], rate: 10/day, on_store_failure: deny", deadline="500ms"))
    wait_until_shared(server, "one", key="warm-up")
    seen = iter(range(10**9))
    way.swallow = lambda reply: next(seen) % 100 == 99
    with Load(server, ["one"], 500, clients=8, values=lambda number: {"key": f"k{number}"}) as load:
        until(lambda: way.swallowed >= 10, "replies have been swallowed")
    way.swallow = lambda reply: False
    assert not load.lost
    wait_until_shared(server, "one", key="warm-up")
    spent = [10 - ask(server, "peek", limit="one", key=f"k{answer.number}", cost=0)["remaining"] for answer in load.answers]
    allowed = sum(answer.status == 200 for answer in load.answers)
    failed = sum(answer.status == 503 for answer in load.answers)
    assert allowed + failed == len(load.answers) and failed > 0
    assert max(spent) == 1
    assert allowed <= sum(spent) <= allowed + failed
    assert events(server, "lost") >= way.swallowed


# ---------------------------------------------------------------------------------------------------------- away (C44)


def check_fails_open(server):
    with Connection(server.http) as connection:
        for _ in range(20):
            answer = connection.request("GET", "/check")
            assert answer.status == 200
            assert not any("remaining" in name or name.startswith("ratelimit") for name, _ in answer.fields), answer
    assert get(server.admin, "/healthz").status == 200
    ready = get(server.admin, "/readyz")
    assert ready.status == 200 and b"degraded" in ready.body, ready


@pytest.mark.measured
def test_C44_a_store_that_is_down_from_the_start_fails_open(serve):
    """Nobody listens there. Each request has its answer within the deadline, and nothing has a reason to be restarted."""
    server = serve(policy(f"redis://127.0.0.1:{free_port()}", "name: one, rate: 5/hour, on_store_failure: allow"))
    check_fails_open(server)
    assert share_within({bound: 0 for bound in durations(server)}, durations(server), 0.025) >= 0.95
    assert events(server, "connect") > 0


@pytest.mark.measured
def test_C44_a_store_that_goes_down_and_comes_back(farm, serve):
    node = farm.node()
    server = serve(policy(node.url, "name: one, rate: 100000/hour, on_store_failure: allow"))
    until(lambda: get(server.http, "/check").get("ratelimit") is not None, "the store decides")
    assert get(server.admin, "/readyz").body == b"ready\n"
    node.kill()
    until(lambda: get(server.http, "/check").get("ratelimit") is None, "the store is missed")
    until(lambda: b"degraded" in get(server.admin, "/readyz").body, "readiness tells")
    check_fails_open(server)
    node.start()
    until(lambda: get(server.http, "/check").get("ratelimit") is not None, "the store decides again", 2)
    until(lambda: get(server.admin, "/readyz").body == b"ready\n", "readiness tells", 1)


@pytest.mark.measured
def test_C48_the_local_share_is_one_part_in_instances(farm, serve):
    """Three instances without their store are one limit, give or take; with it they are one limit again at once."""
    node = farm.node()
    node.kill()
    text = policy(node.url, "name: one, rate: 30/minute, on_store_failure: local",
                  "name: login, rate: 30/minute, on_store_failure: deny", more="instances: 3\n")
    servers = [serve(text) for _ in range(3)]
    for server in servers:
        until(lambda: scrape(server).sum("caudal_store_events_total", event="connect") > 0, "the store is missed")
    connections = [Connection(server.http) for server in servers]
    answers = [connection.request("POST", "/v1/take", body='{"limit":"one"}')
               for _ in range(33) for connection in connections] + [
                   connections[0].request("POST", "/v1/take", body='{"limit":"one"}')]
    assert len(answers) == 100
    assert 27 <= sum(answer.status == 200 for answer in answers) <= 33
    assert {answer.json()["source"] for answer in answers} == {"local_share"}
    for server in servers:
        assert scrape(server).sum("caudal_store_fallback_active") == 1
        with Connection(server.http) as connection:  # a limit that opts out
            assert connection.request("POST", "/v1/take", body='{"limit":"login"}').status == 503
    node.start()
    for server in servers:
        until(lambda: scrape(server).sum("caudal_store_fallback_active") == 0, "the store is shared again", 1)
    assert {ask(server, "peek", limit="one", cost=0)["source"] for server in servers} == {"store"}


# -------------------------------------------------------------------------------------------------- READONLY (C38)


@pytest.mark.measured
def test_C38_an_address_that_leads_to_another_primary(farm, serve):
    """The primary is demoted and the address leads to the new one; the old connections stay up, and only READONLY tells."""
    old = farm.node()
    new = farm.replica_of(old)
    way = Way(old.port)
    server = serve(policy(way.url, f"name: one, rate: {PLENTY}, on_store_failure: deny", deadline="50ms"))
    wait_until_shared(server, "one")
    with Load(server, ["one"], 300) as load:
        until(lambda: len(load.answers) > 100, "the load is on")
        new("REPLICAOF", "NO", "ONE")
        way.target = new.port
        old("REPLICAOF", "127.0.0.1", new.port)
        reachable = time.monotonic()
        until(lambda: time.monotonic() > reachable + 2, "two seconds have passed")
    assert not load.lost and server.process.poll() is None
    assert events(server, "readonly") >= 1
    assert {answer.status for answer in load.answers} <= {200, 503}
    assert {answer.source for answer in load.since(reachable + 1)} == {"store"}
    way.close()


# ------------------------------------------------------------------------------------------------------- full (OOM)


def test_a_full_store_is_a_failure_and_never_a_refusal(farm, serve):
    """maxmemory reached, and nothing may be evicted: the store cannot say, which is not 'no'."""
    node = farm.node(maxmemory_policy="noeviction")
    server = serve(policy(node.url, *(f"name: {name}, per: [id], rate: 1000/day, on_store_failure: {name}"
                                      for name in ("allow", "deny", "local")), deadline="1s"))
    for name in ("allow", "deny", "local"):
        assert ask(server, "take", limit=name, key="before")["source"] == "store"
    with node.client() as client:
        client.many([("SET", f"filler {number}", "x" * 1000, "PX", 600_000) for number in range(1000)])
    node("CONFIG", "SET", "maxmemory", 1_000_000)
    for number in range(20):
        for name in ("allow", "deny", "local"):
            with Connection(server.http) as connection:
                answer = connection.request("POST", "/v1/take", body='{"limit":"%s","key":"new %d"}' % (name, number))
            assert answer.status != 429
            assert answer.status == (503 if name == "deny" else 200)
    assert events(server, "oom") >= 60
    node("CONFIG", "SET", "maxmemory", 0)
    for name in ("allow", "deny", "local"):
        assert ask(server, "take", limit=name, key="before")["source"] == "store"


# -------------------------------------------------------------------------------------------- what a server may say


def trouble_busy(farm, node):
    """A script of somebody else that does not end."""
    node("CONFIG", "SET", "busy-reply-threshold", 20)
    stuck = node.client()
    stuck.send("EVAL", "while true do end", 0)

    def is_busy():
        try:
            return node("PING") is None
        except Error as problem:
            return problem.code == "BUSY"

    until(is_busy, "the server says that it is busy")
    yield
    node("SCRIPT", "KILL")
    stuck.close()


def trouble_noreplicas(farm, node):
    node("CONFIG", "SET", "min-replicas-to-write", 1)
    yield
    node("CONFIG", "SET", "min-replicas-to-write", 0)


def trouble_readonly(farm, node):
    """Demoted, and nobody leads to another."""
    node("REPLICAOF", "127.0.0.1", free_port())
    yield
    node("REPLICAOF", "NO", "ONE")


def trouble_masterdown(farm, node):
    """A replica that has lost its primary and will not answer from what it has."""
    node("CONFIG", "SET", "replica-serve-stale-data", "no")
    node("REPLICAOF", "127.0.0.1", free_port())
    yield
    node("REPLICAOF", "NO", "ONE")


def trouble_noperm(farm, node):
    node("ACL", "SETUSER", "default", "-@scripting")
    yield
    node("ACL", "SETUSER", "default", "+@all")


TROUBLES = {"busy": trouble_busy, "noreplicas": trouble_noreplicas, "readonly": trouble_readonly,
            "masterdown": trouble_masterdown, "noperm": trouble_noperm}


@pytest.mark.parametrize("event", TROUBLES)
def test_a_server_in_trouble_is_a_failure_counted_by_its_reason(farm, serve, event):
    """Each limit's policy answers; when the trouble is over the store decides again, without a restart or a lost token."""
    node = farm.node()
    server = serve(policy(node.url, *(f"name: {name}, rate: 0/day burst 1000000, on_store_failure: {name}"
                                      for name in ("allow", "deny")), deadline="200ms"))
    taken = sum(ask(server, "take", limit="deny")["source"] == "store" for _ in range(5))
    assert taken == 5 and events(server, event) == 0
    trouble = TROUBLES[event](farm, node)
    next(trouble)

    def is_counted():
        with Connection(server.http) as connection:
            for name, status in (("allow", 200), ("deny", 503)):
                answer = connection.request("POST", "/v1/take", body='{"limit":"%s"}' % name)
                assert answer.status == status, answer
                assert status == 503 or answer.json()["source"] == "failure_policy", answer
        return events(server, event) > 0

    try:
        until(is_counted, f"it is counted as {event}")
    finally:
        next(trouble, None)
    wait_until_shared(server, "deny", 2)
    assert ask(server, "peek", limit="deny", cost=0)["remaining"] == 1_000_000 - taken


def test_wait_replicas_admits_only_what_a_replica_has(farm, serve):
    primary = farm.node()
    replica = farm.replica_of(primary)
    server = serve(policy(f"{primary.url}?wait_replicas=1", "name: one, rate: 10/day, on_store_failure: deny",
                          deadline="1s"))
    wait_until_shared(server, "one")
    for left in range(9, 4, -1):
        decision = ask(server, "take", limit="one")
        assert (decision["source"], decision["remaining"]) == ("store", left)
        with replica.client() as client:  # it is there when the answer is
            assert client("DBSIZE") == 1
    replica.pause()
    with Connection(server.http) as connection:
        assert connection.request("POST", "/v1/take", body='{"limit":"one"}').status == 503
    assert events(server, "replicas") + events(server, "timeout") > 0
    replica.go_on()


def test_C42_a_cache_that_would_forget_buckets_is_named_by_the_doctor(farm):
    node = farm.node(maxmemory="100mb", maxmemory_policy="allkeys-lru")
    _, out, err = run("doctor", "--store", node.url)
    assert "allkeys-lru" in out + err


# ------------------------------------------------------------------------------------------- forgotten scripts (C39)


def test_C39_scripts_that_are_forgotten_all_the_time(farm, serve):
    """SCRIPT FLUSH every 100 ms under takes, peeks, refunds and resets: no error, none lost, none doubled."""
    node = farm.node()
    server = serve(policy(node.url, "name: one, rate: 0/day burst 1000000, on_store_failure: deny",
                          "name: log, per: [id], rate: 10/day sliding_log, on_store_failure: deny",
                          "name: window, per: [id], rate: 10/day fixed_window, on_store_failure: deny", deadline="1s"))
    begin, flushes = time.monotonic(), 0
    with (Load(server, ["one"], 1000) as load, Connection(server.http) as http, Connection(server.admin) as admin,
          node.client() as client):
        while time.monotonic() < begin + 3:
            client("SCRIPT", "FLUSH")
            flushes += 1
            for limit in ("log", "window"):
                for question in ("take", "peek", "refund"):
                    answer = http.request("POST", f"/v1/{question}", body='{"limit":"%s","key":"%d"}' % (limit, flushes))
                    assert answer.status == 200 and answer.json()["source"] == "store", answer
                answer = admin.request("DELETE", f"/v1/keys/{limit}/{flushes}")
                assert answer.status == 200, answer
            time.sleep(0.1)
    assert not load.lost and len(load.answers) > 1000 and flushes > 10
    assert {(answer.status, answer.source) for answer in load.answers} == {(200, "store")}
    assert ask(server, "peek", limit="one", cost=0)["remaining"] == 1_000_000 - len(load.answers)
    assert events(server, "noscript") >= flushes
    assert node("DBSIZE") == 1, "what was given back and reset has left something"


# ------------------------------------------------------------------------------------------------------ the end (C100)


def test_C100_no_reply_is_lost_at_the_end_while_the_store_is_slow(way, serve):
    way.delay_s = 0.05
    server = serve(policy(way.url, f"name: one, rate: {PLENTY}, on_store_failure: deny", deadline="1s",
                          more="listen: {drain: 700ms}\n"))
    load = Load(server, ["one"], 1000, clients=40)
    until(lambda: len(load.answers) > 200, "the load is on")
    server.signal(15)
    until(lambda: get(server.admin, "/readyz").status == 503, "readiness fails")
    holds(lambda: server.process.poll() is None, "it drains", 0.4)
    status, seconds = server.wait()
    load.stop()
    assert status == 0 and seconds < 2
    assert not load.lost
    assert {(answer.status, answer.source) for answer in load.answers} == {(200, "store")}
    assert min(answer.end - answer.begin for answer in load.answers) >= 0.05, "the store was not slow"
