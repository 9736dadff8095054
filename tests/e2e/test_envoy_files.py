"""Configuration files of the reference rate limit service: what is read unchanged, what is refused and in which words, and what happens when
they change while the server runs."""

import os
import re
import shutil
import signal

import pytest

from client import get
from conftest import T0
from envoy_client import Service, descriptor
from exposition import Metrics
from policies import domain, rate
from program import CLOCK_BINARY, run
from waiting import holds, until

S = 10**9
SMALL = ("--store", "memory:?keys=20000")

# -------------------------------------------------------------------------------------------------------- what is read

# Each shape that files of others have, in their words.
READ = {
    "a comment, three dashes, and names in every case": """---
# of ours
domain: shapes
descriptors:
  - key: k
    rate_limit:
      unit: MiNuTe
      requests_per_unit: 5
""",
    "nothing but a domain": "domain: shapes\n",
    "descriptors of nothing": "domain: shapes\ndescriptors:\n",
    "an empty list": "domain: shapes\ndescriptors: []\n",
    "numbers, and true and false, for words": """domain: 5
descriptors:
  - {key: 404, value: true, rate_limit: {unit: second, requests_per_unit: 0, name: 7}}
""",
    "every key that there is": """domain: shapes
descriptors:
  - key: a
    value: b*
    shadow_mode: false
    quota_mode: true
    detailed_metric: true
    value_to_metric: true
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 4294967295, name: one, replaces: [{name: two}]}
    metadata: {name: x, deep: {list: [1, 2.5, true, null, text]}}
    descriptors:
      - {key: c, rate_limit: {unlimited: true, name: two}}
""",
    "values that only look alike": """domain: shapes
descriptors:
  - {key: a, value: b_c}
  - {key: a_b, value: c}
  - {key: a, value: B_c}
  - {key: a}
""",
    "a limit that replaces what is not there": "domain: shapes\ndescriptors: [{key: a, rate_limit: {unit: day, "
                                               "requests_per_unit: 1, replaces: [{name: nowhere}]}}]\n",
    "anchors, aliases and merge keys": """domain: shapes
descriptors:
  - {key: a, rate_limit: &five {unit: day, requests_per_unit: 5}}
  - {key: b, rate_limit: *five}
  - {key: c, rate_limit: {<<: *five, requests_per_unit: 6}}
""",
    "a tree that is deep": "domain: shapes\ndescriptors: " + "[{key: a, descriptors: " * 10 + "[]" + "}]" * 10 + "\n",
}


@pytest.mark.parametrize("name", READ)
def test_files_of_others_are_read(tmp_path, name):
    file = tmp_path / "rules.yaml"
    file.write_text(READ[name])
    status, out, err = run("validate", file)
    assert status == 0, (out, err)
    assert all(": warning: " in line for line in err.splitlines()), err
    assert run("serve", file, "--check-config")[0] == 0


