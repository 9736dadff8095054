#!/usr/bin/python3
"""Compares CL.THROTTLE, as `caudal serve` answers it, with a Redis's own SET.

Both run with one worker in the same run and answer redis-benchmark on loopback, with the same connections, the same random keys and the
same pipelining, in turns, A B A B. Told are requests per second, requests per second of the server's processor time (user and system,
from /proc), and the time that a request took as the client saw it, as medians with the lowest and the highest round; and the ratios caudal / redis,
round by round.

    bench/resp.py build/release/src/caudal --json build/release/resp.json

Uses nothing but the standard library, redis-server and redis-benchmark.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import tempfile

from measuring import fail, in_turns, ratios, span, start_caudal, start_redis, summaries

POLICY = "limits:\n  - {name: one, rate: 1/s}\nlisten: {workers: 1}\n"
# Hardly anything is refused; what is costs less.
COMMANDS = {"caudal": ["CL.THROTTLE", "key:__rand_int__", "1000", "1000000", "1", "1"],
            "redis": ["SET", "key:__rand_int__", "xxx"],
            "throttlecrab": ["THROTTLE", "key:__rand_int__", "1000", "1000000", "1"]}  # of bench/servers.py
PIPELINES = {1: 300_000, 16: 4_000_000}  # how many travel together: requests of a round
REACH = {1: 1.3, 16: 2.0}  # what is aimed at: the ratio of requests per second of processor time


def measure(server, pipeline, arguments):
    before = server.processor_seconds()
    count = int(PIPELINES[pipeline] * arguments.share)
    text = subprocess.run(["redis-benchmark", "-p", str(server.port), "-c", str(arguments.connections), "-n", str(count),
                           "-P", str(pipeline), "-r", str(arguments.keys), "--csv", *COMMANDS[server.name]],
                          check=True, capture_output=True, text=True).stdout
    spent = server.processor_seconds() - before
    rows = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))
    if len(rows) != 1:
        fail(f"{server.name}: redis-benchmark says {text}")
    return {"per_second": float(rows[0]["rps"]), "per_cpu_second": count / spent,
            "p50_ms": float(rows[0]["p50_latency_ms"]), "p99_ms": float(rows[0]["p99_latency_ms"])}


def compare(servers, pipeline, arguments):
    results = in_turns(arguments.rounds, {server.name: lambda server=server: measure(server, pipeline, arguments)
                                          for server in servers})
    told = {name: summaries(rounds) for name, rounds in results.items()}
    told["ratio"] = {key: ratios(results["caudal"], results["redis"], key) for key in ("per_second", "per_cpu_second")}
    return told


def show(pipeline, told):
    print(f"\n{pipeline} at a time")
    print(f"  {'':36}{'CL.THROTTLE of caudal':>30}{'SET of redis':>30}{'caudal / redis':>24}")
    for key, title, digits in (("per_second", "requests a second", 0), ("per_cpu_second", "requests a second of processor time", 0),
                               ("p50_ms", "p50 ms", 3), ("p99_ms", "p99 ms", 3)):
        ratio = span(told["ratio"][key], 2) if key in told["ratio"] else ""
        print(f"  {title:36}{span(told['caudal'][key], digits):>30}{span(told['redis'][key], digits):>30}{ratio:>24}")
    reached = told["ratio"]["per_cpu_second"]["median"] >= REACH[pipeline]
    print(f"  of processor time {REACH[pipeline]:.1f} times as many are aimed at: {'reached' if reached else 'NOT reached'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="caudal, as built for release")
    parser.add_argument("--json", help="writes the numbers there, too")
    parser.add_argument("--rounds", type=int, default=7, help="of each server, after a warm-up")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=1, help="of the requests of a round")
    parser.add_argument("--pipeline", type=int, choices=PIPELINES, help="only this many at a time")
    arguments = parser.parse_args()
    print(f"one worker each, {arguments.connections} connections on loopback, {arguments.keys} keys, {arguments.rounds} rounds, "
          "medians (lowest..highest)")
    told = {}
    with tempfile.TemporaryDirectory(prefix="caudal-bench-") as directory:
        servers = [start_caudal("caudal", arguments.program, directory, POLICY, "resp"), start_redis(directory)]
        try:
            for pipeline in [arguments.pipeline] if arguments.pipeline else PIPELINES:
                told[pipeline] = compare(servers, pipeline, arguments)
                show(pipeline, told[pipeline])
        finally:
            for server in servers:
                server.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(told, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
