#!/usr/bin/python3
"""Measures caudal beside what people would use instead, and writes bench/RESULTS.md.

    bench/peers.py build/release                    everything, some twenty minutes
    bench/peers.py build/release --only memory      the rows whose names begin so; the others stay as they were measured
    bench/peers.py build/release --quick            few and short rounds, nothing of 10 million keys: to see that all of it works
    bench/peers.py build/release --list             names of rows
    bench/peers.py build/release --render           the page, from what was measured before

bench/peers/install.sh installs the peers. Within a row all take turns, A B A B, after a warm-up. What a row measured is kept in
build/peers/results.json as soon as it is there, and the page is made from that, so that one row can be measured again by itself.

    in_process.py   limiters in a process, through a Redis, and their memory
    servers.py      servers over RESP, HTTP and gRPC, and what they need to stand there
    latency.py      how long an answer takes at a fixed load
    beside_ourselves.py   many limits, floods, a leased key, logs
    page.py         the page
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import beside_ourselves
import in_process
import latency
import page
import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "peers" / "results.json"
PAGE = ROOT / "bench" / "RESULTS.md"


def first_line(*command):
    try:
        told = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return "not there"
    return next((line for line in (told.stdout + told.stderr).splitlines() if line.strip()), "says nothing")


def machine():
    """What the numbers depend on."""
    cpu = next((line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                if line.startswith("model name")), "unknown")
    memory = int(pathlib.Path("/proc/meminfo").read_text(encoding="ascii").split()[1]) / (1 << 20)
    release = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    return {"processor": f"{cpu}, {os.cpu_count()} of them", "memory": f"{memory:.0f} GiB", "system": f"{release}, Linux {platform.release()}"}


def tool_versions(program):
    commands = {"caudal": (program, "--version"), "gcc": ("gcc", "--version"), "go": ("go", "version"), "rustc": ("rustc", "--version"),
                "java": ("java", "-version"), "node": ("node", "--version"), "python": (sys.executable, "--version"),
                "redis": ("redis-server", "--version"), "nginx": ("/usr/sbin/nginx", "-v"), "haproxy": ("/usr/sbin/haproxy", "-v")}
    return {name: first_line(*command) for name, command in commands.items()}


def commit():
    return first_line("git", "-C", str(ROOT), "describe", "--always", "--dirty")


def load_average():
    return round(os.getloadavg()[0], 1)


def read_results():
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"rows": {}}


def write_results(results):
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def measure_all(rows, arguments):
    """Returns the names of rows that could not be measured."""
    results, failed = read_results(), []
    results.update({"machine": machine(), "tools": tool_versions(arguments.program), "commit": commit()})
    for name, measure in rows.items():
        began, load = time.monotonic(), load_average()
        with tempfile.TemporaryDirectory(prefix="caudal-bench-") as arguments.scratch:
            try:
                row = measure(arguments)
            except (OSError, RuntimeError, SystemExit, subprocess.CalledProcessError) as error:
                print(f"{name}: {error}", flush=True)
                failed.append(name)
                continue
        row.update({"rounds": arguments.rounds, "seconds": arguments.seconds, "load_before": load,
                    "day": time.strftime("%Y-%m-%d"), "commit": results["commit"]})
        results["rows"][name] = row
        write_results(results)
        print(f"{name}  ({time.monotonic() - began:.0f} s)\n{page.as_text(row)}", flush=True)
    return failed


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="a release build")
    parser.add_argument("--rounds", type=int, default=5, help="of each, after a warm-up")
    parser.add_argument("--seconds", type=float, default=0.6, help="a round in the process; of servers it lasts twice as long or more")
    parser.add_argument("--only", default="", help="rows whose names begin so")
    parser.add_argument("--quick", action="store_true", help="few and short rounds, no more than 1 million keys")
    parser.add_argument("--list", action="store_true", help="names of rows")
    parser.add_argument("--render", action="store_true", help="only writes the page")
    arguments = parser.parse_args()
    arguments.program = arguments.folder + "/src/caudal"
    arguments.share = 1.0  # of the requests that redis-benchmark sends in a round
    if arguments.quick:
        arguments.rounds, arguments.seconds, arguments.share = min(arguments.rounds, 2), 0.2, 0.1
    return arguments


def main():
    arguments = read_arguments()
    rows = {**in_process.rows(), **servers.rows(), **latency.rows(), **beside_ourselves.rows()}
    order = list(rows)
    rows = {name: measure for name, measure in rows.items()
            if name.startswith(arguments.only) and not (arguments.quick and "10000000" in name)}
    if arguments.list:
        print("\n".join(rows))
        return
    failed = [] if arguments.render else measure_all(rows, arguments)
    results = read_results()
    results["rows"] = {name: results["rows"][name] for name in order if name in results["rows"]}
    PAGE.write_text(page.render(results, in_process.INSTALLED / "installed.json"), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    if failed:
        sys.exit(f"peers.py: could not be measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
