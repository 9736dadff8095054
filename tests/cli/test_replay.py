"""caudal replay: what it reads, what it writes, and how it ends.

The reports of tests/data/replay are made of tests/data/logs and compared as a whole: NAME.txt for people, NAME.json for programs. When
a report is to change, this writes them anew, to be looked at with git diff:

    CAUDAL_WRITE_REPORTS=1 CAUDAL_BINARY=$PWD/build/asan/src/caudal build/venv/bin/python -m pytest tests/cli/test_replay.py -k golden
"""

import gzip
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import termios

import pytest
from waiting import until

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
OPTIONS = {
    "haproxy": ("--captures", "host|x-forwarded-for|user-agent", "--zone", "Europe/Berlin"),
    "pattern": ("--log-format", "$msec|$host|$http_x_forwarded_for|$remote_addr|$time_local|$request|$status|$request_time|"
                                "\"$http_user_agent\""),
    "syslog": ("--log-format", "$time $remote_addr $method $path $status", "--year", "2023", "--zone", "UTC"),
}
LOGS = sorted(path.stem for path in (DATA / "logs").glob("*.log"))
ONE_LIMIT = "limits:\n  - {name: per-client, per: [client_ip], rate: 2/minute}\n"
DEADLINE_S = 60


def line(second, client="203.0.113.7", target="/"):
    """Of Apache's common log, on a day in 2024."""
    return f'{client} - - [17/May/2024:10:{second // 60:02}:{second % 60:02} +0000] "GET {target} HTTP/1.1" 200 5\n'


