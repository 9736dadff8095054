"""caudal simulate: traffic that is made up, and the reports of replay about it."""

import json
import signal
import subprocess

import pytest
from waiting import until

TWO = """\
limits:
  - {name: per-client, per: [client_ip], rate: 6/minute fixed_window}
  - {name: by-tenant, per: [header.x-tenant], if_missing: skip, rate: 1000/hour}
"""
SECOND_NS = 10**9


@pytest.fixture
def report(caudal, policy):
    """The JSON report of a simulation, which must succeed."""

    def run(*words, text=TWO):
        result = caudal("simulate", policy(text), *words, "--json", "-")
        assert (result.returncode, result.stderr) == (0, "")
        return json.loads(result.stdout)

    return run


@pytest.mark.parametrize("pattern", ["steady", "burst", "poisson", "flash-crowd"])
def test_each_pattern_has_its_rate(report, pattern):
    told = report("--pattern", pattern, "--clients", "50", "--rate", "2/s", "--duration", "100s")
    # Of a flash crowd a tenth of the clients is there for two thirds of the time.
    expected = 50 * 2 * 100 * (0.4 if pattern == "flash-crowd" else 1)
    assert abs(told["requests"] / expected - 1) < 0.1
    assert told["clients"] == 50 and 0 < told["refused"] < told["requests"]
    assert told["begin"].startswith("2026-01-01T00:00:0")
    assert (told["sources"], told["log"]["lines"], told["bounds"]["known"]) == ([], 0, False)


def test_an_edge_is_the_policys_unless_it_is_said(report):
    told = report("--pattern", "edge", "--clients", "3", "--duration", "10m")
    (limit, _) = told["limits"]
    # Twice what the window admits within a moment, and it refuses nothing: that is the effect.
    assert told["refused"] == 0 and told["requests"] > 0 and told["requests"] % (3 * 12) == 0
    assert limit["variants"]["fixed_window"] == {"refused": 0, "keys_refused": 0, "most_in_a_period": 12}
    assert limit["variants"]["token_bucket"]["refused"] > 0
    told = report("--pattern", "edge", "--clients", "1", "--quota", "2", "--period", "10s", "--duration", "25s")
    assert told["requests"] == 4


def test_the_same_seed_is_the_same_report(caudal, policy):
    name = policy(TWO)
    seen = [caudal("simulate", name, "--pattern", "poisson", "--seed", seed, "--decisions", "-").stdout for seed in ("7", "7", "8")]
    assert seen[0] == seen[1] != seen[2]


def test_what_requests_say(caudal, policy):
    text = """\
limits:
  - name: tenant
    when: {method: POST, path: /v1/*, host: api.example.org}
    per: [header.x-tenant]
    rate: 1/hour
log: {identities: plain}
"""
    words = ["--request", "POST /v1/x?y", "--host", "API.example.org", "--header", "X-Tenant: t{client}", "--clients", "2", "--rate", "1/s",
             "--duration", "2s", "--begin", "2024-02-29T12:00:00Z", "--decisions", "-"]
    result = caudal("simulate", policy(text), *words)
    assert (result.returncode, result.stderr) == (0, "")
    decisions = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted((one["key"], one["verdict"]) for one in decisions) == [
        ("t1", "admitted"), ("t1", "refused"), ("t2", "admitted"), ("t2", "refused")]
    assert all(one["time"].startswith("2024-02-29T12:00:0") and one["log"] is None for one in decisions)
    assert [one["line"] for one in decisions] == [1, 2, 3, 4]


def test_two_policies(report, policy):
    policy("limits:\n  - {name: none, rate: unlimited}\n", "open.yaml")
    told = report("--compare", "open.yaml", "--clients", "10")
    assert told["second"]["refused"] == 0
    assert told["comparison"]["first_only_refuses"] == told["refused"] > 0


@pytest.mark.parametrize(("words", "message"), [
    ((), "which policy? None was given"),
    (("policy.yaml", "other.yaml"), "one policy; 'other.yaml' is a second, which goes with --compare"),
    (("policy.yaml", "--pattern", "posson"), "--pattern: there is no 'posson'; did you mean 'poisson'?"),
    (("policy.yaml", "--rate", "5"), "--rate: '5' is not a rate, as in 5/s or 100/minute"),
    (("policy.yaml", "--rate", "5/s burst 7"), "--rate: '5/s burst 7' is not a rate"),
    (("policy.yaml", "--clients", "0"), "--clients: '0' is not a whole number from 1 to 10000000"),
    (("policy.yaml", "--duration", "10"), "--duration: '10' is not a duration with its unit"),
    (("policy.yaml", "--begin", "today"), "--begin: 'today' "),
    (("policy.yaml", "--request", "/x"), "--request: expected \"METHOD TARGET\""),
    (("policy.yaml", "--header", "x"), "--header: expected \"NAME: VALUE\", found 'x'"),
    (("policy.yaml", "--pattern", "edge", "--duration", "1s"), "no edge of the period lies within the time"),
])
def test_a_wrong_command_line(caudal, policy, words, message):
    policy(TWO)
    result = caudal("simulate", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"caudal simulate: {message}"), result.stderr


def test_without_a_limit_there_is_no_edge(caudal, policy):
    result = caudal("simulate", policy("limits:\n  - {name: none, rate: unlimited}\n"), "--pattern", "edge")
    assert result.returncode == 2
    assert "policy.yaml has no limit to take --quota and --period from" in result.stderr


def test_interrupted_it_reports_what_there_is(start, policy, tmp_path):
    """A year of requests would take long; that some are decided shows in the file."""
    words = ["simulate", policy(TWO), "--duration", "365d", "--decisions", "decisions", "--json", "-"]
    with start(*words, stdout=subprocess.PIPE) as process:
        until(lambda: any(path.stat().st_size > 0 for path in tmp_path.glob("decisions.*")), "decisions are written")
        process.send_signal(signal.SIGINT)
        report = json.loads(process.stdout.read())
        assert process.wait(60) == 130
    assert report["interrupted"] and report["requests"] > 0
    with open(tmp_path / "decisions") as decisions:
        assert sum(1 for _ in decisions) == report["requests"]
