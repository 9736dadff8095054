#!/usr/bin/env python3
"""Builds and tests caudal. The one place that knows the stages.

    python3 tests/run.py                  the stages of `check`
    python3 tests/run.py check-long       more of everything, and more machines; takes an hour
    python3 tests/run.py gates asan       these stages
    python3 tests/run.py --list           their names

Every test is counted by its own name: a case of a unit test, a property, a fuzz target. A test that is skipped has failed,
and so has a stage that ran no test. What the commands printed is under build/logs/, one file a stage; failures are shown
in full. The last line is always "N passed, N failed". Only the standard library is used, so that any python3 will do.

Environment: FUZZ_SECONDS, how long each fuzz target runs.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
CORES = len(os.sched_getaffinity(0))
START = time.monotonic()

# How each build is set up: the compiler, and what differs from the project's defaults.
TESTS = "-Dtests=enabled"
STRICT = "-Dwerror=true"  # `make build` is not strict, and shares build/release
DEBUG = ["-Dbuildtype=debug", "-Doptimization=1"]
ASAN = ["-Db_sanitize=address,undefined", "-Db_lundef=false"]  # clang links the runtime into programs only
BUILDS = {
    "asan": ("gcc", [TESTS, *DEBUG, *ASAN]),
    "tsan": ("gcc", [TESTS, *DEBUG, "-Db_sanitize=thread"]),
    "release": ("gcc", [TESTS, STRICT, "-Dbuildtype=release", "-Dprefix=/usr/local"]),
    "uring": ("gcc", [TESTS, *DEBUG, *ASAN, "-Dio_uring=enabled"]),
    "clang": ("clang", [TESTS, *DEBUG, *ASAN]),
    "fuzz": ("clang", ["-Dtests=disabled", "-Dfuzzers=true", *DEBUG, *ASAN]),
    # Its server decides by a clock that tests set. Only the program is made.
    "clock": ("gcc", ["-Dtests=disabled", STRICT, "-Dbuildtype=plain", "-Doptimization=1", "-Dtest_clock=true"]),
    "aarch64": (None, [TESTS, "-Dbuildtype=debugoptimized", "--cross-file", "cross/aarch64.ini"]),
}

# A sanitizer's finding ends the program with an error, whatever the program itself would have said.
SANITIZER_ENV = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}

_print_lock = threading.Lock()
_children = set()  # process groups that are running, to be ended with us


class StageError(Exception):
    """A stage cannot go on: a command that everything else needs has failed. The text says which."""


def say(text):
    with _print_lock:
        print(f"[{time.monotonic() - START:4.0f} s] {text}", flush=True)


class Stage:
    """One stage while it runs: its log, what passed and what failed."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failures = []  # (name of the test, what it printed)
        self._lock = threading.Lock()
        self._log = open(LOGS / f"{name}.log", "w", encoding="utf-8")

    def record(self, name, problem=None):
        """Counts one test; `problem` is what to show when it failed."""
        with self._lock:
            if problem is None:
                self.passed += 1
            else:
                self.failures.append((name, problem))
            self._log.write(f"{'ok' if problem is None else 'not ok'} - {name}\n")

    def run(self, *command, env=None, timeout=1800):
        """Runs a command from the root of the tree and returns (exit status, all that it printed)."""
        command = [str(word) for word in command]
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        _children.add(process.pid)
        try:
            output, _ = process.communicate(timeout=timeout)
            note = ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            note = f"\nended after {timeout} s\n"
        _children.discard(process.pid)
        text = output.decode("utf-8", "replace") + note
        with self._lock:
            self._log.write(f"$ {shlex.join(command)}\n{text}\nexit status {process.returncode}\n\n")
            self._log.flush()
        return process.returncode, text

    def must(self, *command, env=None):
        """Runs a command without which the stage has no meaning."""
        status, text = self.run(*command, env=env)
        if status != 0:
            raise StageError(f"exit status {status}: {shlex.join(str(word) for word in command)}\n{text}")
        return text

    def test_command(self, name, *command, env=None, timeout=1800):
        """Runs a command that is one test."""
        status, text = self.run(*command, env=env, timeout=timeout)
        self.record(name, None if status == 0 else f"exit status {status}\n{text}")

    def record_tap(self, title, text, status):
        """Counts each test of a program that printed TAP and ended with `status`."""
        tests, problems = parse_tap(text)
        if status != 0 and not problems and all(passed for _, passed in tests):
            problems.append(f"exit status {status}")
        if not tests and not problems:
            problems.append("ran no test")
        shown = False  # what the program printed is shown with its first failure only
        for name, passed in tests:
            self.record(f"{title}: {name}", None if passed else ("see above" if shown else text))
            shown = shown or not passed
        for problem in problems:
            self.record(f"{title}: {problem}", "see above" if shown else text)
            shown = True

    def close(self):
        self._log.close()


