"""Redis clients of a server of ours whose state is in a Redis: replies keep their order whatever the store does, and what is said when it is
away is never a refusal."""

import signal
import threading

import pytest

from asking import policy, scrape, wait_until_shared
from client import post
from faulty import Way
from resp import Client, Error, as_map, pack
from waiting import holds, until

PER_KEY = "name: per-key, per: [id], rate: 1000000/day"


@pytest.fixture
def node(farm):
    return farm.node()


@pytest.fixture
def way(node):
    way = Way(node.port)
    yield way
    way.close()


def start(serve, url, settings="", deadline="5s", more=""):
    server = serve(policy(url, PER_KEY, deadline=deadline, more=f"{settings and f'resp: {{{settings}}}'}\n{more}"))
    wait_until_shared(server, "per-key", key="warm-up")
    return server


def test_a_call_that_brings_its_limit_is_decided_in_the_store(node, serve):
    """By all servers together, and its record goes away by itself."""
    clients = [Client(start(serve, node.url).resp) for _ in range(2)]
    assert clients[0]("CL.THROTTLE", "k", 4, 1, 3600, 6) == [1, 5, 5, -1, 0]
    before = set(node.client().scan())
    hits = [clients[number % 2]("CL.THROTTLE", "k", 4, 1, 3600) for number in range(6)]
    assert [hit[:3] for hit in hits] == [[0, 5, 4], [0, 5, 3], [0, 5, 2], [0, 5, 1], [0, 5, 0], [1, 5, 0]]
    assert 3590 <= hits[5][3] <= 3600 and 5 * 3600 - 10 <= hits[5][4] <= 5 * 3600
    assert clients[1]("CL.THROTTLE", "k", 9, 1, 3600, 0)[:3] == [0, 10, 5]  # another limit keeps what was spent
    (record,) = set(node.client().scan()) - before
    assert 0 < node("PTTL", record) <= 5 * 3600_000 + 2000
    for client in clients:
        client.close()


