#!/usr/bin/python3
"""Compares one hot key that is leased with the same key decided in the store each time, and with a store in memory.

A redis-server, and two ways to ask, in turns within one run:

    in the process   lease_load, the client that a worker has, without HTTP around it: 64 calls under way
    over HTTP        `caudal serve` with one worker, and wrk on /check

Told are decisions per second, as medians with the lowest and the highest round, and the ratio leased / strict, round by round; how often
the store was asked for a decision; and the 99th percentile of a decision, in the process of those made within the call, over HTTP of
caudal_request_duration_seconds (between two of its bounds as if they were spread evenly), leased / memory.

    bench/leases.py build/release --json build/release/leases.json

Uses nothing but the standard library, redis-server and wrk.
"""
import argparse
import json
import pathlib
import re
import socket
import subprocess
import tempfile

from measuring import fail, in_turns, ratios, span, start_caudal, start_redis, summaries

LIMIT = "1000000000/s burst 100000000"  # so much that hardly anything is refused
TTL_MS = 100
POLICY = "store: {{url: '{url}', deadline: 1s}}\nlimits:\n  - {{name: hot, rate: {limit}, sharing: {sharing}}}\nlisten: {{workers: 1}}\n"
KINDS = ("memory", "strict", "leased")


# ---- in the process


def load(arguments, kind, url):
    command = [f"{arguments.folder}/bench/lease_load", url[kind], LIMIT, str(TTL_MS if kind == "leased" else 0),
               str(arguments.seconds)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds, (decisions, _, _, _, calls, _, p99) = float(words[0]), map(int, words[1:])
    return {"per_second": decisions / seconds, "p99_us": p99 / 1000,
            "calls": calls / decisions if kind == "leased" else float(kind == "strict")}


# ---- over HTTP


def start(arguments, folder, kind, url):
    policy = POLICY.format(url=url[kind], limit=LIMIT, sharing="leased" if kind == "leased" else "strict")
    return start_caudal(kind, f"{arguments.folder}/src/caudal", folder, policy, "http")


def metrics(server):
    with socket.create_connection(("127.0.0.1", server.admin), 10) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()


def durations_of(server):
    found = re.findall(r'caudal_request_duration_seconds_bucket\{le="([^"]+)"\} (\d+)', metrics(server))
    return {float(bound.replace("+Inf", "inf")): int(count) for bound, count in found}


def store_calls(server):
    found = re.search(r"^caudal_lease_store_calls_total (\d+)", metrics(server), re.MULTILINE)
    return int(found[1]) if found else 0


def percentile_us(before, after, part):
    """Between the two bounds, as if evenly spread."""
    bounds = sorted(after)
    counts = [after[bound] - before.get(bound, 0) for bound in bounds]
    wanted, below, under = part * counts[-1], 0.0, 0
    for bound, count in zip(bounds, counts):
        if count >= wanted:
            return (below + (bound - below) * (wanted - under) / (count - under)) * 1e6
        below, under = bound, count
    return bounds[-2] * 1e6


def serve(arguments, server, kind):
    durations, calls = durations_of(server), store_calls(server)
    text = subprocess.run(["wrk", "-t", "1", "-c", "64", "-d", f"{arguments.seconds}s", f"http://127.0.0.1:{server.port}/check"],
                          check=True, capture_output=True, text=True).stdout
    requests = int(re.search(r"(\d+) requests in", text)[1])
    if "Socket errors" in text:
        fail(f"{kind}: {text}")
    return {"per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "p99_us": percentile_us(durations, durations_of(server), 0.99),
            "calls": (store_calls(server) - calls) / requests if kind == "leased" else float(kind == "strict")}


# ---- rounds


def compare(arguments, measure):
    rounds = in_turns(arguments.rounds, {kind: lambda kind=kind: measure(kind) for kind in KINDS})
    told = {kind: summaries(results) for kind, results in rounds.items()}
    told["leased / strict"] = ratios(rounds["leased"], rounds["strict"], "per_second")
    told["p99 leased / memory"] = ratios(rounds["leased"], rounds["memory"], "p99_us")
    return told


def show(title, told):
    print(f"\n{title:<16}{'decisions a second':>36}{'store calls a decision':>34}{'p99 us':>26}")
    for kind in KINDS:
        row = told[kind]
        print(f"  {kind:<14}{span(row['per_second'], 0):>36}{span(row['calls'], 5):>34}{span(row['p99_us'], 3):>26}")
    print(f"  leased / strict {span(told['leased / strict'], 1)}, p99 leased / memory {span(told['p99 leased / memory'], 2)}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="a release build")
    parser.add_argument("--json", help="writes the numbers there, too")
    parser.add_argument("--rounds", type=int, default=5, help="of each, after a warm-up")
    parser.add_argument("--seconds", type=int, default=2, help="a round")
    arguments = parser.parse_args()
    print(f"one hot key, leased for {TTL_MS} ms, {arguments.rounds} rounds of {arguments.seconds} s, medians (lowest..highest)")
    with tempfile.TemporaryDirectory(prefix="caudal-bench-") as folder:
        redis, servers = start_redis(folder), {}
        try:
            shared = f"redis://127.0.0.1:{redis.port}"
            url = {"memory": "memory:", "strict": shared, "leased": shared}
            told = {"in the process": compare(arguments, lambda kind: load(
                arguments, kind, {name: f"{at}?deadline=1s" if name != "memory" else at for name, at in url.items()}))}
            show("in the process", told["in the process"])
            servers = {kind: start(arguments, folder, kind, url) for kind in KINDS}
            told["over HTTP"] = compare(arguments, lambda kind: serve(arguments, servers[kind], kind))
            show("over HTTP", told["over HTTP"])
        finally:
            for server in (*servers.values(), redis):
                server.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(told, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
