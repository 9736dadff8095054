"""What Redis clients send around their commands, in which pieces, and what some send that they should not."""

import contextlib
import random
import re
import socket
import ssl
import time

import pytest

from authority import Authority
from client import get
from policies import limits
from program import CLOCK_BINARY, Server, run, run_server
from resp import Client, Error, as_map, pack
from waiting import until

T0 = 1764547200 * 10**9
POLICY = limits("name: per-key, per: [id], rate: 1000000/hour")
QUICK = limits("name: per-key, per: [id], rate: 1000000/hour",
               more="listen: {timeouts: {header: 1s, body: 1s, idle: 1s, write: 1s}}\n")


@pytest.fixture
def server(serve):
    return serve(POLICY)


@pytest.fixture
def ask(server):
    with Client(server.resp) as client:
        yield client


def problem_of(client, *words):
    (reply,) = client.ask(pack(words))
    assert isinstance(reply, Error), (words, reply)
    return str(reply)


# ------------------------------------------------------------------------------------------------------ handshakes


def test_hello_chooses_the_protocol_and_introduces_the_server(server, ask):
    told = as_map(ask("HELLO"))
    assert told["proto"] == 2
    assert {"server", "version", "proto", "id", "mode", "role", "modules"} <= set(told)
    assert isinstance(ask("HELLO", 2), list)
    newer = ask("HELLO", 3)
    assert isinstance(newer, dict) and as_map(newer)["proto"] == 3
    assert (as_map(newer)["mode"], as_map(newer)["role"]) == (b"standalone", b"master")
    assert isinstance(ask("HELLO"), dict)  # stays as it is
    assert ask("HELLO", 3, "SETNAME", "me") and ask("CLIENT", "GETNAME") == b"me"
    assert isinstance(ask("HELLO", 2), list)


@pytest.mark.parametrize("words", [(1,), (4,), (2**64,), ("x",), ("3x",), (-2,)])
def test_a_protocol_that_is_not_known_is_noproto_and_changes_nothing(ask, words):
    assert problem_of(ask, "HELLO", *words).startswith(("NOPROTO", "ERR Protocol version"))
    assert isinstance(ask("HELLO"), list)


def test_wrong_options_of_hello_are_errors(ask):
    for words in ((3, "AUTH"), (3, "AUTH", "x"), (3, "SETNAME"), (3, "NOTHING"), (3, "SETNAME", "a b")):
        assert problem_of(ask, "HELLO", *words).startswith("ERR"), words
        assert isinstance(ask("HELLO"), list), words


def test_small_talk(server, ask):
    assert [ask("PING"), ask("PING", "x"), ask("ECHO", "y\0"), ask("SELECT", 0)] == [b"PONG", b"x", b"y\0", b"OK"]
    assert problem_of(ask, "SELECT", 1).startswith("ERR")
    assert problem_of(ask, "SELECT", "x").startswith("ERR")
    assert ask("CLIENT", "SETINFO", "LIB-NAME", "test") == ask("CLIENT", "SETINFO", "lib-ver", "1.2") == b"OK"
    assert ask("CLIENT", "SETNAME", "me") == b"OK" and ask("CLIENT", "GETNAME") == b"me"
    with Client(server.resp) as other:
        assert other("CLIENT", "GETNAME") in (None, b"")
        assert 0 < ask("CLIENT", "ID") != other("CLIENT", "ID") > 0
    assert problem_of(ask, "CLIENT", "SETNAME", "a b").startswith("ERR")
    assert problem_of(ask, "CLIENT", "NOTHING").startswith("ERR")
    assert ask("COMMAND", "COUNT") == len(ask("COMMAND")) > 10
    assert len(ask("COMMAND", "DOCS")) % 2 == 0
    for word in ("server", ""):
        lines = ask("INFO", *filter(None, [word])).decode()
        assert "redis_version:" in lines and "\r\n" in lines
    assert len(ask("CONFIG", "GET", "save")) in (0, 2)


def test_reset_forgets_and_quit_says_good_bye(server):
    with Client(server.resp) as client:
        client("HELLO", 3, "SETNAME", "me")
        assert client("RESET") == b"RESET"
        assert isinstance(client("HELLO"), list) and client("CLIENT", "GETNAME") in (None, b"")
        client.socket.sendall(pack(["PING"]) + pack(["QUIT"]) + pack(["PING"]))
        assert client.at_end() == b"+PONG\r\n+OK\r\n"


