"""Commands of Redis clients: what they answer, and that the limits behind them are those of every other front."""

import threading

import pytest

from client import Connection, get, post
from policies import limits
from program import CLOCK_BINARY, Server
from resp import Client, Error, as_map, pack

S = 10**9
T0 = 1764547200 * S  # 2025-12-01T00:00:00Z
POLICY = limits(
    "name: per-key, per: [header.x-key], when: {kind: one}, rate: 5/hour",
    "name: pairs, when: {kind: pair}, per: [tenant, user], rate: 2/hour",
    "name: all, when: {kind: all}, rate: 3/hour",
    "name: clients, when: {path: /check}, per: [client_ip], rate: 4/hour",
    more="resp: {commands: [cl.throttle, throttle, gcra]}\n",
)


@pytest.fixture
def server(serve):
    return serve(POLICY)


@pytest.fixture
def ask(server):
    with Client(server.resp) as client:
        yield client


@pytest.fixture
def frozen(serve):
    """A server whose clock stands at T0, and a client of it."""
    server = serve(POLICY, binary=CLOCK_BINARY)
    server.set_clock(T0)
    with Client(server.resp) as client:
        yield server, client


def throttle(client, *words):
    return client("CL.THROTTLE", *words)


# ---------------------------------------------------------------------------------------------------- cl.throttle


def test_a_quantity_above_the_burst_is_never_granted_and_leaves_no_state(frozen):
    """C01: no wait helps, so none is told."""
    _, client = frozen
    assert throttle(client, "k", 4, 1, 10, 6) == [1, 5, 5, -1, 0]
    assert throttle(client, "k", 4, 1, 10) == [0, 5, 4, -1, 10]
    assert throttle(client, "k", 4, 1, 10, 6) == [1, 5, 4, -1, 10]
    assert throttle(client, "k", 4, 1, 10, 2**62) == [1, 5, 4, -1, 10]


def test_the_sixth_hit_of_five_waits(frozen):
    server, client = frozen
    hits = [throttle(client, "k", 4, 1, 10) for _ in range(6)]
    assert hits == [[0, 5, left, -1, 10 * (5 - left)] for left in (4, 3, 2, 1, 0)] + [[1, 5, 0, 10, 50]]
    server.set_clock(T0 + 10 * S - 1)
    assert throttle(client, "k", 4, 1, 10) == [1, 5, 0, 1, 41]
    server.set_clock(T0 + 10 * S)
    assert throttle(client, "k", 4, 1, 10) == [0, 5, 0, -1, 50]


def test_C79_a_fresh_key_of_the_readme(frozen):
    server, client = frozen
    assert throttle(client, "user123", 15, 30, 60) == [0, 16, 15, -1, 2]
    server.set_clock(T0 + 1)
    assert throttle(client, "user123", 15, 30, 60) == [0, 16, 14, -1, 4]


def test_C30_quantity_0_looks(frozen):
    _, client = frozen
    for _ in range(2):
        assert throttle(client, "k", 0, 1, 3600, 0) == [0, 1, 1, -1, 0]
    assert throttle(client, "k", 0, 1, 3600) == [0, 1, 0, -1, 3600]
    assert throttle(client, "k", 0, 1, 3600, 0) == [0, 1, 0, -1, 3600]  # nothing was asked for; only remaining tells
    assert throttle(client, "k", 0, 1, 3600) == [1, 1, 0, 3600, 3600]


def test_C61_less_than_one_per_second(frozen):
    server, client = frozen
    for second, limited in ((0, 0), (1, 1), (89, 1), (90, 0), (179, 1), (180, 0)):
        server.set_clock(T0 + second * S)
        assert throttle(client, "k", 0, 1, 90)[0] == limited, second
    for second in range(0, 600, 6):  # 10 spaced requests in each minute
        server.set_clock(T0 + second * S)
        assert throttle(client, "spaced", 0, 10, 60)[0] == 0
        assert throttle(client, "costly", 2, 5, 10, 3)[0] == 0, second  # half a token a second, three at once


def test_another_rate_keeps_what_was_spent(frozen):
    _, client = frozen
    assert throttle(client, "k", 9, 1, 10, 4)[:3] == [0, 10, 6]
    assert throttle(client, "k", 19, 1, 1, 0)[:3] == [0, 20, 16]
    assert throttle(client, "k", 4, 1, 60, 0)[:3] == [0, 5, 1]


