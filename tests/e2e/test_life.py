"""From start to end: addresses, sockets, signals, draining."""

import os
import re
import signal
import socket
import threading

import pytest

from client import Closed, Connection, get, statuses
from policies import limits
from program import FRONTS, ROOT, on_free_ports, run, run_server
from waiting import holds, until

# One that nothing is to be said about: what it says is looked at.
POLICY = limits("name: one, rate: 1000000/hour", more="exempt: [{path: /healthz}]\nlisten: {drain: 200ms}\n")


@pytest.fixture
def policy_file(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


# ------------------------------------------------------------------------------------------------------ addresses


def test_the_line_to_try_works_as_it_is(serve, tmp_path):
    import subprocess
    server = serve(POLICY)
    (line,) = [line for line in server.stdout if "curl" in line]
    command = line[line.index("curl"):].strip()
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
    assert "200 OK" in done.stdout, (command, done)


def test_the_quickstart_ends_in_a_429_as_the_readme_says(serve):
    server = serve(ROOT / "examples" / "quickstart.yaml")
    assert statuses(server.http, 5) == [200] * 5
    answer = get(server.http, "/check")
    assert (answer.status, answer.get("retry-after")) == (429, "6")


def test_C102_without_options_it_listens_on_loopback_only(serve):
    """The default addresses may be taken on a machine that runs tests; so what is looked at is what --check-config says."""
    server = serve(POLICY, *(word for front in FRONTS for word in (f"--{front}", ":0")))
    assert {server.listening[front][0][0] for front in FRONTS} == {"127.0.0.1"}
    inodes = {os.readlink(f"/proc/{server.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{server.process.pid}/fd")}
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "0" * 24 + "01000000")):
        for line in open(f"/proc/net/{table}").read().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in inodes and fields[3] == "0A":  # listening
                assert fields[1].split(":")[0] == loopback, line


@pytest.mark.parametrize("address", ["[::1]:0", "localhost:0", "127.0.0.1:0"])
def test_C102_forms_of_addresses(serve, address):
    server = serve(POLICY, "--http", address)
    assert get(server.http, "/check").status == 200


def test_C102_a_unix_socket(serve, tmp_path):
    path = tmp_path / "http.sock"
    server = serve(POLICY, "--http", f"unix:{path}", "--admin", f"unix:{tmp_path}/admin.sock")
    assert server.http == str(path)
    assert statuses(server.http, 3) == [200] * 3
    assert get(server.admin, "/healthz").status == 200
    server.signal(signal.SIGTERM)
    assert server.wait()[0] == 0
    assert not path.exists(), "the socket file stays after a drain"


def test_C102_a_stale_socket_file_is_replaced(serve, tmp_path):
    path = tmp_path / "http.sock"
    server = serve(POLICY, "--http", f"unix:{path}")
    server.process.kill()
    server.process.wait()
    assert path.exists()
    server.process.returncode = 0  # it was we who ended it
    again = serve(POLICY, "--http", f"unix:{path}")
    assert get(again.http, "/check").status == 200


def test_C102_a_socket_that_is_in_use_is_left_alone(serve, policy_file, tmp_path):
    path = tmp_path / "http.sock"
    server = serve(POLICY, "--http", f"unix:{path}")
    status, _, err = run_server(policy_file, "--http", f"unix:{path}")
    assert status == 1 and str(path) in err
    assert get(server.http, "/check").status == 200


def test_C102_a_file_that_is_no_socket_is_left_alone(policy_file):
    status, _, err = run_server(policy_file, "--http", f"unix:{policy_file}")
    assert status == 1 and "policy.yaml" in err
    assert policy_file.read_text() == POLICY


@pytest.mark.parametrize("front", FRONTS)
def test_C102_a_port_in_use_is_an_error_of_one_line(policy_file, front):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        status, _, err = run_server(policy_file, f"--{front}", address)
    assert status == 1
    (line,) = err.strip().splitlines()
    assert address in line and "in use" in line


@pytest.mark.parametrize("flag, value", [("--http", "127.0.0.1"), ("--http", "[::1"), ("--http", "unix:"),
                                         ("--http", "127.0.0.1:99999"), ("--http", "nowhere.invalid:0"),
                                         ("--http", "unix:" + "x" * 200), ("--workers", "none"), ("--workers", "-1"),
                                         ("--workers", "1000000"), ("--store", "mongodb://x"), ("--htpp", "x"),
                                         ("--store", "memory:?keys=none"), ("--resp", "127.0.0.1"), ("--grpc", "[::1")])
def test_C102_a_wrong_flag_is_an_error_of_one_line(policy_file, flag, value):
    status, out, err = run_server(policy_file, flag, value)
    assert status in (1, 2)
    assert not out or flag in ("--resp", "--grpc")  # it says where it listens already
    assert 1 <= len(err.strip().splitlines()) <= 2, err
    assert err.startswith("caudal"), err


def test_C102_no_password_of_a_store_is_shown(policy_file):
    """Of one that cannot be read; tests/redis has those that can."""
    for url in ("redis://user:s3cr3t@127.0.0.1:1/0?nonsense=1", "redis://user:s3cr3t@x@127.0.0.1", "redys://user:s3cr3t@127.0.0.1"):
        status, out, err = run_server(policy_file, "--store", url)
        assert status == 1 and err.count("\n") == 1
        assert "s3cr3t" not in out + err