def test_unknown_commands_are_errors_and_keep_the_connection(ask):
    for words in (("GET", "k"), ("SET", "k", "v"), ("NOTHING",), ("",), ("x" * 1000, "y"), ("a\r\nb\0", "c"), ("MULTI",), ("SUBSCRIBE", "c"),
                  ("cl\x0ethrottle", "k", 4, 1, 10), ("CL", "THROTTLE"), ("PIN\x87",)):
        assert problem_of(ask, *words).startswith("ERR unknown command"), words
        assert ask("PING") == b"PONG"


def test_commands_may_be_in_any_case_and_typed_by_hand(ask):
    for name in ("ping", "Ping", "pInG"):
        assert ask(name) == b"PONG"
    assert ask("cl.Throttle", "k", 4, 1, 10)[:3] == [0, 5, 4]
    assert ask.ask(b"PING\r\nping\necho 'a b'\r\n\r\n\n  echo   \"\\x41\\n\"  \r\nCL.THROTTLE k 4 1 10\r\n", 5) == [
        b"PONG", b"PONG", b"a b", b"A\n", [0, 5, 3, -1, 20]]
    assert ask.ask(b"*0\r\n*1\r\n$4\r\nPING\r\n") == [b"PONG"]


# ----------------------------------------------------------------------------------------------------------- users


@pytest.fixture
def users(serve, tmp_path):
    for name in ("default", "asker", "reader", "root"):
        (tmp_path / name).write_text(f"secret of {name}\n")
    text = "".join(f"    - {{name: {name}, password_file: {tmp_path / name}{may}}}\n"
                   for name, may in (("default", ", may: [throttle]"), ("asker", ", may: [take, refund, reset]"),
                                     ("reader", ", may: [peek, explain]"), ("root", "")))
    return serve(limits("name: per-key, per: [id], rate: 100/hour", more=f"resp:\n  users:\n{text}"))


COMMANDS = {"throttle": ("CL.THROTTLE", "k", 4, 1, 10), "take": ("CAUDAL.TAKE", "per-key", "k"), "check": ("CAUDAL.CHECK", "id", "k"),
            "peek": ("CAUDAL.PEEK", "per-key", "k"), "refund": ("CAUDAL.REFUND", "per-key", "k"),
            "reset": ("CAUDAL.RESET", "per-key", "k"), "explain": ("CAUDAL.EXPLAIN", "id", "k")}
MAY = {"default": {"throttle"}, "asker": {"take", "check", "refund", "reset"}, "reader": {"peek", "explain"}, "root": set(COMMANDS)}


@pytest.mark.parametrize("user", MAY)
def test_users_do_what_they_may(users, user):
    with Client(users.resp, user=user, password=f"secret of {user}") as client:
        assert client("PING") == b"PONG"
        for name, words in COMMANDS.items():
            (reply,) = client.ask(pack(words))
            if name in MAY[user]:
                assert not isinstance(reply, Error), (user, name, reply)
            else:
                assert isinstance(reply, Error) and reply.code == "NOPERM", (user, name, reply)
    if user != "root":
        with Client(users.resp, user="root", password="secret of root") as client:
            # What is not permitted spends nothing, and asker has reset what it took.
            assert as_map(client("CAUDAL.PEEK", "per-key", "k", "COST", 0))["remaining"] == 100


def test_without_a_password_nothing_is_decided(users):
    with Client(users.resp) as client:
        for words in (*COMMANDS.values(), ("PING",), ("CLIENT", "ID"), ("COMMAND",), ("INFO",), ("HELLO", 3), ("GET", "k")):
            assert problem_of(client, *words).startswith("NOAUTH"), words
        assert client("AUTH", "secret of default") == b"OK"
        assert client("PING") == b"PONG"
        assert client("RESET") == b"RESET"
        assert problem_of(client, "PING").startswith("NOAUTH")


def test_wrong_passwords_are_refused_and_right_ones_stay(users):
    with Client(users.resp) as client:
        for words in (("secret of asker",), ("asker", "secret of root"), ("nobody", "secret of root"), ("asker", ""), ("",),
                      ("asker", "secret of asker\n"), ("asker", "secret of aske"), ("asker\0", "secret of asker")):
            assert problem_of(client, "AUTH", *words).startswith("WRONGPASS"), words
            assert problem_of(client, *COMMANDS["take"]).startswith("NOAUTH")
        assert problem_of(client, "HELLO", 3, "AUTH", "asker", "x").startswith("WRONGPASS")
        assert problem_of(client, "AUTH").startswith("ERR") and problem_of(client, "AUTH", 1, 2, 3).startswith("ERR")
        assert as_map(client("HELLO", 3, "AUTH", "asker", "secret of asker", "SETNAME", "me"))["proto"] == 3
        assert as_map(client(*COMMANDS["take"]))["verdict"] == b"allow"
        assert problem_of(client, "AUTH", "reader", "x").startswith("WRONGPASS")
        assert as_map(client(*COMMANDS["take"]))["verdict"] == b"allow"  # whom it was, it stays
        assert client("AUTH", "reader", "secret of reader") == b"OK"
        assert problem_of(client, *COMMANDS["take"]).startswith("NOPERM")


