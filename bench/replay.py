#!/usr/bin/python3
"""Measures how fast a policy is tried on a log, beside programs that only count the same file.

A log of about 1 GB in the combined format is generated (write_log.c: stamps of a second, some lines out of order), and read in turns by

    caudal replay     the whole: parsed, put in order, decided, studied with bounds, and reported as JSON
    reader            log_reader_speed: parsed and put in order, and nothing else
    goaccess          its report as JSON, of the log's first lines: all of them take it minutes
    awk               requests counted by client: {n[$1]++}

each on one processor (taskset). Told are lines per second of processor time and of the clock, and the most memory, as medians with the
lowest and the highest round.

    bench/replay.py build/release --json build/release/replay.json

Uses nothing but the standard library, goaccess, awk and taskset.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import time

from measuring import fail, in_turns, ratios, span, summaries

POLICY = "limits:\n  - {name: per-client, per: client_ip, rate: 30/min burst 10}\n"
GOACCESS_LINES = 300_000
COUNT = "{ n[$1]++ } END { for (client in n) clients++; print NR, clients }"


def run(lines, command):
    """What a program takes to read the log, on one processor."""
    if command[0] == "goaccess":
        lines = min(lines, GOACCESS_LINES)
    begin = time.monotonic()
    with subprocess.Popen(["taskset", "-c", "0", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        told = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        fail(f"{command[0]}: status {process.returncode}: {told.decode(errors='replace')}")
    return {"per_cpu_second": lines / (usage.ru_utime + usage.ru_stime), "per_second": lines / (time.monotonic() - begin),
            "memory_mb": usage.ru_maxrss / 1024}


def commands(arguments, folder, log):
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="ascii")
    head = folder / "head.log"
    with open(log, "rb") as of, open(head, "wb") as to:
        to.writelines(itertools.islice(of, GOACCESS_LINES))
    return {
        "caudal replay": [f"{arguments.folder}/src/caudal", "replay", policy, log, "--json", "-", "--quiet"],
        "reader": [f"{arguments.folder}/bench/log_reader_speed", log],
        "goaccess": ["goaccess", head, "--log-format=COMBINED", "--no-progress", "-o", folder / "goaccess.json"],
        "awk": ["awk", COUNT, log],
    }


def show(told, names):
    print(f"\n{'':<16}{'lines / s of CPU':>38}{'lines / s':>38}{'memory, MB':>24}")
    for name in names:
        row = told[name]
        print(f"  {name:<14}{span(row['per_cpu_second'], 0):>38}{span(row['per_second'], 0):>38}{span(row['memory_mb'], 0):>24}")
    for name in names[1:]:
        print(f"  caudal replay / {name}: {span(told['caudal replay / ' + name], 2)} of its lines per second of CPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="a release build")
    parser.add_argument("--json", help="writes the numbers there, too")
    parser.add_argument("--rounds", type=int, default=3, help="of each, after a warm-up")
    parser.add_argument("--lines", type=int, default=5_800_000, help="in the log, of 180 bytes each")
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--without", action="append", default=[], help="a program that is not to be run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="caudal-bench-") as name:
        folder = pathlib.Path(name)
        log = folder / "access.log"
        with open(log, "wb") as to:
            subprocess.run([f"{arguments.folder}/bench/write_log", str(arguments.lines), str(arguments.clients)], check=True, stdout=to)
        print(f"{arguments.lines} lines, {log.stat().st_size / 1e9:.2f} GB, up to {arguments.clients} clients, "
              f"{arguments.rounds} rounds, medians (lowest..highest)", flush=True)
        chosen = {key: value for key, value in commands(arguments, folder, log).items() if key not in arguments.without}
        rounds = in_turns(arguments.rounds, {key: lambda key=key: run(arguments.lines, chosen[key]) for key in chosen})
    told = {key: summaries(results) for key, results in rounds.items()}
    for key in list(chosen)[1:]:
        told[f"caudal replay / {key}"] = ratios(rounds["caudal replay"], rounds[key], "per_cpu_second")
    show(told, list(chosen))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(told, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
