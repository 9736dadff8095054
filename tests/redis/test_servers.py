"""The servers that the tests of this folder start are what they are taken for."""

import time

import pytest

from faulty import Way
from resp import Client, Error


def test_a_server_alone(farm, brand):
    node = farm.node(brand)
    node("SET", "k", "v", "PX", 60000)
    with Client(node.socket) as client:
        assert client("GET", "k") == b"v"
    assert f"{brand}_version" in node.info("server")


def test_a_key_without_expiry_is_found(farm, brand):
    node = farm.node(brand)
    with node.client(database=3) as client:
        client("SET", "k", "v")
    assert farm.immortal_keys() == [(node.address, b"k")]
    farm.planted.add(b"k")
    assert not farm.immortal_keys()


def test_a_cluster_serves_all_slots_and_moves_them(cluster):
    slot = cluster.primaries[0]("CLUSTER", "KEYSLOT", "{k}1")
    source = cluster.owner(slot)
    for number in range(25):
        source("SET", "{k}%d" % number, number, "PX", 60000)
    target = next(node for node in cluster.primaries if node is not source)
    assert cluster.migrate(slot, target) == 25
    assert cluster.owner(slot) is target
    assert target("GET", "{k}7") == b"7"
    with pytest.raises(Error, match="^MOVED"):
        source("GET", "{k}7")


@pytest.fixture
def way(farm):
    way = Way(farm.node().port)
    yield way
    way.close()


def test_a_way_delays_replies_but_not_one_after_the_other(way):
    way.delay_s = 0.05
    with Client(way.port) as client:
        begin = time.monotonic()
        assert client.many([("PING",)] * 20) == [b"PONG"] * 20
        assert 0.05 <= time.monotonic() - begin < 0.5


def test_a_way_swallows_a_reply_whose_command_was_executed(way, farm):
    way.swallow = lambda reply: reply == b":3\r\n"
    with Client(way.port) as client:
        assert [client("INCR", "n") for _ in range(2)] == [1, 2]
        with pytest.raises(ConnectionError):
            client("INCR", "n")
    assert way.swallowed == 1
    (node,) = farm.nodes
    assert node("GETDEL", "n") == b"3"


def test_a_way_leads_elsewhere_for_new_connections_only(way, farm):
    other = farm.node()
    other("SET", "who", "other", "PX", 60000)
    with Client(way.port) as before:
        assert before("GET", "who") is None
        way.target = other.port
        assert before("GET", "who") is None
        with Client(way.port) as after:
            assert after("GET", "who") == b"other"