def test_C24_rates_above_the_clocks_resolution(frozen, long_run):
    """On a clock that moves a millisecond at a time, with the bursts of 10 ms; 27 calls of each key at each step."""
    server, client = frozen
    milliseconds = 10_000 if long_run else 1_000
    admin = Connection(server.admin)
    rates = (2000, 6000, 3000)
    step = b"".join(pack(["CL.THROTTLE", f"r{rate}", rate // 100 - 1, rate, 1]) for rate in rates) * 27
    admitted = dict.fromkeys(rates, 0)
    for millisecond in range(milliseconds):
        assert admin.request("POST", "/test/clock", [], '{"now_ns": %d}' % (T0 + millisecond * 10**6)).status == 200
        replies = client.ask(step, 27 * len(rates))
        for index, rate in enumerate(rates):
            admitted[rate] += sum(reply[0] == 0 for reply in replies[index :: len(rates)])
    admin.close()
    for rate, count in admitted.items():
        due = rate * milliseconds // 1000
        assert due * 0.99 <= count <= due + rate // 100, (rate, count)


def test_C24_a_large_burst_and_its_rate(frozen):
    server, client = frozen
    for second, due in ((0, 6001), (1, 6000), (3, 6001)):
        server.set_clock(T0 + second * S)
        replies = client.many([("CL.THROTTLE", "k", 6000, 6000, 1)] * 7000)
        assert [reply[0] for reply in replies] == [0] * due + [1] * (7000 - due)


def test_C24_without_a_burst(frozen):
    """Asked every 37 us: a wait for the next arrival costs at most one gap."""
    server, client = frozen
    admin, admitted, calls = Connection(server.admin), 0, 2_700
    for call in range(calls):
        assert admin.request("POST", "/test/clock", [], '{"now_ns": %d}' % (T0 + call * S // 27000)).status == 200
        admitted += throttle(client, "k", 0, 3000, 1)[0] == 0
    admin.close()
    assert 3000 * 0.9 * calls / 27000 <= admitted <= 3000 * calls / 27000 + 1


@pytest.mark.parametrize("rate", [10**6, 10**9])
def test_C24_high_rates_are_exact(frozen, rate):
    server, client = frozen
    assert throttle(client, "k", 0, rate, 1)[0] == 0
    assert throttle(client, "k", 0, rate, 1) == [1, 1, 0, 1, 1]
    server.set_clock(T0 + S // rate)
    assert throttle(client, "k", 0, rate, 1)[0] == 0


# ------------------------------------------------------------------------------------------------------ arguments

WRONG = ("-1", "9223372036854775808", "18446744073709551616", "1" * 100, "abc", "1.5", "", " 1", "1 ", "0x10", "1e3", "+", "1\r\n+OK")
# Of each argument of CL.THROTTLE: what errors call it, and what is wrong beside WRONG.
ARGUMENTS = {2: ("max_burst", ()), 3: ("count", ("0",)), 4: ("period", ("0",)), 5: ("quantity", ())}
CASES = [(index, value) for index, (_, more) in ARGUMENTS.items() for value in WRONG + more]


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """A client of a server that a module's tests share, and whose clock stands still: each has keys of its own."""
    server = Server(POLICY, tmp_path_factory.mktemp("steady"), binary=CLOCK_BINARY).wait_until_up()
    server.set_clock(T0)
    with Client(server.resp) as client:
        yield client
    assert server.stop() == 0, server.log()


@pytest.mark.parametrize("index, value", CASES, ids=[f"{ARGUMENTS[index][0]}={value!r:.20}" for index, value in CASES])
def test_C27_a_wrong_argument_is_named_and_spends_nothing(steady, index, value):
    key = f"{index} {value}"
    words = ["CL.THROTTLE", key, "4", "1", "10", "1"]
    words[index] = value
    (problem,) = steady.ask(pack(words))
    assert isinstance(problem, Error) and problem.code == "ERR", problem
    assert ARGUMENTS[index][0] in str(problem), problem
    assert steady("PING") == b"PONG"
    assert throttle(steady, key, 4, 1, 10, 0) == [0, 5, 5, -1, 0]


def test_C27_zero_limits_crash_nothing(frozen):
    _, client = frozen
    for words in ((0, 0, 60, 1), (0, 0, 60, 1), (0, 1, 0), (0, 1, -60), (-1, 1, 60), (0, 1, "x"), (0, -1, 60)):
        (problem,) = client.ask(pack(["CL.THROTTLE", "test", *words]))
        assert isinstance(problem, Error), words
    assert throttle(client, "test", 0, 1, 60) == [0, 1, 0, -1, 60]


@pytest.mark.parametrize("words", [(), ("k",), ("k", 1), ("k", 1, 1), ("k", 1, 1, 1, 1, 1)])
def test_the_wrong_number_of_arguments_is_an_error(ask, words):
    (problem,) = ask.ask(pack(["CL.THROTTLE", *words]))
    assert isinstance(problem, Error) and "number of arguments" in str(problem)
    assert ask("PING") == b"PONG"


def test_the_largest_arguments_are_decided_or_refused_by_name(ask):
    """Whatever they are: five numbers that make sense, or an error that names one, never a wrapped value."""
    numbers = (1, 2, 999, 10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1)
    commands = [(burst, count, period) for burst in (0, *numbers) for count in numbers for period in numbers]
    replies = ask.ask(b"".join(pack(["CL.THROTTLE", f"n{number}", *words]) for number, words in enumerate(commands)), len(commands))
    decided = 0
    for words, reply in zip(commands, replies, strict=True):
        if isinstance(reply, Error):
            assert any(name in str(reply) for name in ("max_burst", "count", "period")), (words, reply)
            continue
        decided += 1
        limited, limit, remaining, retry, reset = reply
        assert (limited, limit, remaining, retry) == (0, words[0] + 1, words[0], -1), (words, reply)
        assert reset == -(-words[2] // words[1]), (words, reply)
    assert decided > len(commands) // 4


# -------------------------------------------------------------------------------------------------- concurrency, memory


def admitted_of(address, data, count, found, barrier):
    with Client(address, timeout=60) as client:
        barrier.wait()
        client.socket.sendall(data)
        found.append([client.read()[0] for _ in range(count)])


def test_C33_parallel_take_admits_exactly_n(server, long_run):
    """1000 calls of each key, from 8 connections at once: ten pass, of each key."""
    keys = 100 if long_run else 20
    data = b"".join(pack(["CL.THROTTLE", f"k{key}", 9, 1, 86400]) * 125 for key in range(keys))
    found, barrier = [], threading.Barrier(8)
    threads = [threading.Thread(target=admitted_of, args=(server.resp, data, 125 * keys, found, barrier)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for key in range(keys):
        assert sum(limited == 0 for one in found for limited in one[125 * key : 125 * (key + 1)]) == 10


@pytest.mark.measured
def test_distinct_parameters_cost_no_memory(server):
    """A million limits, of a handful of keys."""
    with Client(server.resp) as client:
        before, number = None, 0
        for _ in range(100):
            batch = b"".join(b"CL.THROTTLE k%d %d %d %d\r\n" % (n % 7, n % 1000, n // 1000 % 1000 + 1, n // 3 % 997 + 1)
                             for n in range(number, number + 10_000))
            client.socket.sendall(batch)
            client.skip(10_000, b"*5\r\n")
            number += 10_000
            before = before or server.rss_bytes()  # of the first batch
        assert server.rss_bytes() - before < 1 << 20


# ----------------------------------------------------------------------------------------------- other programs' shapes


def test_throttle_in_throttlecrabs_shape(frozen):
    """[allowed, limit, remaining, reset_after, retry_after]; the burst is all there is."""
    _, client = frozen
    assert [client("THROTTLE", "k", 3, 6, 60)[:3] for _ in range(4)] == [[1, 3, 2], [1, 3, 1], [1, 3, 0], [0, 3, 0]]
    assert client("THROTTLE", "k", 3, 6, 60)[3:] == [30, 10]
    assert client("THROTTLE", "other", 3, 6, 60, 0)[:3] == [1, 3, 3]


def test_gcra_in_the_shape_that_redis_merged(frozen):
    """[limited, max-burst + 1, available, retry after or -1, full after]."""
    _, client = frozen
    hits = [client("GCRA", "k", 4, 1, 10) for _ in range(6)]
    assert [list(map(float, hit)) for hit in hits] == [[0, 5, left, -1, 10 * (5 - left)] for left in (4, 3, 2, 1, 0)] + [[1, 5, 0, 10, 50]]
    assert list(map(float, client("GCRA", "other", 4, 1, 10, "TOKENS", 3)))[:3] == [0, 5, 2]
    assert list(map(float, client("GCRA", "other", 4, 1, 10, "tokens", 0)))[:3] == [0, 5, 2]
    for words in (("TOKENS",), ("TOKENS", "x"), ("TOKENS", -1), ("NUM", 1)):
        (problem,) = client.ask(pack(["GCRA", "k", 4, 1, 10, *words]))
        assert isinstance(problem, Error), words


def test_shapes_are_there_where_the_policy_says_so(serve):
    server = serve(limits("name: one, rate: 1/s", more="resp: {commands: [throttle]}\n"))
    with Client(server.resp) as client:
        assert client("THROTTLE", "k", 3, 6, 60)[:3] == [1, 3, 2]
        for name in ("CL.THROTTLE", "GCRA"):
            (problem,) = client.ask(pack([name, "k", 3, 6, 60]))
            assert str(problem).startswith("ERR unknown command"), problem
    with Client(serve(limits("name: one, rate: 1/s")).resp) as client:
        assert throttle(client, "k", 3, 6, 60)[:3] == [0, 4, 3]
        for name in ("THROTTLE", "GCRA"):
            (problem,) = client.ask(pack([name, "k", 3, 6, 60]))
            assert str(problem).startswith("ERR unknown command"), problem


def test_the_shapes_share_their_keys(frozen):
    _, client = frozen
    assert throttle(client, "k", 4, 1, 10, 3)[2] == 2
    assert int(client("GCRA", "k", 4, 1, 10)[2]) == 1
    assert client("THROTTLE", "k", 5, 1, 10)[:3] == [1, 5, 0]
    assert throttle(client, "k", 4, 1, 10)[0] == 1


# ------------------------------------------------------------------------------------------------------- our commands


def test_what_was_taken_here_is_refused_there_and_the_other_way_round(server, ask):
    for left in (4, 3, 2, 1, 0):
        taken = as_map(ask("CAUDAL.TAKE", "per-key", "alice"))
        assert (taken["verdict"], taken["remaining"]) == (b"allow", left)
    refused = as_map(ask("CAUDAL.TAKE", "per-key", "alice"))
    assert (refused["verdict"], refused["remaining"]) == (b"deny", 0)
    answer = post(server.http, "/v1/take", {"limit": "per-key", "key": "alice"})
    assert (answer.status, answer.json()["verdict"]) == (429, "deny")

    assert post(server.http, "/v1/take", {"limit": "per-key", "key": "bob", "cost": 5}).status == 200
    assert as_map(ask("CAUDAL.TAKE", "per-key", "bob"))["verdict"] == b"deny"


def test_check_is_the_whole_policy(server, ask):
    def check(*words):
        return as_map(ask("CAUDAL.CHECK", *words))

    for left in (3, 2, 1, 0):
        checked = check("client_ip", "203.0.113.7", "path", "/check", "method", "GET")
        assert (checked["verdict"], checked["limit"], checked["remaining"]) == (b"allow", b"clients", left)
    assert check("client_ip", "203.0.113.7", "path", "/check")["verdict"] == b"deny"
    assert get(server.http, "/check", [("X-Forwarded-For", "203.0.113.7")]).status == 429
    both = check("kind", "all", "client_ip", "203.0.113.8", "path", "/check")
    assert (both["verdict"], both["limit"], both["remaining"]) == (b"allow", b"all", 2)
    assert check()["verdict"] == check("path", "/nowhere")["verdict"] == b"allow"
    for words in (("path",), ("path", "/check", "client_ip"), ("kind", "all", "COST", "x"), ("kind", "all", "COST", -1)):
        (problem,) = ask.ask(pack(["CAUDAL.CHECK", *words]))
        assert isinstance(problem, Error), words


def test_peek_refund_and_reset(ask):
    def decided(name, *words):
        decision = as_map(ask(f"CAUDAL.{name}", "per-key", "k", *words))
        return decision["verdict"], decision["remaining"]

    assert decided("PEEK") == (b"allow", 4)  # what TAKE would leave
    assert decided("PEEK", "COST", 0) == (b"allow", 5)
    assert decided("TAKE", "COST", 5) == (b"allow", 0)
    assert decided("PEEK") == (b"deny", 0)
    assert decided("PEEK", "COST", 0) == (b"allow", 0)
    assert decided("REFUND", "COST", 2) == (b"allow", 2)
    assert decided("TAKE", "cost", 2) == (b"allow", 0)
    assert decided("REFUND", "COST", 100) == (b"allow", 5)  # C29
    assert decided("TAKE", "COST", 6) == (b"never", 5)  # C01
    assert decided("TAKE", "COST", 4) == (b"allow", 1)
    ask("CAUDAL.RESET", "per-key", "k")
    assert decided("PEEK", "COST", 0) == (b"allow", 5)


def test_keys_of_several_parts(ask):
    """How many there are is known from the limit, so that no part is taken for the cost."""
    assert as_map(ask("CAUDAL.TAKE", "pairs", "a", "bc"))["remaining"] == 1
    assert as_map(ask("CAUDAL.TAKE", "pairs", "ab", "c"))["remaining"] == 1
    assert as_map(ask("CAUDAL.TAKE", "pairs", "COST", "2"))["remaining"] == 1
    assert as_map(ask("CAUDAL.TAKE", "pairs", "COST", "2", "COST", 1))["remaining"] == 0
    assert as_map(ask("CAUDAL.CHECK", "kind", "pair", "tenant", "a", "user", "bc"))["remaining"] == 0
    for parts in (("a",), ("a", "b", "c"), ()):
        (problem,) = ask.ask(pack(["CAUDAL.TAKE", "pairs", *parts]))
        assert isinstance(problem, Error), parts
    assert as_map(ask("CAUDAL.TAKE", "all"))["remaining"] == 2


def test_explain_says_which_limits_apply_and_spends_nothing(ask):
    ask("HELLO", 3)
    explained = as_map(ask("CAUDAL.EXPLAIN", "client_ip", "203.0.113.7", "path", "/check", "kind", "all"))
    limits_of = {one[b"limit"]: one for one in explained["limits"]}
    assert {name for name, one in limits_of.items() if one[b"applies"]} == {b"clients", b"all"}
    assert set(limits_of) == {b"per-key", b"pairs", b"all", b"clients"}  # and not what limits that come with a call are counted under
    assert b"pair" in limits_of[b"pairs"][b"why"]
    assert as_map(ask("CAUDAL.PEEK", "clients", "203.0.113.7", "COST", 0))["remaining"] == 4


def test_the_same_in_resp3_is_maps(server, ask):
    with Client(server.resp) as newer:
        newer("HELLO", 3)
        for words in (("CAUDAL.PEEK", "per-key", "k"), ("CAUDAL.CHECK", "path", "/nowhere")):
            flat, mapped = ask(*words), newer(*words)
            assert isinstance(mapped, dict) and isinstance(flat, list)
            assert list(as_map(flat)) == list(as_map(mapped))
        assert throttle(newer, "k", 4, 1, 10)[:4] == [0, 5, 4, -1]


BAD_COMMANDS = [("CAUDAL.TAKE",), ("CAUDAL.TAKE", "per-key"), ("CAUDAL.TAKE", "nowhere", "k"), ("CAUDAL.TAKE", "per-key", ""),
                ("CAUDAL.TAKE", "per-key", "k", "COST"), ("CAUDAL.TAKE", "per-key", "k", "COST", "x"),
                ("CAUDAL.TAKE", "per-key", "k", "COST", -1), ("CAUDAL.TAKE", "per-key", "k", "COST", 2**64),
                ("CAUDAL.TAKE", "per-key", "k", "PRICE", 1), ("CAUDAL.RESET", "per-key"), ("CAUDAL.NOTHING", "k"),
                ("CAUDAL.TAKE", "/per-call", "k")]


@pytest.mark.parametrize("words", BAD_COMMANDS, ids=lambda words: " ".join(map(str, words))[:40])
def test_what_cannot_be_asked_is_an_error_and_spends_nothing(ask, words):
    (problem,) = ask.ask(pack(words))
    assert isinstance(problem, Error) and problem.code == "ERR", problem
    assert "\n" not in str(problem)
    assert as_map(ask("CAUDAL.PEEK", "per-key", "k", "COST", 0))["remaining"] == 5


# -------------------------------------------------------------------------------------------------------------- keys

KEY_MAX = 65529  # 64 kB, but for what stands around a key
KEYS = [b"a", b"a\0b", b"a\0", b"\0", b"x" * KEY_MAX, b"x" * (KEY_MAX - 1) + b"y", b"x" * (KEY_MAX - 1), b" ", b"a b", b"a\r\nb", b"\r\n",
        "\U0001f600".encode(), b"\xff\xfe", b"\xff", b"\xc3", "\u00e9".encode(), "e\u0301".encode(), b"*1\r\n$4\r\nPING\r\n", b"\n",
        b"{a}", b"/a"]


@pytest.mark.parametrize("command", ["CL.THROTTLE", "CAUDAL.TAKE"])
def test_C75_all_bytes_are_a_key_of_their_own(ask, command):
    def words(key):
        return (command, key, 4, 1, 3600) if command == "CL.THROTTLE" else (command, "per-key", key)

    def remaining(reply):
        return reply[2] if command == "CL.THROTTLE" else as_map(reply)["remaining"]

    for left in (4, 3, 2):
        replies = ask.many([words(key) for key in KEYS])
        assert [remaining(reply) for reply in replies] == [left] * len(KEYS)
    for length in (KEY_MAX + 1, 65536, 70000, 131072):  # refused, and never unlimited
        (problem,) = ask.ask(pack(words(b"x" * length)))
        assert isinstance(problem, Error) and problem.code == "ERR" and "key" in str(problem), problem
    assert ask("PING") == b"PONG"