TAP_TEST = re.compile(r"^(not )?ok\b[ \t]*\d*[ \t]*(?:-[ \t]*)?(.*)$", re.MULTILINE)
TAP_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)


def parse_tap(text):
    """([(name, passed)], [problem]) of a program's output. A program may print several plans, one a group of tests."""
    tests, problems = [], []
    for match in TAP_TEST.finditer(text):
        failed, name = match.groups()
        skipped = re.search(r"#\s*(skip|todo)\b", name, re.IGNORECASE)
        tests.append((name + (" (a skip is a failure)" if skipped else ""), not failed and not skipped))
    planned = sum(int(count) for count in TAP_PLAN.findall(text))
    if planned != len(tests):
        problems.append(f"planned {planned} tests and ran {len(tests)}")
    if re.search(r"^Bail out!", text, re.MULTILINE):
        problems.append("bailed out")
    return tests, problems


# ---------------------------------------------------------------------------------------------------------- builds

_build_locks = {name: threading.Lock() for name in BUILDS}
_build_results = {}  # name: None when it stands, else why not


def build(stage, name):
    """Sets up and compiles build/NAME, once for all stages that need it, and returns the folder."""
    with _build_locks[name]:
        if name not in _build_results:
            say(f"{stage.name}: compiling build/{name}")
            try:
                compile_build(stage, name)
                _build_results[name] = None
            except StageError as error:
                _build_results[name] = str(error)
                raise
        elif _build_results[name] is not None:
            raise StageError(f"build/{name} was not made; see the stage that tried")
    return BUILD / name


def compile_build(stage, name):
    compiler, options = BUILDS[name]
    folder = BUILD / name
    known = ["--reconfigure"] if (folder / "build.ninja").exists() else []
    stage.must("meson", "setup", *known, *options, folder, env={"CC": compiler} if compiler else {})
    targets = {"clock": lambda: ["src/caudal"], "tsan": lambda: concurrency_programs(stage, folder)}
    stage.must("ninja", "-C", folder, "-j", CORES, *targets.get(name, list)())


def concurrency_programs(stage, folder):
    """What ThreadSanitizer is for: the rest need not be compiled once more."""
    tests = json.loads(stage.must("meson", "introspect", "--tests", folder))
    return sorted({os.path.relpath(test["cmd"][0], folder) for test in tests
                   if any(suite.endswith("concurrency") for suite in test["suite"])})


_venv_lock = threading.Lock()


def venv_python(stage):
    """The python of build/venv, with the packages of tests/requirements.txt."""
    with _venv_lock:
        stage.must("scripts/make-venv.sh")
    return BUILD / "venv" / "bin" / "python"


def node_packages(stage):
    """build/node, with the packages of tests/e2e/node."""
    venv_python(stage)
    with _venv_lock:
        stage.must("scripts/make-node.sh")


def meson_tests(stage, name, *suites, wrapper=(), slowness=1):
    """Runs the tests of a build, all or those of some suites, and counts each case of each program."""
    folder = build(stage, name)
    log = folder / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    command = [*wrapper, "meson", "test", "-C", folder, "--no-rebuild", "--num-processes", CORES,
               "--timeout-multiplier", slowness]
    for suite in suites:
        command += ["--suite", suite]
    say(f"{stage.name}: running the tests of build/{name}")
    status, text = stage.run(*command, env=SANITIZER_ENV, timeout=1800 * slowness)
    programs = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    failures_before = len(stage.failures)
    for program in programs:
        record_program(stage, program)
    if status != 0 and len(stage.failures) == failures_before:
        stage.record("meson test", f"exit status {status}\n{text}")


