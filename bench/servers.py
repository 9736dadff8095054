"""Servers of decisions, of ours and of others, in turns: over RESP, HTTP and gRPC; and what each needs to stand there. For bench/peers.py.

The pairs that bench/resp.py, bench/http.py and bench/grpc.py measure are theirs; here others join them."""
import argparse
import contextlib
import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import time

import grpc
import resp
from in_process import INSTALLED
from measuring import Server, fail, free_port, in_turns, ratios, start_caudal, start_redis, summaries

# Python has a package of its own that is named http.
_PLACE = importlib.util.spec_from_file_location("http_pair", pathlib.Path(__file__).with_name("http.py"))
http = importlib.util.module_from_spec(_PLACE)
_PLACE.loader.exec_module(http)

THROTTLECRAB = INSTALLED / "throttlecrab" / "bin" / "throttlecrab-server"
LIMITADOR = INSTALLED / "limitador-service"

HAPROXY = """
global
    nbthread 1
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 1s
frontend open
    bind 127.0.0.1:{open}
    stick-table type ip size 100k expire 10s store http_req_rate(1s)
    http-request track-sc0 src
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100000000 }}
    http-request return status 200
frontend tight
    bind 127.0.0.1:{tight}
    stick-table type ip size 100k expire 10s store http_req_rate(1s),gpc0_rate(1s)
    http-request track-sc0 src
    http-request deny deny_status 429 if {{ sc0_gpc0_rate ge {rate} }}
    http-request sc-inc-gpc0(0)
    http-request return status 200
"""

