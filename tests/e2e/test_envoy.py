"""A real Envoy with the shipped files, from client to application, asking for decisions over gRPC."""

import pathlib
import shutil
import signal
import tempfile
import threading

import pytest

from authority import Authority
from client import Connection, get, request
from conftest import T0
from envoy_proxy import Envoy
from policies import domain, rate
from program import CLOCK_BINARY, ROOT
from structured import parse_integer, parse_list
from waiting import until

S = 10**9
RULES = ROOT / "examples" / "envoy" / "ratelimit.yaml"
SMALL = ("--store", "memory:?keys=20000")
# Envoy's own 20 ms are for tests/redis: a busy machine may give a server none of them.
PATIENT = {"timeout: 0.02s": "timeout: 5s"}
REFUSE = {"failure_mode_deny: false": "failure_mode_deny: true"}


@pytest.fixture
def start(serve, app):
    """Starts a server whose clock stands, and an Envoy that asks it."""
    started = []

    def go(policy=RULES.read_text(), server=None, trusted=True, **changes):
        if server is None:
            server = serve(policy, *SMALL, binary=CLOCK_BINARY)
            server.set_clock(T0 + 10 * S)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="caudal-e2e-"))
        started.append(Envoy(folder, server.grpc, app.server_address, **PATIENT, **changes))
        started[-1].trusted = trusted
        return server, started[-1].wait_until_up()

    yield go
    for one in started:
        one.stop()
        shutil.rmtree(one.folder)


def check_refusal(answer, limit, seconds):
    assert answer.status == 429, answer
    assert parse_integer(answer.get("retry-after")) == seconds
    assert answer.get("x-envoy-ratelimited") == "true"
    assert {name: parameters["r"] for name, parameters in parse_list(answer.get("ratelimit"))}[limit] == 0
    assert limit in [name for name, _ in parse_list(answer.get("ratelimit-policy"))]


def test_the_sixth_login_of_a_minute_is_refused(start, app):
    server, front = start()
    for left in (4, 3, 2, 1, 0):
        answer = request(front.address, "POST", "/login", body=b"password=x")
        assert answer.status == 200, (answer, front.said())
        found = {name: parameters["r"] for name, parameters in parse_list(answer.get("ratelimit"))}
        assert found["login"] == left, answer
        assert answer.get("retry-after") is None
    # However the path is written.
    for target in ("/login", "/login?x=y", "/login/", "//login", "/x/../login", "/%6cogin"):
        check_refusal(request(front.address, "POST", target, body=b"password=x"), "login", 50)
    assert len(app.seen) == 5  # what is refused does not get there
    assert request(front.address, "POST", "/login", source=("127.0.0.2", 0)).status == 200  # another client
    assert get(front.address, "/logins").status == 200
    server.set_clock(T0 + 60 * S)
    assert request(front.address, "POST", "/login").status == 200
    assert front.counts() == {"ok": 8, "over_limit": 6}


def test_the_101st_request_of_a_client_is_refused(start, app):
    _, front = start()
    with Connection(front.address) as connection:
        statuses = [connection.request("GET", "/x").status for _ in range(100)]
        assert statuses == [200] * 100
        check_refusal(connection.request("GET", "/x"), "client", 50)
        assert connection.request("GET", "/healthz").status == 200  # is not asked about
    assert len(app.seen) == 101


def test_each_key_of_the_interface(start):
    policy = RULES.read_text().replace("requests_per_unit: 1000", "requests_per_unit: 2")
    policy = policy.replace("requests_per_unit: 20000", "requests_per_unit: 3")
    _, front = start(policy)
    for key, count in (("k1", 2), ("k2", 2), ("partner", 3)):
        answers = [get(front.address, "/", [("X-Api-Key", key)]) for _ in range(count + 1)]
        assert [answer.status for answer in answers] == [200] * count + [429], key
        assert answers[-1].get("retry-after") == "3590"
    assert get(front.address, "/").status == 200


def test_clients_cannot_write_what_the_limiter_says(start, app):
    """Neither to the application nor to themselves."""
    _, front = start()
    answer = get(front.address, "/", [("X-Forwarded-For", "203.0.113.1"), ("X-Envoy-Ratelimited", "true")])
    assert answer.status == 200
    statuses = [get(front.address, "/login", [("X-Forwarded-For", f"203.0.113.{n}")]).status for n in range(6)]
    assert statuses == [200] * 5 + [429]


