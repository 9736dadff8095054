"""A replay decides as the server does: a log that is replayed, and the same requests sent to a server whose clock stands at each line's stamp,
refuse the same lines. And what a replay promises of logs that are out of order, or whose stamps are coarse, is so on random ones."""

import json
import random

import pytest

import program
from client import Connection
from policies import SMALL, TRUSTING

S = 10**9
T0 = 1764547200 * S  # 2025-12-01T00:00:00Z
REQUESTS = 700

POLICIES = {
    "buckets": """
  - {name: per-client, per: [client_ip], rate: 20/minute burst 5}
  - {name: everybody, rate: 3/second}
""",
    "windows": """
  - {name: fixed, per: [client_ip], rate: 10 per 10s fixed_window}
  - {name: sliding, per: [path.1], rate: 20 per 15s sliding_window}
""",
    "logs": """
  - {name: log, per: [client_ip, path], rate: 4 per 30s sliding_log}
  - {name: by-key, per: [header.x-key], if_missing: skip, rate: 12/minute sliding_log}
""",
    "several, one in shadow, one that is missing": """
  - {name: writes, when: {method: [POST, DELETE], path: /v1/*}, per: [header.x-key], if_missing: deny, rate: 6/minute}
  - {name: shadow, per: [client_ip], rate: 2/minute, mode: shadow}
  - {name: per-host, per: [host, client_ip], rate: 15/minute burst 4}
  - {name: off, rate: 1/hour, mode: off}
""",
    "overrides and exemptions": """
  - name: per-key
    per: [header.x-key]
    if_missing: nobody
    rate: 10/minute
    overrides:
      - {match: {header.x-key: gold}, rate: unlimited}
      - {match: {header.x-key: "s*"}, rate: 3/minute fixed_window}
  - {name: everybody, rate: 100/minute burst 10}
exempt:
  - {path: /healthz}
""",
    "costs": """
  - {name: by-cost, per: [client_ip], rate: 60/minute burst 20, cost: {header: x-cost, default: 2, max: 25}}
  - {name: hard, per: [path.1], rate: 30/minute, count_refused: true}
""",
}


