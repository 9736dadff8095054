"""/check as proxies ask it: who is counted, what is answered."""

import pytest

from client import Connection, build, get, request, statuses
from policies import client, limits
from structured import parse_integer, parse_list

PER_CLIENT = limits("name: per-client, per: [client_ip], rate: 3/minute")


def test_a_burst_passes_and_the_next_is_refused(serve):
    server = serve(PER_CLIENT)
    for left in (2, 1, 0):
        answer = get(server.http, "/check")
        assert answer.status == 200
        assert parse_list(answer.get("ratelimit-policy")) == [("per-client", {"q": 3, "w": 60})]
        ((name, parameters),) = parse_list(answer.get("ratelimit"))
        assert (name, parameters["r"]) == ("per-client", left)
        assert answer.get("retry-after") is None

    answer = get(server.http, "/check")
    assert answer.status == 429
    assert answer.get("content-type") == "application/problem+json"
    assert answer.get("cache-control") == "no-store"
    assert 1 <= parse_integer(answer.get("retry-after")) <= 20
    ((name, parameters),) = parse_list(answer.get("ratelimit"))
    assert (name, parameters["r"], parameters["t"]) == ("per-client", 0, int(answer.get("retry-after")))
    problem = answer.json()
    assert problem["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert problem["status"] == 429
    assert problem["violated-policies"] == ["per-client"]


def test_each_client_has_its_own_bucket(serve):
    server = serve(PER_CLIENT)
    for address in ("203.0.113.1", "203.0.113.2", "2001:db8::1"):
        assert statuses(server.http, 4, fields=client(address)) == [200, 200, 200, 429]
    # Counted by network, the default: a client has a whole one.
    assert statuses(server.http, 1, fields=client("2001:db8::2")) == [429]
    assert statuses(server.http, 1, fields=client("2001:db8:0:1::1")) == [200]
    # IPv4-mapped IPv6 is IPv4.
    assert statuses(server.http, 1, fields=client("::ffff:203.0.113.1")) == [429]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"])
def test_any_method_on_check(serve, method):
    server = serve(PER_CLIENT)
    body = b"x" * 100 if method in ("POST", "PUT", "PATCH") else b""
    assert [request(server.http, method, "/check", body=body).status for _ in range(4)] == [200, 200, 200, 429]


def test_deny_403_says_the_true_status_in_a_field(serve):
    """For nginx, whose auth_request makes a 500 of a 429."""
    server = serve(PER_CLIENT)
    assert statuses(server.http, 3, "/check?deny=403") == [200, 200, 200]
    answer = get(server.http, "/check?deny=403")
    assert answer.status == 403
    assert answer.get("caudal-status") == "429"
    assert answer.get("caudal-limit") == "per-client"
    assert parse_integer(answer.get("retry-after")) >= 1
    assert parse_list(answer.get("ratelimit"))


def test_a_limit_in_shadow_mode_refuses_nothing(serve):
    server = serve(limits("name: trial, rate: 1/hour, mode: shadow", "name: real, rate: 2/hour", "name: off, rate: 0/s, mode: off"))
    assert statuses(server.http, 2) == [200, 200]
    answer = get(server.http, "/check")
    assert answer.status == 429
    assert answer.json()["violated-policies"] == ["real"]
    assert parse_list(answer.get("ratelimit"))[0][0] == "real"


def test_a_cost_that_no_wait_helps_has_no_retry_after(serve):
    server = serve(limits("name: small, rate: 3/minute, cost: {header: x-cost, max: 50}"))
    answer = get(server.http, "/check", [("X-Cost", "4")])
    assert answer.status == 429
    assert answer.get("retry-after") is None
    assert "at most 3" in answer.json()["detail"]
    assert get(server.http, "/check", [("X-Cost", "3")]).status == 200


# ------------------------------------------------------------------------------------------ fields in each revision


def fields_of(answer, names):
    return {name: answer.get(name) for name in names}


@pytest.mark.parametrize("revision", ["ietf-11", "ietf-12"])
def test_structured_fields_parse(serve, revision):
    server = serve(limits("name: per-client, per: [client_ip], rate: 2/minute", "name: all, rate: 100/second burst 200",
                          more=f"fields: {revision}\n"))
    left, wait = ("r", "t") if revision == "ietf-11" else ("a", "w")
    for count in range(3):
        answer = get(server.http, "/check")
        assert answer.status == (200 if count < 2 else 429)
        policies = parse_list(answer.get("ratelimit-policy"))
        assert policies == [("per-client", {"q": 2, "w": 60})]  # the one that has least left, as below
        ((name, parameters),) = parse_list(answer.get("ratelimit"))
        assert name == "per-client"  # the one with least left
        assert parameters[left] == max(1 - count, 0)
        assert 1 <= parameters[wait] <= 60
        assert all(type(value) is int for value in parameters.values())


@pytest.mark.parametrize("revision, prefix", [("ietf-06", ""), ("x-ratelimit-delta", "x-")])
def test_plain_fields_parse(serve, revision, prefix):
    server = serve(limits("name: per-client, per: [client_ip], rate: 2/minute", more=f"fields: {revision}\n"))
    for count in range(3):
        answer = get(server.http, "/check")
        assert parse_integer(answer.get(prefix + "ratelimit-limit")) == 2
        assert parse_integer(answer.get(prefix + "ratelimit-remaining")) == max(1 - count, 0)
        assert 1 <= parse_integer(answer.get(prefix + "ratelimit-reset")) <= 60
        assert answer.get("ratelimit") is None


def test_no_fields_when_there_are_to_be_none(serve):
    server = serve(limits("name: one, rate: 1/minute", more="fields: none\n"))
    for _ in range(2):
        answer = get(server.http, "/check")
        assert not [name for name, _ in answer.fields if "ratelimit" in name]
    assert answer.status == 429 and answer.get("retry-after")


def test_names_of_any_spelling_parse_back(serve):
    names = ["a.b", "A-b_c", "x:y", "n" * 100]
    server = serve(limits(*(f"name: '{name}', when: {{path: /{i}}}, rate: 1/minute" for i, name in enumerate(names))))
    for i, name in enumerate(names):
        for status in (200, 429):
            answer = get(server.http, "/check", [("X-Forwarded-Uri", f"/{i}")])
            assert answer.status == status
            assert parse_list(answer.get("ratelimit-policy")) == [(name, {"q": 1, "w": 60})]
            assert parse_list(answer.get("ratelimit"))[0][0] == name


# ----------------------------------------------------------------------------------------------- whom to believe


def test_C69_an_untrusted_peer_speaks_for_itself(serve):
    """Whatever it writes into the fields of proxies; and nobody needs to write any."""
    server = serve(limits("name: check, when: {path: /check}, rate: 2/minute",
                          "name: free, when: {path: /free}, rate: unlimited", trusting=False))
    lies = [("X-Forwarded-Uri", "/free"), ("X-Forwarded-Method", "OPTIONS"), ("X-Original-URI", "/free")]
    assert statuses(server.http, 3, fields=lies) == [200, 200, 429]


def test_C69_a_trusted_peer_speaks_for_its_client(serve):
    server = serve(limits("name: writes, when: {method: POST, path: /v1/*, host: api.test}, rate: 1/minute"))
    forms = (
        [("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "/v1/x?y=z"), ("X-Forwarded-Host", "api.test")],
        [("X-Original-Method", "POST"), ("X-Original-URI", "/v1/x"), ("X-Original-Host", "API.test:443")],
        [("X-Original-Method", "POST"), ("X-Original-URL", "http://api.test/v1/x"), ("X-Original-Host", "api.test")],
        [("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "//v1/./a/../x"), ("X-Forwarded-Host", "api.test")],
    )
    assert [get(server.http, "/check", form).status for form in forms] == [200, 429, 429, 429]
    # What is not said is taken from the question itself: here the method is GET, there the path is /check.
    assert get(server.http, "/check", [("X-Forwarded-Uri", "/v1/x")], host="api.test").status == 200
    assert request(server.http, "POST", "/check", host="api.test").status == 200
    assert request(server.http, "POST", "/check", [("X-Forwarded-Uri", "/v1/x")], host="api.test").status == 429


@pytest.mark.parametrize("name", ["X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host", "X-Original-URI"])
def test_C69_a_deciding_field_that_is_sent_twice_is_refused(serve, name):
    server = serve(PER_CLIENT)
    assert get(server.http, "/check", [(name, "/a"), (name, "/b")]).status == 400
    assert get(server.http, "/check", [(name, "/a")]).status == 200


def test_C69_two_proxies_names_that_disagree_are_refused(serve):
    """A client may add the name that its proxy does not set: neither is believed."""
    server = serve(PER_CLIENT)
    assert get(server.http, "/check", [("X-Original-URI", "/a"), ("X-Forwarded-Uri", "/b")]).status == 400
    assert get(server.http, "/check", [("X-Original-Method", "GET"), ("X-Forwarded-Method", "PUT")]).status == 400
    assert get(server.http, "/check", [("X-Original-URI", "/a"), ("X-Forwarded-Uri", "/a")]).status == 200


def test_C69_a_uri_of_8_kilobytes(serve):
    server = serve(limits("name: per-path, per: [path], rate: 1/minute"))
    uri = "/" + "x" * 8191
    assert [get(server.http, "/check", [("X-Forwarded-Uri", uri)]).status for _ in range(2)] == [200, 429]
    assert get(server.http, "/check", [("X-Forwarded-Uri", uri[:-1] + "y")]).status == 200


def test_C70_preflights_and_probes_do_not_eat_the_quota(serve):
    server = serve(limits("name: per-client, per: [client_ip], rate: 40/minute",
                          more="exempt: [{path: /healthz}, {method: OPTIONS}]\n"))
    with Connection(server.http) as connection:
        for _ in range(40):
            for method in ("OPTIONS", "GET"):
                fields = [("X-Forwarded-Method", method), ("X-Forwarded-Uri", "/page")]
                assert connection.request("GET", "/check", fields).status == 200
            assert connection.request("GET", "/check", [("X-Forwarded-Uri", "/healthz")]).status == 200
        assert connection.request("GET", "/check", [("X-Forwarded-Uri", "/page")]).status == 429
        # The daemon's own health is never limited.
        assert {get(server.admin, path).status for path in ("/healthz", "/readyz") for _ in range(50)} == {200}


# ------------------------------------------------------------------------------------------------- keys and addresses


def test_C75_odd_values_are_distinct_keys(serve):
    server = serve(limits("name: per-key, per: [header.x-key], rate: 1/minute"))
    values = [b"a", b"a b", b"a  b", "\U0001f600".encode(), b"\xff\xfe", b"\xff\xfd", b"x" * 12000,
              b"x" * 11999 + b"y", b"%00", b"a%00b", b'"', b"\\"]
    for value in values:
        assert get(server.http, "/check", [("X-Key", value)]).status == 200, value
    for value in values:
        assert get(server.http, "/check", [("X-Key", value)]).status == 429, value


@pytest.mark.parametrize("value", [b"a\0b", b"a\rb", b"a\nb", b"a\r\n b", b"\x01"])
def test_C75_controls_in_a_header_are_400(serve, value):
    server = serve(PER_CLIENT)
    with Connection(server.http) as connection:
        connection.send(build("GET", "/check", [("X-Key", value)]))
        assert connection.read().status == 400
        assert connection.at_end() == b""


def test_C75_a_header_over_the_cap_is_431(serve):
    server = serve(PER_CLIENT)
    assert get(server.http, "/check", [("X-Key", "x" * 65536)]).status == 431
    assert get(server.http, "/check", [(f"X-{i}", "x") for i in range(1000)]).status == 431


def left_of(server, key, limit="per-client"):
    from client import post
    answer = post(server.http, "/v1/peek", {"limit": limit, "key": key, "cost": 1})
    assert answer.status == 200, answer
    return answer.json()["remaining"]


ADDRESSES = {
    "203.0.113.7": "203.0.113.7",
    "203.0.113.7:4711": "203.0.113.7",
    "[2001:db8::1]:443": "2001:db8::1",
    "2001:DB8:0:0::0:1": "2001:db8::1",
    "fe80::1%eth0": "fe80::1",
    "fe80::1%eth0.100": "fe80::1",
    "::ffff:192.0.2.1": "192.0.2.1",
    "9.9.9.9, 203.0.113.7, 127.0.0.1": "203.0.113.7",
    "203.0.113.7,": "203.0.113.7",
    ", ".join(["198.51.100.1"] * 300): "198.51.100.1",
    # What is no address is nobody: the client is the last trusted address.
    "unknown": "127.0.0.1",
    "_hidden": "127.0.0.1",
    "": "127.0.0.1",
    "1.2.3": "127.0.0.1",
    "256.1.1.1": "127.0.0.1",
    "2001:db8::g": "127.0.0.1",
    "203.0.113.7, junk": "127.0.0.1",
    "203.0.113.7, unknown, 127.0.0.9": "127.0.0.9",
}


@pytest.fixture(scope="module")
def address_server(tmp_path_factory):
    from program import Server
    server = Server(limits("name: per-client, per: [client_ip], rate: 1000/hour"), tmp_path_factory.mktemp("addresses"))
    yield server.wait_until_up()
    assert server.stop() in (0, 1)


@pytest.mark.parametrize("value", ADDRESSES)
def test_C87_ports_zones_brackets_and_junk(address_server, value):
    before = left_of(address_server, ADDRESSES[value])
    assert get(address_server.http, "/check", [("X-Forwarded-For", value)]).status == 200
    assert left_of(address_server, ADDRESSES[value]) == before - 1


def test_C87_the_walk_goes_over_several_fields(address_server):
    before = left_of(address_server, "203.0.113.9")
    fields = [("X-Forwarded-For", "6.6.6.6"), ("x-forwarded-for", "203.0.113.9"), ("X-Forwarded-For", "127.0.0.1")]
    assert get(address_server.http, "/check", fields).status == 200
    assert left_of(address_server, "203.0.113.9") == before - 1


# -------------------------------------------------------------------------------------------------- missing identity


def test_C89_without_the_header_the_client_is_the_peer(address_server):
    before = left_of(address_server, "127.0.0.1")
    assert get(address_server.http, "/check").status == 200
    assert left_of(address_server, "127.0.0.1") == before - 1


@pytest.mark.parametrize("fields", [[], [("X-Api-Key", "")]])
def test_C89_an_empty_identity_is_what_if_missing_says(serve, fields):
    base = "per: [header.x-api-key], rate: 1/minute"
    denying = serve(limits(f"name: keys, {base}, if_missing: deny"))
    skipping = serve(limits(f"name: keys, {base}, if_missing: skip"))
    naming = serve(limits(f"name: keys, {base}, if_missing: anonymous"))
    assert set(statuses(skipping.http, 3, fields=fields)) == {200}
    assert statuses(naming.http, 2, fields=fields) == [200, 429]
    assert statuses(naming.http, 1, fields=[("X-Api-Key", "anonymous")]) == [429]
    for _ in range(2):
        answer = get(denying.http, "/check", fields)
        assert answer.status == 403 and answer.get("retry-after") is None
        assert "header.x-api-key" in answer.body.decode()
    # Nobody else is touched by it.
    assert statuses(denying.http, 2, fields=[("X-Api-Key", "k")]) == [200, 429]


def test_C90_everyone_behind_an_untrusted_proxy_is_told_of(serve):
    server = serve(limits("name: per-client, per: [client_ip], rate: 3/minute", trusting=False))
    answers = [get(server.http, "/check", client(f"203.0.113.{i}")).status for i in range(4)]
    assert answers == [200, 200, 200, 429]  # the peer is the client: a secure default
    warnings = [line for line in server.log().splitlines() if "trusted_proxies" in line]
    assert len(warnings) == 1, server.log()


def test_C91_several_limits_at_once_bind_random_tokens(serve):
    server = serve(limits("name: per-token, per: [header.authorization], rate: 1000/minute",
                          "name: per-client, per: [client_ip], rate: 120/minute burst 120",
                          more="log: {denied: all, level: debug}\n"))
    tokens = [f"Bearer secret-{i}-token" for i in range(150)]
    with Connection(server.http) as connection:
        answers = [connection.request("GET", "/check", [("Authorization", token)]).status for token in tokens]
    assert answers.count(429) in range(27, 31)  # two a second come back meanwhile
    assert answers[:120] == [200] * 120
    assert "secret-" not in server.log()
