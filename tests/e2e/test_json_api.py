"""POST /v1/take, /v1/peek and /v1/refund."""

import json

import pytest

from client import Connection, build, post, request
from policies import limits

POLICY = limits(
    "name: per-client, per: [client_ip], rate: 10/hour",
    "name: pairs, when: {kind: pair}, per: [tenant, user], rate: 2/hour",
    "name: all, when: {kind: all}, rate: 3/hour",
    "name: priced, when: {kind: priced}, per: [tenant], rate: 100/hour, cost: {default: 5, max: 50}",
)


@pytest.fixture
def server(serve):
    return serve(POLICY)


def ask(server, question, **value):
    answer = post(server.http, f"/v1/{question}", value)
    assert answer.get("content-type") == "application/json", answer
    assert answer.get("cache-control") == "no-store"
    decision = answer.json()
    refused = decision.get("verdict") in ("deny", "never")
    assert answer.status == (429 if refused else 200)
    assert answer.get("retry-after") == (str(decision["retry_after"]) if decision.get("verdict") == "deny" else None)
    return decision


def test_the_policy_decides(server):
    attributes = {"client_ip": "203.0.113.7", "method": "GET", "path": "/x"}
    for left in range(9, -1, -1):
        decision = ask(server, "take", attributes=attributes)
        assert (decision["verdict"], decision["remaining"], decision["granted"]) == ("allow", left, 1)
        assert decision["limit"] == "per-client" and decision["source"] == "store"
    decision = ask(server, "take", attributes=attributes)
    assert (decision["verdict"], decision["granted"]) == ("deny", 0)
    assert 0 < decision["retry_after_ns"] <= 360e9
    assert decision["retry_after"] == -(-decision["retry_after_ns"] // 10**9)
    # The same bucket by name.
    assert ask(server, "take", limit="per-client", key="203.0.113.7")["verdict"] == "deny"


def test_all_limits_that_apply_are_told(server):
    decision = ask(server, "take", attributes={"client_ip": "203.0.113.7", "kind": "all"})
    assert [(one["limit"], one["remaining"]) for one in decision["limits"]] == [("per-client", 9), ("all", 2)]
    assert (decision["limit"], decision["remaining"]) == ("all", 2)


def test_a_refusal_spends_nothing(server):
    attributes = {"client_ip": "203.0.113.7", "kind": "all"}
    assert [ask(server, "take", attributes=attributes)["verdict"] for _ in range(5)] == ["allow"] * 3 + ["deny"] * 2
    assert ask(server, "peek", limit="per-client", key="203.0.113.7", cost=0)["remaining"] == 7


def test_peek_spends_nothing_and_says_what_take_would(server):
    for _ in range(20):
        peeked = ask(server, "peek", limit="all")
        assert (peeked["verdict"], peeked["granted"]) == ("allow", 0)
    for _ in range(3):
        ask(server, "take", limit="all")
    assert ask(server, "peek", limit="all", cost=0)["verdict"] == "allow"
    peeked, taken = ask(server, "peek", limit="all"), ask(server, "take", limit="all")
    assert peeked["verdict"] == taken["verdict"] == "deny"
    assert abs(peeked["retry_after_ns"] - taken["retry_after_ns"]) < 5e9


def test_C29_refunds_restore_and_never_more_than_the_limit(server):
    for _ in range(3):
        ask(server, "take", limit="all")
    assert ask(server, "refund", limit="all", cost=1)["remaining"] == 1
    assert [ask(server, "take", limit="all")["verdict"] for _ in range(2)] == ["allow", "deny"]
    assert ask(server, "refund", limit="all", cost=100)["remaining"] == 3
    assert [ask(server, "take", limit="all")["verdict"] for _ in range(4)] == ["allow"] * 3 + ["deny"]


def test_what_was_taken_by_attributes_is_given_back_by_them(server):
    attributes = {"client_ip": "203.0.113.9", "kind": "all"}
    ask(server, "take", attributes=attributes, cost=3)
    given = ask(server, "refund", attributes=attributes, cost=2)
    assert (given["limit"], given["remaining"]) == ("all", 2)
    assert [(one["limit"], one["remaining"]) for one in given["limits"]] == [("per-client", 9), ("all", 2)]
    assert ask(server, "peek", limit="per-client", key="203.0.113.9", cost=0)["remaining"] == 9


def test_without_limits_there_is_nothing_to_tell(serve):
    server = serve(limits("name: rare, when: {path: /rare}, rate: 1/hour", more="exempt: [{path: /free}]\n"))
    for attributes in ({"path": "/"}, {"path": "/free"}, {}):
        for question in ("take", "peek", "refund"):
            decision = ask(server, question, attributes=attributes)
            assert (decision["verdict"], decision["limit"], decision["limits"]) == ("allow", None, [])
            assert decision["remaining"] is None and decision["capacity"] is None


def test_C01_a_cost_above_the_capacity_is_never(server):
    decision = ask(server, "take", limit="all", cost=4)
    assert (decision["verdict"], decision["retry_after"], decision["retry_after_ns"]) == ("never", None, None)
    assert decision["capacity"] == 3
    assert ask(server, "take", limit="all")["remaining"] == 2


def test_keys_of_several_parts(server):
    assert ask(server, "take", limit="pairs", key=["a", "bc"])["remaining"] == 1
    assert ask(server, "take", limit="pairs", key=["ab", "c"])["remaining"] == 1
    attributes = {"client_ip": "203.0.113.1", "kind": "pair", "tenant": "a", "user": "bc"}
    assert ask(server, "take", attributes=attributes)["remaining"] == 0
    for key in ("a", ["a"], ["a", "b", "c"], []):
        answer = post(server.http, "/v1/take", {"limit": "pairs", "key": key})
        assert answer.status == 400, (key, answer)


def test_the_policys_default_cost_holds_when_the_caller_says_none(server):
    """And what the caller says stays within the policy's bounds."""
    def take(**more):
        return ask(server, "take", attributes={"client_ip": "203.0.113.1", "kind": "priced", "tenant": "t"}, **more)

    def spent():
        return 100 - ask(server, "peek", limit="priced", key="t", cost=0)["remaining"]

    take()
    assert spent() == 5
    take(cost=7)
    assert spent() == 12


def test_C75_any_string_is_a_key_of_its_own(server):
    keys = ["", "a", "a\0b", "a\0", "x" * 65000, "x" * 64999 + "y", " ", "a\r\nb", "\U0001f600", "\u00e9", "e\u0301",
            '"', "\\"]
    seen = []
    for key in keys:
        answer = post(server.http, "/v1/take", {"limit": "priced", "key": key, "cost": 1})
        if key == "":  # nobody's bucket
            assert answer.status == 400, answer
            continue
        assert answer.status == 200, (key[:20], answer)
        seen.append(answer.json()["remaining"])
    assert set(seen) == {99}


def test_C75_over_the_cap_is_refused_and_never_unlimited(server):
    for size in (65536, 70000):
        answer = post(server.http, "/v1/take", {"limit": "priced", "key": "x" * size})
        assert answer.status in (400, 413), answer


def test_a_missing_attribute_is_named(server):
    answer = post(server.http, "/v1/take", {"attributes": {"client_ip": "203.0.113.1", "kind": "priced"}})
    assert answer.status == 403 and "tenant" in answer.json()["detail"]
    asked = {"requests": [{"attributes": {"client_ip": "203.0.113.1", "kind": "priced"}}, {"limit": "all"}]}
    first, second = ask(server, "take", **asked)["decisions"]
    assert "tenant" in first["error"] and second["verdict"] == "allow"
    assert ask(server, "peek", limit="per-client", key="203.0.113.1", cost=0)["remaining"] == 10


def test_a_batch_is_answered_in_its_order(server):
    priced = {"limit": "priced", "key": "k", "cost": 40}
    questions = [{"limit": "all"}, priced, {"attributes": {"client_ip": "203.0.113.2"}}, priced, priced,
                 {"limit": "all", "cost": 100}]
    decisions = ask(server, "take", requests=questions)["decisions"]
    assert [one["verdict"] for one in decisions] == ["allow", "allow", "allow", "allow", "deny", "never"]
    assert [one["remaining"] for one in decisions] == [2, 60, 9, 20, 20, 2]
    decisions = ask(server, "peek", requests=questions[:2] * 100)["decisions"]
    assert len(decisions) == 200 and {one["granted"] for one in decisions} == {0}
    assert len(ask(server, "take", requests=[{"limit": "all"}])["decisions"]) == 1


def test_an_error_in_a_batch_spends_nothing(server):
    answer = post(server.http, "/v1/take", {"requests": [{"limit": "all"}, {"limit": "all", "costs": 1}]})
    assert answer.status == 400 and "requests[1]" in answer.json()["detail"]
    assert ask(server, "peek", limit="all", cost=0)["remaining"] == 3


WRONG = {
    "": "", "no JSON": "{", "a list": "[]", "a number": "1", "null": "null", "nothing asked": "{}",
    "no limit of that name": {"limit": "nowhere", "key": "a"}, "a key without limit": {"key": "a"},
    "an unknown member": {"limit": "all", "costs": 1}, "a negative cost": {"limit": "all", "cost": -1},
    "a cost that is not whole": {"limit": "all", "cost": 1.5}, "a cost in quotes": {"limit": "all", "cost": "1"},
    "an attribute that is no string": {"attributes": {"client_ip": 1}},
    "attributes and a limit": {"attributes": {}, "limit": "all"}, "no requests": {"requests": []},
    "more requests than there may be": {"requests": [{"limit": "all"}] * 257},
    "the same member twice": '{"limit": "all", "limit": "all"}', "deep": "[" * 1000 + "]" * 1000,
    "more behind it": '{"limit": "all"} x', "not UTF-8": b'{"limit": "\xff"}',
    "a huge cost": '{"limit": "all", "cost": 1e999}',
    "a cost beyond 64 bits": '{"limit": "all", "cost": 99999999999999999999}',
    "a key for a limit that has none": {"limit": "all", "key": "a"}, "no key": {"limit": "priced"},
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_problems_that_say_what_is_wrong(server, name):
    with Connection(server.http) as connection:
        body = WRONG[name] if isinstance(WRONG[name], (str, bytes)) else json.dumps(WRONG[name])
        fields = [] if body else [("Content-Length", "0")]
        connection.send(build("POST", "/v1/take", [("Content-Type", "application/json"), *fields], body))
        answer = connection.read()
        assert answer.status in (400, 404), answer
        assert answer.get("content-type") == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == answer.status and problem["title"] and len(problem["detail"]) > 5
        # The connection is as good as before.
        assert connection.request("POST", "/v1/peek", [], json.dumps({"limit": "all", "cost": 0})).json()["remaining"] == 3


def test_a_body_over_the_cap_is_413(server):
    assert request(server.http, "POST", "/v1/take", [], b" " * 66000).status == 413


def test_a_junk_cost_spends_nothing(server):
    for cost in (2**63 - 1, 2**40 + 1, 10**18):
        assert ask(server, "take", limit="all", cost=cost)["verdict"] == "never"
    assert ask(server, "take", limit="all")["remaining"] == 2
    assert ask(server, "refund", limit="all", cost=2**63 - 1)["remaining"] == 3
