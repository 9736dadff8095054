"""/metrics: what a scraper reads, and that it adds up."""

import signal

from client import Connection, get, post, request, statuses
from exposition import Metrics
from policies import client, limits
from waiting import until


def scrape(server, accept=None):
    answer = get(server.admin, "/metrics", [("Accept", accept)] if accept else [])
    assert answer.status == 200
    assert answer.get("content-type").startswith("text/plain; version=0.0.4")
    return Metrics(answer.body.decode())


def requests(server, **labels):
    return scrape(server).sum("caudal_requests_total", **labels)


def test_it_parses_before_the_first_request(serve):
    metrics = scrape(serve(limits("name: one, rate: 1/hour")))
    assert metrics.sum("caudal_requests_total") == 0
    assert metrics.sum("caudal_build_info") == 1
    assert metrics.types["caudal_request_duration_seconds"] == "histogram"


def test_openmetrics_for_who_asks_for_it(serve):
    server = serve(limits("name: one, rate: 1/hour"))
    answer = get(server.admin, "/metrics", [("Accept", "application/openmetrics-text; version=1.0.0")])
    assert answer.get("content-type").startswith("application/openmetrics-text; version=1.0.0")
    assert answer.body.endswith(b"# EOF\n")


def test_C104_the_limit_that_said_no_is_named(serve):
    """In the answer, in the metrics and in the log, where all that apply had been asked."""
    server = serve(limits("name: per-user, per: [header.x-user], rate: 2/hour", "name: per-page, per: [path], rate: 3/hour",
                          "name: all, rate: 7/hour", more="log: {denied: all}\n"))

    def ask(user, path):
        return get(server.http, "/check", [("X-User", user), ("X-Forwarded-Uri", path)])

    refused = {"per-user": ("a", "/2"), "per-page": ("d", "/1"), "all": ("i", "/6")}
    passing = {"per-user": ("a/1", "a/1"), "per-page": ("c/1",), "all": ("e/2", "f/3", "g/4", "h/5")}
    for name, (user, path) in refused.items():
        for one in passing[name]:
            assert ask(one[0], one[1:]).status == 200, one
        answer = ask(user, path)
        assert answer.status == 429
        assert answer.json()["violated-policies"] == [name]
        assert answer.get("caudal-limit") == name
        assert scrape(server).sum("caudal_decisions_total", limit=name, verdict="deny") == 1
        assert f'"message":"refused","limit":"{name}"' in server.log()
    assert scrape(server).sum("caudal_decisions_total", verdict="deny") == 3


def test_C92_and_C93_what_clients_send_is_no_label(serve):
    """Odd values and many of them: the page parses, and has as many series as before."""
    server = serve(limits("name: per-key, per: [header.x-key], rate: 1000/hour, "
                          "overrides: [{match: {header.x-key: 'vip*'}, rate: 5/hour}]"))
    odd = [b'a"b', b"a\\b", b"1.2.3.4", b"2001:db8::/32", "\u00e9\u4e2d".encode(), b"a|b.c/d:e", b"{x=\"y\"}", b"vip", b"\xff"]
    with Connection(server.http) as connection:
        for key in odd:
            connection.request("GET", "/check", [("X-Key", key)])
        before = len(scrape(server).samples)
        for number in range(5000):
            connection.request("GET", "/check", [("X-Key", f"vip{number}"), ("X-Forwarded-Uri", f"/{number}"),
                                                 ("X-Forwarded-Method", f"M{number}"), ("X-Forwarded-Host", f"h{number}")])
        for number in range(100):
            connection.request("GET", f"/nowhere{number}")
    for number in range(100):
        request(server.http, f"M{number}", "/check")  # not a method that it knows
    assert len(scrape(server).samples) <= before + 5


def test_C95_counters_outlive_reloads_and_reconcile(serve):
    def policy(rate):
        return limits(f"name: per-client, per: [client_ip], rate: {rate}/hour",
                      "name: trial, rate: 100/hour, mode: shadow", "name: big, when: {path: /big}, rate: 3/hour, cost: 5",
                      more="exempt: [{method: OPTIONS}]\n")

    server = serve(policy(100))
    asked, seen, counts = 0, {}, {200: 0, 429: 0}
    with Connection(server.http) as connection:
        for round_number in range(4):
            for number in range(250):
                fields = client(f"203.0.113.{number % 3}")
                if number % 10 == 0:
                    fields.append(("X-Forwarded-Method", "OPTIONS"))
                if number % 25 == 7:
                    fields.append(("X-Forwarded-Uri", "/big"))
                counts[connection.request("GET", "/check", fields).status] += 1
                asked += 1
            now = scrape(server).samples
            fell = {key for key in seen if key[0].endswith("_total") and now.get(key, -1) < seen[key]}
            assert not fell, f"these fell or vanished over a reload: {fell}"
            seen = now
            server.reload(policy(101 + round_number))
    metrics = scrape(server)
    total = metrics.sum("caudal_requests_total")
    assert total == asked
    outcomes = {outcome: metrics.sum("caudal_requests_total", outcome=outcome)
                for outcome in metrics.values_of("caudal_requests_total", "outcome")}
    assert outcomes["deny"] + outcomes["never"] == counts[429]
    assert asked - outcomes["deny"] - outcomes["never"] == counts[200]
    assert outcomes["exempt"] == 100
    # Hits in the store are the requests that were counted.
    keys = [{"limit": "per-client", "key": f"203.0.113.{i}", "cost": 0} for i in range(3)]
    left = post(server.http, "/v1/peek", {"requests": keys}).json()["decisions"]
    spent = sum(one["capacity"] - one["remaining"] for one in left)
    assert spent == metrics.sum("caudal_decisions_total", limit="per-client", verdict="allow")
    assert metrics.sum("caudal_policy_reloads_total", result="ok") >= 4


def test_malformed_requests_and_connections_are_counted(serve):
    server = serve(limits("name: one, rate: 1/hour"))
    before = scrape(server)
    with Connection(server.http) as connection:
        connection.request("GET", "/check")
        until(lambda: scrape(server).sum("caudal_connections_open") == 1, "one connection is open")
        connection.send(b"junk\r\n\r\n")
        connection.read()
    until(lambda: scrape(server).sum("caudal_connections_open") == 0, "none is open")
    after = scrape(server)
    name = "caudal_http_bad_requests_total"
    assert after.sum(name) == before.sum(name) + 1


def test_the_table_and_evictions_are_told(serve):
    server = serve(limits("name: per-key, per: [header.x-key], rate: 1/hour", more="store: {url: 'memory:?keys=1000'}\n"))
    with Connection(server.http) as connection:
        for number in range(5000):
            connection.request("GET", "/check", [("X-Key", str(number))])
    metrics = scrape(server)
    assert metrics.sum("caudal_store_live_evictions_total") > 0
    assert 0 < metrics.sum("caudal_store_live_keys") <= metrics.sum("caudal_store_slots")


def test_C90_a_metric_tells_of_an_untrusted_proxy(serve):
    server = serve(limits("name: per-client, per: [client_ip], rate: 1000/minute", trusting=False))
    for number in range(5):
        get(server.http, "/check", client(f"203.0.113.{number}"))
    assert scrape(server).sum("caudal_forwarded_ignored_total") == 5
