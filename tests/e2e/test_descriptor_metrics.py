"""/metrics of a policy with domains: what Envoy's rate limit service would have counted, under its names."""

import json
import re
import threading

import pytest
from client import Connection, get, post
from exposition import Metrics
from waiting import until

PREFIX = "ratelimit_service_rate_limit_"
ALONE = ("--resp", "none", "--grpc", "none")

PLAIN = """\
domain: rl
descriptors:
- key: user
  rate_limit: {unit: year, requests_per_unit: 20}
- key: user
  value: vip
  rate_limit: {unit: year, requests_per_unit: 1000}
- key: trial
  shadow_mode: true
  rate_limit: {unit: year, requests_per_unit: 5}
- key: page
  rate_limit: {unit: year, requests_per_unit: 3}
"""

DETAILED = """\
domain: rl
descriptors:
- key: route
  descriptors:
  - key: user
    detailed_metric: true
    rate_limit: {unit: year, requests_per_unit: 1000000}
"""


def scrape(server):
    answer = get(server.admin, "/metrics")
    assert answer.status == 200, answer
    return Metrics(answer.body.decode())


def descriptor(limit=None, **entries):
    one = {"entries": [{"key": key, "value": value} for key, value in entries.items()]}
    return {**one, "limit": limit} if limit else one


def ask(where, *descriptors, domain="rl", hits=None):
    """Whether it was allowed; on an open connection, or a new one."""
    body = {"domain": domain, "descriptors": list(descriptors), **({"hitsAddend": hits} if hits else {})}
    answer = where.post("/json", body) if isinstance(where, Asking) else post(where.http, "/json", body)
    assert answer.status in (200, 429), answer
    return answer.status == 200


class Asking(Connection):
    """A connection for many requests."""

    def post(self, target, value):
        return self.request("POST", target, [("Content-Type", "application/json")], json.dumps(value).encode())


def hits(metrics, name, **labels):
    return metrics.samples.get((PREFIX + name, frozenset({"domain": "rl", **labels}.items())), 0)


def test_rules_are_counted_under_the_names_that_they_have_there(serve):
    server = serve(PLAIN, *ALONE)
    assert hits(scrape(server), "total_hits", key1="user_vip") == 0
    with Asking(server.http) as connection:
        assert [ask(connection, descriptor(user="a")) for _ in range(25)] == [True] * 20 + [False] * 5
        assert all(ask(connection, descriptor(trial="x"), hits=2) for _ in range(4))
        assert all(ask(connection, descriptor(user="b"), descriptor(page="p")) for _ in range(3))
        assert not ask(connection, descriptor(user="b"), descriptor(page="p"))
        ask(connection, descriptor(user="a"), domain="nobody")
    metrics = scrape(server)
    told = {name: hits(metrics, name, key1="user") for name in ("total_hits", "within_limit", "near_limit", "over_limit")}
    assert told == {"total_hits": 29, "within_limit": 23, "near_limit": 4, "over_limit": 5}  # one of them was not spent
    assert (hits(metrics, "over_limit", key1="trial"), hits(metrics, "shadow_mode", key1="trial")) == (4, 4)
    assert metrics.types[PREFIX + "total_hits"] == "counter"
    assert metrics[PREFIX + "domain_not_found"] == 1
    assert metrics["ratelimit_service_total_requests", {"grpc_method": "ShouldRateLimit"}] == 34
    assert metrics["ratelimit_service_config_load_success"] == 1
    assert metrics["ratelimit_service_config_load_error"] == 0


def test_a_request_that_is_not_right_is_an_error_of_the_service(serve):
    server = serve(PLAIN, *ALONE)
    answer = post(server.http, "/json", {"domain": "", "descriptors": []})
    assert answer.status == 400, answer
    errors = "ratelimit_service_should_rate_limit_error"
    until(lambda: scrape(server).sum(errors, err_type="service_error") == 1, "the request is counted")
    assert scrape(server).sum(errors, err_type="redis_error") == 0