THROTTLE_LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"key": "203.0.113.7", "max_burst": 1000000, "count_per_period": 10000000, "period": 1}'
"""


def start_throttlecrab(front):
    """With one worker, as ours; its limits come with each question."""
    port = free_port()
    command = ["env", "TOKIO_WORKER_THREADS=1", THROTTLECRAB, f"--{front}", f"--{front}-host", "127.0.0.1", f"--{front}-port", port,
               "--log-level", "error"]
    return Server("throttlecrab", command, [port])


def start_haproxy(directory):
    open_port, tight_port = free_port(), free_port()
    path = os.path.join(directory, "haproxy.cfg")
    with open(path, "w", encoding="ascii") as file:
        file.write(HAPROXY.format(open=open_port, tight=tight_port, rate=http.ADMITTED))
    server = Server("haproxy", [shutil.which("haproxy") or "/usr/sbin/haproxy", "-db", "-f", path], [open_port, tight_port])
    server.urls = {"open": f"http://127.0.0.1:{open_port}/check", "tight": f"http://127.0.0.1:{tight_port}/check"}
    return server


def start_throttlecrab_http(directory):
    server = start_throttlecrab("http")
    script = pathlib.Path(directory, "throttle.lua")
    script.write_text(THROTTLE_LUA, encoding="ascii")
    server.urls, server.wrk = {"open": f"http://127.0.0.1:{server.port}/throttle"}, ["-s", str(script)]
    return server


def compared(rounds, keys, others=None):
    """{name: {key: ratio}}: ours against each of the others, round by round."""
    return {name: {key: ratios(rounds["caudal"], rounds[name], key) for key in keys}
            for name in others or rounds if not name.startswith("caudal")}


class Standing:
    """Servers that are started in turn; those that cannot be are told as missing, and all are stopped in the end."""

    def __init__(self, stack):
        self.stack, self.servers, self.missing = stack, [], {}

    def add(self, name, start, needed=None):
        if needed is not None and not pathlib.Path(needed).exists():
            self.missing[name] = "it is not installed; see build/peers/installed.json"
            return
        try:
            server = start()
        except (OSError, SystemExit) as error:
            self.missing[name] = str(error)
            return
        self.stack.callback(server.stop)
        self.servers.append(server)


# ---- rows of each protocol


def resp_row(pipeline):
    def measure(arguments):
        own = argparse.Namespace(connections=50, keys=100000, share=arguments.share)
        # A pipeline takes it some 40 ms, as long as a delayed acknowledgement, with its processor idle.
        few = argparse.Namespace(connections=50, keys=100000, share=arguments.share / 50)
        with contextlib.ExitStack() as stack:
            standing = Standing(stack)
            standing.add("caudal", lambda: start_caudal("caudal", arguments.program, arguments.scratch, resp.POLICY, "resp"))
            standing.add("redis", lambda: start_redis(str(arguments.scratch)))
            standing.add("throttlecrab", lambda: start_throttlecrab("redis"), THROTTLECRAB)
            rounds = in_turns(arguments.rounds, {
                one.name: lambda one=one: resp.measure(one, pipeline, few if one.name == "throttlecrab" and pipeline > 1 else own)
                for one in standing.servers})
        return {"settings": {"pipeline": pipeline, "connections": 50, "keys": 100000},
                "measured": {name: summaries(results) for name, results in rounds.items()},
                "ratios": compared(rounds, ("per_second", "per_cpu_second")), "missing": standing.missing}
    return measure


def http_row(share):
    def measure(arguments):
        own = argparse.Namespace(connections=32, seconds=max(1, round(2 * arguments.seconds)))
        with contextlib.ExitStack() as stack:
            standing = Standing(stack)
            standing.add("caudal", lambda: http.start_ours(arguments.program, arguments.scratch))
            standing.add("nginx", lambda: http.start_nginx(arguments.scratch))
            standing.add("haproxy", lambda: start_haproxy(arguments.scratch))
            if share == "open":  # it answers 200 whatever it decides
                standing.add("throttlecrab", lambda: start_throttlecrab_http(arguments.scratch), THROTTLECRAB)
            rounds = in_turns(arguments.rounds, {one.name: lambda one=one: http.measure(one, share, own) for one in standing.servers})
        return {"settings": {"limit": share, "connections": 32}, "measured": {name: summaries(results) for name, results in rounds.items()},
                "ratios": compared(rounds, ("per_second", "cpu_us")), "missing": standing.missing}
    return measure


def start_limitador():
    port = free_port()
    return grpc.Service(Server("limitador", [LIMITADOR, port, "bench", "client", "1"], [port]))


def grpc_row(arguments):
    own = argparse.Namespace(connections=50, seconds=max(1, round(2 * arguments.seconds)))
    reference = grpc.build_reference()
    with contextlib.ExitStack() as stack:
        started = []
        stack.callback(lambda: [one.stop() for one in started])
        grpc.start_all(arguments.program, reference, str(arguments.scratch), started)
        standing = Standing(stack)
        if reference is None:
            standing.missing["reference"] = "it could not be built"
        standing.add("limitador", start_limitador, LIMITADOR)
        body = grpc.record_request(arguments.scratch)
        services = started + standing.servers
        for one in services:
            grpc.check(one, body)
        rounds = in_turns(arguments.rounds, {one.name: lambda one=one: grpc.saturate(one, body, own) for one in services})
    told = compared(rounds, ("a second", "a second of processor"))
    if "reference" in rounds:
        told["reference, ours with Redis too"] = {
            key: ratios(rounds["caudal + Redis"], rounds["reference"], key) for key in ("a second", "a second of processor")}
    return {"settings": {"connections": 50}, "measured": {name: summaries(results) for name, results in rounds.items()}, "ratios": told,
            "missing": standing.missing}


# ---- what a server needs to stand there


def first_answer_ms(command, port):
    """From the start of the process to the first connection that is taken, looked for every tenth of a millisecond; and the process."""
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while time.monotonic() < began + 10:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return (time.monotonic() - began) * 1000, process
        time.sleep(0.0001)
    process.kill()
    fail(f"{command[0]} takes no connection")


def resident_bytes(process):
    return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def stand(command_and_port):
    """One start: how long it took, and the memory a little later."""
    command, port = command_and_port()
    took, process = first_answer_ms(command, port)
    time.sleep(0.3)
    told = {"start_ms": took, "idle_bytes": resident_bytes(process)}
    process.terminate()
    time.sleep(0.05)
    process.terminate()
    process.wait(10)
    return told


def commands(arguments):
    """{name: (program, what gives a command and its port)}"""
    scratch = pathlib.Path(arguments.scratch)

    def ours():
        path, port = scratch / "standing.yaml", free_port()
        path.write_text(resp.POLICY, encoding="ascii")
        return [arguments.program, "serve", path, "--http", f"127.0.0.1:{port}", "--resp", "none", "--grpc", "none", "--admin", "none"], port

    def nginx():
        ports = free_port(), free_port()
        path = scratch / "standing.conf"
        path.write_text(http.NGINX.format(dir=scratch, open=ports[0], tight=ports[1], rate=http.ADMITTED), encoding="ascii")
        return [programs["nginx"], "-c", path, "-p", scratch], ports[1]

    def haproxy():
        ports = free_port(), free_port()
        path = scratch / "standing.cfg"
        path.write_text(HAPROXY.format(open=ports[0], tight=ports[1], rate=http.ADMITTED), encoding="ascii")
        return [programs["haproxy"], "-db", "-f", path], ports[1]

    def redis():
        port = free_port()
        return ["redis-server", "--port", port, "--save", "", "--dir", scratch], port

    def throttlecrab():
        port = free_port()
        return [THROTTLECRAB, "--http", "--http-host", "127.0.0.1", "--http-port", port, "--log-level", "error"], port

    def limitador():
        port = free_port()
        return [LIMITADOR, port, "bench", "client", "1"], port

    programs = {name: shutil.which(name) or f"/usr/sbin/{name}" for name in ("nginx", "haproxy", "redis-server")}
    return {"caudal": (arguments.program, ours), "nginx": (programs["nginx"], nginx), "haproxy": (programs["haproxy"], haproxy),
            "redis": (programs["redis-server"], redis), "throttlecrab": (THROTTLECRAB, throttlecrab),
            "limitador": (LIMITADOR, limitador)}


def standing_row(arguments):
    """Start-up, memory when idle, and the size of the program as it is on disk, without the libraries that it shares with others."""
    measures, missing, sizes = {}, {}, {}
    for name, (program, make) in commands(arguments).items():
        if not pathlib.Path(program).exists():
            missing[name] = "it is not installed"
            continue
        sizes[name] = os.stat(program).st_size
        measures[name] = lambda make=make: stand(make)
    rounds = in_turns(arguments.rounds, measures)
    for name, results in rounds.items():
        for result in results:
            result["program_bytes"] = sizes[name]
    return {"settings": {}, "measured": {name: summaries(results) for name, results in rounds.items()},
            "ratios": compared(rounds, ("start_ms", "idle_bytes", "program_bytes")), "missing": missing}


def rows():
    """{name: what measures it}"""
    return {"resp/pipeline 1": resp_row(1), "resp/pipeline 16": resp_row(16), "http/admitted": http_row("open"),
            "http/refused": http_row("tight"), "grpc": grpc_row, "standing": standing_row}
