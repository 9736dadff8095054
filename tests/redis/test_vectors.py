"""Every vector of the reference model through the script, on the caller's clock: the same answers as the C core gives.

A limit that is changed reaches a key in Redis at the next touch of the key: what was spent is settled there, at the rate that
stands beside it. The vectors are made for that: a step that sets a limit is followed by a take at the same instant.
"""

import json

import pytest

import caudal
from caudal import Limit, Request
from program import ROOT

VECTORS = ROOT / "tests" / "vectors"
DEADLINE_NS = 10 * 10**9  # nothing is to fail for want of a processor


@pytest.fixture(scope="module")
def store(shared_node):
    with caudal.Store(shared_node.url, deadline_ns=DEADLINE_NS) as store:
        yield store


def scenarios(name):
    return [json.loads(line) for line in (VECTORS / name).read_text().splitlines()]


def limit_of(value):
    return Limit(value["algorithm"], value["count"], value["period_ns"], value.get("burst", -1))


def check(scenario, step, want, got):
    told = (got.verdict, got.remaining, got.retry_after_ns, got.reset_after_ns)
    wanted = tuple(want[name] for name in ("verdict", "remaining", "retry_after_ns", "reset_after_ns"))
    assert told == wanted, (scenario["name"], step)
    assert (got.source, got.status) == (0, caudal.OK)


def play(store, scenario):
    with store.limit(limit_of(scenario["limit"])) as number:
        for step in scenario["steps"]:
            if "set" in step:
                store.set_limit(number, limit_of(step["set"]), step["t"])
                continue
            (question,) = {"take", "peek", "refund"} & set(step)
            decision = getattr(store, question)(number, b"k", step[question], step["t"])
            if "want" in step:
                check(scenario, step, step["want"], decision)


@pytest.mark.parametrize("file", sorted(file.name for file in VECTORS.glob("*.us.jsonl") if "several" not in file.name))
def test_vectors(store, file):
    played = scenarios(file)
    assert played
    for scenario in played:
        play(store, scenario)


def test_vectors_of_several_limits(store):
    """The limits of a request lie in one slot, so that one call decides all."""
    for scenario in scenarios("several.us.jsonl"):
        numbers = [store.add_limit(f"{scenario['name']} {i}", limit_of(value))
                   for i, value in enumerate(scenario["limits"])]
        for step in scenario["steps"]:
            overall, each = store.take_all([Request(number, b"k", step["take"]) for number in numbers], step["t"])
            assert overall.verdict == step["want"]["verdict"], (scenario["name"], step)
            for want, got in zip(step["want"]["each"], each, strict=True):
                check(scenario, step, want, got)
        for number in numbers:
            store.remove_limit(number)
