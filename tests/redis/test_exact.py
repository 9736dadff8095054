"""Many instances, one decision: however many ask at once, what is admitted is what one bucket holds."""

import os
import subprocess
import time

import pytest

from client import Connection
from policies import limits
from program import ROOT

HAMMER = os.environ.get("CAUDAL_HAMMER") or str(ROOT / "build" / "release" / "tests" / "hammer")
PROCESSES, THREADS, TAKES = 8, 4, 125
DEADLINE_MS = 20_000  # exactness is asked for here, not haste


class Crew:
    """Processes that take from one key at the same instant."""

    def __init__(self, url, limit, takes=TAKES):
        self.takes = takes
        self.processes = [subprocess.Popen([HAMMER, url, limit, str(DEADLINE_MS), str(THREADS)], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]

    def round(self, key):
        """(allowed, denied, failed) of each process."""
        start = time.monotonic_ns() + 5_000_000
        for process in self.processes:
            process.stdin.write(f"{key} {self.takes} {start}\n")
            process.stdin.flush()
        return [tuple(map(int, process.stdout.readline().split())) for process in self.processes]

    def end(self):
        for process in self.processes:
            process.stdin.close()
        assert [process.wait(60) for process in self.processes] == [0] * PROCESSES


@pytest.mark.parametrize("place", ["node", "sentinel", "cluster"], indirect=True)
def test_C33_parallel_take_admits_exactly_n(place, long_run):
    crew = Crew(place.url, "10/day")
    crew.round("warm-up")  # connections are made, the script is known
    shared = 0
    for number in range(100 if long_run else 10):
        each = crew.round(f"round-{number}")
        assert tuple(map(sum, zip(*each))) == (10, PROCESSES * TAKES - 10, 0), (number, each)
        shared += sum(allowed > 0 for allowed, _, _ in each) > 1
    crew.end()
    assert shared > 0, "one process was always done before the others began: nothing was shown"


def test_C33_on_valkey(farm, brand):
    crew = Crew(farm.node(brand).url, "10/day")
    for number in range(5):
        assert tuple(map(sum, zip(*crew.round(f"round-{number}")))) == (10, PROCESSES * TAKES - 10, 0)
    crew.end()


def test_what_is_admitted_is_at_most_B_and_r_t_by_the_store_s_clock(farm):
    """Clients that never stop asking get that much, and no more."""
    node = farm.node()
    capacity, rate = 50, 1000
    crew = Crew(node.url, f"{rate}/s burst {capacity}", takes=3000)
    begin = time_of(node)
    allowed, denied, failed = map(sum, zip(*crew.round("greedy")))
    seconds = time_of(node) - begin
    crew.end()
    assert failed == 0 and denied > 1000
    assert allowed <= capacity + rate * seconds
    assert allowed >= 0.8 * rate * seconds  # less than all, for the processes take their time to begin and to end


def time_of(node):
    seconds, microseconds = map(int, node("TIME"))
    return seconds + microseconds / 1e6


def ask_in_turn(servers, count):
    """The statuses of requests that go to one server after the other."""
    connections = [Connection(server.http) for server in servers]
    answers = [connections[number % len(servers)].request("GET", "/check").status for number in range(count)]
    for connection in connections:
        connection.close()
    return answers


@pytest.mark.parametrize("shared", [True, False], ids=["redis", "memory"])
def test_three_servers_admit_one_quota_with_a_shared_store_and_three_without(farm, serve, shared):
    """Why state must be shared: the same policy, the same clients, three times the quota."""
    url = farm.node().url if shared else "memory:?keys=1000"
    policy = limits("name: one, rate: 100/day", more=f"store: {{url: '{url}', deadline: 5s}}\n")
    answers = ask_in_turn([serve(policy) for _ in range(3)], 300 if shared else 330)
    assert answers.count(200) == (100 if shared else 300)
    assert answers.count(429) == (200 if shared else 30)


def test_C52_two_instances_say_the_same(farm, serve):
    policy = limits("name: one, rate: 1 per 30 s", more=f"store: {{url: '{farm.node().url}', deadline: 5s}}\n")
    assert ask_in_turn([serve(policy) for _ in range(2)], 30) == [200] + [429] * 29
