"""Limiters inside a process, of ours and of other languages, in turns; and how much memory each key takes. For bench/peers.py.

The programs speak the protocol of bench/peers/PROTOCOL.md. All of a row are alive at once, each with its keys in place, and decide one
after the other; those that wait for their turn use no processor."""
import json
import os
import pathlib
import subprocess

from measuring import in_turns, ratios, start_redis, summaries

ROOT = pathlib.Path(__file__).resolve().parent.parent
INSTALLED = ROOT / "build" / "peers"
HERE = ROOT / "bench" / "peers"
WRONG = 0.01  # of the verdicts, at most: a full table may have forgotten a key that it is asked for

# The languages that decide on several threads, in tens of nanoseconds to microseconds; and those that need longer.
FAST = ("x-time-rate", "go-limiter", "governor", "throttlecrab", "limitador", "bucket4j")
SLOW = ("limits", "rate-limiter-flexible")
SINGLE = ("x-time-rate", "governor", "bucket4j")
THROUGH_REDIS = ("redis_rate", "limits", "rate-limiter-flexible")
ORIGIN = {"x-time-rate": "go", "go-limiter": "go", "redis_rate": "go", "governor": "rust", "throttlecrab": "rust",
          "limitador": "rust", "bucket4j": "java", "limits": "python", "rate-limiter-flexible": "node"}


def command_of(name, folder):
    """The program that drives a library: ours by name, with a batch behind a colon."""
    if name.startswith("caudal"):
        batch = name.partition(" batch of ")[2]
        return [folder + "/bench/in_process", *(["--batch", batch] if batch else [])]
    node = INSTALLED / "node" / "node"
    return {
        "go": [INSTALLED / "peers-go", name],
        "rust": [INSTALLED / "peers-rust", name],
        "java": ["java", "-XX:+UseParallelGC", "-Xmx10g", f"-Dpeers.version={java_version()}", "-cp", f"{INSTALLED}/java/*", "Peer", name],
        "python": [INSTALLED / "venv" / "bin" / "python", HERE / "python" / "peer.py", name],
        "node": [node if node.exists() else "node", "--expose-gc", "--max-old-space-size=8192", HERE / "node" / "peer.js", name],
    }[ORIGIN[name]]


def java_version():
    jars = list((INSTALLED / "java").glob("bucket4j*-core-*.jar"))
    return jars[0].stem.rpartition("-")[2] if jars else "unknown"


class WrongVerdicts(RuntimeError):
    """Of a program, which is not to be compared then."""

    def __init__(self, program, part):
        super().__init__(f"{program.name} gave {part['wrong']} wrong verdicts of {part['decisions']}")
        self.program = program