def test_C33_parallel_take_admits_exactly_n(node, serve):
    servers = [start(serve, node.url) for _ in range(2)]
    found, barrier, keys = [], threading.Barrier(8), 5

    def hammer(address):
        with Client(address, timeout=60) as client:
            barrier.wait()
            replies = client.many([("CL.THROTTLE", f"k{key}", 9, 1, 86400) for key in range(keys) for _ in range(125)])
            found.append([reply[0] for reply in replies])

    threads = [threading.Thread(target=hammer, args=(servers[number % 2].resp,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in range(keys):
        assert sum(limited == 0 for one in found for limited in one[125 * key : 125 * (key + 1)]) == 10


def test_a_pipeline_keeps_its_order_and_travels_together(way, serve):
    """What needs no store waits behind what does; and a thousand commands do not take a thousand times as long as one."""
    server = start(serve, way.url)
    way.delay_s = 0.05
    commands, expected = [], []
    for number in range(500):
        commands += [("CL.THROTTLE", "k", 9999, 1, 86400), ("ECHO", number)]
        expected += [9999 - number, b"%d" % number]
    with Client(server.resp) as client:
        before = scrape(server).sum("caudal_request_duration_seconds_sum")
        replies = client.many(commands)
        assert [reply[2] if isinstance(reply, list) else reply for reply in replies] == expected
        assert scrape(server).sum("caudal_request_duration_seconds_sum") - before < 500 * 0.2
        # Errors, and a change of the protocol, have their place as well.
        data = b"".join(map(pack, [("CAUDAL.TAKE", "per-key", "k"), ("HELLO", 3), ("CAUDAL.TAKE", "per-key", "k"), ("NOTHING",), ("PING",)]))
        flat, hello, mapped, problem, pong = client.ask(data, 5)
        assert isinstance(flat, list) and isinstance(hello, dict) and isinstance(mapped, dict)
        assert as_map(flat)["remaining"] - 1 == as_map(mapped)["remaining"]
        assert isinstance(problem, Error) and pong == b"PONG"


def test_what_follows_a_broken_command_is_not_answered_and_what_comes_before_is(way, serve):
    server = start(serve, way.url)
    way.delay_s = 0.05
    with Client(server.resp) as client:
        client.socket.sendall(pack(["CL.THROTTLE", "k", 4, 1, 3600]) * 3 + b"*-5\r\n" + pack(["PING"]))
        assert [client.read()[2] for _ in range(3)] == [4, 3, 2]
        assert client.at_end().startswith(b"-ERR Protocol error")
    with Client(server.resp) as client:
        client.socket.sendall(pack(["CL.THROTTLE", "k", 4, 1, 3600]) + pack(["QUIT"]) + pack(["PING"]))
        assert client.read()[2] == 1
        assert client.at_end() == b"+OK\r\n"


def test_clients_that_go_while_they_wait_leave_nothing(way, serve, node):
    server = start(serve, way.url)
    way.delay_s = 0.1
    for number in range(20):
        client = Client(server.resp)
        client.socket.sendall(pack(["CL.THROTTLE", f"gone{number}", 4, 1, 3600]) * 100)
        client.close()
    way.delay_s = 0
    with Client(server.resp) as client:
        assert client("CL.THROTTLE", "k", 4, 1, 3600)[:3] == [0, 5, 4]
    until(lambda: post(server.http, "/v1/peek", {"limit": "per-key", "key": "x"}).status == 200, "all is well")


@pytest.mark.measured
def test_a_pipeline_costs_no_memory_while_the_store_is_slow(way, serve):
    server = start(serve, way.url, deadline="30s")
    way.delay_s = 0.02
    with Client(server.resp, timeout=60) as client:
        client.many([("CL.THROTTLE", "k", 9999, 1, 10)] * 100)
        before = server.rss_bytes()
        sender = threading.Thread(target=client.socket.sendall, args=(pack(["CL.THROTTLE", "k", 99_999, 1, 10]) * 5000,))
        sender.start()
        client.skip(5000, b"*5\r\n")
        sender.join()
        assert server.rss_bytes() - before < 4 << 20


AWAY = {"allow": "on_store_failure: allow", "deny": "on_store_failure: deny", "local": "on_store_failure: local", "default": ""}


@pytest.mark.parametrize("choice", AWAY)
def test_a_store_that_is_away_is_never_a_refusal(node, serve, choice):
    server = start(serve, node.url, AWAY[choice], deadline="50ms", more="instances: 2\n")
    with Client(server.resp) as client:
        assert client("CL.THROTTLE", "k", 3, 1, 3600)[:3] == [0, 4, 3]
        node.kill()
        replies = client.ask(pack(["CL.THROTTLE", "k", 3, 1, 3600]) * 5, 5)
        if choice == "deny":
            assert all(isinstance(reply, Error) and "store" in str(reply) for reply in replies), replies
        elif choice == "local":
            assert [reply[0] for reply in replies] == [0, 0, 1, 1, 1], replies
        else:
            assert [reply[:2] for reply in replies] == [[0, 4]] * 5, replies
        assert client("PING") == b"PONG"
        assert isinstance(client.ask(pack(["CL.THROTTLE", "k", 3, 0, 3600]))[0], Error)
        node.start()
        until(lambda: as_map(client("CAUDAL.PEEK", "per-key", "k")).get("source") == b"store", "the store decides again")
        assert client("CL.THROTTLE", "k", 3, 1, 3600)[:3] == [0, 4, 3]  # what was there is gone with it


def test_a_named_limit_that_fails_closed_is_an_error_too(node, serve):
    server = serve(policy(node.url, PER_KEY + ", on_store_failure: deny", deadline="50ms"))
    wait_until_shared(server, "per-key", key="warm-up")
    with Client(server.resp) as client:
        assert as_map(client("CAUDAL.TAKE", "per-key", "k"))["verdict"] == b"allow"
        node.kill()
        for words in (("CAUDAL.TAKE", "per-key", "k"), ("CAUDAL.CHECK", "id", "k")):
            (problem,) = client.ask(pack(words))
            assert isinstance(problem, Error) and "per-key" in str(problem), problem
        assert client("PING") == b"PONG"


def test_C100_no_reply_is_lost_to_sigterm(way, serve):
    server = start(serve, way.url, more="listen: {drain: 0s}\n")
    way.delay_s = 0.3
    with Client(server.resp) as client:
        client.socket.sendall(pack(["CL.THROTTLE", "k", 99, 1, 3600]) * 50)
        until(lambda: way.held or decided(way) >= 1, "the store is being asked")
        server.signal(signal.SIGTERM)
        assert [client.read()[2] for _ in range(50)] == list(range(99, 49, -1))
        assert client.at_end() == b""
    assert server.wait()[0] == 0


def decided(way):
    """Scripts that the store behind a way has run for calls that bring their limit; the first asks were the warm-up's."""
    with Client(way.target) as client:
        return len([key for key in client.scan() if b"per-call" in key])


def test_a_store_that_stays_silent_holds_up_nobody_else(way, serve):
    server = start(serve, way.url, deadline="60s")
    way.delay_s = 3600
    with Client(server.resp) as waiting, Client(server.resp) as other:
        waiting.socket.sendall(pack(["CL.THROTTLE", "k", 99, 1, 3600]))
        holds(lambda: other("PING") == b"PONG", "others are answered", 0.3)
