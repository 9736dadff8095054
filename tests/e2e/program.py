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
LISTENING = re.compile(r"\b(http|https|admin)\b.*?(unix:\S+|\[[0-9a-f:.]+\]:\d+|[0-9.]+:\d+)")


def run(*arguments, **more):
    """Runs the program to its end: (exit status, stdout, stderr)."""
    done = subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, **more)
    return done.returncode, done.stdout, done.stderr


def parse_address(text):
    if text.startswith("unix:"):
        return text.removeprefix("unix:")
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Server:
    """A running server. Its addresses are those that it says it listens on."""

    def __init__(self, policy, folder, arguments=(), env=None, binary=BINARY):
        """`policy` is the text of a policy, or the path of its file."""
        self.folder = folder
        if isinstance(policy, pathlib.Path):
            self.policy_file = policy
        else:
            self.policy_file = folder / "policy.yaml"
            self.policy_file.write_text(policy)
        arguments = list(map(str, arguments))
        for flag in ("--http", "--admin"):
            if flag not in arguments:
                arguments += [flag, "127.0.0.1:0"]
        if "--workers" not in arguments:
            arguments += ["--workers", "2"]
        self.listening = {}  # "http" or "admin": its addresses
        self.stdout = []
        self.stderr_file = folder / "stderr"
        self.command = [binary, "serve", str(self.policy_file), *arguments]
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
            if tried and {"http", "admin"} <= set(self.listening):
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

    def _ends_of_a_signal(self):
        self.signal(signal.SIGTERM)  # the second one ends it at once; two that come together are one
        return self.process.poll() is not None

    def stop(self):
        """Ends the server however it is, and returns its exit status."""
        try:
            until(self._ends_of_a_signal, "the server ends")
        except AssertionError:
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE_S)
        return self.process.returncode