def random_requests(seed, count=REQUESTS):
    """[(stamp, fields of a log's line)], in order of time: quiet and busy stretches, several at one instant, few clients and many."""
    rng = random.Random(seed)
    now, requests = T0 + rng.randrange(3600 * S), []
    while len(requests) < count:
        now += rng.choice((0, rng.randrange(10**6), rng.randrange(S // 5), rng.randrange(S), rng.randrange(8 * S)))
        for _ in range(rng.choice((1, 1, 1, 2, 6))):
            line = {
                "client": rng.choice(("203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", f"198.51.100.{rng.randrange(250)}")),
                "method": rng.choice(("GET", "GET", "POST", "DELETE")),
                "target": rng.choice(("/v1/a", "/v1/b?x=1", "/v2/../v1/a", "/healthz", "/%61")),
                "host": rng.choice(("a.example", "B.example:8443")),
            }
            if rng.random() < 0.7:
                line["http_x_key"] = rng.choice(("gold", "silver", "steel", "k1", "k2"))
            if rng.random() < 0.5:
                line["http_x_cost"] = rng.choice(("0", "1", "7", "24", "99", "junk"))
            requests.append((now, line))
    return requests[:count]


def write_log(path, requests, unit_ns=1):
    """A line of JSON for each, whose stamp is cut to whole units."""
    lines = []
    for stamp, line in requests:
        stamp -= stamp % unit_ns
        text = f"{stamp // S}.{stamp % S:09}" if unit_ns < S else str(stamp // S)
        lines.append(json.dumps({"time": text, **line}))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_policy(path, text):
    path.write_text(TRUSTING + SMALL + "log: {identities: plain}\nlimits:" + text)
    return path


def replay(folder, policy, log, *more, binary=program.BINARY):
    """(decisions, report) of a replay, which must succeed."""
    status, _, stderr = program.run("replay", policy, log, "--decisions", folder / "decisions", "--json", folder / "report", *more)
    assert (status, stderr) == (0, ""), stderr
    decisions = [json.loads(line) for line in (folder / "decisions").read_text().splitlines()]
    return decisions, json.loads((folder / "report").read_text())


def fields_of(line):
    """As a proxy asks about this request."""
    headers = [(name.removeprefix("http_").replace("_", "-"), value) for name, value in line.items() if name.startswith("http_")]
    return [("X-Forwarded-For", line["client"]), ("X-Forwarded-Method", line["method"]), ("X-Forwarded-Uri", line["target"]),
            ("X-Forwarded-Host", line["host"]), *headers]


class Asker:
    """A server whose clock is set before each question."""

    def __init__(self, server):
        self.admin, self.http, self.now = Connection(server.admin), Connection(server.http), None

    def ask(self, now, line):
        if now != self.now:
            answer = self.admin.request("POST", "/test/clock", [], json.dumps({"now_ns": now}))
            assert answer.status == 200, answer
            self.now = now
        return self.http.request("GET", "/check", fields_of(line))


def whole_seconds(ns):
    return None if ns is None else str(-(-ns // S))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", POLICIES)
def test_a_replay_and_a_server_refuse_the_same_lines(serve, tmp_path, name, seed):
    policy = write_policy(tmp_path / "policy.yaml", POLICIES[name])
    requests = random_requests(seed)
    decisions, report = replay(tmp_path, policy, write_log(tmp_path / "log", requests))
    assert [decision["line"] for decision in decisions] == list(range(1, len(requests) + 1))
    asker = Asker(serve(policy.read_text(), binary=program.CLOCK_BINARY))
    refused = 0
    for (now, line), decision in zip(requests, decisions, strict=True):
        answer = asker.ask(now, line)
        assert answer.status in (200, 403, 429), answer
        assert (answer.status != 200) == (decision["verdict"] == "refused"), (now, line, answer, decision)
        if answer.status == 429 and decision["limit"] is not None and "reason" not in decision:
            assert answer.get("retry-after") == whole_seconds(decision["retry_after_ns"]), (answer, decision)
        refused += answer.status != 200
    assert 0 < refused < len(requests), "the policy and the traffic go together"
    assert (report["requests"], report["refused"]) == (len(requests), refused)


def unique_stamps(requests):
    """No two at one instant, for of those the log's order decides."""
    return [(stamp + number, line) for number, (stamp, line) in enumerate(requests)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", POLICIES)
def test_any_shuffle_within_the_window_decides_alike(tmp_path, name, seed):
    policy = write_policy(tmp_path / "policy.yaml", POLICIES[name])
    requests = unique_stamps(random_requests(seed))
    rng = random.Random(seed)
    shuffled = sorted(requests, key=lambda request: request[0] + rng.randrange(60 * S))
    assert shuffled != requests
    seen = []
    for order in (requests, shuffled):
        decisions, report = replay(tmp_path, policy, write_log(tmp_path / "log", order))
        assert report["log"]["late"] == 0
        for decision in decisions:
            decision["line"] = order[decision["line"] - 1]
        seen.append(decisions)
    assert seen[0] == seen[1]


def test_beyond_the_window_lines_are_late_and_counted(tmp_path):
    policy = write_policy(tmp_path / "policy.yaml", POLICIES["buckets"])
    line = {"client": "203.0.113.1", "method": "GET", "target": "/"}
    log = write_log(tmp_path / "log", [(T0, line), (T0 + 100 * S, line), (T0 + 39 * S, line), (T0 + 101 * S, line)])
    decisions, report = replay(tmp_path, policy, log, "--reorder", "30s")
    assert [decision["line"] for decision in decisions] == [1, 3, 2, 4]
    assert report["log"]["late"] == 0 and report["log"]["out_of_order"] == 1
    log = write_log(tmp_path / "log", [(T0, line), (T0 + 100 * S, line), (T0 + 131 * S, line), (T0 + 39 * S, line)])
    decisions, report = replay(tmp_path, policy, log, "--reorder", "30s")
    assert [decision["line"] for decision in decisions] == [1, 2, 4, 3]
    assert (report["log"]["late"], report["log"]["late_ns"]) == (1, 61 * S)
    assert [decision.get("asked_at") for decision in decisions] == [None, None, "2025-12-01T00:01:40Z", None]


BOUNDED = {
    "bucket": "{name: one, per: [client_ip], rate: 40/minute burst 6}",
    "bucket of one": "{name: one, per: [client_ip], rate: 1/second burst 1}",
    "fixed window": "{name: one, per: [client_ip], rate: 5 per 10s fixed_window}",
    "sliding window": "{name: one, per: [client_ip], rate: 8 per 10s sliding_window}",
    "sliding log": "{name: one, per: [client_ip], rate: 6 per 10s sliding_log}",
    "all in one": "{name: one, rate: 2/second burst 4}",
    "two": "{name: one, per: [client_ip], rate: 40/minute burst 6}\n  - {name: two, rate: 3/second burst 5}",
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", BOUNDED)
def test_the_true_count_lies_between_the_bounds(tmp_path, name, seed):
    policy = write_policy(tmp_path / "policy.yaml", f"\n  - {BOUNDED[name]}\n")
    requests = random_requests(seed)
    _, fine = replay(tmp_path, policy, write_log(tmp_path / "log", requests))
    assert fine["refused"] > 0 and not fine["bounds"]["known"] and fine["log"]["resolution_ns"] == 1
    _, coarse = replay(tmp_path, policy, write_log(tmp_path / "log", requests, S))
    assert coarse["bounds"]["known"] and coarse["log"]["resolution_ns"] == S
    pairs = [(fine, coarse)]
    if len(fine["limits"]) == 1:  # of several, each refuses less than it would alone
        pairs += zip(fine["limits"], coarse["limits"], strict=True)
    for truth, told in pairs:
        bounds = told["bounds"]
        assert bounds["least"] <= truth["refused"] <= bounds["most"]
        assert bounds["least"] <= told["refused"] <= bounds["most"], "the beginning of each second is where all may have been"
    assert coarse["bounds"]["most"] < len(requests), "the bounds say something"
