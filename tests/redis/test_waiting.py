"""Requests that wait for a store that takes its time: in which order they are answered, what clients that go leave behind, and that the end of
the server loses none of them (C100)."""

import signal
import socket
import struct

import pytest

from asking import WORKERS, connections_to, policy, scrape, wait_until_shared
from client import Closed, Connection, build, get, post
from exposition import Metrics
from faulty import Way
from waiting import until

MORE = "listen: {drain: 0s}\n"
PLENTY = "1000000/day"


@pytest.fixture
def node(farm):
    return farm.node()


@pytest.fixture
def way(node):
    """A way to a server of its own, on which replies take 50 ms."""
    way = Way(node.port)
    yield way
    way.close()


def decided(node):
    """Scripts that the store has run."""
    return int(node.info("commandstats").get("cmdstat_evalsha", "calls=0,").split("=")[1].split(",")[0])


@pytest.mark.parametrize("count", [1, 100])
def test_C100_no_reply_is_lost_to_sigterm(serve, node, way, count):
    """They are in flight to the store when the server is told to stop, and it has no time to drain."""
    server = serve(policy(way.url, f"name: one, rate: {PLENTY}, on_store_failure: deny", deadline="5s", more=MORE))
    wait_until_shared(server, "one")
    way.delay_s = 0.05 if count == 1 else 0.5
    before = decided(node)
    connections = [Connection(server.http) for _ in range(count)]
    for connection in connections:
        connection.send(build("GET", "/check"))
    until(lambda: decided(node) >= before + count, "the store has decided on all of them")
    server.signal(signal.SIGTERM)
    for connection in connections:
        answer = connection.read()
        assert (answer.status, answer.get("ratelimit") is not None) == (200, True), answer
    assert server.wait()[0] == 0


def test_C100_the_second_signal_does_not_wait(serve, node, way):
    server = serve(policy(way.url, f"name: one, rate: {PLENTY}, on_store_failure: deny", deadline="60s",
                          more="listen: {drain: 1h}\n"))
    wait_until_shared(server, "one")
    way.delay_s = 3600
    before = decided(node)
    with Connection(server.http) as connection:
        connection.send(build("GET", "/check"))
        until(lambda: decided(node) > before, "the store has decided")
        server.signal(signal.SIGTERM)
        until(lambda: get(server.admin, "/readyz").status == 503, "it drains")
        server.signal(signal.SIGTERM)
        assert connection.read().status == 503  # it is told what the limit chose
    status, seconds = server.wait()
    assert status == 0 and seconds < 10


def test_C100_the_second_signal_is_heard_while_the_store_is_waited_for(serve, node, way):
    """The time to drain is over, and nobody is let in any more."""
    server = serve(policy(way.url, f"name: one, rate: {PLENTY}, on_store_failure: deny", deadline="60s", more=MORE))
    wait_until_shared(server, "one")
    way.delay_s = 3600
    before = decided(node)

    def is_closed():
        try:
            socket.create_connection(server.http).close()
        except ConnectionRefusedError:
            return True
        return False

    with Connection(server.http) as connection:
        connection.send(build("GET", "/check"))
        until(lambda: decided(node) > before, "the store has decided")
        server.signal(signal.SIGTERM)
        until(is_closed, "it waits for the store alone")
        server.signal(signal.SIGTERM)
        assert connection.read().status == 503
    status, seconds = server.wait()
    assert status == 0 and seconds < 10


def test_pipelined_requests_are_answered_in_order(serve, way):
    server = serve(policy(way.url, "name: one, rate: 1000/day", deadline="5s"))
    wait_until_shared(server, "one")
    way.delay_s = 0.005
    with Connection(server.http) as connection:
        for _ in range(2):
            connection.send(b"".join(build("GET", "/check") + build("GET", "/nothing") for _ in range(20)))
        answers = [connection.read() for _ in range(80)]
    assert [answer.status for answer in answers] == [200, 404] * 40
    left = [int(answer.get("ratelimit").split(";r=")[1].split(";")[0]) for answer in answers[::2]]
    assert left == list(range(999, 959, -1))


def test_the_questions_of_a_batch_travel_together(serve, way):
    """One after the other they would take a hundred times as long as one."""
    server = serve(policy(way.url, "name: one, per: [id], rate: 5/day", deadline="5s"))
    wait_until_shared(server, "one", key="warm-up")
    way.delay_s = 0.05
    requests = [{"limit": "one", "key": f"k{number}", "cost": number % 7} for number in range(200)]
    before = scrape(server).sum("caudal_request_duration_seconds_sum")
    answer = post(server.http, "/v1/take", {"requests": requests})
    assert answer.status == 200
    decisions = answer.json()["decisions"]
    for number, decision in enumerate(decisions):
        cost = number % 7
        assert (decision["verdict"], decision["remaining"]) == (("allow", 5 - cost) if cost <= 5 else ("never", 5))
    assert scrape(server).sum("caudal_request_duration_seconds_sum") - before < 2


def test_clients_that_go_while_they_wait_are_counted(serve, node, way):
    server = serve(policy(way.url, "name: one, rate: 1000/day", deadline="5s"))
    wait_until_shared(server, "one")
    way.delay_s = 0.2
    before = decided(node)
    for _ in range(50):
        connection = Connection(server.http)
        connection.send(build("GET", "/check"))
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        until(lambda: decided(node) > before, "the store has decided")
        before = decided(node)
        connection.close()
    way.delay_s = 0
    until(lambda: scrape(server).sum("caudal_requests_total", outcome="allow") == 50, "all are counted")
    assert post(server.http, "/v1/peek", {"limit": "one", "cost": 0}).json()["remaining"] == 950


def test_a_client_that_has_said_all_is_answered(serve, way):
    server = serve(policy(way.url, "name: one, rate: 1000/day", deadline="5s"))
    wait_until_shared(server, "one")
    way.delay_s = 0.05
    with Connection(server.http) as connection:
        connection.send(build("GET", "/check") * 3)
        connection.socket.shutdown(socket.SHUT_WR)
        assert [connection.read().status for _ in range(3)] == [200] * 3
        with pytest.raises(Closed):
            connection.read()


def test_clients_leave_descriptors_for_the_store(serve, node):
    """They take all that they can get while the store is away; it comes back nevertheless, with all of its connections."""
    server = serve(policy(f"{node.url}?connections=16", f"name: one, rate: {PLENTY}"), open_files=200)
    until(lambda: connections_to(server, node.port) == 16 * WORKERS, "all connections stand")
    node.kill()
    until(lambda: connections_to(server, node.port) == 0, "they are gone")
    held = [socket.create_connection(server.http, 20) for _ in range(250)]
    node.start()
    until(lambda: connections_to(server, node.port) == 16 * WORKERS, "all connections stand again")
    assert scrape(server).sum("caudal_store_up") == 1
    for one in held:
        one.close()


def test_each_event_of_a_store_is_a_series_from_the_start(serve, node):
    server = serve(policy(node.url, f"name: one, rate: {PLENTY}"))
    wait_until_shared(server, "one")
    metrics = Metrics(get(server.admin, "/metrics").body.decode())
    for event in ("timeout", "breaker", "noscript", "moved", "oom", "healed"):
        assert metrics.sum("caudal_store_events_total", event=event) >= 0
    assert metrics.sum("caudal_store_up") == 1
    assert metrics.sum("caudal_store_fallback_active") == 0