def test_nobody_needs_a_password_that_is_not_set(ask):
    """ioredis and redis-py know that they sent one in vain by these words."""
    for words in (("AUTH", "x"), ("AUTH", "default", "x"), ("HELLO", 3, "AUTH", "default", "x")):
        assert "without any password configured for the default user" in problem_of(ask, *words)
    assert ask("PING") == b"PONG"


def test_a_password_never_shows(users, tmp_path):
    with Client(users.resp) as client:
        problem_of(client, "AUTH", "root", "hunter2-hunter2")
        client("AUTH", "root", "secret of root")
        assert "secret of" not in repr(client.ask(pack(["CONFIG", "GET", "*"]))) + repr(client.ask(pack(["INFO"])))
    assert "hunter2" not in users.log() and "secret of" not in users.log()


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_user_without_a_password_is_an_error_at_start(tmp_path, content):
    policy, secret = tmp_path / "policy.yaml", tmp_path / "secret"
    if content is not None:
        secret.write_text(content)
    policy.write_text(limits("name: one, rate: 1/s", more=f"exempt: [{{path: /healthz}}]\nresp: {{users: [{{name: u, password_file: {secret}}}]}}\n"))
    status, out, err = run_server(policy)
    assert status == 1 and str(secret) in err and len(err.strip().splitlines()) == 1, err


@pytest.mark.parametrize("text, named", [("commands: [cl.throtle]", "cl.throtle"), ("on_store_failure: perhaps", "perhaps"),
                                         ("users: [{name: u}]", "password_file"), ("users: []", "users"),
                                         ("users: [{name: u, password_file: /x, may: [fly]}]", "fly"),
                                         ("users: [{name: u, password_file: /x}, {name: u, password_file: /x}]", "twice"),
                                         ("port: 1", "port")])
def test_wrong_settings_are_found_when_the_policy_is_read(tmp_path, text, named):
    policy = tmp_path / "policy.yaml"
    policy.write_text(limits("name: one, rate: 1/s", more=f"resp: {{{text}}}\n"))
    status, out, err = run("validate", policy)
    assert status == 1 and named in out + err and "policy.yaml:" in out + err, (out, err)


# ------------------------------------------------------------------------------------------------------- addresses, TLS


def test_it_can_be_switched_off_and_be_a_unix_socket(serve, tmp_path):
    server = serve(POLICY, "--resp", "none")
    assert "resp" not in server.listening and get(server.admin, "/healthz").status == 200
    path = tmp_path / "resp.sock"
    server = serve(POLICY, "--resp", f"unix:{path}")
    with Client(server.resp) as client:
        assert client("CL.THROTTLE", "k", 4, 1, 10)[:3] == [0, 5, 4]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


def test_tls_and_certificates_of_clients(serve, authority, tmp_path):
    cert, key = authority.issue("localhost")
    server = serve(limits("name: one, rate: 1/s", more=f"listen: {{tls: {{cert: {cert}, key: {key}, client_ca: {authority.certificate}}}}}\n"))
    context = authority.context(client=authority.issue("client"))
    with Client(server.resp, tls=context) as client:
        assert client.many([("CL.THROTTLE", "k", 99_999, 1, 10)] * 5000)[-1][:3] == [0, 100_000, 95_000]
    stranger = Authority(tmp_path, "stranger")
    for other in (None, stranger.issue("client")):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            with Client(server.resp, tls=authority.context(client=other)) as client:
                client("PING")  # with TLS 1.3 it learns of it when it reads
    with Client(server.resp) as plain, contextlib.suppress(OSError):
        plain.socket.sendall(pack(["CL.THROTTLE", "k", 4, 1, 10]))
        assert b":" not in plain.at_end()[:1]


# ---------------------------------------------------------------------------------------------------- how bytes are cut



