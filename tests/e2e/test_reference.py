"""Beside the reference rate limit service itself, in check-long: random files, random requests, and the same answers.

Where the two are meant to differ, nothing is asked: limits count what they refuse (count_refused), patterns have their star at the end, no
key has the reference's separator in it, and neither looks that cost nothing nor limits that requests bring are made of a counter that is over.
"""

import contextlib
import os
import random
import subprocess

import grpc
import pytest
import yaml

from envoy_client import Service, descriptor
from program import ROOT
from proxies import free_port
from waiting import until

KEYS = ["a", "b", "c"]
VALUES = ["", "x", "y", "xy", "xyz", "y*", "xa"]
PATTERNS = ["", "x", "y", "x*", "xy*", "y*"]
NAMES = ["n1", "n2", "n3"]
REQUESTS = 1500


class Reference:
    """The reference service with a Redis of its own, reading one file."""

    def __init__(self, folder, text):
        config = folder / "runtime" / "ratelimit" / "config"
        config.mkdir(parents=True)
        (config / "rules.yaml").write_text(text)
        self.address, redis, http, debug = ("127.0.0.1", free_port()), free_port(), free_port(), free_port()
        self.output = open(folder / "output", "wb")
        self.processes = [self._start(["redis-server", "--port", str(redis), "--save", "", "--dir", str(folder)])]
        settings = {"HOST": "127.0.0.1", "PORT": http, "GRPC_HOST": "127.0.0.1", "GRPC_PORT": self.address[1], "DEBUG_HOST": "127.0.0.1",
                    "DEBUG_PORT": debug, "USE_STATSD": "false", "RUNTIME_ROOT": folder / "runtime", "RUNTIME_SUBDIRECTORY": "ratelimit",
                    "RUNTIME_WATCH_ROOT": "false", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis}"}
        until(lambda: subprocess.run(["redis-cli", "-p", str(redis), "ping"], capture_output=True, check=False).returncode == 0, "Redis is up")
        self.processes.append(self._start([ROOT / "build" / "reference" / "ratelimit"], {key: str(value) for key, value in settings.items()}))
        self.service = Service(self.address)
        until(self._is_up, "the reference service answers")

    def _start(self, command, env=()):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, env={**os.environ, **dict(env)})

    def _is_up(self):
        with contextlib.suppress(grpc.RpcError):
            return self.service.ask("nowhere", "k=v").code == "OK"

    def stop(self):
        self.service.channel.close()
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.output.close()


def random_limit(random):
    if random.random() < 0.08:
        return {"unlimited": True}
    # Units so long that hardly one ends while we ask.
    made = {"unit": random.choice(["day", "week", "month", "Year"]), "requests_per_unit": random.choice([0, 1, 2, 3, 5, 10, 50, 2**32 - 1])}
    if random.random() < 0.3:
        made["name"] = random.choice(NAMES)
    if random.random() < 0.2:
        made["replaces"] = [{"name": random.choice([name for name in NAMES if name != made.get("name")])}]
    return made


def random_tree(random, depth=1):
    made = {}
    for _ in range(random.randint(2, 7)):
        key, value = random.choice(KEYS), random.choice(PATTERNS)
        node = {"key": key, **({"value": value} if value else {})}
        if random.random() < 0.8:
            node["rate_limit"] = random_limit(random)
        mode = random.choice(["shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", None, None, None, None])
        if mode:
            node[mode] = True
        if value.endswith("*") and random.random() < 0.4:
            node["share_threshold"] = True
        if depth < 3 and random.random() < 0.5:
            node["descriptors"] = random_tree(random, depth + 1)
        made.setdefault((key, value), node)
    return list(made.values())


def counting(tree):
    """The same, where what is refused counts."""
    return [{**node, **({"count_refused": True} if "requests_per_unit" in node.get("rate_limit", {}) else {}),
             **({"descriptors": counting(node["descriptors"])} if "descriptors" in node else {})} for node in tree]


def random_descriptor(random):
    entries = [(random.choice(KEYS), random.choice(VALUES)) for _ in range(random.choice([1, 1, 2, 2, 3, 4]))]
    return descriptor(entries, hits=random.choice([1, 2, 7, None, None, None, None]))


def told(answer):
    return answer.code, answer.codes, answer.left, answer.limits, [status.current_limit.name for status in answer.raw.statuses]


@pytest.fixture(scope="module", autouse=True)
def program():
    done = subprocess.run([ROOT / "scripts" / "make-reference.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", range(20))
def test_the_same_answers(serve, tmp_path, seed):
    chance = random.Random(seed)
    tree = random_tree(chance)
    reference = Reference(tmp_path, yaml.safe_dump({"domain": "same", "descriptors": tree}, sort_keys=False))
    try:
        server = serve(yaml.safe_dump({"domain": "same", "descriptors": counting(tree)}, sort_keys=False), "--store", "memory:?keys=100000")
        with Service(server.grpc) as ours:
            for number in range(REQUESTS):
                asked = [random_descriptor(chance) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
                hits = chance.choice([0, 0, 0, 1, 2, 5])
                mine, theirs = (told(service.ask("same", *asked, hits=hits)) for service in (ours, reference.service))
                assert mine == theirs, f"request {number} of seed {seed}: {asked}, {hits} hits\n{yaml.safe_dump(tree, sort_keys=False)}"
    finally:
        reference.stop()
