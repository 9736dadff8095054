"""caudal take: the exit status is the answer, the wait is printed, and an error is neither."""

import json
import re
import time

import client
import pytest

WAIT = re.compile(r"(\d+)(\.\d{0,8}[1-9])?s\n")


def seconds(text):
    assert WAIT.fullmatch(text), text
    return float(text.rstrip("s\n"))


@pytest.fixture
def take(caudal, redis):
    """Takes from the server, must not meet an error, and returns (exit status, what was printed)."""

    def run(*words):
        result = caudal("take", "--store", redis.url, *words)
        assert result.returncode in (0, 1), result.stderr
        assert result.stderr == ""
        return result.returncode, result.stdout

    return run


@pytest.fixture
def fail(caudal):
    """Takes, must meet an error, and returns what it says."""

    def run(*words, env=None):
        result = caudal("take", *words, env=env)
        assert (result.returncode, result.stdout) == (2, ""), result
        return result.stderr

    return run


# ---------------------------------------------------------------------------------------------------------- answers


def test_the_exit_status_is_the_answer(take):
    assert [take("3/hour", "k") for _ in range(3)] == [(0, "")] * 3
    status, wait = take("3/hour", "k")
    assert status == 1
    assert 1190 < seconds(wait) <= 1200
    assert take("3/hour", "another") == (0, "")


def test_costs_and_what_never_passes(take):
    assert take("10/hour", "k", "--cost", "8") == (0, "")
    status, wait = take("10/hour", "k", "--cost=8")
    assert status == 1
    assert 2100 < seconds(wait) <= 2160
    assert take("10/hour", "k", "--cost", "11") == (1, "never\n")
    assert take("10/hour", "k", "--cost", "0") == (0, "")
    assert take("0/hour burst 1", "k") == (0, "")
    assert take("0/hour burst 1", "k") == (1, "never\n")


@pytest.mark.parametrize("limit", ["5/day", "5/day fixed_window", "5/day sliding_window", "5/day sliding_log"])
def test_every_algorithm(take, limit):
    assert [take(limit, "k")[0] for _ in range(6)] == [0] * 5 + [1]


def test_a_peek_takes_nothing(take):
    for _ in range(3):
        assert take("1/hour", "k", "--peek") == (0, "")
    assert take("1/hour", "k") == (0, "")
    status, wait = take("1/hour", "k", "--peek")
    assert (status, seconds(wait) > 3500) == (1, True)


def test_the_same_limit_in_other_words_shares_its_buckets(take):
    assert take("2 per 60 seconds", "k") == (0, "")
    assert take("2/minute", "k") == (0, "")
    assert take("2/min", "k")[0] == 1
    assert take("2/min burst 3", "k") == (0, "")


def test_names_share_and_separate(take):
    assert take("1/hour", "k", "--name", "a") == (0, "")
    assert take("1/hour", "k", "--name", "b") == (0, "")
    assert take("1/hour", "k", "--name", "a")[0] == 1
    assert take("2/hour", "k", "--name", "a")[0] == 0  # what was spent stays spent when a limit is changed
    assert take("2/hour", "k", "--name", "a")[0] == 1


def test_json(take):
    status, text = take("3/hour", "k", "--json", "--cost", "2")
    decision = json.loads(text)
    assert status == 0
    assert (decision["verdict"], decision["limit"], decision["remaining"], decision["granted"]) == ("allow", "3/h", 1, 2)
    status, text = take("3/hour", "k", "--json", "--cost", "2")
    decision = json.loads(text)
    assert status == 1
    assert (decision["verdict"], decision["remaining"], decision["retry_after"]) == ("deny", 1, 1200)
    status, text = take("3/hour", "k", "--json", "--cost", "4", "--name", 'a"b')
    assert (json.loads(text)["verdict"], json.loads(text)["limit"]) == ("never", 'a"b')


def test_keys_are_any_bytes(take):
    for key in ("-", "a b", "{x}", "*", "\u00e9", "k" * 1000, "a\nb"):
        assert take("1/hour", "--", key) == (0, "")
        assert take("1/hour", "--", key)[0] == 1


# ---------------------------------------------------------------------------------------------------------- waiting