def conversation(number):
    """Bytes that ask for much of what there is, with keys of their own and always as many."""
    key = f"{number:04}"
    commands = [("PING",), ("CL.THROTTLE", key, 4, 1, 10), ("cl.throttle", key, 4, 1, 10, 5), ("ECHO", "\r\n$5\r\n"), ("HELLO", 3),
                ("CAUDAL.TAKE", "per-key", key, "COST", 3), ("NOTHING", "at all"), ("CL.THROTTLE", key, 0, 0, 0),
                ("CLIENT", "GETNAME"), ("HELLO", 2), ("CAUDAL.PEEK", "per-key", key), ("CL.THROTTLE", "x" * 296 + key, 4, 1, 10)]
    lines = "ping\r\nECHO 'a \\'b' \"c\\r\\n\"\r\n\r\nECHO \"c\\r\\x41\"\r\nNOTHING\nCL.THROTTLE %s 4 1 10 0\r\n" % key
    return b"".join(map(pack, commands)) + lines.encode()


def converse(address, data, cuts):
    """Sends a conversation in pieces that end at `cuts`; returns what comes back until QUIT."""
    begin = 0
    with Client(address) as client:
        for end in [*cuts, len(data)]:
            client.socket.sendall(data[begin:end])
            begin = end
        client.socket.sendall(pack(["QUIT"]))
        return re.sub(rb"\$2\r\nid\r\n:\d+", b"", client.at_end())  # a connection's number is its own


def test_C74_commands_split_at_every_byte_get_the_same_bytes_back(serve):
    server = serve(POLICY, binary=CLOCK_BINARY)
    server.set_clock(T0)
    everywhere, source = range(1, len(conversation(0))), random.Random(6)
    some = [sorted(source.sample(everywhere, 9)) for _ in range(30)]
    whole = converse(server.resp, conversation(0), [])
    assert whole.endswith(b"+OK\r\n") and whole.count(b"-ERR") == 4
    for number, cuts in enumerate([everywhere, *some, *([cut] for cut in everywhere)], start=1):
        assert converse(server.resp, conversation(number), cuts) == whole, cuts


def test_a_pipeline_is_answered_in_its_order(ask):
    commands = [("ECHO", number) for number in range(10_000)]
    assert ask.many(commands) == [b"%d" % number for number in range(10_000)]
    replies = ask.many([("CL.THROTTLE", "k", 9_999, 1, 86400)] * 10_000)
    assert [reply[2] for reply in replies] == list(range(9_999, -1, -1))


@pytest.mark.measured
def test_long_pipelines_cost_no_memory_read_or_not(serve):
    server = serve(QUICK)
    with Client(server.resp) as client:
        batch = pack(["CL.THROTTLE", "k", 9_999, 1_000_000, 1]) * 10_000
        for _ in range(3):
            client.socket.sendall(batch)
            client.skip(10_000, b"*5\r\n")
        before = server.rss_bytes()
        for _ in range(20):
            client.socket.sendall(batch)
            client.skip(10_000, b"*5\r\n")
        assert server.rss_bytes() - before < 1 << 20
        with Client(server.resp) as deaf:
            deaf.socket.settimeout(0.3)
            sent = 0
            with contextlib.suppress(TimeoutError, OSError):
                while sent < 200_000_000:
                    sent += deaf.socket.send(batch)
            assert sent < 200_000_000, "the server collects answers"
            assert server.rss_bytes() - before < 2 << 20
            assert client("PING") == b"PONG"
            deaf.socket.settimeout(20)
            until(lambda: is_gone(deaf), "the deaf client is cut off")


def is_gone(client):
    try:
        client.socket.send(b"\r\n")
        return False
    except OSError:
        return True


# ---------------------------------------------------------------------------------------------------------- hostile

