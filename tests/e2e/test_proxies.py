"""Real proxies with the shipped examples, from client to application, through a burst and its recovery."""

import time

import pytest

from client import Connection, get, request
from policies import TRUSTING, SMALL
from structured import parse_integer, parse_list
from waiting import until

POLICY = TRUSTING + SMALL + """
exempt: [{path: /healthz}, {method: OPTIONS}]
limits:
  - {name: per-client, when: {path: /limited}, per: [client_ip], rate: 3 per 3s}
  - {name: writes, when: {method: POST, path: /v1/*}, per: [header.x-api-key], if_missing: skip, rate: 1/hour}
  - {name: huge, when: {path: /never}, rate: 2/hour, cost: 5}
"""
NAMES = ["nginx", "caddy", "haproxy", "apache2"]


def check_refusal(answer, limit):
    assert answer.status == 429, answer
    assert parse_integer(answer.get("retry-after")) >= 1
    ((name, parameters),) = parse_list(answer.get("ratelimit"))
    assert (name, parameters["r"]) == (limit, 0)
    assert limit in [name for name, _ in parse_list(answer.get("ratelimit-policy"))]


@pytest.mark.parametrize("name", NAMES)
def test_C68_a_burst_is_cut_with_429_and_recovers(serve, proxy, app, name):
    """Not 500: auth_request of nginx knows no other codes than 401 and 403."""
    front = proxy(name, serve(POLICY))
    with Connection(front.address) as connection:
        begin = time.monotonic()
        for left in (2, 1, 0):
            answer = connection.request("GET", "/limited?x=y")
            assert answer.status == 200, (answer, front.said())
            ((limit, parameters),) = parse_list(answer.get("ratelimit"))
            assert (limit, parameters["r"]) == ("per-client", left)
            assert answer.json()["target"] == "/limited?x=y"
        refused = connection.request("GET", "/limited")
    check_refusal(refused, "per-client")
    assert len(app.seen) == 3  # the refused request did not get there

    until(lambda: get(front.address, "/limited").status == 200, "the client passes again", 5)
    waited = time.monotonic() - begin
    assert waited > 0.99, f"a token comes back after a second, not after {waited}"


@pytest.mark.parametrize("name", NAMES)
def test_C68_the_body_of_a_refusal(serve, proxy, name):
    front = proxy(name, serve(POLICY))
    answers = [get(front.address, "/limited") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    if name == "apache2":  # gives its own page
        return
    assert answers[3].get("content-type") == "application/problem+json"
    assert answers[3].get("cache-control") == "no-store"
    problem = answers[3].json()
    assert problem["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert problem["violated-policies"] == ["per-client"]


@pytest.mark.parametrize("name", NAMES)
def test_a_request_that_never_passes_has_no_retry_after(serve, proxy, name):
    front = proxy(name, serve(POLICY))
    answer = get(front.address, "/never")
    assert answer.status == 429, (answer, front.said())
    assert answer.get("retry-after") is None


@pytest.mark.parametrize("name", NAMES)
def test_the_clients_request_is_what_counts(serve, proxy, name):
    """Its method, its path and its headers; its body gets to the application whole."""
    front = proxy(name, serve(POLICY))
    for key, expected in (("k1", [200, 429]), ("k2", [200, 429])):
        for status in expected:
            answer = request(front.address, "POST", "/v1/a%20b?q=1", [("X-Api-Key", key)], b"x" * 100_000)
            assert answer.status == status, (answer, front.said())
            if status == 200:
                assert (answer.json()["method"], len(answer.json()["body"])) == ("POST", 100_000)
        assert get(front.address, "/v1/a%20b", [("X-Api-Key", key)]).status == 200


@pytest.mark.parametrize("name", NAMES)
def test_C69_clients_cannot_write_what_proxies_say(serve, proxy, name):
    front = proxy(name, serve(POLICY))
    lies = [("X-Forwarded-Uri", "/healthz"), ("X-Forwarded-Method", "OPTIONS"), ("X-Forwarded-Host", "other"),
            ("X-Original-URI", "/healthz"), ("X-Original-Method", "OPTIONS"), ("X-Original-URL", "http://a/healthz"),
            ("X-Original-Host", "other"), ("Forwarded", "for=203.0.113.1")]
    answers = [get(front.address, "/limited?deny=403", [*lies, ("X-Forwarded-For", f"203.0.113.{i}")]).status
               for i in range(4)]
    assert answers == [200, 200, 200, 429], front.said()


@pytest.mark.parametrize("name", NAMES)
def test_C70_what_is_exempt_passes(serve, proxy, name):
    front = proxy(name, serve(POLICY))
    assert {request(front.address, "OPTIONS", "/limited").status for _ in range(6)} == {200}


@pytest.mark.parametrize("name", NAMES)
def test_the_applications_own_403_stays(serve, proxy, name):
    front = proxy(name, serve(POLICY))
    assert get(front.address, "/forbidden").status == 403
