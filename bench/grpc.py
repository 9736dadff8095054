#!/usr/bin/python3
"""Compares `caudal serve` with the reference rate limit service of Envoy, as servers of a decision over gRPC.

Both run in the same run on loopback and answer h2load, which sends one recorded request (one descriptor, one hit, a limit that is not
reached) on connections that have one call under way each. They take turns, A B A B:

    caudal            one worker, counts in its memory
    caudal + Redis    one worker, every decision in a redis-server
    reference         built from its Go module, as it is set up by itself but without statistics, with a redis-server of its own

Told are decisions a second of processor time (user and system, from /proc), of the service with its Redis and of the service alone;
decisions a second; and the 99th percentile of the time to an answer at half of what each can do, at a fixed rate. All are medians with the
lowest and the highest round, and the ratios to the reference round by round.

    bench/grpc.py build/release/src/caudal --json build/release/grpc.json

Uses the standard library, h2load and nghttp, redis-server, and scripts/make-reference.sh, which needs no more than Python.
"""
import argparse
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import time

from measuring import Server, fail, free_port, in_turns, ratios, span, start_caudal, start_redis, summaries

ROOT = pathlib.Path(__file__).resolve().parent.parent
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
HEADERS = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
RULES = "domain: bench\ndescriptors: [{key: client, rate_limit: {unit: year, requests_per_unit: 4294967295}}]\n"
POLICY = "envoy: {folder}/rules.yaml\nstore: {{url: '{store}'}}\nlisten: {{workers: 1}}\n"


# ---- the reference


