"""What clients are told about time, on a clock that the test sets."""

import email.utils

import pytest

from client import Connection, get, statuses
from policies import client, limits
from program import CLOCK_BINARY
from structured import parse_integer, parse_list

S = 10**9
T0 = 1764547200 * S  # 2025-12-01T00:00:00Z, when a minute, an hour and a day begin


@pytest.fixture
def serve_at(serve):
    """Starts a server whose clock stands at an instant."""

    def start(now_ns, policy):
        server = serve(policy, binary=CLOCK_BINARY)
        server.set_clock(now_ns)
        return server

    return start


def t_of(answer):
    ((_, parameters),) = parse_list(answer.get("ratelimit"))
    return parameters["t"]


def test_C79_exact_multiples_are_not_bumped(serve_at):
    server = serve_at(T0, limits("name: one, rate: 30/minute burst 16"))
    ((_, parameters),) = parse_list(get(server.http, "/check").get("ratelimit"))
    assert parameters == {"r": 15, "t": 2}
    server.set_clock(T0 + 1)
    assert t_of(get(server.http, "/check")) == 4  # 3.999999999 s
    assert [t_of(get(server.http, "/check")) for _ in range(14)][-1] == 32
    answer = get(server.http, "/check")
    assert (answer.status, answer.get("retry-after"), t_of(answer)) == (429, "2", 2)
    server.set_clock(T0 + 2 * S - 1)
    assert get(server.http, "/check").get("retry-after") == "1"
    server.set_clock(T0 + 2 * S)
    assert get(server.http, "/check").status == 200


def test_C07_retrying_when_told_passes_and_a_tick_earlier_does_not(serve_at):
    server = serve_at(T0, limits("name: one, rate: 1/second burst 5"))
    assert statuses(server.http, 6) == [200] * 5 + [429]
    wait = parse_integer(get(server.http, "/check").get("retry-after"))
    server.set_clock(T0 + wait * S - 1000)
    assert get(server.http, "/check").status == 429
    server.set_clock(T0 + wait * S)
    assert statuses(server.http, 2) == [200, 429]


def test_C82_the_reset_falls_steadily_allowed_or_not(serve_at):
    server = serve_at(T0, limits("name: one, rate: 2/minute fixed_window"))
    seen = []
    for second in range(0, 60, 5):
        server.set_clock(T0 + second * S)
        answer = get(server.http, "/check")
        assert answer.status == (200 if second < 10 else 429)
        seen.append(t_of(answer))
        if second >= 10:
            assert answer.get("retry-after") == str(60 - second)
    assert seen == list(range(60, 0, -5))
    assert seen[2] == 50  # the third call, 10 s after the window began
    server.set_clock(T0 + 60 * S)
    assert get(server.http, "/check").status == 200


def test_C83_the_reset_as_an_instant_does_not_wobble(serve_at):
    server = serve_at(T0, limits("name: one, rate: 5/minute fixed_window", more="fields: x-ratelimit-epoch\n"))
    resets = set()
    for step in range(100):
        server.set_clock(T0 + step * 600_000_000 + step)  # over the whole minute
        answer = get(server.http, "/check")
        assert answer.status == (200 if step < 5 else 429)
        resets.add(parse_integer(answer.get("x-ratelimit-reset")))
    assert resets == {T0 // S + 60}


@pytest.mark.parametrize("revision, name", [("ietf-06", "ratelimit-reset"), ("x-ratelimit-delta", "x-ratelimit-reset")])
def test_C83_the_reset_from_now_and_the_date_are_one_instant(serve_at, revision, name):
    server = serve_at(T0, limits("name: one, rate: 5/minute fixed_window", more=f"fields: {revision}\n"))
    for step in range(100):
        server.set_clock(T0 + step * 600_000_000 + step)
        answer = get(server.http, "/check")
        date = email.utils.parsedate_to_datetime(answer.get("date")).timestamp()
        assert abs(date + parse_integer(answer.get(name)) - (T0 // S + 60)) <= 1


def refused(server, clients):
    """Retry-After of each of so many clients, who have used theirs up."""
    waits = []
    with Connection(server.http) as connection:
        for number in range(clients):
            fields = client(f"10.{number >> 8}.{number & 255}.1")
            assert connection.request("GET", "/check", fields).status == 200
            answer = connection.request("GET", "/check", fields)
            assert answer.status == 429
            waits.append(parse_integer(answer.get("retry-after")))
    return waits


def test_C84_without_jitter_the_wait_is_exact(serve_at):
    server = serve_at(T0 + 10 * S, limits("name: one, per: [client_ip], rate: 1/minute fixed_window"))
    assert set(refused(server, 1000)) == {50}


def test_C84_jitter_goes_upwards_only_and_spreads(serve_at):
    server = serve_at(T0 + 10 * S, limits("name: one, per: [client_ip], rate: 1/minute fixed_window, jitter: 20s"))
    waits = refused(server, 1000)
    assert min(waits) >= 50 and max(waits) <= 70
    counts = [waits.count(wait) for wait in range(50, 71)]
    assert min(counts) > 15, f"1000 clients over 21 seconds: {counts}"
    # One client is told one instant, whenever it asks.
    for second in (11, 20, 59):
        server.set_clock(T0 + second * S)
        answer = get(server.http, "/check", client("10.0.7.1"))
        assert parse_integer(answer.get("retry-after")) + second == waits[7] + 10


def test_C22_asking_again_is_not_punished(serve_at):
    server = serve_at(T0, limits("name: one, rate: 10 per 10s fixed_window"))
    passed = 0
    for half in range(120):
        server.set_clock(T0 + half * S // 2)
        passed += get(server.http, "/check").status == 200
    assert passed == 60


def test_C15_a_clock_that_leaps_and_returns(serve_at):
    server = serve_at(T0, limits("name: one, rate: 10/minute"))
    passed = statuses(server.http, 12).count(200)
    server.set_clock(T0 + 86400 * S)
    passed += statuses(server.http, 12).count(200)
    server.set_clock(T0)
    passed += statuses(server.http, 12).count(200)
    assert passed <= 20
    server.set_clock(T0 + 60 * S)
    assert statuses(server.http, 12).count(200) == 10


def test_C63_a_limit_lowered_far_below_what_was_spent_recovers_when_it_says(serve_at):
    """Not after the old debt, which would take a day."""
    server = serve_at(T0, limits("name: one, rate: 100000/day, cost: {header: x-cost, max: 100000}"))
    assert get(server.http, "/check", [("X-Cost", "100000")]).status == 200
    server.reload(limits("name: one, rate: 1/second"))
    answer = get(server.http, "/check")
    assert (answer.status, answer.get("retry-after")) == (429, "1")
    server.set_clock(T0 + S // 2)
    assert get(server.http, "/check").status == 429
    server.set_clock(T0 + S)
    assert statuses(server.http, 2) == [200, 429]
