"""The real program: `caudal serve` on free ports of the loopback interface, and other runs of it."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import client
from waiting import DEADLINE_S, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("CAUDAL_BINARY") or str(ROOT / "build" / "release" / "src" / "caudal")
# Decides by a clock that the test sets (meson's option test_clock).
CLOCK_BINARY = os.environ.get("CAUDAL_CLOCK_BINARY") or str(ROOT / "build" / "clock" / "src" / "caudal")
FRONTS = ("http", "admin", "resp", "grpc")  # what it listens for
LISTENING = re.compile(r"\b(http|admin|resp|grpc)\b.*?(unix:\S+|\[[0-9a-f:.]+\]:\d+|[0-9.]+:\d+)")


def run(*arguments, **more):
    """Runs the program to its end: (exit status, stdout, stderr)."""
    done = subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, **more)
    return done.returncode, done.stdout, done.stderr


def on_free_ports(arguments):
    """Arguments of `serve`, and a free port of the loopback interface for what they do not say where to listen for."""
    arguments = list(map(str, arguments))
    for front in FRONTS:
        if f"--{front}" not in arguments:
            arguments += [f"--{front}", "127.0.0.1:0"]
    return arguments


def run_server(policy_file, *arguments):
    """Runs a server that is not to come up: (exit status, stdout, stderr)."""
    return run("serve", policy_file, *on_free_ports(arguments))


def parse_address(text):
    if text.startswith("unix:"):
        return text.removeprefix("unix:")
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Server:
    """A running server. Its addresses are those that it says it listens on."""

    def __init__(self, policy, folder, arguments=(), env=None, binary=BINARY, open_files=None):
        """`policy` is the text of a policy, or the path of its file; `open_files` limits how many there may be."""
        self.folder = folder
        if isinstance(policy, pathlib.Path):
            self.policy_file = policy
        else:
            self.policy_file = folder / "policy.yaml"
            self.policy_file.write_text(policy)
        arguments = on_free_ports(arguments)
        if "--workers" not in arguments:
            arguments += ["--workers", "2"]
        self.fronts = {front for front in FRONTS if arguments[arguments.index(f"--{front}") + 1] != "none"}
        self.listening = {}  # of each front: its addresses
        self.stdout = []
        self.stderr_file = folder / "stderr"
        self.command = [binary, "serve", str(self.policy_file), *arguments]
        if open_files is not None:
            self.command = ["prlimit", f"--nofile={open_files}:{open_files}", *self.command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=open(self.stderr_file, "ab"), text=True, env={**os.environ, **(env or {})})
        self._said_all = threading.Event()
        self._reader = threading.Thread(target=self._read_stdout, daemon=True)
        self._reader.start()

    def _read_stdout(self):
        tried = False
        for line in self.process.stdout:
            self.stdout.append(line)
            found = LISTENING.search(line)
            if found and "curl" not in line:
                self.listening.setdefault(found.group(1), []).append(parse_address(found.group(2)))
            tried = tried or "curl" in line
            if tried and self.fronts <= set(self.listening):
                self._said_all.set()
        self._said_all.set()

    def wait_until_up(self):
        assert self._said_all.wait(DEADLINE_S), f"the server does not say where it listens: {self.stdout}"
        assert self.process.poll() is None, f"exit {self.process.returncode}: {self.stdout} {self.stderr()}"
        return self

    @property
    def http(self):
        return self.listening["http"][0]

    @property
    def admin(self):
        return self.listening["admin"][0]

    @property
    def resp(self):
        return self.listening["resp"][0]

    @property
    def grpc(self):
        return self.listening["grpc"][0]

    @property
    def http_url(self):
        return "http://{}:{}".format(*self.http)

    def stderr(self):
        return self.stderr_file.read_text(errors="replace")

    def log(self):
        """All that the server has said."""
        return "".join(self.stdout) + self.stderr()

    def rewrite(self, policy):
        """Replaces the policy's file in one step, as an editor that saves does."""
        new = self.folder / "policy.new"
        new.write_text(policy)
        new.replace(self.policy_file)

    def generation(self):
        return client.get(self.admin, "/v1/limits").json()["generation"]

    def reload(self, policy):
        """Replaces the policy and waits until it is in force."""
        before = self.generation()
        self.rewrite(policy)
        self.signal(signal.SIGHUP)
        until(lambda: self.generation() > before, "the new policy is in force")

    def set_clock(self, now_ns):
        answer = client.post(self.admin, "/test/clock", {"now_ns": now_ns})
        assert answer.status == 200, answer

    def rss_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=DEADLINE_S):
        """Waits for the end; the exit status and how long it took."""
        begin = time.monotonic()
        status = self.process.wait(seconds)
        return status, time.monotonic() - begin

    def _has_taken_the_signal(self):
        """Two that come together are one: the second waits until the first has been delivered."""
        if self.process.poll() is not None:
            return True
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return not int(re.search(r"ShdPnd:\s+(\w+)", status).group(1), 16) & 1 << signal.SIGTERM - 1

    def stop(self):
        """Ends the server however it is, and returns its exit status."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            until(self._has_taken_the_signal, "the server takes a signal")
            self.signal(signal.SIGTERM)  # drains no longer
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE_S)
        return self.process.returncode
