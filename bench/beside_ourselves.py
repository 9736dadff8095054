"""What has no peer, or more than one: policies of many limits, floods of refusals, a hot key that is leased, and logs. For bench/peers.py."""
import argparse
import contextlib
import json
import pathlib
import subprocess

import leases
import replay
from latency import load, saturation
from measuring import in_turns, ratios, start_redis, summaries, summary
from servers import Standing, compared, http

FLOOD_PART = 0.4  # of what the server can do
QUIET_RATE = 1000  # requests a second of those who do nothing wrong


# ---- many limits


def limits_row(kind):
    def measure(arguments):
        told = subprocess.run([arguments.folder + "/bench/policy_speed", str(arguments.rounds), kind], check=True, capture_output=True,
                              text=True)
        row = json.loads(told.stdout)
        sizes = [size for size in row if size != "kind"]
        return {"settings": {"one limit matches, by": kind},
                "measured": {f"{size} limits": {"cpu_ns": summary(row[size])} for size in sizes},
                "ratios": {f"{size} limits": summary([a / b for a, b in zip(row[size], row[sizes[0]])]) for size in sizes[1:]}}
    return measure


# ---- floods


class Flood:
    """Requests of one client at a rate, as long as the block lasts, that are admitted (`open`) or nearly all refused (`tight`). It flows
    at once: what the others are told in the first tenth of their time does not count anyway."""

    def __init__(self, server, share, rate, arguments):
        request = f"GET /check HTTP/1.1\r\nHost: {http.HOST[share]}\r\n\r\n"
        path = pathlib.Path(arguments.scratch, f"flood.{share}")
        path.write_text(request, encoding="ascii")
        self.command = [arguments.folder + "/bench/steady_load", "http", str(server.port), str(path), "16", str(rate), "3600"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def beside(flood, server, arguments):
    """What the others get meanwhile, and what the server spends on all."""
    with flood or contextlib.nullcontext():
        before = server.processor_seconds()
        told = load(server, "http", QUIET_RATE, arguments)
        told["busy"] = (server.processor_seconds() - before) / max(1.0, 3 * arguments.seconds)
    return told


def flood_row(arguments):
    with contextlib.ExitStack() as stack:
        standing = Standing(stack)
        standing.add("caudal", lambda: http.start_ours(arguments.program, arguments.scratch))
        server = standing.servers[0]
        rate = FLOOD_PART * saturation(server, "http", arguments)
        floods = {"nobody floods": None, "a flood is admitted": Flood(server, "open", rate, arguments),
                  "a flood is refused": Flood(server, "tight", rate, arguments)}
        rounds = in_turns(arguments.rounds, {name: lambda flood=flood: beside(flood, server, arguments) for name, flood in floods.items()})
    refused = rounds["a flood is refused"]
    return {"settings": {"flood": f"{rate:.0f} a second", "others": f"{QUIET_RATE} a second"},
            "measured": {name: summaries(results) for name, results in rounds.items()},
            "ratios": {f"{name}; ours is with a refused one": {key: ratios(refused, rounds[name], key) for key in ("p99_us", "busy")}
                       for name in ("nobody floods", "a flood is admitted")}, "missing": standing.missing}


# ---- a hot key


def leased_row(arguments):
    own = argparse.Namespace(folder=arguments.folder, seconds=max(1, round(2 * arguments.seconds)))
    redis = start_redis(str(arguments.scratch))
    try:
        shared = f"redis://127.0.0.1:{redis.port}?deadline=1s"
        url = {"memory": "memory:", "strict": shared, "leased": shared}
        rounds = in_turns(arguments.rounds, {kind: lambda kind=kind: leases.load(own, kind, url) for kind in leases.KINDS})
    finally:
        redis.stop()
    names = {"memory": "in memory", "strict": "in the Redis each time", "leased": "caudal, leased"}
    rounds = {names[kind]: results for kind, results in rounds.items()}
    ours = rounds["caudal, leased"]
    return {"settings": {"one key": "64 questions under way"}, "measured": {name: summaries(results) for name, results in rounds.items()},
            "ratios": {name: {"per_second": ratios(ours, results, "per_second")} for name, results in rounds.items() if results is not ours}}


# ---- logs


def replay_row(arguments):
    lines = 500_000 if arguments.quick else 5_800_000
    log = pathlib.Path(arguments.scratch, "access.log")
    with open(log, "wb") as to:
        subprocess.run([arguments.folder + "/bench/write_log", str(lines), "1000000"], check=True, stdout=to)
    commands = replay.commands(arguments, pathlib.Path(arguments.scratch), log)
    commands["caudal"] = commands.pop("caudal replay")
    rounds = in_turns(min(arguments.rounds, 3), {name: lambda name=name: replay.run(lines, commands[name]) for name in commands})
    return {"settings": {"log": f"{log.stat().st_size / 1e9:.2f} GB, combined format, up to a million clients"},
            "measured": {name: summaries(results) for name, results in rounds.items()},
            "ratios": compared(rounds, ("per_cpu_second", "memory_mb"))}


def rows():
    """{name: what measures it}"""
    return {**{f"limits/{kind}": limits_row(kind) for kind in ("path", "host", "header", "path and method")},
            "flood": flood_row, "leased": leased_row, "replay": replay_row}
