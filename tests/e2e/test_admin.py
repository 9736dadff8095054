"""The admin API: limits, keys, who is refused most, health."""

import urllib.parse

import pytest

from client import get, post, request, statuses
from policies import client, limits
from waiting import until

ALGORITHMS = ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]


def quoted(key):
    return urllib.parse.quote(key, safe="")


def test_limits_are_listed_with_what_they_are(serve):
    server = serve(limits("name: per-client, per: [client_ip], rate: 100/minute burst 20",
                          "name: all, rate: 5/second, mode: shadow"))
    listed = get(server.admin, "/v1/limits").json()
    assert listed["generation"] == 1 and listed["hash"]
    first, second = listed["limits"]
    assert (first["name"], first["per"], first["mode"]) == ("per-client", ["client_ip"], "enforce")
    assert "100/" in first["rate"] and "20" in first["rate"]
    assert (second["name"], second["mode"]) == ("all", "shadow")


def test_a_look_at_a_key_is_exactly_a_peek(serve):
    server = serve(limits("name: per-client, per: [client_ip], rate: 3/hour"))
    statuses(server.http, 2, fields=client("203.0.113.7"))
    looked = get(server.admin, "/v1/keys/per-client/203.0.113.7").json()
    peeked = post(server.http, "/v1/peek", {"limit": "per-client", "key": "203.0.113.7", "cost": 0}).json()
    for member in ("verdict", "remaining", "capacity", "limit", "source"):
        assert looked[member] == peeked[member], member
    assert abs(looked["reset_after_ns"] - peeked["reset_after_ns"]) < 2e9
    assert get(server.admin, "/v1/keys/nowhere/x").status == 404
    # Looking makes no key and spends nothing.
    assert get(server.admin, "/v1/keys/per-client/203.0.113.8").json()["remaining"] == 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_C105_a_reset_gives_a_full_quota_and_touches_nobody_else(serve, algorithm):
    server = serve(limits(f"name: per-client, per: [client_ip], rate: 3/hour {algorithm}"))
    for address in ("203.0.113.7", "203.0.113.8"):
        assert statuses(server.http, 4, fields=client(address)) == [200, 200, 200, 429]
    answer = request(server.admin, "DELETE", "/v1/keys/per-client/203.0.113.7")
    assert answer.status == 200 and answer.json()["remaining"] == 3, answer
    assert statuses(server.http, 4, fields=client("203.0.113.7")) == [200, 200, 200, 429]
    assert statuses(server.http, 1, fields=client("203.0.113.8")) == [429]
    (line,) = [line for line in server.log().splitlines() if '"a key was reset' in line]
    assert '"limit":"per-client"' in line and '"by":"127.0.0.1"' in line, line


@pytest.mark.parametrize("key", ["a b", "a/b", "a%b", "\u00e9", "a?b", "x" * 200, "::1"])
def test_keys_in_urls_are_escaped(serve, key):
    server = serve(limits("name: per-key, per: [header.x-key], rate: 1/hour"))
    fields = [("X-Key", key.encode())]
    assert statuses(server.http, 2, fields=fields) == [200, 429]
    path = f"/v1/keys/per-key/{quoted(key)}"
    assert get(server.admin, path).json()["remaining"] == 0
    request(server.admin, "DELETE", path)
    assert statuses(server.http, 2, fields=fields) == [200, 429]


def test_keys_of_several_parts(serve):
    server = serve(limits("name: pairs, per: [header.x-a, header.x-b], rate: 1/hour"))
    fields = [("X-A", "a/1"), ("X-B", "b")]
    assert statuses(server.http, 2, fields=fields) == [200, 429]
    path = f"/v1/keys/pairs/{quoted('a/1')}/b"
    assert get(server.admin, path).json()["remaining"] == 0
    request(server.admin, "DELETE", path)
    assert statuses(server.http, 2, fields=fields) == [200, 429]


def test_a_limit_without_per_has_one_key(serve):
    server = serve(limits("name: all, rate: 2/hour"))
    statuses(server.http, 2)
    assert get(server.admin, "/v1/keys/all").json()["remaining"] == 0
    request(server.admin, "DELETE", "/v1/keys/all")
    assert get(server.admin, "/v1/keys/all").json()["remaining"] == 2


def test_who_is_refused_most(serve):
    server = serve(limits("name: per-client, per: [client_ip], rate: 1/hour"))
    for last, count in ((1, 5), (2, 30), (3, 15)):
        statuses(server.http, count + 1, fields=client(f"203.0.113.{last}"))
    top = until(lambda: get(server.admin, "/v1/top").json(), "there is a list")["keys"]
    assert [one["refused_at_most"] for one in top] == [one["refused_at_least"] for one in top] == [30, 15, 5]
    assert {one["limit"] for one in top} == {"per-client"}


def test_health_never_counts(serve):
    server = serve(limits("name: all, rate: 1/hour"))
    assert {get(server.admin, path).status for path in ("/healthz", "/readyz") for _ in range(20)} == {200}
    assert get(server.http, "/check").status == 200
    assert get(server.http, "/check").status == 429


@pytest.mark.parametrize("identities, shown", [("masked", '"key":"127.0.0.0"'), ("plain", '"key":"9:127.0.0.1,"'),
                                               ("keyed", '"key":"')])
def test_a_refusal_is_logged_with_as_much_of_its_key_as_the_policy_wants(serve, identities, shown):
    policy = limits("name: per-client, per: [client_ip], rate: 1/hour")
    server = serve(f"{policy}\nlog: {{denied: all, identities: {identities}}}\n")
    assert statuses(server.http, 2) == [200, 429]
    until(lambda: '"message":"refused"' in server.stderr(), "the refusal is logged")
    assert shown in server.stderr()
    assert ("127.0.0.1" in server.stderr()) == (identities == "plain")
