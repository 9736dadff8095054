"""A policy that changes under a running server."""

import os
import shutil
import signal
import threading

import pytest

from client import Connection, get, post, statuses
from policies import limits
from waiting import holds, until

RELOAD_S = 2  # how soon a change of the file is in force


def one(rate, comment=""):
    return limits(f"name: one, rate: {rate}", more=comment)


def capacity(server):
    """What is in force, asked of the limiter itself."""
    answer = post(server.http, "/v1/peek", {"limit": "one", "cost": 0})
    assert answer.status == 200, answer
    return answer.json()["capacity"]


def expect(server, number):
    until(lambda: capacity(server) == number, f"a capacity of {number}", RELOAD_S + 1)


# --------------------------------------------------------------------------------------------------------- state


def test_C62_a_reload_gives_nobody_a_full_bucket(serve):
    server = serve(one("5/hour"))
    assert statuses(server.http, 6) == [200] * 5 + [429]
    reset = post(server.http, "/v1/peek", {"limit": "one", "cost": 0}).json()["reset_after_ns"]
    for count in range(10):
        server.reload(one("5/hour", f"# comment {count}\n"))
    server.reload(limits("name: one, rate: 5/hour", "name: other, per: [client_ip], rate: 100/second"))
    assert statuses(server.http, 1) == [429]
    now = post(server.http, "/v1/peek", {"limit": "one", "cost": 0}).json()["reset_after_ns"]
    assert reset - 60e9 < now < reset  # the same instant, seen a little later


def test_C63_what_was_spent_stays_spent(serve):
    server = serve(one("10/hour"))
    assert statuses(server.http, 50).count(200) == 10
    server.reload(one("20/hour"))
    assert statuses(server.http, 11) == [200] * 10 + [429]
    assert get(server.http, "/check").json()["violated-policies"] == ["one"]
    server.reload(one("5/hour"))
    answer = get(server.http, "/check")
    assert answer.status == 429
    assert 'r=0;' in answer.get("ratelimit")
    assert 'q=5;' in answer.get("ratelimit-policy")


def test_a_limit_that_leaves_and_comes_back_starts_anew(serve):
    server = serve(limits("name: one, rate: 1/hour", "name: two, rate: 100/hour"))
    assert statuses(server.http, 2) == [200, 429]
    server.reload(limits("name: two, rate: 100/hour"))
    assert statuses(server.http, 2) == [200, 200]
    server.reload(limits("name: one, rate: 1/hour", "name: two, rate: 100/hour"))
    assert statuses(server.http, 2) == [200, 429]


# ------------------------------------------------------------------------------------------- noticing by itself


def test_C65_written_in_place(serve):
    server = serve(one("5/hour"))
    server.policy_file.write_text(one("6/hour"))
    expect(server, 6)


def test_C65_renamed_over(serve):
    server = serve(one("5/hour"))
    for rate in (6, 7):
        server.rewrite(one(f"{rate}/hour"))
        expect(server, rate)


