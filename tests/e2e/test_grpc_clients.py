"""Clients of gRPC that are not ours, and the ways that they come: @grpc/grpc-js, and grpcio over TLS and over a Unix socket. grpcio asks in
test_envoy_service.py too, and Envoy in test_envoy.py."""

import json
import os

import grpc
import pytest

from authority import Authority
from envoy_client import Service
from policies import domain, rate
from test_resp_clients import HERE, ROOT, command, find_node

SMALL = ("--store", "memory:?keys=20000")
RULES = domain("one", f"key: k, {rate(3, 'year')}")


def test_grpc_js(serve_domains):
    server, _ = serve_domains(domain("node", f"key: k, {rate(3)}"))
    command(ROOT / "scripts" / "make-node.sh")
    told = json.loads(command(find_node(), HERE / "node" / "grpc.js", "%s:%d" % server.grpc,
                              env={**os.environ, "NODE_PATH": str(ROOT / "build" / "node" / "node_modules")}))
    assert told["first"]["overall_code"] == "OK"
    (status,) = told["first"]["statuses"]
    assert status["code"] == "OK" and status["limit_remaining"] == 2
    assert status["current_limit"] == {"requests_per_unit": 3, "unit": "MINUTE", "name": ""}
    assert status["duration_until_reset"] == {"seconds": "60", "nanos": 0}
    assert {field["key"].lower() for field in told["first"]["response_headers_to_add"]} >= {"ratelimit", "ratelimit-policy"}
    assert told["codes"] == ["OK", "OK", "OVER_LIMIT", "OVER_LIMIT"]
    assert sorted(told["many"]) == list(range(1000))
    assert told["wrong"]["code"] == 3 and "domain" in told["wrong"]["details"]
    assert (told["cancelled"], told["late"]) == (1, 4)
    assert (told["serving"], told["unknown"]) == ("SERVING", 5)
    assert told["again"] == "OK"


def test_a_unix_socket(serve, tmp_path):
    path = tmp_path / "grpc.sock"
    server = serve(RULES, "--grpc", f"unix:{path}", *SMALL)
    assert server.grpc == str(path)
    with Service(server.grpc) as service:
        assert service.codes(4, "one", "k=v") == ["OK"] * 3 + ["OVER_LIMIT"]


def test_no_gRPC_where_none_is_wanted(serve):
    server = serve(RULES, "--grpc", "none", *SMALL)
    assert "grpc" not in server.listening


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


def credentials(authority, client=None):
    """Of a client that believes `authority`, and shows a certificate of its own perhaps."""
    pair = [file.read_bytes() for file in client] if client else [None, None]
    return grpc.ssl_channel_credentials(authority.certificate.read_bytes(), pair[1], pair[0])


def secured(tmp_path, authority, more=""):
    certificate, key = authority.issue("localhost")
    (tmp_path / "rules.yaml").write_text(RULES)
    return f"envoy: {tmp_path}/rules.yaml\nlisten: {{tls: {{cert: {certificate}, key: {key}{more}}}}}\n"


def test_over_tls(serve, authority, tmp_path):
    server = serve(secured(tmp_path, authority), *SMALL)
    with Service(server.grpc, credentials(authority)) as service:
        assert service.codes(4, "one", "k=v") == ["OK"] * 3 + ["OVER_LIMIT"]
        assert service.serving("ratelimit") == "SERVING"
    for stranger in (None, credentials(Authority(tmp_path, "stranger"))):  # in the clear, and one that believes somebody else
        with Service(server.grpc, stranger) as service:
            assert service.error(service.ask, "one", "k=v", timeout=2)[0] in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def test_over_tls_each_proves_who_it_is(serve, authority, tmp_path):
    server = serve(secured(tmp_path, authority, f", client_ca: {authority.certificate}"), *SMALL)
    with Service(server.grpc, credentials(authority, authority.issue("client"))) as service:
        assert service.codes(4, "one", "k=v") == ["OK"] * 3 + ["OVER_LIMIT"]
    for client in (None, Authority(tmp_path, "stranger").issue("client")):
        with Service(server.grpc, credentials(authority, client)) as service:
            assert service.error(service.ask, "one", "k=v", timeout=2)[0] in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