def build_reference():
    """The path of the reference service, built where it was not; None, said why, where it cannot be."""
    print("looking for the reference service, or building it, which takes minutes, once", flush=True)
    try:
        subprocess.run([ROOT / "scripts" / "make-reference.sh"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the reference service cannot be built here: {error}", flush=True)
        return None
    return ROOT / "build" / "reference" / "ratelimit"


# ---- servers


class Service:
    """A service that answers gRPC, and the Redis that it asks."""

    def __init__(self, server, redis=None):
        self.name, self.port, self.server, self.redis = server.name, server.port, server, redis

    def processor_seconds(self):
        """(of the service, of its Redis)"""
        return self.server.processor_seconds(), self.redis.processor_seconds() if self.redis else 0.0

    def stop(self):
        self.server.stop()
        if self.redis:
            self.redis.stop()


def start_caudal_service(name, program, folder, redis=None):
    pathlib.Path(folder, "rules.yaml").write_text(RULES, encoding="ascii")
    store = f"redis://127.0.0.1:{redis.port}?deadline=1s" if redis else "memory:"
    return Service(start_caudal(name, program, folder, POLICY.format(folder=folder, store=store), "grpc"), redis)


def start_reference(program, folder, redis):
    config = pathlib.Path(folder, "runtime", "ratelimit", "config")
    config.mkdir(parents=True)
    (config / "rules.yaml").write_text(RULES, encoding="ascii")
    http, port, debug = free_port(), free_port(), free_port()
    settings = {"HOST": "127.0.0.1", "PORT": http, "GRPC_HOST": "127.0.0.1", "GRPC_PORT": port, "DEBUG_HOST": "127.0.0.1",
                "DEBUG_PORT": debug, "USE_STATSD": "false", "DISABLE_STATS": "true", "RUNTIME_ROOT": f"{folder}/runtime",
                "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false", "REDIS_SOCKET_TYPE": "tcp",
                "REDIS_URL": f"127.0.0.1:{redis.port}", "LOG_LEVEL": "error"}
    command = ["env", *(f"{name}={value}" for name, value in settings.items()), program]
    return Service(Server("reference", command, [port, http]), redis)


# ---- load


def field(number, payload):
    """A field of a protobuf message that is bytes or a message."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def record_request(folder):
    """The body of a call that asks for one hit of one client."""
    entry = field(1, b"client") + field(2, b"203.0.113.7")
    message = field(1, b"bench") + field(2, field(1, entry))
    path = pathlib.Path(folder, "request")
    path.write_bytes(b"\0" + struct.pack(">I", len(message)) + message)
    return str(path)


def h2load(server, body, *arguments):
    command = ["h2load", "-t", "1", "-m", "1", "-d", body, *HEADERS, *arguments, f"http://127.0.0.1:{server.port}{METHOD}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(server, body):
    """h2load looks at no trailers: that calls succeed is looked at with one of them."""
    text = subprocess.run(["nghttp", "-v", *HEADERS, "-d", body, f"http://127.0.0.1:{server.port}{METHOD}"], check=False,
                          capture_output=True, text=True, errors="replace").stdout
    if "grpc-status: 0\n" not in text:
        fail(f"{server.name} does not answer well: {text}")


def succeeded(server, text):
    total, good = re.search(r"requests: (\d+) total, .* (\d+) succeeded", text).groups()
    if total != good:
        fail(f"{server.name}: {text}")
    return int(good)


def saturate(server, body, arguments):
    """One round: decisions a second, and a second of processor time."""
    before = server.processor_seconds()
    begin = time.monotonic()
    text = h2load(server, body, "-c", str(arguments.connections), "-D", str(arguments.seconds))
    took = time.monotonic() - begin
    service, redis = (after - was for after, was in zip(server.processor_seconds(), before))
    count = succeeded(server, text)
    return {"a second of processor": count / (service + redis), "service alone": count / service, "a second": count / took}


def pace(server, body, rate, folder, arguments):
    """One round at a fixed rate: the 99th percentile, and whether the rate was held."""
    log = pathlib.Path(folder, "log")
    log.unlink(missing_ok=True)
    text = h2load(server, body, "-c", str(arguments.connections), "-D", str(arguments.seconds), f"--rps={rate / arguments.connections}",
                  f"--log-file={log}")
    succeeded(server, text)
    times = sorted(int(line.split("\t")[2]) for line in log.read_text(encoding="ascii").splitlines())
    return {"p99 us": times[math.ceil(len(times) * 0.99) - 1], "p50 us": times[len(times) // 2],
            "rate held": len(times) / arguments.seconds / rate}


# ---- rounds


def take_turns(services, arguments, measure):
    """Medians of each, and of the ratios to the reference round by round."""
    rounds = in_turns(arguments.rounds, {one.name: lambda one=one: measure(one) for one in services})
    told = {name: summaries(results) for name, results in rounds.items()}
    for name, results in rounds.items():
        if "reference" in rounds and name != "reference":
            told[f"{name} / reference"] = {key: ratios(results, rounds["reference"], key) for key in results[0]}
    return told


def show(title, told):
    keys = list(next(iter(told.values())))
    print(f"\n{title:28}" + "".join(f"{key:>34}" for key in keys))
    for name, row in told.items():
        cells = [span(row[key], 0 if row[key]["median"] >= 100 else 2) for key in keys]
        print(f"  {name:26}" + "".join(f"{cell:>34}" for cell in cells), flush=True)


def start_all(program, reference, folder, services):
    """Into `services` as they start, so that whoever stops them knows of all."""
    folders = [os.path.join(folder, name) for name in ("memory", "shared", "reference")]
    for one in folders:
        os.mkdir(one)
    services.append(start_caudal_service("caudal", program, folders[0]))
    services.append(start_caudal_service("caudal + Redis", program, folders[1], start_redis(folders[1])))
    if reference is not None:
        services.append(start_reference(reference, folders[2], start_redis(folders[2])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="caudal, as built for release")
    parser.add_argument("--json", help="writes the numbers there, too")
    parser.add_argument("--rounds", type=int, default=5, help="of each server, after a warm-up")
    parser.add_argument("--seconds", type=int, default=2, help="a round")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--alone", action="store_true", help="without the reference service")
    arguments = parser.parse_args()
    reference = None if arguments.alone else build_reference()
    print(f"gRPC: {arguments.connections} connections on loopback, {arguments.rounds} rounds of {arguments.seconds} s, medians "
          "(lowest..highest)", flush=True)
    services, results = [], {}
    with tempfile.TemporaryDirectory(prefix="caudal-bench-") as folder:
        try:
            start_all(arguments.program, reference, folder, services)
            body = record_request(folder)
            for one in services:
                check(one, body)
            told = results["as fast as it goes"] = take_turns(services, arguments, lambda one: saturate(one, body, arguments))
            show("as fast as it goes", told)
            half = {one.name: told[one.name]["a second"]["median"] / 2 for one in services}
            told = results["at half of that"] = take_turns(
                services, arguments, lambda one: pace(one, body, half[one.name], folder, arguments))
            show("at half of that", told)
            for one in services:
                check(one, body)
        finally:
            for one in services:
                one.stop()
    if arguments.json:
        with open(arguments.json, "w", encoding="ascii") as file:
            json.dump({"rounds": arguments.rounds, "seconds": arguments.seconds, "results": results}, file, indent=1)
    if reference is None and not arguments.alone:
        fail("caudal was measured alone")


if __name__ == "__main__":
    main()