def test_C65_the_symlink_swap_of_a_configmap(serve, tmp_path):
    """policy.yaml -> ..data/policy.yaml, ..data -> ..2026_1: an update swaps ..data."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(number):
        version = mount / f"..2026_{number}"
        version.mkdir()
        (version / "policy.yaml").write_text(one(f"{number}/hour"))
        os.symlink(version.name, mount / "..data_tmp")
        os.rename(mount / "..data_tmp", mount / "..data")
        for old in mount.glob("..2026_*"):
            if old != version:
                shutil.rmtree(old)

    publish(5)
    os.symlink("..data/policy.yaml", mount / "policy.yaml")
    server = serve(mount / "policy.yaml")
    for number in (6, 7, 8):
        publish(number)
        expect(server, number)


def test_C65_removed_and_made_again(serve):
    server = serve(one("5/hour"))
    server.policy_file.unlink()
    holds(lambda: capacity(server) == 5, "the old policy is in force without a file", 1)
    server.policy_file.write_text(one("6/hour"))
    expect(server, 6)


def test_C65_two_changes_within_10_ms(serve):
    server = serve(one("5/hour"))
    for number in range(6, 16, 2):
        server.rewrite(one(f"{number}/hour"))
        server.rewrite(one(f"{number + 1}/hour"))
        expect(server, number + 1)


def test_C65_two_changes_of_equal_size_in_place(serve):
    server = serve(one("5/hour"))
    for _ in range(3):
        server.policy_file.write_text(one("6/hour"))
        server.policy_file.write_text(one("7/hour"))
        expect(server, 7)
        server.policy_file.write_text(one("8/hour"))
        expect(server, 8)


def test_C65_truncated_first_and_written_later(serve):
    server = serve(one("5/hour"))
    server.policy_file.write_text("")
    holds(lambda: capacity(server) == 5, "an empty file is not applied", 0.05)
    server.policy_file.write_text(one("6/hour"))
    expect(server, 6)


def test_C65_a_file_that_grows_slowly_is_never_applied_in_part(serve):
    """Each prefix of it that ends with a line would be a policy, too."""
    server = serve(one("5/hour"))
    text = one("6/hour") + "".join(f"  - {{name: n{i}, rate: 1000000/hour}}\n" for i in range(50))
    seen = set()
    with open(server.policy_file, "w", buffering=1) as file:
        for line in text.splitlines(keepends=True):
            file.write(line)
            file.flush()
            seen.add(len(get(server.admin, "/v1/limits").json()["limits"]))
    until(lambda: len(get(server.admin, "/v1/limits").json()["limits"]) == 51, "all of it is in force", RELOAD_S + 1)
    assert seen <= {1, 51}


def test_C65_generation_and_hash_are_visible(serve):
    server = serve(one("5/hour"))
    first = get(server.admin, "/v1/limits").json()
    server.reload(one("6/hour"))
    second = get(server.admin, "/v1/limits").json()
    assert second["generation"] == first["generation"] + 1
    assert second["hash"] != first["hash"]
    server.reload(one("5/hour"))
    assert get(server.admin, "/v1/limits").json()["hash"] == first["hash"]


# ------------------------------------------------------------------------------- noticing: several files, folders

ALONE = ("--resp", "none", "--grpc", "none")


def domain(name, number):
    return f"domain: {name}\ndescriptors:\n- key: k\n  rate_limit: {{unit: year, requests_per_unit: {number}}}\n"


def in_force(server):
    """What each domain allows in a year."""
    found = get(server.admin, "/v1/limits").json()["limits"]
    return {limit["name"]: int(limit["rate"].split("/")[0].split(" ")[0]) for limit in found}


def expect_domains(server, **numbers):
    wanted = {f"{name}/k": number for name, number in numbers.items()}
    until(lambda: in_force(server) == wanted, f"{wanted} in force", RELOAD_S + 1)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ratelimit"
    path.mkdir()
    (path / "a.yaml").write_text(domain("a", 5))
    (path / "b.yaml").write_text(domain("b", 5))
    return path


def test_C65_files_of_a_folder_come_change_and_go(serve, folder):
    server = serve(folder, *ALONE)
    expect_domains(server, a=5, b=5)
    (folder / "a.yaml").write_text(domain("a", 6))
    expect_domains(server, a=6, b=5)
    (folder / "b.new").write_text(domain("b", 7))
    (folder / "b.new").replace(folder / "b.yaml")
    expect_domains(server, a=6, b=7)
    (folder / "c.yaml").write_text(domain("c", 8))
    expect_domains(server, a=6, b=7, c=8)
    (folder / "c.yaml").unlink()
    expect_domains(server, a=6, b=7)
    (folder / "c.yaml").write_text(domain("c", 9))
    expect_domains(server, a=6, b=7, c=9)
    (folder / "a.yaml").write_text(domain("a", 10))
    (folder / "a.yaml").write_text(domain("a", 11))
    expect_domains(server, a=11, b=7, c=9)


def test_C65_a_new_file_is_set_right_in_place(serve, folder):
    """No policy in force knows of it, but the folder that it lies in."""
    server = serve(folder, *ALONE)
    (folder / "c.yaml").write_text("domain: c\ndescriptors: [\n")
    until(lambda: "c.yaml" in get(server.admin, "/v1/limits").json().get("last_reload_error", ""), "it is refused")
    assert in_force(server) == {"a/k": 5, "b/k": 5}
    (folder / "c.yaml").write_text(domain("c", 6))
    expect_domains(server, a=5, b=5, c=6)


def test_C65_a_file_of_a_folder_is_truncated_first_and_written_later(serve, folder):
    server = serve(folder, *ALONE)
    (folder / "b.yaml").write_text("")
    holds(lambda: in_force(server) == {"a/k": 5, "b/k": 5}, "an empty file is not applied", 0.05)
    (folder / "b.yaml").write_text(domain("b", 6))
    expect_domains(server, a=5, b=6)


def test_C54_C65_a_folder_is_a_configmap(serve, tmp_path):
    """a.yaml -> ..data/a.yaml, ..data -> ..2026_1: read once, and an update swaps ..data."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(number):
        version = mount / f"..2026_{number}"
        version.mkdir()
        for name in "ab":
            (version / f"{name}.yaml").write_text(domain(name, number))
        os.symlink(version.name, mount / "..data_tmp")
        os.rename(mount / "..data_tmp", mount / "..data")
        for old in mount.glob("..2026_*"):
            if old != version:
                shutil.rmtree(old)

    publish(5)
    for name in "ab":
        os.symlink(f"..data/{name}.yaml", mount / f"{name}.yaml")
    server = serve(mount, *ALONE)
    expect_domains(server, a=5, b=5)
    for number in (6, 7):
        publish(number)
        expect_domains(server, a=number, b=number)