def test_a_new_limit_is_in_force_at_once(start):
    server, front = start(domain("web", f"key: remote_address, {rate(2)}"))
    assert [get(front.address, "/").status for _ in range(3)] == [200, 200, 429]
    server.reload(domain("web", f"key: remote_address, {rate(4)}"))
    assert [get(front.address, "/").status for _ in range(3)] == [200, 200, 429]
    server.reload(domain("web", f"key: remote_address, {rate(0)}"))
    assert get(front.address, "/", source=("127.0.0.3", 0)).status == 429


@pytest.mark.parametrize("deny", [False, True], ids=["allow", "deny"])
def test_failure_mode_while_caudal_is_stopped(start, serve, app, deny):
    server, front = start(domain("web", f"key: remote_address, {rate(1)}"), **(REFUSE if deny else {}))
    assert [get(front.address, "/").status for _ in range(2)] == [200, 429]
    assert server.stop() == 0
    assert [get(front.address, "/").status for _ in range(3)] == [500 if deny else 200] * 3
    assert front.counts() == {"ok": 1, "over_limit": 1, "error": 3, **({} if deny else {"failure_mode_allowed": 3})}
    assert len(app.seen) == (1 if deny else 4)
    # And back, at the same address.
    again = serve(domain("web", f"key: remote_address, {rate(1)}"), "--grpc", "%s:%d" % server.grpc, *SMALL, binary=CLOCK_BINARY)
    again.set_clock(T0)
    until(lambda: get(front.address, "/").status == 429, "caudal is asked again")


ENDPOINT = "- endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}"


def test_C100_one_of_two_ends_and_envoy_loses_no_request(serve, start, tmp_path):
    """Its health says so first, and Envoy asks the other: even if it refuses what it cannot ask about, nothing is refused."""
    rules, policy = tmp_path / "rules.yaml", "listen: {{drain: 600ms}}\nenvoy: {}\n"
    rules.write_text(domain("web", f"key: remote_address, {rate(2**31)}"))
    ends, stays = (serve(policy.format(rules), *SMALL) for _ in range(2))
    one = ENDPOINT % ends.grpc[1]
    _, front = start(server=ends, **REFUSE, **{one: f"{one}\n              {ENDPOINT % stays.grpc[1]}", "no_traffic_interval: 5s": "no_traffic_interval: 0.1s", " interval: 5s": " interval: 0.1s",
                                               "unhealthy_threshold: 2": "unhealthy_threshold: 1"})
    statuses, stop = [], threading.Event()

    def ask():
        with Connection(front.address) as connection:
            while not stop.is_set():
                statuses.append(connection.request("GET", "/").status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: front.stat("cluster.caudal.membership_healthy") == 2 and len(statuses) > 50, "requests flow")
    ends.signal(signal.SIGTERM)
    assert ends.wait()[0] == 0
    count = len(statuses)
    until(lambda: len(statuses) > count + 50, "requests flow")
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}, {status: statuses.count(status) for status in set(statuses)}


def uncommented(text):
    """The example's part for TLS, as it is when its comment signs are taken away."""
    begin = text.index("      # transport_socket:")
    return text[begin:], "".join(line.replace("      # ", "      ", 1) for line in text[begin:].splitlines(True))


def test_each_proves_who_it_is(serve, start, tmp_path):
    """TLS with certificates on both sides, as the end of the example has it."""
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    certificate, key = authority.issue("caudal.example")
    rules = tmp_path / "rules.yaml"
    rules.write_text(domain("web", f"key: remote_address, {rate(2)}"))
    server = serve(f"envoy: {rules}\nlisten: {{tls: {{cert: {certificate}, key: {key}, client_ca: {authority.certificate}}}}}\n",
                   *SMALL, binary=CLOCK_BINARY)
    server.set_clock(T0)
    begin, tls = uncommented((ROOT / "examples" / "envoy" / "envoy.yaml").read_text())

    def changes(by):
        mine = by.issue("envoy")
        text = tls.replace("/etc/envoy/client.pem", str(mine[0])).replace("/etc/envoy/client.key", str(mine[1]))
        return {begin: text.replace("/etc/envoy/authority.pem", str(authority.certificate)), **REFUSE}

    _, front = start(server=server, **changes(authority))
    assert [get(front.address, "/").status for _ in range(3)] == [200, 200, 429]
    _, front = start(server=server, trusted=False, **changes(stranger))
    assert get(front.address, "/", source=("127.0.0.2", 0)).status == 500
    assert front.counts() == {"error": 1}