def test_waits_for_its_turn(take):
    """The exact wait is slept: the turn has come when it asks again."""
    assert take("10/second burst 1", "k", "--wait", "20s") == (0, "")
    begin = time.monotonic()
    for _ in range(5):
        assert take("10/second burst 1", "k", "--wait", "20s") == (0, "")
    assert time.monotonic() - begin > 0.4


def test_does_not_wait_for_a_turn_that_comes_too_late(take):
    assert take("1/day", "k", "--wait", "1s") == (0, "")
    begin = time.monotonic()
    for patience in ("0s", "1ms", "10m", "23h"):
        status, wait = take("1/day", "k", "--wait", patience)
        assert (status, seconds(wait) > 86000) == (1, True)
    assert take("1/day", "k", "--wait", "1d", "--cost", "2") == (1, "never\n")
    assert time.monotonic() - begin < 20


def test_many_that_wait_share_one_bucket(start, redis):
    """Twelve at once for a bucket of four that refills ten a second: all pass, and not before their turns."""
    begin = time.monotonic()
    processes = [start("take", "--store", redis.url, "10/second burst 4", "k", "--wait", "30s") for _ in range(12)]
    for process in processes:
        stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout, stderr) == (0, "", "")
    assert time.monotonic() - begin >= 0.8


def test_many_at_once_pass_exactly_so_often(start, redis):
    processes = [start("take", "--store", redis.url, "10/day", "k") for _ in range(30)]
    statuses = []
    for process in processes:
        process.communicate(timeout=60)
        statuses.append(process.returncode)
    assert sorted(statuses) == [0] * 10 + [1] * 20


# ------------------------------------------------------------------------------------------------------- which store


def test_the_store_is_named_by_the_environment(caudal, redis):
    env = {"CAUDAL_STORE": redis.url}
    assert caudal("take", "1/hour", "k", env=env).returncode == 0
    assert caudal("take", "1/hour", "k", "--store", f"unix:{redis.socket}").returncode == 1
    assert caudal("take", "1/hour", "k", env={"CAUDAL_STORE": f"{redis.url}/1"}).returncode == 0


def test_a_store_in_memory_is_refused(fail, policy):
    said = fail("1/hour", "k", "--store", "memory:?keys=5")
    assert said == ("caudal take: the store of --store is memory:, which lives in one process and ends with it; "
                    "name a Redis or Valkey with --store\n")
    assert "store of policy.yaml is memory:" in fail("a", "--policy", policy("limits: [{name: a, rate: 1/s}]\n"))
    assert "store of $CAUDAL_STORE" in fail("1/hour", "k", env={"CAUDAL_STORE": "memory:"})


@pytest.mark.parametrize("words, said", [
    ((), "which limit? None was given"),
    (("1/hour",), "which key? None was given"),
    (("1/hour", "a", "b"), "one KEY; 'b' is a second"),
    (("1/hour", ""), "the KEY is empty"),
    (("1/x", "k"), "LIMIT: expected a period, such as 30s or minute, found 'x'"),
    (("1/hour", "k", "--cost", "-1"), "--cost: '-1' is not a whole number"),
    (("1/hour", "k", "--cost", "18446744073709551615"), "is not a whole number"),
    (("1/hour", "k", "--wait", "5"), "--wait: '5' is not a duration with its unit"),
    (("1/hour", "k", "--wait", "5s", "--peek"), "--peek takes nothing"),
    (("a", "k", "--policy", "p", "--name", "n"), "a policy names its limits itself"),
    (("1/hour", "k", "--store", "redis://h?colour=red"), "unknown parameter 'colour'"),
    (("1/hour", "k", "--name", "x" * 256), "1 to 255 bytes"),
    (("1/hour", "k" * 70000), "key"),
    (("a", *"1234567890abcdefg", "--policy", "p"), "more than 16 KEYs"),
])
def test_command_lines_that_are_wrong(fail, redis, words, said):
    store = () if "--store" in words else ("--store", redis.url)
    assert said in fail(*words, *store)


# ------------------------------------------------------------------------------------------------------------ errors


def test_an_error_is_not_a_refusal_and_shows_no_password(fail, redis):
    redis.kill()
    begin = time.monotonic()
    said = fail("1/hour", "k", "--store", f"redis://caller:hunter2@{redis.address}")
    assert said.startswith(f"caudal take: redis://caller:***@{redis.address}: ")
    assert "hunter2" not in said
    assert time.monotonic() - begin < 10


