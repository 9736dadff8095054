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
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = "1000000000/s burst 100000000"  # so much that hardly anything is refused
TTL_MS = 100
POLICY = "store: {{url: '{url}', deadline: 1s}}\nlimits:\n  - {{name: hot, rate: {limit}, sharing: {sharing}}}\nlisten: {{workers: 1}}\n"
KINDS = ("memory", "strict", "leased")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"leases.py: nobody answers on port {port}")


# ---- in the process


def load(arguments, kind, url):
    command = [f"{arguments.folder}/bench/lease_load", url[kind], LIMIT, str(TTL_MS if kind == "leased" else 0),
               str(arguments.seconds)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds, (decisions, _, _, _, calls, _, p99) = float(words[0]), map(int, words[1:])
    return {"per_second": decisions / seconds, "p99_us": p99 / 1000,
            "calls": calls / decisions if kind == "leased" else float(kind == "strict")}


# ---- over HTTP


class Server:
    def __init__(self, arguments, folder, kind, url):
        self.port, self.admin = free_port(), free_port()
        path = pathlib.Path(folder) / f"{kind}.yaml"
        path.write_text(POLICY.format(url=url[kind], limit=LIMIT, sharing="leased" if kind == "leased" else "strict"),
                        encoding="ascii")
        self.process = subprocess.Popen([f"{arguments.folder}/src/caudal", "serve", path, "--http", f"127.0.0.1:{self.port}",
                                         "--admin", f"127.0.0.1:{self.admin}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port)

    def metrics(self):
        with socket.create_connection(("127.0.0.1", self.admin), 10) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()

    def durations(self):
        found = re.findall(r'caudal_request_duration_seconds_bucket\{le="([^"]+)"\} (\d+)', self.metrics())
        return {float(bound.replace("+Inf", "inf")): int(count) for bound, count in found}

    def store_calls(self):
        found = re.search(r"^caudal_lease_store_calls_total (\d+)", self.metrics(), re.MULTILINE)
        return int(found[1]) if found else 0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        self.process.send_signal(signal.SIGTERM)  # it drains at the first
        self.process.wait(10)


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
    durations, calls = server.durations(), server.store_calls()
    text = subprocess.run(["wrk", "-t", "1", "-c", "64", "-d", f"{arguments.seconds}s", f"http://127.0.0.1:{server.port}/check"],
                          check=True, capture_output=True, text=True).stdout
    requests = int(re.search(r"(\d+) requests in", text)[1])
    if "Socket errors" in text:
        sys.exit(f"leases.py: {kind}: {text}")
    return {"per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "p99_us": percentile_us(durations, server.durations(), 0.99),
            "calls": (server.store_calls() - calls) / requests if kind == "leased" else float(kind == "strict")}


# ---- rounds


def summary(values):
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def compare(arguments, measure):
    rounds = {kind: [] for kind in KINDS}
    for number in range(arguments.rounds + 1):
        for kind in KINDS:
            result = measure(kind)
            if number > 0:  # the first is a warm-up
                rounds[kind].append(result)
    told = {kind: {key: summary([r[key] for r in results]) for key in results[0]} for kind, results in rounds.items()}
    told["leased / strict"] = summary([a["per_second"] / b["per_second"]
                                       for a, b in zip(rounds["leased"], rounds["strict"])])
    told["p99 leased / memory"] = summary([a["p99_us"] / b["p99_us"] for a, b in zip(rounds["leased"], rounds["memory"])])
    return told


def span(value, digits):
    return f"{value['median']:.{digits}f} ({value['lowest']:.{digits}f}..{value['highest']:.{digits}f})"


def show(title, told):
    print(f"\n{title:<16}{'decisions a second':>36}{'store calls a decision':>34}{'p99 us':>26}")
    for kind in KINDS:
        row = told[kind]
        print(f"  {kind:<14}{span(row['per_second'], 0):>36}{span(row['calls'], 5):>34}{span(row['p99_us'], 3):>26}")
    print(f"  leased / strict {span(told['leased / strict'], 1)}, p99 leased / memory {span(told['p99 leased / memory'], 2)}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="a release build")
    parser.add_argument("--json", help="writes the numbers there, too")
    parser.add_argument("--rounds", type=int, default=5, help="of each, after a warm-up")
    parser.add_argument("--seconds", type=int, default=2, help="a round")
    arguments = parser.parse_args()
    print(f"one hot key, leased for {TTL_MS} ms, {arguments.rounds} rounds of {arguments.seconds} s, medians (lowest..highest)")
    with tempfile.TemporaryDirectory(prefix="caudal-bench-") as folder:
        port, servers = free_port(), {}
        redis = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--dir", folder],
                                 stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            url = {"memory": "memory:", "strict": f"redis://127.0.0.1:{port}", "leased": f"redis://127.0.0.1:{port}"}
            told = {"in the process": compare(arguments, lambda kind: load(
                arguments, kind, {name: f"{at}?deadline=1s" if name != "memory" else at for name, at in url.items()}))}
            show("in the process", told["in the process"])
            servers = {kind: Server(arguments, folder, kind, url) for kind in KINDS}
            told["over HTTP"] = compare(arguments, lambda kind: serve(arguments, servers[kind], kind))
            show("over HTTP", told["over HTTP"])
        finally:
            for server in servers.values():
                server.stop()
            redis.kill()
            redis.wait()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(told, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
