"""TLS and client certificates, with certificates made for the test."""

import contextlib
import socket
import ssl
import warnings

import pytest

from authority import Authority
from client import Closed, Connection, build, get
from policies import limits


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("localhost")


def policy(certificate, more=""):
    cert, key = certificate
    return limits("name: one, rate: 1000000/hour", more=f"listen: {{tls: {{cert: {cert}, key: {key}{more}}}}}\n")


def test_requests_over_tls(serve, authority, certificate):
    server = serve(policy(certificate))
    with Connection(server.http, tls=authority.context()) as connection:
        assert connection.socket.version() in ("TLSv1.2", "TLSv1.3")
        for _ in range(3):
            assert connection.request("GET", "/check").status == 200
        connection.send(build("GET", "/check") * 50)
        assert [connection.read().status for _ in range(50)] == [200] * 50


def send_what_fits(connection, data):
    """Sends until nothing more fits into any buffer on the way; returns what is left."""
    connection.socket.settimeout(0.2)
    with contextlib.suppress(TimeoutError, ssl.SSLWantWriteError):
        while data:
            data = data[connection.socket.send(data[:16384]) :]
    connection.socket.settimeout(20)
    return data


def test_a_pipeline_that_is_read_late_is_answered_whole(serve, authority, certificate):
    """The client reads no answer before it can send no more; then all answers are there, each once."""
    server = serve(policy(certificate))
    count = 50_000
    with Connection(server.http, tls=authority.context()) as connection:
        left = send_what_fits(connection, build("GET", "/check", [("X-Pad", "x" * 300)]) * count)
        assert left, "everything fitted, and nobody had to wait"
        answered = 0
        while answered < count:
            connection._receive()
            answered += connection.received.count(b"HTTP/1.1 200 OK\r\n")
            connection.received = connection.received[connection.received.rfind(b"\n") + 1 :]
            if left and answered % 64 == 0:
                left = send_what_fits(connection, left)
        assert answered == count
        assert connection.request("GET", "/check").status == 200
    assert get(server.http, "/check", tls=authority.context()).status == 200


def test_old_versions_are_refused(serve, authority, certificate):
    server = serve(policy(certificate))
    context = authority.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():  # that they are old is known
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Connection(server.http, tls=context)
    context = authority.context(maximum_version=ssl.TLSVersion.TLSv1_2)
    assert get(server.http, "/check", tls=context).status == 200


def test_plain_http_on_a_tls_port_hurts_nobody(serve, authority, certificate):
    server = serve(policy(certificate))
    with Connection(server.http, tls=authority.context()) as good:
        with Connection(server.http) as plain:
            plain.send(build("GET", "/check"))
            plain.at_end()
        for junk in (b"\x16\x03\x01\xff\xff" + b"x" * 100, b"\0" * 1000, b"\x16"):
            with Connection(server.http) as bad:
                bad.send(junk)
        assert good.request("GET", "/check").status == 200


def test_a_client_needs_a_certificate_of_the_named_authority(serve, authority, certificate, tmp_path):
    server = serve(policy(certificate, f", client_ca: {authority.certificate}"))
    stranger = Authority(tmp_path, "stranger")
    assert get(server.http, "/check", tls=authority.context(client=authority.issue("client"))).status == 200
    for client in (None, stranger.issue("client")):
        # With TLS 1.3 the client learns of it when it reads.
        with pytest.raises((ssl.SSLError, ConnectionError, Closed)):
            get(server.http, "/check", tls=authority.context(client=client))


def test_a_handshake_that_stops_half_way_is_ended(serve, authority, certificate):
    cert, key = certificate
    tls, timeouts = f"tls: {{cert: {cert}, key: {key}}}", "timeouts: {header: 500ms, idle: 500ms}"
    server = serve(limits("name: one, rate: 1000000/hour", more=f"listen: {{{tls}, {timeouts}}}\n"))
    with socket.create_connection(server.http, 20) as half:
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        while half.recv(100):  # perhaps an alert; then the end
            pass
    assert get(server.http, "/check", tls=authority.context()).status == 200


def test_files_that_do_not_fit_are_an_error_at_start(tmp_path, authority, certificate):
    from program import run_server
    cert, key = certificate
    other_key = authority.issue("other")[1]
    file = tmp_path / "policy.yaml"
    for pair in ((cert, other_key), (cert, tmp_path / "absent"), (key, cert)):
        file.write_text(policy(pair) + "exempt: [{path: /healthz}]\n")
        status, out, err = run_server(file)
        assert status == 1 and "listening" not in out
        assert len(err.strip().splitlines()) == 1, err


def test_many_clients_over_tls(serve, authority, certificate):
    server = serve(policy(certificate))
    context = authority.context()
    connections = [Connection(server.http, tls=context) for _ in range(100)]
    assert {connection.request("GET", "/check").status for connection in connections} == {200}
    for connection in connections:
        connection.close()
    assert get(server.http, "/check", tls=context).status == 200