@pytest.fixture
def log(tmp_path):
    """Writes a log and returns its name."""

    def write(text, name="access.log"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write


@pytest.fixture
def files(tmp_path):
    """The names of all files that there are."""
    return lambda: sorted(path.name for path in tmp_path.iterdir())


def decisions_of(text):
    return [json.loads(one) for one in text.splitlines()]


# ---- reports ----


def spread(report):
    """JSON with a line for each member, and for each object in a list: so that a difference can be read. How much memory waiting lines
    took is nobody's promise."""
    members = []
    for one in (report, report.get("second", report)):
        assert one["log"].pop("waiting_bytes_most", 1) > 0
    for name, value in report.items():
        if isinstance(value, list) and value:
            value = "[\n    " + ",\n    ".join(json.dumps(one) for one in value) + "\n  ]"
        else:
            value = json.dumps(value)
        members.append(f'  "{name}": {value}')
    return "{\n" + ",\n".join(members) + "\n}\n"


def same_as_kept(name, text):
    kept = DATA / "replay" / name
    if os.environ.get("CAUDAL_WRITE_REPORTS"):
        kept.write_text(text)
    assert text == kept.read_text()


@pytest.mark.parametrize("name", LOGS)
def test_golden_reports(caudal, tmp_path, name):
    shutil.copy(DATA / "logs" / f"{name}.log", tmp_path)
    shutil.copy(DATA / "replay" / "policy.yaml", tmp_path)
    result = caudal("replay", "policy.yaml", f"{name}.log", *OPTIONS.get(name, ()), "--min-parsed", "0", "--json", "report.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert max(len(one) for one in result.stdout.splitlines()) <= 100
    same_as_kept(f"{name}.txt", result.stdout)
    same_as_kept(f"{name}.json", spread(json.loads((tmp_path / "report.json").read_text())))


def test_golden_reports_of_two_policies(caudal, tmp_path):
    for kept in (DATA / "logs" / "extra.log", DATA / "replay" / "policy.yaml"):
        shutil.copy(kept, tmp_path)
    (tmp_path / "other.yaml").write_text("limits:\n  - {name: one-in-all, rate: 5/minute}\n")
    result = caudal("replay", "policy.yaml", "extra.log", "--compare", "other.yaml", "--json", "report.json", "--decisions",
                    "decisions.jsonl")
    assert (result.returncode, result.stderr) == (0, "")
    same_as_kept("compared.txt", result.stdout)
    report = json.loads((tmp_path / "report.json").read_text())
    same_as_kept("compared.json", spread(report))
    pairs = [(one["verdict"], one["second"]["verdict"]) for one in decisions_of((tmp_path / "decisions.jsonl").read_text())]
    told = report["comparison"]
    assert len(pairs) == report["requests"] == report["second"]["requests"]
    assert [pairs.count(pair) for pair in (("admitted", "admitted"), ("refused", "refused"), ("refused", "admitted"),
                                           ("admitted", "refused"))] == [
        told["both_admit"], told["both_refuse"], told["first_only_refuses"], told["second_only_refuses"]]
    assert (report["refused"], report["second"]["refused"]) == (
        told["both_refuse"] + told["first_only_refuses"], told["both_refuse"] + told["second_only_refuses"])


def test_the_schema_names_every_member(caudal, policy, log, tmp_path):
    """docs/formats/replay-report.md has all that a report has."""
    text = (DATA.parents[1] / "docs" / "formats" / "replay-report.md").read_text()
    named = set(re.findall(r"`([a-z0-9_]+)`", text))

    def members(value):
        if isinstance(value, dict):
            for name, inner in value.items():
                yield name
                yield from members(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from members(inner)

    lines = "".join(line(second) for second in range(9)) + "junk\n"
    caudal("replay", policy(ONE_LIMIT), log(lines), "--compare", policy(ONE_LIMIT, "b.yaml"), "--json", "report.json")
    assert set(members(json.loads((tmp_path / "report.json").read_text()))) - named == set()


def test_decisions(caudal, policy, log):
    lines = line(1) + line(2) + line(3, target="/healthz") + line(4) + line(5, client="-")
    result = caudal("replay", policy("exempt:\n  - {path: /healthz}\n" + ONE_LIMIT), log(lines), "--decisions", "-")
    assert (result.returncode, result.stderr) == (0, "")
    assert decisions_of(result.stdout) == [
        {"log": "access.log", "line": 1, "time": "2024-05-17T10:00:01Z", "client": "203.0.113.7", "verdict": "admitted",
         "limit": "per-client", "key": "203.0.113.7", "remaining": 1, "retry_after_ns": 0},
        {"log": "access.log", "line": 2, "time": "2024-05-17T10:00:02Z", "client": "203.0.113.7", "verdict": "admitted",
         "limit": "per-client", "key": "203.0.113.7", "remaining": 0, "retry_after_ns": 0},
        {"log": "access.log", "line": 3, "time": "2024-05-17T10:00:03Z", "client": "203.0.113.7", "verdict": "admitted",
         "limit": None, "key": None, "remaining": None, "retry_after_ns": None, "reason": "exempt"},
        {"log": "access.log", "line": 4, "time": "2024-05-17T10:00:04Z", "client": "203.0.113.7", "verdict": "refused",
         "limit": "per-client", "key": "203.0.113.7", "remaining": 0, "retry_after_ns": 27 * 10**9},
        {"log": "access.log", "line": 5, "time": "2024-05-17T10:00:05Z", "client": None, "verdict": "refused",
         "limit": "per-client", "key": None, "remaining": None, "retry_after_ns": None, "reason": "missing identity"},
    ]


def test_decisions_by_the_thousand_are_whole_lines(caudal, policy, log, tmp_path):
    keys = [f"k{number}" + "x" * (number % 900) for number in range(3000)]
    lines = "".join(json.dumps({"time": 1715940000 + number, "client": "203.0.113.7", "http_x_key": key, "target": "/"}) + "\n"
                    for number, key in enumerate(keys))
    text = "log: {identities: plain}\nlimits:\n  - {name: by-key, per: [header.x-key], rate: 1/hour}\n"
    result = caudal("replay", policy(text), log(lines), "--decisions", "decisions.jsonl")
    assert (result.returncode, result.stderr) == (0, "")
    assert [one["key"] for one in decisions_of((tmp_path / "decisions.jsonl").read_text())] == keys


# ---- what is read ----


@pytest.mark.parametrize("pack", [lambda text: text.encode(), lambda text: gzip.compress(text.encode()),
                                  lambda text: subprocess.run(["zstd", "-c"], input=text.encode(), capture_output=True, check=True).stdout],
                         ids=["plain", "gzip", "zstd"])
def test_packed_or_not_from_a_file_or_a_pipe(start, policy, log, tmp_path, pack):
    packed = pack("".join(line(second) for second in range(0, 300, 10)))
    name = policy(ONE_LIMIT)
    reports = []
    for source, stdin in ((log(packed), subprocess.DEVNULL), ("-", open(tmp_path / "access.log", "rb"))):
        with start("replay", name, source, "--json", "-", stdin=stdin) as process:
            stdout, stderr = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, stderr) == (0, "")
        report = json.loads(stdout)
        assert (report["requests"], report["refused"], report["sources"][0]["path"]) == (30, 19, source)
        reports.append({**report, "sources": None})
    assert reports[0] == reports[1]


def test_several_logs_are_one_stream(caudal, policy, log):
    result = caudal("replay", policy(ONE_LIMIT), log(line(2) + line(4), "b.log"), log(line(1) + line(3), "a.log"), "--decisions", "-")
    assert [(one["log"], one["line"], one["verdict"]) for one in decisions_of(result.stdout)] == [
        ("a.log", 1, "admitted"), ("b.log", 1, "admitted"), ("a.log", 2, "refused"), ("b.log", 2, "refused")]


def test_a_store_is_never_asked(caudal, policy, log):
    text = "store: redis://127.0.0.1:1\n" + ONE_LIMIT
    result = caudal("replay", policy(text), log(line(1) + line(2) + line(3)), "--json", "-")
    assert (result.returncode, json.loads(result.stdout)["refused"]) == (0, 1)


def test_limits_of_descriptors_are_told_not_to_apply(caudal, policy, log):
    policy("domain: shop\ndescriptors:\n  - {key: a, rate_limit: {unit: second, requests_per_unit: 1}}\n", "shop.yaml")
    result = caudal("replay", policy("envoy: [shop.yaml]\n" + ONE_LIMIT), log(line(1)), "--json", "-")
    assert result.returncode == 0
    assert result.stderr == "caudal replay: policy.yaml: 1 limit of descriptors: logs have none, so it does not apply\n"


def test_a_key_is_followed(caudal, policy, log):
    lines = "".join(line(second, client) for second in range(3) for client in ("203.0.113.1", "203.0.113.2"))
    result = caudal("replay", policy(ONE_LIMIT), log(lines), "--key", "per-client=203.0.113.2", "--json", "-")
    (trace,) = json.loads(result.stdout)["traces"]
    assert (trace["limit"], trace["key"], trace["from_the_beginning"]) == ("per-client", "203.0.113.2", True)
    assert (sum(trace["admitted"]), sum(trace["refused"])) == (2, 1)


def test_a_key_of_any_length_is_followed(caudal, policy, log):
    long = "k" * 5000
    lines = "".join(json.dumps({"time": 1707898202, "remote_addr": "203.0.113.1", "path": "/x", "http_x_key": key}) + "\n"
                    for key in (long, long + "k"))
    name = policy("limits:\n  - {name: l, per: [path, header.x-key], rate: 2/minute}\n")
    result = caudal("replay", name, log(lines), "--key", f"l=/x|{long}", "--json", "-")
    assert (result.returncode, result.stderr) == (0, "")
    (trace,) = json.loads(result.stdout)["traces"]
    assert (sum(trace["admitted"]), sum(trace["refused"])) == (1, 0)


def test_a_key_that_nobody_has_is_told(caudal, policy, log):
    result = caudal("replay", policy(ONE_LIMIT), log(line(1)), "--key", "per-client=203.0.113.2")
    assert result.returncode == 0
    assert result.stderr == "caudal replay: --key: 'per-client=203.0.113.2' is not followed: no such key was seen\n"


def test_touch_is_of_keys(caudal, policy, log):
    lines = "".join(line(0, f"203.0.113.{client}") for client in range(100) for _ in range(5 if client == 0 else 1))
    name, access = policy(ONE_LIMIT), log(lines)
    for touch, burst in (("0", 5), ("1%", 1), ("0.5", 5)):
        report = json.loads(caudal("replay", name, access, "--touch", touch, "--json", "-").stdout)
        assert report["limits"][0]["burst"] == {"for_all": 5, "for_most": burst}


# ---- what is wrong ----


@pytest.mark.parametrize(("words", "message"), [
    ((), "which policy? None was given"),
    (("policy.yaml",), "which log? None was given; - is standard input"),
    (("policy.yaml", "access.log", "--format", "comb"), "--format: \"comb\" is no format of logs; known are combined"),
    (("policy.yaml", "access.log", "--log-format", "$msec $"), "--log-format: the log format has a '$' without a name"),
    (("policy.yaml", "access.log", "--log-format", "$msec $request", "--format", "json"),
     "--format and --log-format are two answers to one question"),
    (("policy.yaml", "access.log", "--zone", "Mars/Olympus"), "--zone: 'Mars/Olympus': "),
    (("policy.yaml", "access.log", "--year", "24"), "--year: '24' is not a whole number from 1970 to 2261"),
    (("policy.yaml", "access.log", "--reorder", "60"), "--reorder: '60' is not a duration with its unit, as in 500ms or 60s"),
    (("policy.yaml", "access.log", "--min-parsed", "101"), "--min-parsed: '101' is not a percentage from 0 to 100"),
    (("policy.yaml", "access.log", "--touch", "few"), "--touch: 'few' is not a percentage from 0 to 100"),
    (("policy.yaml", "access.log", "--keys", "0"), "--keys: '0' is not a whole number from 1 to 4294967296"),
    (("policy.yaml", "access.log", "--key", "per-client"), "--key: expected \"LIMIT=KEY\", found 'per-client'"),
    (("policy.yaml", "access.log", "--key", "per-cleint=k"), "--key: policy.yaml has no limit 'per-cleint' that is of requests"),
    (("policy.yaml", "access.log", "--json", "-", "--decisions", "-"), "--json and --decisions cannot both be standard output"),
    (("policy.yaml", "access.log", "--html", "gone/report.html"),
     "--html: gone/report.html: there is no folder 'gone': No such file or directory"),
    (("policy.yaml", "access.log", "--svg", "gone/charts"), "--svg: gone/charts: there is no folder 'gone': No such file or directory"),
    (("policy.yaml", "access.log", "--json", "."), "--json: .: Is a directory"),
    (("policy.yaml", "access.log", "--json", "./access.log"), "--json: ./access.log would be written over, and is one of the logs"),
    (("policy.yaml", "-", "access.log", "--decisions", "access.log"),
     "--decisions: access.log would be written over, and is one of the logs"),
    (("policy.yaml", "access.log", "--html", "policy.yaml"), "--html: policy.yaml would be written over, and is a policy"),
    (("./policy.yaml", "access.log", "--compare", "policy.yaml", "--suggest", "policy.yaml"),
     "--suggest: policy.yaml would be written over, and is a policy"),
    (("policy.yaml", "access.log", "--json", "report", "--html", "./report"), "--json and --html cannot both be ./report"),
    (("policy.yaml", "gone.log"), "gone.log: No such file or directory"),
    (("policy.yaml", "-", "-"), "-: standard input can be read once only"),
])
def test_a_wrong_command_line_is_told_before_a_log_is_read(caudal, policy, log, files, words, message):
    policy(ONE_LIMIT)
    log(line(1))
    result = caudal("replay", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"caudal replay: {message}"), result.stderr
    assert files() == ["access.log", "policy.yaml"]


def test_a_policy_with_errors(caudal, policy, log, files):
    result = caudal("replay", policy("limits:\n  - {name: x, rate: 2/minuet}\n"), log(line(1)), "--json", "report.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("policy.yaml:2:"), result.stderr
    result = caudal("replay", policy(ONE_LIMIT), "access.log", "--compare", "gone.yaml")
    assert result.returncode == 2 and "gone.yaml" in result.stderr
    assert files() == ["access.log", "policy.yaml"]


def test_fewer_lines_than_wanted_are_a_failure_with_a_report(caudal, policy, log):
    lines = line(1) * 18 + '203.0.113.7 - - [17/May/2024:10:00:01 +0000 "GET / HTTP/1.1" 200 5\n' + "junk\n"
    name, access = policy(ONE_LIMIT), log(lines)
    result = caudal("replay", name, access)
    assert result.returncode == 1
    assert "18 of 20 lines parsed (90.0 %), 2 skipped:" in result.stdout
    assert result.stderr == ("caudal replay: 18 of 20 lines (90.0 %) were parsed, fewer than 95 %; first: access.log:19: column 17: the "
                             'time is not closed by \']\': "203.0.113.7 - - [17/May/2024:10:00:01 +0000 "GET / HTTP/1.1" 200 5"\n')
    result = caudal("replay", name, access, "--min-parsed", "90")
    assert (result.returncode, result.stderr) == (0, "")


def test_nothing_that_can_be_read_is_an_error_without_a_report(caudal, policy, log, files):
    name = policy(ONE_LIMIT)
    result = caudal("replay", name, log("once upon a time\n"), "--json", "report.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert "access.log" in result.stderr and "line 1" in result.stderr
    result = caudal("replay", name, log("junk\n" * 3), "--log-format", "$msec $remote_addr", "--min-parsed", "0", "--json", "report.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert "access.log" in result.stderr and "junk" in result.stderr
    result = caudal("replay", name, log(""), "--json", "report.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "caudal replay: there is no line in access.log\n"
    assert files() == ["access.log", "policy.yaml"]


def test_a_damaged_log_is_told_and_the_rest_is_reported(caudal, policy, log):
    packed = gzip.compress("".join(line(second, f"203.0.113.{second % 250}") for second in range(3000)).encode())
    result = caudal("replay", policy(ONE_LIMIT), log(packed[:len(packed) // 2], "cut.log.gz"), log(line(1), "whole.log"), "--json", "-")
    assert result.returncode == 1
    assert result.stderr.startswith("caudal replay: cut.log.gz: "), result.stderr
    report = json.loads(result.stdout)
    assert [source["failed"] for source in report["sources"]] == [True, False]
    assert report["requests"] > 100


# ---- files ----


def test_files_are_whole_and_replace_others(caudal, policy, log, tmp_path, files):
    outputs = ("report.json", "report.html", "decisions.jsonl")
    for name in outputs:
        (tmp_path / name).write_text("old")
    (tmp_path / "link").symlink_to("report.json")
    words = [policy(ONE_LIMIT), log(line(1)), "--json", "link", "--html", "report.html", "--decisions", "decisions.jsonl", "--svg", "charts",
             "--png", "charts"]
    result = caudal("replay", *words)
    assert (result.returncode, result.stderr) == (0, "")
    assert "refused     0 of 1 request (0 %)" in result.stdout
    assert files() == sorted(["access.log", "charts", "link", "policy.yaml", *outputs])
    assert all("old" not in (tmp_path / name).read_text() for name in outputs)
    assert (tmp_path / "link").is_symlink()
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o666 & ~umask


def test_instants_as_far_apart_as_can_be(caudal, policy, log, tmp_path):
    """No step of a chart, and no word below it, lies beyond the last instant that there is."""
    ends = [json.dumps({"time": time, "remote_addr": "203.0.113.7", "request": "GET / HTTP/1.1"}) + "\n"
            for time in ("1970-01-01T00:00:00Z", "2261-12-31T23:59:59.999999999Z")]
    result = caudal("replay", policy(ONE_LIMIT), log("".join(ends)), "--html", "report.html", "--json", "report.json")
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["begin"], report["end"]) == ("1970-01-01T00:00:00Z", "2261-12-31T23:59:59.999999999Z")
    assert sum(report["series"]["offered"]) == 2


def test_a_log_is_not_written_over_by_another_of_its_names(caudal, policy, log, tmp_path):
    policy(ONE_LIMIT)
    log(line(1))
    (tmp_path / "soft").symlink_to("access.log")
    (tmp_path / "hard").hardlink_to(tmp_path / "access.log")
    for name in ("soft", "hard"):
        result = caudal("replay", "policy.yaml", "access.log", "--html", name)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"caudal replay: --html: {name} would be written over, and is one of the logs")
    assert (tmp_path / "access.log").read_text() == line(1)


def test_a_policy_may_be_replaced_by_one_that_fits(caudal, policy, log, tmp_path):
    result = caudal("replay", policy(ONE_LIMIT), log(line(1)), "--suggest", "policy.yaml")
    assert (result.returncode, result.stderr) == (0, "")
    assert "# per-client was fitted to a log" in (tmp_path / "policy.yaml").read_text()


def test_a_disk_that_is_full_is_an_error_and_leaves_nothing(caudal, policy, log, tmp_path):
    result = caudal("replay", policy(ONE_LIMIT), log(line(1) * 1000), "--decisions", "/dev/full")
    assert result.returncode == 1
    assert "caudal replay: --decisions: /dev/full: No space left on device\n" in result.stderr
    result = caudal("replay", "policy.yaml", "access.log", stdout=open("/dev/full", "w"))
    assert result.returncode == 1


# ---- how it ends ----


LINES = 700  # fewer bytes than a pipe holds, and more decisions than are kept back before they are written


def feed(process):
    for second in range(LINES):
        process.stdin.write(line(second))
    process.stdin.flush()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_reports_what_there_is(start, policy, tmp_path, files, number):
    """A decision that has come out shows that the loop is in its work; then the pipe stays open, and only the signal can end the reading."""
    with start("replay", policy(ONE_LIMIT), "-", "--decisions", "-", "--json", "report.json", stdin=subprocess.PIPE) as process:
        feed(process)
        first = process.stdout.readline()
        assert json.loads(first)["line"] == 1
        process.send_signal(number)
        rest = process.stdout.read()
        stderr = process.stderr.read()
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 130
    assert stderr == ""
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["interrupted"] and 0 < report["requests"] <= LINES
    assert len(decisions_of(first + rest)) == report["requests"]
    assert files() == ["policy.yaml", "report.json"]


def test_killed_it_leaves_no_file(start, policy, log, files):
    """By a signal that it does not wait for, or when nobody reads what it writes, as of `| head`."""
    policy(ONE_LIMIT)
    with start("replay", "policy.yaml", "-", "--decisions", "-", "--json", "report.json", stdin=subprocess.PIPE) as process:
        feed(process)
        process.stdout.readline()
        assert any(name.startswith("report.json.") for name in files())
        process.send_signal(signal.SIGHUP)
        assert process.wait(DEADLINE_S) == -signal.SIGHUP
    assert files() == ["policy.yaml"]
    log("".join(line(second) for second in range(LINES)))
    with start("replay", "policy.yaml", "access.log", "--decisions", "-", "--json", "report.json") as process:
        process.stdout.close()
        assert process.wait(DEADLINE_S) == -signal.SIGPIPE
    assert files() == ["access.log", "policy.yaml"]


def test_interrupted_the_text_says_so(start, policy, tmp_path):
    with start("replay", policy(ONE_LIMIT), "-", "--decisions", "decisions", stdin=subprocess.PIPE) as process:
        feed(process)
        grown = wait_for(lambda: [path for path in tmp_path.glob("decisions.*") if path.stat().st_size > 0])
        process.send_signal(signal.SIGINT)
        text = process.stdout.read()
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 130
    assert grown and "warning     interrupted: the log was not read to its end" in text
    assert decisions_of((tmp_path / "decisions").read_text())


def wait_for(condition):
    """An event that no file descriptor tells of."""
    until(condition, "the event")
    return condition()


def test_interrupted_before_anything_was_read(start, policy, files):
    with start("replay", policy(ONE_LIMIT), "-", "--json", "report.json", stdin=subprocess.PIPE) as process:
        wait_for(lambda: catches(process.pid, signal.SIGINT))
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.stdout.read(), process.stderr.read()
        assert process.wait(DEADLINE_S) == 130
        process.stdin.close()
    assert (stdout, stderr) == ("", "caudal replay: interrupted before the first request\n")
    assert files() == ["policy.yaml"]


def catches(pid, number):
    caught = re.search(r"SigCgt:\s+(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)
    return int(caught, 16) & 1 << number - 1


# ---- progress ----


def run_on_a_terminal(start, *words, columns=80, **more):
    """What it writes to a standard error that is a terminal, and its exit status."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with start(*words, stderr=theirs, stdout=subprocess.DEVNULL, **more) as process:
        os.close(theirs)
        text = b""
        while select.select([ours], [], [], DEADLINE_S)[0]:
            try:
                text += os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
        os.close(ours)
        return text.decode(), process.wait(DEADLINE_S)


def test_progress_is_drawn_and_erased(start, policy, log):
    name, access = policy(ONE_LIMIT), log("".join(line(number // 100) for number in range(300000)))
    text, status = run_on_a_terminal(start, "replay", name, access)
    assert status == 0
    drawn = text.split("\r\033[K")
    assert drawn[0] == "" and drawn[-1] == "", "the line is erased before it is drawn anew, and at the end"
    assert drawn[1:-1] and all(re.fullmatch(r"\[#*-*\]  [ 0-9]{2,3} %   [0-9.]+[kM]? lines/s(   [0-9a-z. ]+ left)?", one)
                               for one in drawn[1:-1]), drawn
    assert run_on_a_terminal(start, "replay", name, access, "--quiet") == ("", 0)
    assert run_on_a_terminal(start, "replay", name, access, "--format", "common", stdin=subprocess.DEVNULL)[1] == 0


def test_progress_fits_a_narrow_terminal(start, policy, log):
    access = log("".join(line(number // 100) for number in range(300000)))
    text, status = run_on_a_terminal(start, "replay", policy(ONE_LIMIT), access, columns=20)
    assert status == 0
    drawn = text.split("\r\033[K")[1:-1]
    assert drawn and all(len(one) <= 19 and one.startswith("[") for one in drawn), drawn


def test_progress_of_a_pipe_has_no_share(start, policy, log, tmp_path):
    log("".join(line(number // 100) for number in range(300000)))
    with subprocess.Popen(["cat", tmp_path / "access.log"], stdout=subprocess.PIPE) as cat:
        text, status = run_on_a_terminal(start, "replay", policy(ONE_LIMIT), "-", stdin=cat.stdout)
    assert status == 0
    assert re.search(r"\033\[K[0-9,]+ lines   [0-9.]+[kM]? lines/s\r", text), text