def record_program(stage, program):
    """Counts what one entry of meson's testlog.json tells."""
    good = program["result"] == "OK"
    printed = (program.get("stdout") or "") + (program.get("stderr") or "")
    if TAP_TEST.search(printed) or TAP_PLAN.search(printed):
        stage.record_tap(program["name"], printed, 0 if good else f"{program['returncode']}, {program['result']}")
    else:
        stage.record(program["name"], None if good else f"{program['result']}\n{printed}")


# ---------------------------------------------------------------------------------------------------------- stages


def gates(stage):
    venv_python(stage)  # the format gate wants its clang-format
    for script in sorted((ROOT / "tests" / "gates").glob("[a-z]*.py")):
        if script.name != "tidy.py":  # has a stage of its own, since it needs a build
            run_gate(stage, script)


def run_gate(stage, script):
    status, text = stage.run(sys.executable, script)
    stage.record_tap(script.stem, text, status)


def asan(stage):
    meson_tests(stage, "asan")


def tidy(stage):
    build(stage, "asan")
    run_gate(stage, ROOT / "tests" / "gates" / "tidy.py")


def tsan(stage):
    # ThreadSanitizer wants its memory where some kernels put other things, unless addresses are not randomized.
    fixed = subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0
    meson_tests(stage, "tsan", "concurrency", wrapper=["setarch", "-R"] if fixed else [])


def release(stage):
    meson_tests(stage, "release")


def run_pytest(stage, build_name, env, tests="tests/property", arguments=()):
    folder = build(stage, build_name)
    python = venv_python(stage)
    report = LOGS / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    env = {"CAUDAL_LIBRARY": str(folder / "src" / "libcaudal.so"), "CAUDAL_BINARY": str(folder / "src" / "caudal"),
           "CAUDAL_DOOR": str(folder / "tests" / "libper_call_door.so"), "PYTHONDONTWRITEBYTECODE": "1", **env}
    say(f"{stage.name}: running {tests} on build/{build_name}")
    status, text = stage.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                             *arguments, tests, env=env, timeout=3600)
    for note in re.findall(r"^NOTE: .*$", text, re.MULTILINE):
        say(f"{stage.name}: {note}")
    failures_before = len(stage.failures)
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            bad = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
            name = f"{case.get('classname')}.{case.get('name')}"
            stage.record(name, None if bad is None else f"{bad.tag}: {bad.get('message')}\n{bad.text or ''}")
    if status != 0 and len(stage.failures) == failures_before:
        stage.record("pytest", f"exit status {status}\n{text}")


def property_release(stage):
    run_pytest(stage, "release", {})


def property_asan(stage):
    # The library is loaded into a python that was built without the sanitizer, so its runtime must come first.
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    run_pytest(stage, "asan", {**SANITIZER_ENV, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0",
                               "CAUDAL_PROPERTY_PROFILE": "quick"})


def cli(stage):
    run_pytest(stage, "asan", SANITIZER_ENV, "tests/cli")


def property_long(stage):
    run_pytest(stage, "release", {"CAUDAL_PROPERTY_PROFILE": "long"})


def run_e2e(stage, build_name, env, *arguments):
    clock = build(stage, "clock") / "src" / "caudal"
    node_packages(stage)
    run_pytest(stage, build_name, {"CAUDAL_CLOCK_BINARY": str(clock), **env}, "tests/e2e", arguments)


def e2e(stage):
    run_e2e(stage, "release", {})


def e2e_asan(stage):
    # The sanitizer costs time and memory: what measures those is for the release build.
    run_e2e(stage, "asan", SANITIZER_ENV, "-m", "not measured")


def e2e_long(stage):
    run_e2e(stage, "release", {}, "--long")


def run_redis(stage, build_name, env, *arguments):
    # The tests' own python loads the library of the release: a sanitizer's would have to come before python's.
    library = build(stage, "release") / "src" / "libcaudal.so"
    hammer = build(stage, build_name) / "tests" / "hammer"
    run_pytest(stage, build_name, {"CAUDAL_HAMMER": str(hammer), "CAUDAL_LIBRARY": str(library), **env}, "tests/redis",
               arguments)


def redis(stage):
    run_redis(stage, "release", {})


def redis_asan(stage):
    run_redis(stage, "asan", SANITIZER_ENV, "-m", "not measured")


def redis_long(stage):
    run_redis(stage, "release", {}, "--long")


def model(stage, *arguments):
    status, text = stage.run("bash", "tests/model/run.sh", *arguments, timeout=3600)
    stage.record_tap("model", text, status)