# Ten lists, each of nine times the one before: a few hundred bytes that stand for 9^10.
BOMB = "domain: d\ndescriptors:\n  - key: a\n    metadata:\n      l0: &l0 [x]\n" + "".join(
    f"      l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 11))

# File, line, and a word of the reason.
REFUSED = {
    "no domain": ("descriptors:\n  - {key: a}\n", 1, "domain"),
    "an empty domain": ("domain: ''\n", 1, "domain"),
    "no key": ("domain: d\ndescriptors:\n  - value: v\n", 3, "key"),
    "an empty key": ("domain: d\ndescriptors:\n  - key: ''\n    value: v\n", 3, "key"),
    "the same twice": ("domain: d\ndescriptors:\n  - {key: a, value: b}\n  - {key: c}\n  - {key: a, value: b}\n", 5, "a=b"),
    "the same twice, one with children": (
        "domain: d\ndescriptors:\n  - {key: a, value: b, descriptors: [{key: x}]}\n  - {key: a, value: b, descriptors: [{key: y}]}\n", 4, "a=b"),
    "the same twice below": ("domain: d\ndescriptors:\n  - key: t\n    descriptors:\n      - {key: a}\n      - {key: a}\n", 6, "t/a"),
    "a unit that is none": ("domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: foo\n      requests_per_unit: 5\n", 5, "foo"),
    "no unit": ("domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      requests_per_unit: 5\n", 5, "unit"),
    "the unit unknown": ("domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: unknown\n      requests_per_unit: 5\n", 5, "unit"),
    "unlimited by the day": (
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unlimited: true\n      unit: day\n      requests_per_unit: 5\n", 6, "unlimited"),
    "a misspelled key": ("domain: d\ndescriptors:\n  - key: a\n    ratelimit:\n      unit: day\n      requests_per_unit: 5\n", 4, "ratelimit"),
    "a misspelled key in a limit": (
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: day\n      requestsperunit: 5\n", 6, "requestsperunit"),
    "a key in the wrong case": ("domain: d\ndescriptors:\n  - Key: a\n", 3, "Key"),
    "a key of ours at the wrong place": ("domain: d\nlimits: []\ndescriptors:\n", 2, "limits"),
    "a list of words": ("domain: d\ndescriptors:\n  - a\n  - b\n", 3, "descriptors"),
    "a list for a limit": ("domain: d\ndescriptors:\n  - key: a\n    rate_limit: [1]\n", 4, "rate_limit"),
    "a word for descriptors": ("domain: d\ndescriptors: many\n", 2, "descriptors"),
    "a key that is a number": ("domain: d\n0.25: x\n", 2, "0.25"),
    "a negative number": ("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: -1}}\n", 3, "requests_per_unit"),
    "a number of 33 bits": ("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n", 3, "requests_per_unit"),
    "a broken number": ("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1.5}}\n", 3, "requests_per_unit"),
    "a flag that is none": ("domain: d\ndescriptors:\n  - {key: a, shadow_mode: perhaps}\n", 3, "shadow_mode"),
    "a limit that replaces itself": (
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1, name: me, replaces: [{name: me}]}\n", 4, "me"),
    "a limit that replaces nothing": (
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: }]}\n", 4, "replaces"),
    "a threshold that nobody shares": (
        "domain: d\ndescriptors:\n  - {key: a, value: b, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}\n", 3,
        "share_threshold"),
    "what is no YAML": ("'''\n", 2, "from line 1"),
    "a tab": ("domain: d\ndescriptors:\n\t- key: a\n", 3, ""),
    "two of a key": ("domain: d\ndomain: e\n", 2, "domain"),
    "two documents": ("domain: d\n---\ndomain: e\n", 2, "document"),
    "an alias of itself": ("domain: d\ndescriptors: &a\n  - {key: a, descriptors: *a}\n", 3, ""),
    "a bomb of aliases": (BOMB, 12, "values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_at_its_place(tmp_path, name):
    text, line, word = REFUSED[name]
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    for command in (["validate", file], ["serve", file, "--check-config"]):
        status, out, err = run(*command)
        assert status == 1, (out, err)
        said = [found for found in (out + err).splitlines() if re.search(rf"rules\.yaml:{line}(:\d+)?: ", found)]
        assert any(word in one for one in said), (line, word, out + err)


def test_an_empty_file_is_refused(tmp_path):
    for text in ("", "---\n", "# nothing\n"):
        file = tmp_path / "rules.yaml"
        file.write_text(text)
        status, _, err = run("serve", file, "--check-config")
        assert status == 1 and "rules.yaml" in err, err


# -------------------------------------------------------------------------------------------------------- several files

def test_a_folder_of_domains(serve, tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_text(domain("a", f"key: k, {rate(1)}"))
    (folder / "b.yml").write_text(domain("b", f"key: k, {rate(2)}"))
    server = serve(folder, *SMALL, binary=CLOCK_BINARY)
    server.set_clock(T0)
    with Service(server.grpc) as service:
        assert [service.ask(name, "k=v").limits for name in "abc"] == [[(1, "MINUTE")], [(2, "MINUTE")], [None]]


def test_C53_a_domain_in_two_files_is_refused_with_both_places(tmp_path):
    (tmp_path / "a.yaml").write_text(domain("same", f"key: a, {rate(1)}"))
    (tmp_path / "b.yaml").write_text("# first line\n" + domain("same", f"key: b, {rate(1)}"))
    status, out, err = run("validate", tmp_path)
    assert status == 1
    assert "b.yaml:2" in out + err and "a.yaml" in out + err and "same" in out + err, out + err


def test_C53_the_old_rules_stay_and_the_reason_is_said_once(serve, tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    good = domain("one", f"key: k, value: v, {rate(2)}")
    (folder / "a.yaml").write_text(good)
    server = serve(folder, *SMALL, binary=CLOCK_BINARY)
    server.set_clock(T0)
    with Service(server.grpc) as service:
        assert service.ask("one", "k=v").left == [1]
        (folder / "b.yaml").write_text(domain("two", f"key: k, value: v, {rate(2)}", "key: k, value: v"))
        until(lambda: "b.yaml" in server.stderr(), "the clash is told")
        assert re.search(r"b\.yaml:4", server.stderr()), server.stderr()
        assert service.ask("one", "k=v").left == [0] and service.ask("two", "k=v").limits == [None]
        said = server.stderr().count("b.yaml")
        holds(lambda: server.stderr().count("b.yaml") == said, "it is not told again", 1.2)
        (folder / "b.yaml").write_text(domain("two", f"key: k, value: v, {rate(2)}"))
        until(lambda: service.ask("two", descriptor("k=v", hits=0)).limits == [(2, "MINUTE")], "the better file is in force")
        assert service.ask("one", "k=v").code == "OVER_LIMIT"  # and what was counted is counted


def config_map(folder, dated, **files):
    """A folder as Kubernetes mounts a ConfigMap."""
    (folder / dated).mkdir(parents=True)
    for name, text in files.items():
        (folder / dated / f"{name}.yaml").write_text(text)
        if not (folder / f"{name}.yaml").is_symlink():
            (folder / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    (folder / "..data_tmp").symlink_to(dated)
    os.rename(folder / "..data_tmp", folder / "..data")


def test_C54_a_ConfigMap_is_read_once(serve, tmp_path):
    folder = tmp_path / "mount"
    config_map(folder, "..2026_01_01", rl=domain("map", f"key: k, {rate(3)}"), more=domain("more", f"key: k, {rate(5)}"))
    for name in ("rl.yaml~", ".rl.yaml.swp", "#rl.yaml#", "rl.yaml.bak", "README"):
        (folder / name).write_text("domain: map\nbroken")
    server = serve(folder, *SMALL, binary=CLOCK_BINARY)
    server.set_clock(T0)
    with Service(server.grpc) as service:
        assert [service.ask(name, "k=v").left for name in ("map", "more")] == [[2], [4]]
        config_map(folder, "..2026_01_02", rl=domain("map", f"key: k, {rate(4)}"), more=domain("more", f"key: k, {rate(6)}"))
        shutil.rmtree(folder / "..2026_01_01")
        until(lambda: service.ask("map", descriptor("k=v", hits=0)).left == [3], "the new files are in force", 5)
        assert service.ask("more", "k=v").left == [4]


def test_a_policy_of_ours_names_files(serve, tmp_path):
    """Beside its own limits, by paths that begin at the policy."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.yaml").write_text(domain("a", f"key: k, {rate(1)}"))
    (tmp_path / "b.yaml").write_text(domain("b", f"key: k, {rate(2)}"))
    policy = tmp_path / "policy.yaml"
    policy.write_text("envoy: [rules, b.yaml]\nlimits: [{name: own, rate: 1/hour}]\n")
    server = serve(policy, *SMALL)
    with Service(server.grpc) as service:
        assert [service.ask(name, "k=v").limits for name in "ab"] == [[(1, "MINUTE")], [(2, "MINUTE")]]
    assert [get(server.http, "/check").status for _ in range(2)] == [200, 429]
    policy.write_text("envoy: nowhere.yaml\n")
    status, _, err = run("serve", policy, "--check-config")
    assert status == 1 and "policy.yaml:1:" in err and "nowhere.yaml" in err, err


# --------------------------------------------------------------------------------------------------------------- reload

@pytest.fixture
def one(serve, tmp_path):
    """A server of one file, and a way to ask it: ask() is (code, what remains)."""
    services = []

    def start(text):
        file = tmp_path / "rules.yaml"
        file.write_text(text)
        server = serve(file, *SMALL, binary=CLOCK_BINARY)
        server.set_clock(T0)
        services.append(Service(server.grpc))

        def ask(entries="k=v", hits=None):
            answer = services[-1].ask("one", descriptor(entries, hits=hits))
            return answer.code, answer.left[0]

        return server, ask

    yield start
    for service in services:
        service.channel.close()


def test_a_reload_to_nothing(one):
    server, ask = one(domain("one", f"key: k, {rate(50, 'second')}"))
    assert ask() == ("OK", 49)
    server.reload(domain("one", f"key: k, {rate(0, 'second')}"))
    assert ask() == ("OVER_LIMIT", 0)
    assert ask("k=other") == ("OVER_LIMIT", 0)
    server.reload(domain("one", f"key: k, {rate(50, 'second')}"))
    assert ask("k=other") == ("OK", 49)


def test_C62_a_reload_that_changes_nothing_forgets_nothing(one):
    server, ask = one(domain("one", f"key: k, {rate(3)}", f"key: other, {rate(1)}"))
    assert [ask() for _ in range(4)] == [("OK", 2), ("OK", 1), ("OK", 0), ("OVER_LIMIT", 0)]
    for n in range(5):
        server.reload(f"# edition {n}\n" + domain("one", f"key: other, {rate(1 + n)}", f"key: new{n}, {rate(1)}", f"key: k, {rate(3)}"))
        assert ask() == ("OVER_LIMIT", 0)
    for _ in range(3):
        server.signal(signal.SIGHUP)
    assert ask() == ("OVER_LIMIT", 0)


def test_C63_a_raised_limit_helps_at_once_and_a_lowered_one_denies(one):
    server, ask = one(domain("one", f"key: k, {rate(10, 'hour')}"))
    assert [ask()[0] for _ in range(50)] == ["OK"] * 10 + ["OVER_LIMIT"] * 40
    server.reload(domain("one", f"key: k, {rate(20, 'hour')}"))
    assert [ask() for _ in range(11)] == [("OK", left) for left in range(9, -1, -1)] + [("OVER_LIMIT", 0)]
    server.reload(domain("one", f"key: k, {rate(5, 'hour')}"))
    assert ask() == ("OVER_LIMIT", 0)
    assert ask(hits=0)[1] == 0


def test_C65_a_change_is_noticed_however_it_is_made(one, tmp_path):
    server, ask = one(domain("one", f"key: k, {rate(10)}"))
    file = tmp_path / "rules.yaml"

    def noticed(requests):
        until(lambda: ask(hits=0) == ("OK", requests), f"{requests} a minute are in force", 5)

    file.write_text(domain("one", f"key: k, {rate(11)}"))
    noticed(11)
    server.rewrite(domain("one", f"key: k, {rate(12)}"))
    noticed(12)
    file.unlink()
    holds(lambda: ask(hits=0) == ("OK", 12), "without the file the last rules stay", 0.5)
    file.write_text(domain("one", f"key: k, {rate(13)}"))
    noticed(13)
    with open(file, "w") as half:  # written by halves
        half.write("domain: one\ndescriptors:\n")
        half.flush()
        half.write(f"  - {{key: k, {rate(14)}}}\n")
    noticed(14)


def test_C66_a_broken_file_keeps_the_last_good_one(one):
    server, ask = one(domain("one", f"key: k, {rate(5)}"))
    assert ask() == ("OK", 4)

    def errors():
        return Metrics(get(server.admin, "/metrics").body.decode()).sum("caudal_policy_reloads_total", result="failed")

    assert ask() == ("OK", 3)
    for count, bad in enumerate(["'''\n", domain("one", f"key: k, {rate(5, 'foo')}"), "", domain("", "key: k")], 1):
        server.rewrite(bad)
        server.signal(signal.SIGHUP)
        until(lambda count=count: errors() >= count, "the error is counted")
        assert ask(hits=0) == ("OK", 3)
        assert get(server.admin, "/healthz").status == 200 and get(server.admin, "/readyz").status == 200
        with Service(server.grpc) as service:
            assert service.serving("ratelimit") == "SERVING"
    server.reload(domain("one", f"key: k, {rate(6)}"))
    assert ask() == ("OK", 3)


# -------------------------------------------------------------------------------------------------------- beyond it

def test_keys_of_ours(serve_domains):
    """Any algorithm, burst and period beside the reference's words."""
    server, service = serve_domains(domain(
        "ours",
        "key: bucket, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 3}",
        "key: period, rate_limit: {rate: 60 per 30s}",
        "key: mode, mode: shadow, rate_limit: {unit: hour, requests_per_unit: 1}"))
    assert [service.ask("ours", "bucket=x").code for _ in range(4)] == ["OK"] * 3 + ["OVER_LIMIT"]
    server.set_clock(T0 + S)
    assert [service.ask("ours", "bucket=x").code for _ in range(2)] == ["OK", "OVER_LIMIT"]
    assert [service.ask("ours", "period=x", hits=60).code for _ in range(2)] == ["OK", "OVER_LIMIT"]
    server.set_clock(T0 + 30 * S)
    assert service.ask("ours", "period=x", hits=60).code == "OK"
    assert service.codes(3, "ours", "mode=x") == ["OK"] * 3


def test_a_limit_gets_a_calendar_and_loses_it(serve_domains):
    """To the store each is another limit, which begins anew; neither goes on with the numbers of the other."""
    def file(requests, more=""):
        return domain("calendar", f"key: k, rate_limit: {{unit: month, requests_per_unit: {requests}{more}}}")

    server, service = serve_domains(file(2))
    assert service.codes(3, "calendar", "k=v") == ["OK"] * 2 + ["OVER_LIMIT"]
    for text, requests in ((file(4, ", calendar: {zone: UTC}"), 4), (file(3), 3), (file(1, ", calendar: {zone: UTC}"), 1)):
        server.reload(text)
        assert service.codes(requests + 1, "calendar", "k=v") == ["OK"] * requests + ["OVER_LIMIT"], text


def test_C17_C18_true_months_where_a_limit_asks_for_them(serve_domains):
    january = 1767225600  # 2026-01-01T00:00:00Z
    server, service = serve_domains(domain(
        "calendar", "key: month, rate_limit: {unit: month, requests_per_unit: 2, calendar: {zone: UTC}}",
        "key: year, rate_limit: {unit: year, requests_per_unit: 2, calendar: {zone: UTC}}",
        "key: berlin, rate_limit: {unit: day, requests_per_unit: 1, calendar: {zone: Europe/Berlin}}"))
    server.set_clock(january * S)
    assert service.ask("calendar", "month=x").resets == [31 * 86400]
    assert service.ask("calendar", "year=x").resets == [365 * 86400]
    assert service.ask("calendar", "month=x").left == [0]
    server.set_clock((january + 31 * 86400 - 1) * S)
    assert service.ask("calendar", "month=x").resets == [1] and service.ask("calendar", "month=x").code == "OVER_LIMIT"
    server.set_clock((january + 31 * 86400) * S)
    answer = service.ask("calendar", "month=x")
    assert (answer.code, answer.resets) == ("OK", [28 * 86400])
    server.set_clock(1774738800 * S)  # 2026-03-29T00:00:00+01:00, when a day of 23 hours begins
    assert service.ask("calendar", "berlin=x").resets == [23 * 3600]
