"""caudal replay --suggest: a policy that fits the log, which loads, and under which the log meets its target."""

import json
import random

import pytest

POLICY = """\
limits:
  - name: per-client  ## of a browser
    per: [client_ip]
    rate: 5/min
    burst: 5
    overrides:
      - {match: {client_ip: 203.0.113.0/26}, rate: '1000/min fixed_window'}
  - {name: per-path, per: [client_ip, path], rate: 3/min sliding_log, mode: shadow}
  - name: never
    when: {path: /nowhere}
    rate: 7/s
"""


def log_of(seed):
    """Clients that come now and then, with so many requests at a time."""
    chance = random.Random(seed)
    requests = []
    for client in range(200):
        clump = chance.choice([1, 2, 5, 20, 60])
        for _ in range(chance.choice([1, 3, 10])):
            begin = chance.randrange(3600)
            requests += [(begin + chance.randrange(10), client) for _ in range(clump)]
    return "".join(f'203.0.113.{client} - - [17/May/2024:10:{second // 60 % 60:02}:{second % 60:02} +0000] '
                   f'"GET /{client % 3} HTTP/1.1" 200 5\n' for second, client in sorted(requests) if second < 3600)


@pytest.mark.parametrize("percent", [0, 1, 10])
def test_a_suggested_policy_meets_its_target_on_its_own_log(caudal, policy, tmp_path, percent):
    (tmp_path / "access.log").write_text(log_of(percent))
    reports = []
    for name in (policy(POLICY), "suggested.yaml"):
        done = caudal("replay", name, "access.log", "--touch", percent, "--quiet", "--json", "report.json",
                      *(("--suggest", "suggested.yaml") if not reports else ()))
        assert done.returncode == 0, done.stderr
        reports.append(json.loads((tmp_path / "report.json").read_text())["limits"])
    assert sum(limit["keys_refused"] for limit in reports[0]) > 100
    for limit in reports[1]:
        assert limit["keys_refused"] <= percent / 100 * limit["keys"], limit["name"]
    assert [limit["name"] for limit in reports[0]] == [limit["name"] for limit in reports[1]]
    assert caudal("validate", "suggested.yaml").returncode == 0
    lines = (tmp_path / "suggested.yaml").read_text().splitlines()
    told = [line for line in lines if line.lstrip().startswith("# ")]
    kept = [line for line in lines if line not in told]
    assert len(kept) == len(POLICY.splitlines())
    assert [before for before, after in zip(POLICY.splitlines(), kept) if before == after and "rate" in before] == [
        "    rate: 7/s"]
    assert any("never stays as it was" in line for line in told)


@pytest.mark.parametrize("rate", ["6/min", "60/min burst 6", "6/min fixed_window", "6/min sliding_log"])
def test_of_a_local_limit_the_whole_is_suggested(caudal, policy, tmp_path, rate):
    """Each of three instances enforces a third of what the policy says: that third fits."""
    (tmp_path / "access.log").write_text(log_of(3))
    name = policy(f"instances: 3\nlimits:\n  - {{name: l, per: [client_ip], rate: {rate}, sharing: local}}\n")
    done = caudal("replay", name, "access.log", "--touch", 1, "--quiet", "--suggest", "suggested.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    limits = [json.loads(caudal("replay", file, "access.log", "--quiet", "--json", "-").stdout)["limits"][0]
              for file in (name, "suggested.yaml")]
    assert limits[0]["keys_refused"] > 20
    assert limits[1]["keys_refused"] <= limits[1]["keys"] / 100


def test_peaks_beyond_the_last_bin(caudal, policy, tmp_path):
    (tmp_path / "access.log").write_text("".join(
        f'203.0.113.{client} - - [17/May/2024:10:00:00 +0000] "GET / HTTP/1.1" 200 5\n' for client in range(9) for _ in range(3)))
    name = policy("limits:\n  - {name: l, per: [client_ip], rate: 100000/min, cost: 100000}\n")
    assert caudal("replay", name, "access.log", "--quiet", "--suggest", "suggested.yaml").returncode == 0
    assert ("asked for per min: at most 300000 by 99 % of the keys, 300000 by the busiest" in
            (tmp_path / "suggested.yaml").read_text())


def test_a_rate_that_cannot_be_replaced_leaves_no_file(caudal, policy, tmp_path):
    (tmp_path / "access.log").write_text(log_of(0))
    name = policy("limits:\n  - name: folded\n    per: [client_ip]\n    rate: >-\n      5/min\n")
    done = caudal("replay", name, "access.log", "--quiet", "--suggest", "suggested.yaml")
    assert done.returncode != 0
    assert "'folded' in line 4" in done.stderr
    assert not (tmp_path / "suggested.yaml").exists()