def test_a_wrong_password_is_said(fail, farm):
    node = farm.node(requirepass="open-sesame")
    assert "the store wants a password" in fail("1/hour", "k", "--store", node.url)
    assert "user and password" in fail("1/hour", "k", "--store", f"redis://:hunter2@{node.address}")


def test_a_store_that_is_silent_is_given_up_after_a_second(fail, redis):
    redis.pause()
    begin = time.monotonic()
    fail("1/hour", "k", "--store", redis.url)
    assert 0.9 < time.monotonic() - begin < 10
    redis.go_on()


def test_an_answer_that_cannot_be_written_is_an_error(caudal, redis):
    with open("/dev/full", "w") as full:
        result = caudal("take", "1/hour", "k", "--json", "--store", redis.url, stdout=full)
        assert result.returncode == 2
        assert "standard output" in result.stderr
        assert caudal("take", "1/hour", "k", "--store", redis.url, stdout=full).returncode == 2  # the wait is lost


# ---------------------------------------------------------------------------------------------------------- policies

POLICY = """\
store: {{url: "{url}", deadline: 15ms}}
limits:
  - name: uploads
    per: [tenant, user]
    rate: 2/day
    overrides:
      - {{match: {{tenant: gold}}, rate: 3/day}}
  - {{name: all, rate: 1/day}}
"""


def test_a_limit_of_a_policy(caudal, policy, redis):
    name = policy(POLICY.format(url=redis.url))

    def take(*words):
        result = caudal("take", *words, "--policy", name)
        assert result.stderr == ""
        return result.returncode

    assert [take("uploads", "t", "u") for _ in range(3)] == [0, 0, 1]
    assert [take("uploads", "u", "t") for _ in range(3)] == [0, 0, 1]
    assert [take("uploads", "gold", "u") for _ in range(4)] == [0, 0, 0, 1]
    assert [take("all") for _ in range(2)] == [0, 1]


def test_the_command_line_has_the_last_word_on_the_store(caudal, policy, farm):
    first, second = farm.node(), farm.node()
    name = policy(POLICY.format(url=first.url))
    assert caudal("take", "all", "--policy", name).returncode == 0
    assert caudal("take", "all", "--policy", name, "--store", second.url).returncode == 0
    assert caudal("take", "all", "--policy", name, env={"CAUDAL_STORE": second.url}).returncode == 1
    assert first("DBSIZE") == second("DBSIZE") == 1


def test_errors_of_policies(fail, policy, redis):
    name = policy(POLICY.format(url=redis.url))
    assert "policy.yaml has no limit 'upload'" in fail("upload", "k", "--policy", name)
    assert "limit 'uploads' counts by tenant, user: it wants 2 KEYs, not 1" in fail("uploads", "k", "--policy", name)
    assert "limit 'all' has one bucket for all, and no KEY" in fail("all", "k", "--policy", name)
    assert "missing.yaml: cannot be read" in fail("all", "--policy", "missing.yaml")
    secret = policy("short", "secret")
    name = policy(f"identity: {{secret_file: {secret}}}\n" + POLICY.format(url=redis.url), "with-secret.yaml")
    assert "secret does not hold a secret of 16" in fail("all", "--policy", name)


def test_a_store_that_is_away_is_an_error_whatever_the_limit_would_have_answered(fail, policy, redis):
    redis.kill()
    for on_failure in ("allow", "deny", "local"):
        name = policy(f"store: {redis.url}\nlimits: [{{name: a, rate: 1/s, on_store_failure: {on_failure}}}]\n")
        assert redis.address in fail("a", "--policy", name)


def test_buckets_are_shared_with_servers_of_the_policy(caudal, policy, redis, serve, tmp_path):
    policy("0123456789abcdef\n", "secret")
    text = f"identity: {{secret_file: {tmp_path}/secret}}\n" + POLICY.format(url=redis.url)
    name = policy(text)
    taken = client.post(serve(text).http, "/v1/take", {"limit": "uploads", "key": ["t", "u"]})
    assert taken.json()["verdict"] == "allow"
    assert [caudal("take", "uploads", "t", "u", "--policy", name).returncode for _ in range(2)] == [0, 1]
