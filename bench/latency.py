"""How long an answer takes at a fixed load that does not wait for answers (bench/steady_load.c), over HTTP and RESP. For bench/peers.py.

First each server is asked as fast as it answers, once. Then all get the same load, in turns: half of what the slowest can do; and ours
half of what it can do itself, beside the least that a server could do on the same sockets (bench/empty_server.c)."""
import argparse
import contextlib
import json
import pathlib
import subprocess

import resp
from measuring import Server, free_port, in_turns, start_caudal, start_redis, summaries
from servers import THROTTLECRAB, Standing, compared, http, start_haproxy, start_throttlecrab

CONNECTIONS = 32
REQUESTS = {"http": b"GET /check HTTP/1.1\r\nHost: open.example\r\n\r\n"}
ANSWERS = {"http": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "resp": b"*5\r\n:0\r\n:1001\r\n:1000\r\n:-1\r\n:0\r\n"}
KEYS = ("p50_us", "p90_us", "p99_us", "p999_us")


def resp_request(name):
    words = [word.replace("__rand_int__", "000000000042").encode() for word in resp.COMMANDS[name]]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def request_of(protocol, name):
    return REQUESTS["http"] if protocol == "http" else resp_request(name if name in resp.COMMANDS else "caudal")


def start_empty(arguments, protocol):
    port, folder = free_port(), pathlib.Path(arguments.scratch)
    question, answer = folder / "empty.request", folder / "empty.answer"
    question.write_bytes(request_of(protocol, "empty loop"))
    answer.write_bytes(ANSWERS[protocol])
    server = Server("empty loop", [arguments.folder + "/bench/empty_server", port, question, answer], [port])
    server.urls = {"open": f"http://127.0.0.1:{port}/check"}
    return server


def start_all(standing, protocol, arguments):
    if protocol == "http":
        standing.add("caudal", lambda: http.start_ours(arguments.program, arguments.scratch))
        standing.add("nginx", lambda: http.start_nginx(arguments.scratch))
        standing.add("haproxy", lambda: start_haproxy(arguments.scratch))
    else:
        standing.add("caudal", lambda: start_caudal("caudal", arguments.program, arguments.scratch, resp.POLICY, "resp"))
        standing.add("redis", lambda: start_redis(str(arguments.scratch)))
        standing.add("throttlecrab", lambda: start_throttlecrab("redis"), THROTTLECRAB)


def load(server, protocol, rate, arguments):
    """One round at a rate."""
    path = pathlib.Path(arguments.scratch, f"{server.name}.request")
    path.write_bytes(request_of(protocol, server.name))
    port = server.urls["open"].partition("127.0.0.1:")[2].partition("/")[0] if protocol == "http" else str(server.port)
    command = [arguments.folder + "/bench/steady_load", protocol, port, str(path), str(CONNECTIONS), str(rate),
               str(max(1.0, 3 * arguments.seconds))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{server.name}: {done.stderr.strip()}")
    told = json.loads(done.stdout)
    told["rate held"] = told["per_second"] / rate
    return told


def saturation(server, protocol, arguments):
    """What it answers in a second when it is asked as fast as it answers."""
    if protocol == "http":
        return http.measure(server, "open", argparse.Namespace(connections=CONNECTIONS, seconds=1))["per_second"]
    return resp.measure(server, 1, argparse.Namespace(connections=CONNECTIONS, keys=1, share=0.2 * arguments.share))["per_second"]


def take_turns(servers, protocol, rate, arguments):
    rounds = in_turns(arguments.rounds, {one.name: lambda one=one: load(one, protocol, rate, arguments) for one in servers})
    return {"settings": {"connections": CONNECTIONS, "rate": round(rate)},
            "measured": {name: summaries(results) for name, results in rounds.items()}, "ratios": compared(rounds, KEYS)}


def same_load_row(protocol):
    def measure(arguments):
        with contextlib.ExitStack() as stack:
            standing = Standing(stack)
            start_all(standing, protocol, arguments)
            most = {server.name: saturation(server, protocol, arguments) for server in standing.servers}
            row = take_turns(standing.servers, protocol, min(most.values()) / 2, arguments)
        return {**row, "missing": standing.missing, "saturation": most}
    return measure


def own_load_row(protocol):
    def measure(arguments):
        with contextlib.ExitStack() as stack:
            standing = Standing(stack)
            if protocol == "http":
                standing.add("caudal", lambda: http.start_ours(arguments.program, arguments.scratch))
            else:
                standing.add("caudal", lambda: start_caudal("caudal", arguments.program, arguments.scratch, resp.POLICY, "resp"))
            standing.add("empty loop", lambda: start_empty(arguments, protocol))
            most = {"caudal": saturation(standing.servers[0], protocol, arguments)}
            row = take_turns(standing.servers, protocol, most["caudal"] / 2, arguments)
        return {**row, "missing": standing.missing, "saturation": most}
    return measure


def rows():
    """{name: what measures it}"""
    return {f"latency/{protocol}/{kind}": make(protocol) for protocol in ("http", "resp")
            for kind, make in (("same load", same_load_row), ("half of ours", own_load_row))}