def test_check_config_reads_and_stops(policy_file, tmp_path):
    assert run("serve", policy_file, "--check-config")[0] == 0
    policy_file.write_text("limits: nothing\n")
    status, _, err = run("serve", policy_file, "--check-config")
    assert status == 1 and "policy.yaml:1:" in err


# ---------------------------------------------------------------------------------------------------------- admin


def test_admin_beyond_loopback_wants_a_token(policy_file, serve, tmp_path):
    status, _, err = run_server(policy_file, "--admin", "0.0.0.0:0")
    assert status == 1 and "token" in err

    token = tmp_path / "token"
    token.write_text("short\n")
    policy_file.write_text(limits("name: one, rate: 1/hour", more=f"listen: {{admin_token_file: {token}}}\n"))
    status, _, err = run_server(policy_file, "--admin", "0.0.0.0:0")
    assert status == 1 and "16 bytes" in err  # one that can be guessed is none
    token.write_text("correct horse battery\n")
    server = serve(limits("name: one, rate: 1/hour", more=f"listen: {{admin_token_file: {token}}}\n"))
    good, bad = [("Authorization", "Bearer correct horse battery")], [("Authorization", "Bearer correct horse batter")]
    assert get(server.admin, "/v1/limits", good).status == 200
    for fields in ([], bad, [("Authorization", "correct horse battery")],
                   [("Authorization", "Bearer correct horse battery2")],
                   [("Authorization", "Basic correct horse battery")], bad + good):
        for path in ("/v1/limits", "/metrics", "/v1/reload", "/nowhere"):
            answer = get(server.admin, path, fields)
            assert answer.status == 401 or answer.status == 400 and len(fields) == 2, (path, fields, answer)
            if answer.status == 401:
                assert answer.get("www-authenticate").startswith("Bearer")
    assert "correct horse" not in server.log()


# ----------------------------------------------------------------------------------------------------------- TERM


def test_C100_readiness_fails_first_and_answers_go_on(serve):
    server = serve(limits("name: one, rate: 1000000/hour", more="listen: {drain: 1s}\n"))
    with Connection(server.http) as connection, Connection(server.admin) as admin:
        assert admin.request("GET", "/readyz").status == 200
        server.signal(signal.SIGTERM)
        until(lambda: get(server.admin, "/readyz").status == 503, "readiness fails")
        assert get(server.admin, "/healthz").status == 200
        assert server.process.poll() is None
        # On connections that were there, and on new ones.
        assert connection.request("GET", "/check").status == 200
        assert get(server.http, "/check").status == 200
        status, seconds = server.wait()
    assert status == 0
    assert seconds < 1.6


def test_C100_no_answer_is_lost_while_it_drains(serve):
    """Four clients under way: each question that was sent has its answer, up to the end of the connection."""
    server = serve(limits("name: one, rate: 1000000/hour", more="listen: {drain: 500ms}\n"))
    lost, answered = [], []

    def ask():
        count = 0
        try:
            with Connection(server.http) as connection:
                while True:
                    answer = connection.request("GET", "/check")
                    assert answer.status == 200
                    count += 1
                    if (answer.get("connection") or "").lower() == "close":
                        break
                assert connection.at_end() == b""
        except (Closed, ConnectionError) as error:
            lost.append(error)
        answered.append(count)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: get(server.admin, "/readyz").status == 200, "it is up")
    server.signal(signal.SIGTERM)
    assert server.wait()[0] == 0
    for thread in threads:
        thread.join()
    assert not lost and len(answered) == 4 and min(answered) > 0


def test_C100_an_idle_connection_does_not_delay_the_end(serve):
    server = serve(limits("name: one, rate: 1000000/hour", more="listen: {drain: 300ms}\n"))
    with Connection(server.http) as idle, Connection(server.http) as half:
        idle.request("GET", "/check")
        half.send(b"GET /check HTTP/1.1\r\nHost: x\r\n")
        server.signal(signal.SIGTERM)
        status, seconds = server.wait()
    assert status == 0 and seconds < 1


def test_C100_a_second_TERM_ends_it_at_once(serve):
    server = serve(limits("name: one, rate: 1000000/hour", more="listen: {drain: 1h}\n"))
    server.signal(signal.SIGTERM)
    until(lambda: get(server.admin, "/readyz").status == 503, "it drains")
    server.signal(signal.SIGTERM)
    status, seconds = server.wait()
    assert seconds < 0.5
    assert status == 0


def test_INT_is_TERM(serve):
    server = serve(limits("name: one, rate: 1000000/hour", more="listen: {drain: 0s}\n"))
    server.signal(signal.SIGINT)
    assert server.wait()[0] == 0


def test_it_tells_systemd_what_it_does(serve, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        notify.settimeout(20)
        server = serve(limits("name: one, rate: 1/hour", more="listen: {drain: 100ms}\n"), env={"NOTIFY_SOCKET": path})
        assert "READY=1" in notify.recv(4096).decode().split("\n")
        server.signal(signal.SIGTERM)
        assert "STOPPING=1" in notify.recv(4096).decode().split("\n")
        assert server.wait()[0] == 0


def test_a_closed_stdout_does_not_end_it(tmp_path, policy_file):
    """As under a shell whose terminal is gone."""
    import subprocess
    from program import BINARY
    process = subprocess.Popen([BINARY, "serve", str(policy_file), *on_free_ports([])],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = re.search(r"(127\.0\.0\.1):(\d+)", process.stdout.readline())
    process.stdout.close()
    process.stderr.close()
    http = (address.group(1), int(address.group(2)))
    holds(lambda: get(http, "/check").status == 200, "it answers", 0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