def test_openmetrics_has_the_same_names(serve):
    server = serve(PLAIN, *ALONE)
    ask(server, descriptor(user="vip"))
    page = get(server.admin, "/metrics", [("Accept", "application/openmetrics-text; version=1.0.0")]).body.decode()
    assert f"# TYPE {PREFIX}total_hits unknown\n" in page
    assert f'\n{PREFIX}total_hits{{domain="rl",key1="user_vip"}} 1\n' in page


def test_there_are_none_without_domains(serve):
    server = serve("limits: [{name: a, rate: 1/s}]\n", *ALONE)
    assert not [name for name, _ in scrape(server).samples if name.startswith("ratelimit_service_")]


@pytest.mark.measured
def test_C92_a_million_values_make_neither_series_nor_memory(serve, long_run):
    """Through a rule that shows values, and through limits that requests bring."""
    count, threads = (1_000_000 if long_run else 30_000), 4
    server = serve(DETAILED, "--store", "memory:?keys=20000", *ALONE)

    def send(first, number):
        with Asking(server.http) as connection:
            for value in range(first, first + number):
                ask(connection, descriptor(route="/x", user=f"user-{value}"),
                    descriptor(limit={"requestsPerUnit": 1000, "unit": "YEAR"}, page=f"page-{value}"))

    def send_all(first, number):
        senders = [threading.Thread(target=send, args=(first + i * number // threads, number // threads))
                   for i in range(threads)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()

    send_all(0, count // 10)  # until the store's table is full, and all series are there
    before, series = server.rss_bytes(), len(scrape(server).samples)
    send_all(count // 10, count - count // 10)
    metrics = scrape(server)
    assert len(metrics.samples) == series
    assert server.rss_bytes() - before < 2 << 20
    assert metrics.sum(PREFIX + "total_hits", key1="route_/x") == 100
    assert hits(metrics, "total_hits", key1="route_other", key2="user_other") == count - 100
    assert hits(metrics, "total_hits", key1="override") == count
    assert metrics.sum("caudal_descriptor_labels_dropped_total", what="value") == count - 100


def test_C93_any_value_is_a_label(serve):
    server = serve(DETAILED, *ALONE)
    odd = ["1.2.3.4", "2001:db8::/32", "a|b/c.d:e", 'say "x"', "back\\slash", "two\nlines", "\u00e9\u4e2d\U0001f600", "",
           "}", "\u202e", "{a=\"b\"} 1"]
    for value in odd:
        ask(server, descriptor(route=value, user="u"))
    metrics = scrape(server)  # it parses
    assert metrics.sum(PREFIX + "total_hits") == len(odd)
    assert len([1 for name, _ in metrics.samples if name == PREFIX + "total_hits"]) == len(odd)
    plain = [value for value in odd if value.isprintable() and value]
    shown = metrics.values_of(PREFIX + "total_hits", "key1")
    assert {f"route_{value}" for value in plain if value != "\u202e"} <= shown, shown


def test_C95_hits_outlive_reloads_and_are_those_of_the_store(serve):
    server = serve(PLAIN, *ALONE)
    seen, allowed = {}, 0
    with Asking(server.http) as connection:
        for round_number in range(4):
            for number in range(50):
                allowed += ask(connection, descriptor(user="a"))
                ask(connection, descriptor(user=("vip", "b")[number % 2]), descriptor(trial="x"))
            now = scrape(server).samples
            fell = {key for key in seen if re.match(r"ratelimit_service_", key[0]) and now.get(key, -1) < seen[key]}
            assert not fell, f"these fell or vanished over a reload: {fell}"
            seen = now
            server.reload(PLAIN.replace("1000}", f"{1001 + round_number}}}"))
    metrics = scrape(server)
    assert metrics["ratelimit_service_config_load_success"] >= 5
    assert allowed == 20
    for key in ("user", "user_vip", "trial"):
        total, within, over = (hits(metrics, name, key1=key) for name in ("total_hits", "within_limit", "over_limit"))
        # b passes 20 times; what it is refused spends nothing of the trial beside it.
        assert total == {"user": 300, "user_vip": 100, "trial": 200}[key]
        assert within == {"user": 40, "user_vip": 100, "trial": 5}[key], key
        assert over == {"user": 260, "user_vip": 0, "trial": 195}[key], key
    decided = metrics.sum("caudal_decisions_total", limit="rl/user", verdict="allow")
    assert decided == 40
