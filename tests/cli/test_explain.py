"""caudal explain: which limits apply and why, what each counts under, what it promises; as text and as JSON."""

import json

import pytest

POLICY = """\
identity:
  client_ip: {header: x-forwarded-for, trusted_proxies: [10.0.0.0/8], ipv6_prefix: 64}
exempt:
  - {path: /healthz}
  - {method: OPTIONS}
limits:
  - name: per-client
    per: [client_ip]
    rate: 100/minute
    burst: 100
  - name: writes-per-key
    when: {method: [POST, PUT, DELETE], path: /v1/*}
    per: [header.x-api-key]
    if_missing: deny
    rate: 1000/hour
    cost: {header: x-cost, default: 1, max: 50}
    overrides:
      - {match: {header.x-api-key: partner-*}, rate: 20000/hour}
  - name: everybody
    rate: 5000/second
"""


@pytest.fixture
def explain(caudal, policy):
    def run(*words, text=POLICY):
        result = caudal("explain", policy(text), *words)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run


@pytest.fixture
def explain_json(explain):
    return lambda *words, text=POLICY: json.loads(explain("--json", *words, text=text))


def limit(answer, name):
    return next(limit for limit in answer["limits"] if limit["limit"] == name)


def test_without_a_request_every_promise(explain, explain_json):
    text = explain()
    assert "at most 100 at once, then 1.67 a second; up to 200 in one minute" in text
    assert "for each client_ip" in text
    names = [limit["name"] for limit in explain_json()["limits"]]
    assert names == ["per-client", "writes-per-key", "writes-per-key{header.x-api-key=partner-*}", "everybody"]


def test_a_request_as_text(explain):
    text = explain("--request", "POST /v1/x", "--client-ip", "203.0.113.7", "--header", "X-Api-Key: k")
    assert text == """\
POST /v1/x from 203.0.113.7

limited by 3 of 3, all or nothing:
  per-client  (100/min burst 100)
      at most 100 at once, then 1.67 a second; up to 200 in one minute
      applies to every request
      counted under client_ip = 203.0.113.7
      costs 1 token
  writes-per-key  (1000/h)
      at most 1000 at once, then one every 3.6 seconds; up to 2000 in one hour
      applies: method is POST; path /v1/x matches /v1/*
      counted under header.x-api-key = k
      costs 1 token
  everybody  (5000/s)
      at most 5000 at once, then 5000 a second; up to 10000 in one second
      applies to every request
      counted in one bucket with all others
      costs 1 token
"""


def test_a_limit_that_does_not_apply_says_why(explain):
    text = explain("--request", "GET /v1/x", "--client-ip", "203.0.113.7")
    assert "limited by 2 of 3" in text
    assert "writes-per-key: does not apply: method is GET, not POST, PUT or DELETE" in text


def test_overrides_and_costs(explain_json):
    answer = explain_json("--request", "POST /v1//x/?a=b HTTP/1.1", "--client-ip", "203.0.113.7:1234", "--header",
                          "x-api-key: partner-1", "--header", "x-cost: 9", "--header", "Host: API.example.org:80")
    assert answer["request"] == {"method": "POST", "path": "/v1/x", "host": "api.example.org",
                                 "client_ip": "203.0.113.7"}
    assert answer["outcome"] == "limited"
    writes = limit(answer, "writes-per-key")
    assert writes["name"] == "writes-per-key{header.x-api-key=partner-*}"
    assert writes["key"] == [{"identity": "header.x-api-key", "value": "partner-1"}]
    assert writes["key_bytes"] == "9:partner-1,"
    assert writes["cost"] == 9
    assert writes["line"] == 11


def test_C89_a_missing_identity_is_refused_by_name(explain, explain_json):
    words = ("--request", "POST /v1/x", "--client-ip", "203.0.113.7")
    answer = explain_json(*words)
    assert (answer["outcome"], answer["refused_by"]) == ("missing identity", "writes-per-key")
    assert "if_missing is deny" in limit(answer, "writes-per-key")["why"]
    assert "refused without counting: missing identity, says writes-per-key" in explain(*words)