def test_C65_files_that_a_policy_names(serve, folder, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text(domain("m", 5))
    server = serve(f"envoy: {{files: ['{folder}', '{more}']}}\n", *ALONE)
    expect_domains(server, a=5, b=5, m=5)
    more.write_text(domain("m", 6))
    expect_domains(server, a=5, b=5, m=6)
    (folder / "a.yaml").write_text(domain("a", 6))
    expect_domains(server, a=6, b=5, m=6)
    server.rewrite(f"envoy: '{more}'\n")
    expect_domains(server, m=6)
    more.unlink()
    more.write_text(domain("m", 7))
    expect_domains(server, m=7)


# ------------------------------------------------------------------------------------------------- broken files

BROKEN = {
    "bad YAML": "limits: [{name: one, rate: 5/hour\n",
    "an unknown unit": one("5/fortnight"),
    "an unknown key": one("5/hour", "limit: []\n"),
    "an empty file": "",
    "no limits": "limits: []\n",
}


def errors(server):
    from exposition import Metrics
    return Metrics(get(server.admin, "/metrics").body.decode()).sum("caudal_policy_reloads_total", result="failed")


def test_C66_a_broken_file_keeps_the_last_good_policy(serve):
    server = serve(one("5/hour"))
    assert statuses(server.http, 6) == [200] * 5 + [429]
    for count, text in enumerate(list(BROKEN.values())[:4], start=1):
        generation = server.generation()
        server.rewrite(text)
        until(lambda: errors(server) == count, f"error {count} is counted", RELOAD_S + 1)
        assert (server.generation(), capacity(server)) == (generation, 5)
        assert statuses(server.http, 1) == [429]
        assert get(server.admin, "/readyz").status == get(server.admin, "/healthz").status == 200
    # Once for each change, not once for each look.
    holds(lambda: errors(server) == 4, "a file that stays broken counts once", 1)
    server.rewrite(one("7/hour"))
    expect(server, 7)


def lines_with(server, word):
    return [line for line in server.log().splitlines() if word in line]


def test_C66_what_is_wrong_is_logged_once_with_its_place(serve):
    server = serve(one("5/hour"))
    server.rewrite(one("5/fortnight"))
    until(lambda: lines_with(server, "fortnight"), "the error is logged")
    holds(lambda: len(lines_with(server, "fortnight")) == 1, "it is logged once", 1)
    assert "policy.yaml:4:" in lines_with(server, "fortnight")[0]


def test_what_waits_for_the_next_start_is_said(serve):
    server = serve(one("5/hour"))
    server.rewrite(one("7/hour") + "\nlisten: {workers: 3}\n")
    expect(server, 7)  # the limits do not wait
    until(lambda: lines_with(server, "wait for the next start"), "the rest is said to")


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_C66_no_start_without_a_valid_policy(tmp_path, text):
    from program import run_server
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    status, out, err = run_server(file)
    assert status != 0
    assert "policy.yaml" in err and "listening" not in out
    assert run_server(tmp_path / "absent.yaml")[0] != 0


def test_the_api_reloads_and_says_what_is_wrong(serve):
    server = serve(one("5/hour"))
    server.rewrite(one("6/hour"))
    answer = post(server.admin, "/v1/reload", "")
    assert answer.status == 200, answer
    assert capacity(server) == 6
    server.rewrite(one("6/fortnight"))
    answer = post(server.admin, "/v1/reload", "")
    assert answer.status == 422, answer
    assert "fortnight" in answer.body.decode()
    assert capacity(server) == 6


# ---------------------------------------------------------------------------------------------------- under load


def test_reload_under_load_loses_and_doubles_no_answer(serve):
    """Four clients that never stop, while the limit is raised again and again. In the end as many passed as the last says."""
    server = serve(one("1000/day"))
    stop = threading.Event()
    counts = []

    def ask():
        passed = refused = 0
        with Connection(server.http) as connection:
            while not stop.is_set():
                status = connection.request("GET", "/check").status  # exactly one answer to each question
                assert status in (200, 429)
                passed += status == 200
                refused += status == 429
            assert connection.received == b""
        counts.append((passed, refused))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for rate in range(1100, 3100, 100):
        server.rewrite(one(f"{rate}/day"))
        if rate % 200 == 0:
            server.signal(signal.SIGHUP)
        assert post(server.admin, "/v1/reload", "").status == 200
    until(lambda: post(server.http, "/v1/peek", {"limit": "one", "cost": 0}).json()["remaining"] == 0,
          "the last limit is used up")
    stop.set()
    for thread in threads:
        thread.join()
    assert len(counts) == 4
    assert 3000 <= sum(passed for passed, _ in counts) <= 3001  # a token comes back each 29 s
    assert sum(refused for _, refused in counts) > 0