class Program:
    """A limiter in a process of its own, filled and ready."""

    def __init__(self, name, folder, settings):
        words = [word for key, value in settings.items() for word in ((f"--{key}",) if value is True else (f"--{key}", str(value)))]
        command = [*command_of(name, folder), *words]
        environment = {**os.environ, "PEERS_NODE_MODULES": str(INSTALLED / "node")}
        self.name = name
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def wait(self):
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def decide(self):
        """One part."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        part = self.read()
        if part["wrong"] > WRONG * part["decisions"]:
            raise WrongVerdicts(self, part)
        return {"per_second": part["decisions"] / part["seconds"], "cpu_ns": part["cpu_seconds"] * 1e9 / part["decisions"],
                "refused": part["refused"] / part["decisions"], "decisions": part["decisions"]}

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(60)
        self.process.stdout.close()


class Programs:
    """Those of a row. They are made one after the other: making them all at once would not be faster on two processors."""

    def __init__(self, names, folder, settings):
        self.running, self.missing = [], {}
        for name in names:
            try:
                own = {**settings, "draws": 1 << 18} if ORIGIN.get(name) in ("python", "node") and "draws" not in settings else settings
                program = Program(name, folder, own)
                self.running.append(program)
                program.wait()
            except FileNotFoundError:
                self.missing[name] = "it is not installed; see build/peers/installed.json"
            except (OSError, RuntimeError, ValueError) as error:
                self.missing[name] = str(error)
                self.running = [one for one in self.running if one.name != name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.running:
            program.stop()


    def take_turns(self, rounds, decide):
        """All of them. When one gives wrong verdicts, it is told as missing, and the others begin anew."""
        while True:
            try:
                return in_turns(rounds, {one.name: lambda one=one: decide(one) for one in self.running})
            except WrongVerdicts as error:
                self.missing[error.program.name] = str(error)
                self.running.remove(error.program)
                error.program.stop()


def versions(programs):
    return {program.name: program.ready["version"] for program in programs.running}


def compared(rounds, key):
    """Ours against each of the others, round by round."""
    return {name: ratios(rounds["caudal"], others, key) for name, others in rounds.items() if not name.startswith("caudal")}


# ---- rows


def measure_row(names, settings, arguments):
    with Programs(names, arguments.folder, {**settings, "seconds": arguments.seconds}) as programs:
        rounds = programs.take_turns(arguments.rounds, Program.decide)
        return {"settings": settings, "measured": {name: summaries(results) for name, results in rounds.items()},
                "ratios": compared(rounds, "per_second"), "versions": versions(programs), "missing": programs.missing}


def single_row(threads, refused):
    def measure(arguments):
        return measure_row(("caudal", *SINGLE), {"keys": 1, "single": True, "threads": threads, "refused": refused}, arguments)
    return measure


def keyed_row(names, keys, distribution, refused, threads):
    def measure(arguments):
        return measure_row(("caudal", "caudal batch of 16", *names),
                           {"keys": keys, "distribution": distribution, "refused": refused, "threads": threads}, arguments)
    return measure


def memory_row(names, keys):
    """Each program is started anew for each round; all keys are tight, so that each has a state that matters."""
    def measure(arguments):
        settings = {"keys": keys, "refused": 100, "draws": 1, "seconds": 0.01}
        rounds, missing, told = {}, {}, {}
        for _ in range(min(arguments.rounds, 3)):
            for name in ("caudal", *names):
                with Programs([name], arguments.folder, settings) as programs:
                    missing.update(programs.missing)
                    told.update(versions(programs))
                    for program in programs.running:
                        grown = program.ready["rss_after"] - program.ready["rss_before"]
                        rounds.setdefault(name, []).append({"bytes_per_key": grown / keys})
        return {"settings": settings, "measured": {name: summaries(results) for name, results in rounds.items()},
                "ratios": compared(rounds, "bytes_per_key"), "versions": told, "missing": missing}
    return measure


def redis_row(names, settings):
    """All share one server, one after the other; what it spends on a decision is told too."""
    def measure(arguments):
        redis = start_redis(str(arguments.scratch))
        try:
            store = {**settings, "store": f"redis://127.0.0.1:{redis.port}", "seconds": arguments.seconds}
            with Programs(names, arguments.folder, store) as programs:
                def decide(program):
                    before = redis.processor_seconds()
                    part = program.decide()
                    part["store_cpu_us"] = (redis.processor_seconds() - before) * 1e6 / part["decisions"]
                    return part
                rounds = programs.take_turns(arguments.rounds, decide)
                return {"settings": settings, "measured": {name: summaries(results) for name, results in rounds.items()},
                        "ratios": compared(rounds, "per_second"), "store_ratios": compared(rounds, "store_cpu_us"),
                        "versions": versions(programs), "missing": programs.missing}
        finally:
            redis.stop()
    return measure


def rows():
    """{name: what measures it}. A row is named after its section and settings."""
    told = {f"single/{refused} %/{threads}": single_row(threads, refused) for refused, threads in ((0, 1), (0, 2), (100, 2))}
    for keys, distribution, refused, threads in (
            (1000, "uniform", 0, 1), (1000, "uniform", 0, 2), (1000, "zipf", 90, 2), (1000000, "uniform", 0, 1), (1000000, "uniform", 0, 2),
            (1000000, "uniform", 10, 2), (1000000, "uniform", 90, 2), (1000000, "zipf", 0, 2), (1000000, "zipf", 90, 2),
            (10000000, "uniform", 0, 2), (10000000, "zipf", 10, 2)):
        names = [name for name in FAST if name != "limitador" or keys < 10000000]
        told[f"keyed/{keys}/{distribution}/{refused} %/{threads}"] = keyed_row(names, keys, distribution, refused, threads)
    for keys, refused in ((1000, 0), (1000, 90), (1000000, 0)):
        told[f"one thread/{keys}/uniform/{refused} %"] = keyed_row(SLOW, keys, "uniform", refused, 1)
    told["memory/10000000"] = memory_row([name for name in FAST if name != "limitador"], 10000000)
    told["memory/1000000"] = memory_row((*FAST, *SLOW), 1000000)
    for refused in (0, 90):
        settings = {"keys": 10000, "distribution": "zipf", "refused": refused, "threads": 32}
        told[f"redis/{refused} %"] = redis_row(("caudal", "caudal batch of 16", *THROUGH_REDIS), settings)
    return told
