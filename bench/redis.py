#!/usr/bin/python3
"""Compares the script that decides in a Redis with what it could cost at least, and with what others run there.

All scripts run in one redis-server, called by redis_load through EVALSHA with the same keys and the same pipelining, in turns.
Told are calls per second and the processor time of the server for one call (user and system, from /proc), as medians with the
lowest and the highest round, and the ratio of calls per second, round by round.

    floor    GET and SET of 33 bytes, no arithmetic, no expiry
    expiring GET and SET … PX: a floor for records that go away by themselves
    hash     a token bucket as it is commonly written: TIME, HMGET, floating-point arithmetic on two fields, HSET, EXPIRE

    bench/redis.py build/release/bench --json build/release/redis.json

Uses nothing but the standard library, redis-server and redis-cli.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

from measuring import in_turns, ratios, start_redis, summaries

LIMITS = {"bucket": "1000/s burst 1000000", "sliding window": "1000000/min sliding_window",
          "sliding log": "10000/s sliding_log"}

FLOOR = "local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[3]) return v"
EXPIRING = "local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[3], 'PX', 60000) return v"
HASH = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local rate, burst, cost = 1000, 1000000, 1
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', tostring(now))
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) + 1)
return {allowed and 1 or 0, math.floor(tokens)}
"""


def measure(server, folder, pipeline, arguments):
    subprocess.run(["redis-cli", "-p", str(server.port), "FLUSHALL"], check=True, capture_output=True)
    before = server.processor_seconds()
    load = [arguments.folder + "/redis_load", str(server.port), folder, str(pipeline), str(arguments.calls), str(arguments.keys)]
    took = float(subprocess.run(load, check=True, capture_output=True, text=True).stdout)
    return {"per_second": arguments.calls / took,
            "cpu_us": (server.processor_seconds() - before) * 1e6 / arguments.calls}


def compare(server, calls, pipeline, arguments):
    rounds = in_turns(arguments.rounds, {name: lambda folder=folder: measure(server, folder, pipeline, arguments)
                                         for name, folder in calls.items()})
    told = {name: summaries(results) for name, results in rounds.items()}
    for name, results in rounds.items():
        told[name]["of the floor"] = ratios(results, rounds["floor"], "per_second")
    return told


def write_calls(arguments, folder):
    """A folder for each script, with its text and its last argument."""
    calls = {}
    for name, text in (("floor", FLOOR), ("expiring", EXPIRING), ("hash", HASH)):
        path = folder / name
        path.mkdir()
        (path / "script.lua").write_text(text, encoding="ascii")
        (path / "question").write_bytes(b"x" * 33)
        calls[name] = str(path)
    for name, limit in LIMITS.items():
        path = folder / name
        path.mkdir()
        subprocess.run([arguments.folder + "/redis_question", limit, path], check=True)
        calls[name] = str(path)
    return calls


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="bench/ of a release build, with redis_load and redis_question")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=150000)
    parser.add_argument("--keys", type=int, default=10000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_redis(folder)
        try:
            calls = write_calls(arguments, pathlib.Path(folder))
            told = {f"pipeline {pipeline}": compare(server, calls, pipeline, arguments) for pipeline in (1, 16)}
        finally:
            server.stop()
    for pipeline, rows in told.items():
        print(f"\n{pipeline:<16} {'calls/s':>9} {'us of CPU':>10} {'of the floor':>24}")
        for name, row in rows.items():
            ratio = row["of the floor"]
            print(f"{name:<16} {row['per_second']['median']:>9.0f} {row['cpu_us']['median']:>10.2f} "
                  f"{ratio['median']:>8.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f})")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(told, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
