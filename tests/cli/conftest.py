"""The program as its users call it: command lines in, exit status and text out.

Environment: CAUDAL_BINARY, the program under test.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("redis", "e2e")]

import program  # noqa: E402
import servers  # noqa: E402


@pytest.fixture
def start(tmp_path):
    """Starts the program in an empty folder, with what `env` says on top of the environment."""
    binary = os.environ["CAUDAL_BINARY"]
    inherited = {name: value for name, value in os.environ.items() if name != "CAUDAL_STORE"}

    def start(*words, env=None, **more):
        return subprocess.Popen([binary, *map(str, words)], cwd=tmp_path, env={**inherited, **(env or {})}, text=True,
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})

    return start


@pytest.fixture
def caudal(start):
    """Runs it to its end."""

    def run(*words, **more):
        with start(*words, **more) as process:
            stdout, stderr = process.communicate(timeout=60)
            return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    return run


@pytest.fixture
def policy(tmp_path):
    """Writes a policy file into that folder and returns its name."""

    def write(text, name="policy.yaml"):
        (tmp_path / name).write_text(text)
        return name

    return write


@pytest.fixture
def farm(tmp_path):
    """Redis servers of one test. After it, no key without an expiry may be left."""
    farm = servers.Farm(tmp_path)
    yield farm
    try:
        assert not farm.immortal_keys(), "keys without expiry are left"
    finally:
        farm.stop()


@pytest.fixture
def redis(farm):
    """One server alone."""
    return farm.node()


@pytest.fixture
def serve(tmp_path):
    """Starts `caudal serve` with a policy, and ends it after the test."""
    started = []

    def serve(text):
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        started.append(program.Server(text, folder))
        return started[-1].wait_until_up()

    yield serve
    for server in started:
        assert server.stop() == 0, server.log()
