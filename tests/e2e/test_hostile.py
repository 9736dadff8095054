"""Clients that do what they should not, beside one that does nothing wrong and must not notice."""

import contextlib
import math
import resource
import selectors
import socket
import time

import pytest

from client import Closed, Connection, build, get, post, request
from policies import limits
from waiting import until

POLICY = limits("name: one, rate: 1000000000/hour",
                more="listen: {timeouts: {header: 2s, body: 2s, idle: 2s, write: 2s}}\n")


@pytest.fixture
def server(serve):
    return serve(POLICY)


# ------------------------------------------------------------------------------------------------------ malformed

POST = b"POST /check HTTP/1.1\r\nHost: x\r\n"
BAD = {
    "no version": (b"GET /check\r\n\r\n", {400}),
    "another protocol": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50 + b"\r\n\r\n", {400}),
    "HTTP/2's preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 501, 505}),
    "version 2": (b"GET /check HTTP/2.0\r\nHost: x\r\n\r\n", {400, 505}),
    "two blanks": (b"GET  /check HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "a blank in the target": (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "a control in the target": (b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "no host": (b"GET /check HTTP/1.1\r\n\r\n", {400}),
    "two hosts": (b"GET /check HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", {400}),
    "a blank before the colon": (b"GET /check HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", {400}),
    "a folded header": (b"GET /check HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", {400}),
    "a header without name": (b"GET /check HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", {400}),
    "a header without colon": (b"GET /check HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n", {400}),
    "a NUL": (b"GET /check HTTP/1.1\r\nHost: x\r\nA: a\0b\r\n\r\n", {400}),
    "line feeds alone": (b"GET /check HTTP/1.1\nHost: x\n\n", {400}),
    "two lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", {400}),
    "length and chunks": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    "a negative length": (POST + b"Content-Length: -1\r\n\r\n", {400}),
    "a signed length": (POST + b"Content-Length: +1\r\n\r\na", {400}),
    "a length beyond 64 bits": (POST + b"Content-Length: 99999999999999999999\r\n\r\n", {400, 413}),
    "a huge length": (POST + b"Content-Length: 9223372036854775807\r\n\r\n", {413}),
    "a length over the cap": (POST + b"Content-Length: 65537\r\n\r\n", {413}),
    "an unknown encoding": (POST + b"Transfer-Encoding: gzip\r\n\r\n", {400, 501}),
    "a bad chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", {400}),
    "a huge chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", {400, 413}),
    "a long method": (b"A" * 20000 + b" /check HTTP/1.1\r\nHost: x\r\n\r\n", {400, 431, 501}),
    "a long target": (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {400, 414, 431}),
    "a long header": (b"GET /check HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70000 + b"\r\n\r\n", {431}),
    "a header without end": (b"GET /check HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 200000, {431}),
    "many headers": (b"GET /check HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 2000 + b"\r\n", {431}),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_requests_are_answered_and_closed_and_nobody_else_notices(server, name):
    data, expected = BAD[name]
    with Connection(server.http) as good:
        assert good.request("GET", "/check").status == 200
        with Connection(server.http) as bad:
            with contextlib.suppress(OSError):  # it may have answered and closed before all was sent
                bad.send(data)
            answer = bad.read()
            assert answer.status in expected, answer
            assert (answer.get("connection") or "").lower() == "close"
            assert bad.at_end() == b""
        assert good.request("GET", "/check").status == 200


@pytest.mark.parametrize("data", [b"\r\n" * 10, b"G", b"GET /check HTTP/1.1\r\nHost",
                                  b"POST /check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"])
def test_a_client_that_goes_away_half_way(server, data):
    for _ in range(20):
        with Connection(server.http) as bad:
            bad.send(data)
    for _ in range(20):
        with Connection(server.http) as bad:
            bad.send(data)
            bad.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    assert get(server.http, "/check").status == 200


# ------------------------------------------------------------------------------------------- how bytes are cut


def test_keep_alive_and_its_end(server):
    with Connection(server.http) as connection:
        for _ in range(100):
            assert connection.request("GET", "/check").status == 200
        answer = connection.request("GET", "/check", [("Connection", "close")])
        assert answer.status == 200 and answer.get("connection").lower() == "close"
        assert connection.at_end() == b""
    with Connection(server.http) as connection:
        connection.send(b"GET /check HTTP/1.0\r\n\r\n")
        assert b" 200 OK\r\n" in connection.at_end()


def test_pipelined_requests_are_answered_in_their_order(serve):
    server = serve(limits("name: per-path, per: [path], rate: 1/hour"))
    targets = [f"/check?n={i}" for i in range(10)] + ["/nowhere", "/v1/take"]
    with Connection(server.http) as connection:
        connection.send(b"".join(build("GET", target) for target in targets * 20))
        answers = [connection.read().status for _ in range(len(targets) * 20)]
    assert answers[:12] == [200] + [429] * 9 + [404, 405]
    assert answers[12:] == ([429] * 10 + [404, 405]) * 19


@pytest.mark.measured
def test_a_pipeline_whose_answers_nobody_reads_costs_no_memory(server):
    """The server stops reading; it does not collect answers."""
    before = server.rss_bytes()
    with Connection(server.http) as deaf:
        deaf.socket.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError, OSError):
            while sent < 100_000_000:
                sent += deaf.socket.send(build("GET", "/check") * 1000)
        assert server.rss_bytes() - before < 8 << 20
        assert get(server.http, "/check").status == 200
        # And is rid of it after the write time-out.
        deaf.socket.settimeout(20)
        until(lambda: gone(deaf), "the deaf client is cut off")


def gone(connection):
    try:
        connection.socket.send(b"x")
        return False
    except OSError:
        return True


def test_requests_byte_by_byte(server):
    data = build("POST", "/check", [("X-A", "b")], b"hello")
    data += b"POST /check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    with Connection(server.http) as connection:
        for byte in data:
            connection.send(bytes([byte]))
        assert [connection.read().status for _ in range(2)] == [200, 200]


def test_expect_continue(server):
    with Connection(server.http) as connection:
        connection.send(b"POST /check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert connection.read().status == 100
        connection.send(b"hello")
        assert connection.read().status == 200


def test_unknown_paths_and_methods(server):
    assert get(server.http, "/").status in (200, 404)
    for path in ("/nowhere", "/check/../check2", "/v1", "/v1/take/x", "//check2", "*"):
        assert get(server.http, path).status == 404, path
    for path in ("/v1/take", "/v1/peek", "/v1/refund"):
        answer = get(server.http, path)
        assert answer.status == 405 and "POST" in answer.get("allow")
    assert request(server.admin, "DELETE", "/metrics").status == 405


def test_admin_is_not_served_to_everybody(server):
    for path in ("/metrics", "/v1/limits", "/v1/reload", "/v1/keys/one", "/v1/top"):
        assert get(server.http, path).status == 404
        assert post(server.http, path, {}).status == 404


# ------------------------------------------------------------------------------------------------------ time-outs


@pytest.mark.parametrize("data", [b"", b"GET /check HTT", b"GET /check HTTP/1.1\r\nHost: x\r\n",
                                  b"POST /check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"])
def test_a_silent_client_is_closed(server, data):
    begin = time.monotonic()
    with Connection(server.http) as connection:
        connection.send(data)
        rest = connection.at_end()
    assert 1.4 < time.monotonic() - begin < 4
    assert rest == b"" or rest.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_trickles_is_closed(server):
    """A byte now and then keeps no connection: the whole header has its time."""
    begin = time.monotonic()
    with Connection(server.http) as connection:
        connection.socket.settimeout(0.1)
        connection.send(b"GET /check HTTP/1.1\r\n")
        with contextlib.suppress(OSError, Closed):
            while time.monotonic() - begin < 10:
                connection.send(b"a")
                with contextlib.suppress(TimeoutError):
                    connection._receive()
    assert time.monotonic() - begin < 4


def raise_descriptors(count):
    """So many for us; what we start inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(hard, count)))
    return soft, hard


@pytest.mark.measured
def test_10000_slow_connections_do_not_slow_down_a_good_one(serve):
    """Each has sent half a header, and sends a byte more now and then; a good client beside them stays under 20 ms at p99."""
    count, old = 10_000, raise_descriptors(12_000)
    server = serve(limits("name: one, rate: 1000000000/hour",
                          more="listen: {caps: {connections: 11000}, timeouts: {header: 60s, idle: 60s}}\n"))
    slow, selector = [], selectors.DefaultSelector()
    try:
        for i in range(count):
            one = socket.create_connection(server.http, 20)
            one.sendall(b"GET /check HTTP/1.1\r\nX-Slow: ")
            slow.append(one)
        assert len(slow) == count
        with Connection(server.http) as good:
            times = []
            for i in range(2000):
                for one in slow[i * 5 % count : i * 5 % count + 5]:
                    one.sendall(b"a")
                begin = time.monotonic()
                assert good.request("GET", "/check").status == 200
                times.append(time.monotonic() - begin)
            p99 = sorted(times)[math.ceil(len(times) * 0.99) - 1]
            assert p99 < 0.020, f"p99 is {p99 * 1000:.1f} ms"
        # All of them are still there, and complete when they end.
        for one in slow[:: count // 50]:
            one.sendall(b"\r\nHost: x\r\n\r\n")
            assert one.recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        selector.close()
        for one in slow:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, old)


def test_connections_over_the_cap_are_turned_away_and_come_back(serve):
    server = serve(limits("name: one, rate: 1000000/hour", more="listen: {caps: {connections: 50}}\n"))
    held = [Connection(server.http) for _ in range(50)]
    assert {connection.request("GET", "/check").status for connection in held} == {200}
    with Connection(server.http) as over, contextlib.suppress(Closed, ConnectionError):
        over.send(build("GET", "/check"))
        assert over.read().status == 503
    assert get(server.admin, "/healthz").status == 200  # not counted with clients
    for connection in held:
        connection.close()
    until(lambda: answers(server), "there is room again")


def answers(server):
    with contextlib.suppress(Closed, ConnectionError):
        return get(server.http, "/check").status == 200
    return False


# --------------------------------------------------------------------------------------------------------- memory


def flood(server, keys, first=0, batch=500):
    """So many distinct clients, pipelined on four connections; all pass."""
    connections = [Connection(server.http) for _ in range(4)]
    sent, passed, number = 0, 0, first
    try:
        while sent < keys:
            for connection in connections:
                size = min(batch, keys - sent)
                connection.send(b"".join(
                    b"GET /check HTTP/1.1\r\nHost: x\r\nX-Key: %d\r\n\r\n" % n for n in range(number, number + size)))
                number, sent = number + size, sent + size
                connection.expected = size
            for connection in connections:
                while connection.expected > 0:
                    if connection.received.count(b"\r\n\r\n") >= connection.expected:
                        passed += connection.received.count(b"HTTP/1.1 200 ")
                        connection.received, connection.expected = b"", 0
                    else:
                        connection._receive()
    finally:
        for connection in connections:
            connection.close()
    assert passed == keys, f"{keys - passed} of {keys} were not admitted"


@pytest.mark.measured
def test_memory_stays_within_the_table_whatever_clients_send(serve, long_run):
    """`keys: N` is about N times 21 bytes, and 32 MB for all the rest."""
    room, keys = (1_000_000, 10_000_000) if long_run else (100_000, 1_000_000)
    server = serve(limits("name: per-key, per: [header.x-key], rate: 1000/minute",
                          more=f"store: {{url: 'memory:?keys={room}'}}\n"))
    bound = room * 21 + (32 << 20)
    for part in range(10):
        flood(server, keys // 10, first=part * keys // 10)
        assert server.rss_bytes() < bound, f"{server.rss_bytes() >> 20} MB after {(part + 1) * keys // 10} keys"