def simulation(stage, seeds=10000):
    """Leases under simulation, one process a core. Each judge of each process is a test."""
    program = build(stage, "release") / "tests" / "simulate"
    bounds = [1 + seeds * part // CORES for part in range(CORES + 1)]
    ranges = [f"{begin}-{end - 1}" for begin, end in zip(bounds, bounds[1:])]
    say(f"{stage.name}: {seeds} seeds")
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        runs = pool.map(lambda seeds: stage.run(program, "--seeds", seeds, timeout=14400), ranges)
        for seeds_of_run, (status, text) in zip(ranges, runs):
            stage.record_tap(f"seeds {seeds_of_run}", text, status)


def simulation_asan(stage):
    program = build(stage, "asan") / "tests" / "simulate"
    status, text = stage.run(program, "--seeds", "1-400", env=SANITIZER_ENV)
    stage.record_tap("seeds 1-400", text, status)


def fuzz(stage, default_seconds=4):
    seconds = int(os.environ.get("FUZZ_SECONDS") or default_seconds)
    folder = build(stage, "fuzz")
    targets = [pathlib.Path(target["filename"][0])
               for target in json.loads(stage.must("meson", "introspect", "--targets", folder))
               if target["type"] == "executable" and target["name"].startswith("fuzz_")]
    say(f"{stage.name}: {len(targets)} targets, {seconds} s each")
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        for future in [pool.submit(fuzz_target, stage, target, seconds) for target in targets]:
            future.result()


def fuzz_target(stage, target, seconds):
    """Fuzzes on a copy of the target's corpus, so that what is found there stays out of the tree until someone looks."""
    kept = ROOT / "fuzz" / "corpus" / target.name.removeprefix("fuzz_")
    if not kept.is_dir():
        stage.record(target.name, f"there is no {kept.relative_to(ROOT)}: give it a few good inputs to start from")
        return
    findings = BUILD / "fuzz-findings" / target.name
    corpus = BUILD / "fuzz-corpus" / target.name
    shutil.rmtree(corpus, ignore_errors=True)
    shutil.copytree(kept, corpus)
    findings.mkdir(parents=True, exist_ok=True)
    status, text = stage.run(target, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
                             "-print_final_stats=1", f"-artifact_prefix={findings}/", corpus,
                             env={"UBSAN_OPTIONS": SANITIZER_ENV["UBSAN_OPTIONS"]}, timeout=seconds + 120)
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    good = status == 0 and runs is not None and int(runs.group(1)) > 0
    stage.record(target.name, None if good else f"exit status {status}; findings in {findings}\n{text}")


def install(stage):
    """The release build as an installed library: what a program that uses it gets to see."""
    folder = build(stage, "release")
    root = BUILD / "install-test"
    shutil.rmtree(root, ignore_errors=True)
    stage.must("meson", "install", "-C", folder, "--no-rebuild", "--destdir", root)
    (pkg_config_folder,) = root.rglob("pkgconfig")
    (library,) = pkg_config_folder.parent.glob("libcaudal.so")
    env = {"PKG_CONFIG_PATH": str(pkg_config_folder), "PKG_CONFIG_SYSROOT_DIR": str(root),
           "LD_LIBRARY_PATH": str(library.parent)}

    for name, flags, link in (("shared", [], []), ("static", ["--static"], ["-static"])):
        program = root / f"embed-{name}"
        status, text = stage.run("pkg-config", *flags, "--cflags", "--libs", "caudal", env=env)
        if status == 0:
            status, text = stage.run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "examples/embed.c", "-o", program,
                                     *text.split(), *link)
        if status == 0:
            status, text = stage.run(program, env=env, timeout=60)
        stage.record(f"examples/embed.c with the {name} library", None if status == 0 else f"exit {status}\n{text}")

    (headers,) = (folder for folder in root.rglob("caudal") if folder.parent.name == "include")
    for header in sorted(headers.glob("*.h")):
        # -include and an empty file: a header that is compiled as the main file would get warnings of its own.
        for compiler, language, standard in (("gcc", "c", "c11"), ("clang", "c++", "c++17")):
            stage.test_command(f"{header.name} by itself, as {standard}", compiler, "-x", language, f"-std={standard}",
                               "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", headers.parent,
                               "-include", f"caudal/{header.name}", "/dev/null")

    symbols = stage.must("nm", "-D", "--defined-only", library)
    exported = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
    declared = set()
    for header in headers.glob("*.h"):
        declared |= set(re.findall(r"^CAUDAL_API\b[^;(]*?(\w+)\(", header.read_text(), re.MULTILINE))
    foreign = sorted(name for name in exported if not name.startswith("caudal_"))
    stage.record("exported names begin with caudal_", ", ".join(foreign) or None)
    stage.record("what is exported is what is declared", ", ".join(sorted(exported ^ declared)) or None)