@pytest.mark.parametrize("request_line", ["GET /healthz", "OPTIONS /v1/x", "GET /a/../%68ealthz/"])
def test_exempt(explain, explain_json, request_line):
    assert explain_json("--request", request_line)["outcome"] == "exempt"
    assert "exempt, and so not limited" in explain("--request", request_line)


@pytest.mark.parametrize("peer, forwarded, client", [
    ("198.51.100.1", "203.0.113.9", "198.51.100.1"),  # not trusted: its word does not count
    ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
    ("10.0.0.1", "192.0.2.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
    ("10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
    ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::"),
    ("10.0.0.1", "junk", "10.0.0.1"),
])
def test_C89_the_client_behind_proxies(explain_json, peer, forwarded, client):
    answer = explain_json("--request", "GET /", "--peer", peer, "--header", f"X-Forwarded-For: {forwarded}")
    assert limit(answer, "per-client")["key"] == [{"identity": "client_ip", "value": client}]


def test_attributes_without_a_request_line(explain_json):
    text = "limits: [{name: a, rate: 1/s, per: [tenant, path.1], if_missing: none}]\n"
    answer = explain_json("--attribute", "tenant=t=1", "--attribute", "path=/x/y", "--cost", "4", text=text)
    assert limit(answer, "a")["key"] == [{"identity": "tenant", "value": "t=1"}, {"identity": "path.1", "value": "x"}]
    assert limit(answer, "a")["cost"] == 4


def test_odd_bytes_are_shown_escaped(caudal, policy):
    name = policy("limits: [{name: a, rate: 1/s, per: [header.x]}]\n")
    for words in ([], ["--json"]):
        result = caudal("explain", name, *words, "--request", "GET /\x1b[31m", "--header", "x: \u00e9\\\x1b")
        assert result.returncode == 0
        assert "\x1b" not in result.stdout
        assert "/%1B%5B31m" in result.stdout
    (only,) = json.loads(result.stdout)["limits"]
    assert only["key"][0]["value"] == "\\xc3\\xa9\\\\\\x1b"


def test_a_bad_policy_is_reported_as_by_validate(caudal, policy):
    result = caudal("explain", policy("limits: [{name: a}]\n"), "--request", "GET /")
    assert (result.returncode, result.stdout) == (1, "")
    assert "policy.yaml:1:10: the limit has no 'rate'" in result.stderr


@pytest.mark.parametrize("request_line", ["", "GET", "GET x y z", "GET *", "GET / HTTP/1.1 more"])
def test_request_lines_that_are_none(caudal, policy, request_line):
    result = caudal("explain", policy(POLICY), "--request", request_line)
    assert result.returncode == 2
    assert "--request" in result.stderr


DOMAIN = """\
domain: rl
descriptors:
  - key: category
    value: account
    rate_limit:
      name: accounts
      replaces:
        - name: others
      unit: minute
      requests_per_unit: 4
  - key: tenant
    descriptors:
      - key: route
        value: /v1/*
        share_threshold: true
        shadow_mode: true
        rate_limit: {unit: hour, requests_per_unit: 100}
      - key: route
        rate_limit: {name: others, unit: second, requests_per_unit: 5}
  - key: open
    rate_limit: {unlimited: true}
  - key: freed
"""


def test_the_way_of_a_descriptor(explain):
    assert explain("--domain", "rl", "--descriptor", "category=account", text=DOMAIN) == """\
domain rl

descriptor 1
  category = account
      it is this value (policy.yaml:3:5)
  limited
  rl/category=account  (4/min fixed_window)
      at most 4 in each minute by the clock; up to 8 within one minute across the edge of two
      name: accounts
      replaces: others
      counted in one bucket with all others
      costs 1 token
"""
    assert explain("--descriptor", "tenant=t,route=/v1/x", "--cost", "3", text=DOMAIN) == """\
domain rl

descriptor 1
  tenant = t
      it is no value that is named; any other will do (policy.yaml:11:5)
  route = /v1/x
      it is no value that is named; it is /v1/* (policy.yaml:13:9)
  limited
  rl/tenant/route=%2Fv1%2F*  (100/h fixed_window)
      at most 100 in each hour by the clock; up to 200 within one hour across the edge of two
      counted under tenant = t
      costs 3 tokens
      mode: shadow, so it never refuses
"""


@pytest.mark.parametrize("descriptor, outcome, why", [
    ("tenant=t", "free", "not limited: the files go deeper, and no rate_limit stands here"),
    ("tenant=t,route=/x", "limited", "limited"),
    ("tenant=t,route=/x,more=y", "free", "not limited: nothing takes it that far"),
    ("category=other", "free", "not limited: nothing takes it that far"),
    ("open=x", "unlimited", "unlimited"),
    ("freed=x", "free", "not limited: it is named without a rate_limit, which frees it"),
])
def test_what_becomes_of_a_descriptor(explain_json, descriptor, outcome, why):
    answer = explain_json("--descriptor", descriptor, text=DOMAIN)
    assert [(one["outcome"], one["why"]) for one in answer["descriptors"]] == [(outcome, why)]


def test_several_descriptors_and_what_is_replaced(explain_json):
    answer = explain_json("--descriptor", r"tenant=a\,b\=c,route=/x", "--descriptor", "category=account", text=DOMAIN)
    replaced, limited = answer["descriptors"]
    assert (replaced["outcome"], limited["outcome"]) == ("replaced", "limited")
    assert [(entry["value"], entry["met"]) for entry in replaced["entries"]] == [("a,b=c", "key"), ("/x", "key")]
    assert limited["limit"]["replaces"] == ["others"]
    alone = explain_json("--descriptor", r"tenant=a\,b\=c,route=/x", text=DOMAIN)["descriptors"][0]
    assert alone["limit"]["key"] == [{"identity": "tenant", "value": "a,b=c"}, {"identity": "route", "value": "/x"}]
    assert alone["limit"]["key_bytes"] == "5:a,b=c,2:/x,"
    assert alone["limit"]["limit"] == "rl/tenant/route"


def test_a_domain_that_no_file_has(explain, explain_json):
    words = ("--domain", "other", "--descriptor", "a=b")
    assert "not limited: no file has this domain" in explain(*words, text=DOMAIN)
    assert explain_json(*words, text=DOMAIN)["descriptors"][0]["outcome"] == "free"


def test_limits_of_descriptors_are_listed(explain, explain_json):
    assert "for each tenant and route" in explain(text=DOMAIN)
    assert [limit["name"] for limit in explain_json(text=DOMAIN)["limits"]] == [
        "rl/category=account", "rl/tenant/route=%2Fv1%2F*", "rl/tenant/route", "rl/open"]


@pytest.mark.parametrize("text, words, said", [
    (DOMAIN, ("--domain", "rl"), "there is no --descriptor to go with --domain"),
    (DOMAIN, ("--descriptor", "a"), "expected KEY=VALUE,KEY=VALUE, found 'a'"),
    (DOMAIN, ("--descriptor", "=b"), "expected KEY=VALUE,KEY=VALUE, found '=b'"),
    (DOMAIN, ("--descriptor", "a=b,"), "expected KEY=VALUE,KEY=VALUE, found 'a=b,'"),
    (DOMAIN, ("--descriptor", ",".join(["a=b"] * 33)), "more than 32 entries"),
    (DOMAIN, ("--descriptor", "a=b", "--request", "GET /"), "ask one at a time"),
    (DOMAIN, ("--descriptor", "a=b") * 65, "more than 64"),
    (POLICY, ("--descriptor", "a=b"), "has no domain, which --descriptor asks for"),
])
def test_descriptors_that_cannot_be_asked_about(caudal, policy, text, words, said):
    result = caudal("explain", policy(text), *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
