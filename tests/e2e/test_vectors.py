"""Every decision vector through the JSON API, and those that it can be asked for through CL.THROTTLE. The test sets the server's clock, which
takes a build that allows it."""

import json

import pytest

import program
from client import Connection
from policies import SMALL
from resp import Client

SCENARIOS = [json.loads(line) for line in (program.ROOT / "tests/vectors/named.us.jsonl").read_text().splitlines()]
SLACK_NS = 1  # of the waits; verdicts and counts are exact
S = 10**9


def comes_with_calls(scenario):
    """CL.THROTTLE knows buckets by whole seconds, and gives nothing back."""
    limits = [scenario["limit"], *(step["set"] for step in scenario["steps"] if "set" in step)]
    return all(limit["algorithm"] == "token_bucket" and limit["period_ns"] % S == 0 and limit["count"] > 0 for limit in limits) and not any(
        "refund" in step for step in scenario["steps"])


RANDOM = [json.loads(line) for line in (program.ROOT / "tests/vectors/random.token_bucket.us.jsonl").read_text().splitlines()]
THROTTLES = [scenario for scenario in SCENARIOS + RANDOM if comes_with_calls(scenario)]


def rate(limit):
    burst = f" burst {limit['burst']}" if "burst" in limit else ""
    return f"{limit['count']} per {limit['period_ns']} ns{burst} {limit['algorithm']}"


def policy(limits):
    return SMALL + "limits:\n" + "".join(f"  - {{name: v{i}, per: [id], rate: {rate(limit)}}}\n"
                                         for i, limit in enumerate(limits))


class Player:
    """A server with one limit for each scenario, and the clock that it decides by."""

    def __init__(self, folder):
        self.limits = [scenario["limit"] for scenario in SCENARIOS]
        self.server = program.Server(policy(self.limits), folder, binary=program.CLOCK_BINARY).wait_until_up()
        self.http, self.admin = Connection(self.server.http), Connection(self.server.admin)
        self.now = None

    def set_clock(self, now):
        if now != self.now:
            self._admin("/test/clock", json.dumps({"now_ns": now}))
            self.now = now

    def set_limit(self, index, limit):
        self.limits[index] = limit
        self.server.rewrite(policy(self.limits))
        self._admin("/v1/reload", "")

    def _admin(self, target, body):
        answer = self.admin.request("POST", target, [] if body else [("Content-Length", "0")], body)
        assert answer.status in (200, 204), answer

    def ask(self, question, index, cost):
        body = json.dumps({"limit": f"v{index}", "key": "k", "cost": cost})
        return self.http.request("POST", f"/v1/{question}", [], body).json()


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    player = Player(tmp_path_factory.mktemp("vectors"))
    yield player
    player.server.stop()


def check(step, decision):
    want = step["want"]
    assert decision["verdict"] == want["verdict"], (step, decision)
    assert decision["remaining"] == want["remaining"], (step, decision)
    for name in ("retry_after_ns", "reset_after_ns"):
        if want[name] == -1:
            assert decision[name] is None, (step, decision)
        else:
            assert abs(decision[name] - want[name]) <= SLACK_NS, (step, decision)
    if want["verdict"] == "deny":
        assert decision["retry_after"] == max(1, -(-decision["retry_after_ns"] // 10**9))


@pytest.mark.parametrize("index", range(len(SCENARIOS)), ids=[scenario["name"] for scenario in SCENARIOS])
def test_vectors(player, index):
    for step in SCENARIOS[index]["steps"]:
        player.set_clock(step["t"])
        if "set" in step:
            player.set_limit(index, step["set"])
        else:
            (question,) = {"take", "peek", "refund"} & set(step)
            decision = player.ask(question, index, step[question])
            if "want" in step:
                check(step, decision)


def seconds_up(ns):
    return -(-ns // S)


def throttle(client, limit, key, cost):
    burst = limit.get("burst", limit["count"])
    return client("CL.THROTTLE", key, burst - 1, limit["count"], limit["period_ns"] // S, cost)


def check_throttled(step, limit, reply):
    want = step["want"]
    limited, capacity, remaining, retry, reset = reply
    assert limited == (want["verdict"] != "allow"), (step, reply)
    assert (capacity, remaining) == (limit.get("burst", limit["count"]), want["remaining"]), (step, reply)
    for wanted, got in ((want["retry_after_ns"] if limited else -S, retry), (want["reset_after_ns"], reset)):
        if wanted < 0:
            assert got == -1, (step, reply)
        else:
            assert got in (seconds_up(max(0, wanted - SLACK_NS)), seconds_up(wanted + SLACK_NS)), (step, reply)


@pytest.mark.parametrize("index", range(len(THROTTLES)), ids=[scenario["name"] for scenario in THROTTLES])
def test_vectors_of_limits_that_come_with_the_call(player, index):
    limit = THROTTLES[index]["limit"]
    with Client(player.server.resp) as client:
        for step in THROTTLES[index]["steps"]:
            player.set_clock(step["t"])
            limit = step.get("set", limit)
            cost = step.get("take", step.get("peek"))
            if "set" in step or ("peek" in step and cost > 0):
                continue  # it looks without spending only for what is there
            reply = throttle(client, limit, f"t{index}", cost)
            if "want" in step:
                check_throttled(step, limit, reply)