def clang(stage):
    meson_tests(stage, "clang")


def uring(stage):
    meson_tests(stage, "uring", "unit")
    run_e2e(stage, "uring", SANITIZER_ENV, "-m", "not measured")


def aarch64(stage):
    meson_tests(stage, "aarch64", "unit", "concurrency", slowness=10)


STAGES = {
    "gates": gates,
    "asan": asan,
    "tidy": tidy,
    "tsan": tsan,
    "release": release,
    "property": property_release,
    "property-asan": property_asan,
    "cli": cli,
    "model": model,
    "simulation": simulation,
    "simulation-asan": simulation_asan,
    "e2e": e2e,
    "e2e-asan": e2e_asan,
    "redis": redis,
    "redis-asan": redis_asan,
    "fuzz": fuzz,
    "install": install,
    "clang": clang,
    "uring": uring,
    "aarch64": aarch64,
    "property-long": property_long,
    "e2e-long": e2e_long,
    "redis-long": redis_long,
    "model-long": lambda stage: model(stage, "long"),
    "simulation-long": lambda stage: simulation(stage, 1000000),
    "fuzz-long": lambda stage: fuzz(stage, default_seconds=300),
}
# In the order in which they start: what others wait for comes first, then what takes long.
CHECK = ["asan", "release", "e2e", "redis", "fuzz", "simulation", "property", "tsan", "property-asan", "cli", "gates", "install",
         "simulation-asan"]
CHECK_LONG = ["asan", "release", "e2e-long", "e2e-asan", "redis-long", "redis-asan", "model-long", "simulation-long",
              "property-long", "gates", "tsan", "property-asan", "cli", "tidy", "install", "clang", "aarch64",
              "uring", "simulation-asan", "fuzz-long"]

# ------------------------------------------------------------------------------------------------------------- run


def run_stage(name):
    """Runs one stage, whatever happens in it, and returns it."""
    stage = Stage(name)
    begin = time.monotonic()
    try:
        STAGES[name](stage)
    except StageError as error:
        stage.record("the stage", str(error))
    except Exception:  # a fault of this program must not pass for a success
        stage.record("the stage", traceback.format_exc())
    if stage.passed == 0 and not stage.failures:
        stage.record("the stage", "it ran no test")
    stage.close()
    show(stage, time.monotonic() - begin)
    return stage


def show(stage, seconds):
    say(f"{stage.name}: {stage.passed} passed, {len(stage.failures)} failed ({seconds:.0f} s)")
    with _print_lock:
        for name, problem in stage.failures:
            print(f"\n---- FAILED {stage.name}: {name}\n{problem.rstrip()}\n", flush=True)


def end_children():
    for group in list(_children):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run_stages(names):
    """One stage more at a time than there are cores, for some do little but wait; returns the stages in the order of their names."""
    pool = concurrent.futures.ThreadPoolExecutor(CORES + 1)
    try:
        return list(pool.map(run_stage, names))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pool.shutdown(wait=False, cancel_futures=True)
        end_children()
        print("\ninterrupted", flush=True)
        os._exit(130)


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(STAGES))
        return 0
    names = []
    for argument in arguments or ["check"]:
        names += {"check": CHECK, "check-long": CHECK_LONG}.get(argument, [argument])
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"unknown stage: {', '.join(unknown)}; python3 tests/run.py --list names them", file=sys.stderr)
        return 2

    LOGS.mkdir(parents=True, exist_ok=True)
    stages = run_stages(names)

    passed = sum(stage.passed for stage in stages)
    failed = sum(len(stage.failures) for stage in stages)
    print(f"\nlogs: {LOGS.relative_to(ROOT)}")
    for stage in stages:
        for name, _ in stage.failures:
            print(f"FAILED {stage.name}: {name}")
    summary = f"{passed} passed, {failed} failed"
    (LOGS / "summary").write_text(summary + "\n")
    print(summary, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