PING = b"*1\r\n$4\r\nPING\r\n"
HOSTILE = {
    "more elements than 32 bits": b"*4294967295\r\n$4\r\nPING\r\n",
    "many elements": b"*2147483647\r\n",
    "too many elements": b"*1048577\r\n",
    "elements beyond 64 bits": b"*18446744073709551617\r\n$4\r\nPING\r\n",
    "minus two elements": b"*-2\r\n",
    "a negative length": b"*1\r\n$-2\r\n",
    "no length": b"*1\r\n$\r\n",
    "the length of null": b"*1\r\n$-1\r\n",
    "a length of 63 bits": b"*1\r\n$9223372036854775807\r\n",
    "a length beyond 64 bits": b"*1\r\n$18446744073709551620\r\nPING\r\n",
    "a length of 31 bits": b"*1\r\n$2147483645\r\n",
    "half a gigabyte": b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
    "a length that is no number": b"*1\r\n$abc\r\nPING\r\n",
    "a signed length": b"*1\r\n$+4\r\nPING\r\n",
    "elements that are no number": b"*abc\r\n",
    "nested arrays": b"*1\r\n" * 2000,
    "an integer for a string": b"*1\r\n:1\r\n",
    "a string that ends elsewhere": b"*1\r\n$4\r\nPINGxx",
    "a long line": b"x" * 65537,
    "a longer line": b"PING " + b"x" * 1_000_000,
    "a number without end": b"*1\r\n$" + b"1" * 70000,
    "a head without end": b"*" + b"1" * 70000,
    "quotes that do not end": b"ECHO \"abc\r\n",
    "quotes in a word": b"ECHO \"abc\"d\r\n",
    "a web page's request": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nCL.THROTTLE k 1 1 1\r\n",
}


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """A server that everybody is bad to, in turn."""
    server = Server(POLICY, tmp_path_factory.mktemp("victim")).wait_until_up()
    yield server
    assert server.stop() == 0, server.log()


@pytest.mark.parametrize("name", HOSTILE)
def test_C73_malformed_commands_are_told_and_closed_and_nobody_else_notices(victim, name):
    with Client(victim.resp) as good:
        assert good("PING") == b"PONG"
        answer = send_to_the_end(victim, PING + HOSTILE[name])
        assert answer.startswith(b"+PONG\r\n-ERR Protocol error"), answer[:200]
        assert answer.count(b"\r\n") == 2 and answer.endswith(b"\r\n")
        assert good("PING") == b"PONG"


def send_to_the_end(server, data):
    with Client(server.resp) as client:
        with contextlib.suppress(OSError):  # it may have answered and closed before all was sent
            client.socket.sendall(data)
        return client.at_end()


@pytest.mark.measured
def test_C73_malformed_commands_cost_no_memory(server):
    send_to_the_end(server, PING + HOSTILE["a long line"])
    before = server.rss_bytes()
    for data in HOSTILE.values():
        send_to_the_end(server, data)
    assert server.rss_bytes() - before < 1 << 20


@pytest.mark.measured
def test_C73_many_at_once_cost_no_memory(server):
    """Each has announced as much as it may, and sent nothing of it."""
    with Client(server.resp) as good:
        good.many([("PING",)] * 10)
        before = server.rss_bytes()
        held = [Client(server.resp) for _ in range(100)]
        for one in held:
            one.socket.sendall(b"*1000\r\n$2\r\n")
        assert good("PING") == b"PONG"
        assert server.rss_bytes() - before < 4 << 20
        for one in held:
            one.close()


def test_C73_half_a_command_then_silence_is_timed_out(serve):
    server = serve(QUICK)
    begin = time.monotonic()
    half = [Client(server.resp) for _ in range(4)]
    for one, data in zip(half, (b"*2\r\n$4\r\nECHO\r\n$5\r\nab", b"*1\r", b"PIN", b"*"), strict=True):
        one.socket.sendall(data)
    for one in half:
        assert one.at_end().startswith(b"-ERR Protocol error")
    assert 0.5 < time.monotonic() - begin < 4
    with Client(server.resp) as good:
        assert good("PING") == b"PONG"


def test_clients_that_go_half_way_leave_nothing(server):
    for data in (b"*2\r\n$4\r\nEC", pack(["CL.THROTTLE", "k", 4, 1, 10]) * 1000 + b"*", b"PING"):
        for _ in range(20):
            with Client(server.resp) as bad:
                bad.socket.sendall(data)
                bad.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    with Client(server.resp) as good:
        assert good("PING") == b"PONG"


def test_clients_over_the_cap_are_turned_away_and_come_back(serve):
    server = serve(limits("name: one, rate: 1/s", more="listen: {caps: {connections: 20}}\n"))
    held = [Client(server.resp) for _ in range(20)]
    assert {client("PING") for client in held} == {b"PONG"}
    with Client(server.resp) as over:
        assert b"PONG" not in over.at_end()
    assert get(server.admin, "/healthz").status == 200  # not counted with clients
    for client in held:
        client.close()
    until(lambda: answers(server), "there is room again")


def answers(server):
    with contextlib.suppress(OSError), Client(server.resp) as client:
        return client("PING") == b"PONG"
    return False


def test_a_client_that_has_said_all_is_answered(server):
    with Client(server.resp) as client:
        client.socket.sendall(PING * 1000)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.at_end() == b"+PONG\r\n" * 1000
