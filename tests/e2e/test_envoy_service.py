"""Envoy's rate limit service: which limit a descriptor finds, what it is told, and what is spent.

What is expected is what the reference service answers, other than where a refusal would spend (see docs of `count_refused`). Each
server's clock stands, so that no window ends by itself.
"""

import itertools
import json

import pytest
from google.protobuf import json_format

from client import get, post, request as http_request
from conftest import T0
from envoy_client import UNLIMITED, Service, descriptor, pb, request
from policies import domain, rate

S = 10**9
PERIODS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 7 * 86400, "MONTH": 30 * 86400, "YEAR": 365 * 86400}
NONE = ("OK", [0], [None], [None])  # of a descriptor that no limit applies to


def told(answer):
    """(code, what remains, limits, resets)"""
    return answer.code, answer.left, answer.limits, answer.resets


# ----------------------------------------------------------------------------------------------- which limit it finds

TREE = domain(
    "tree",
    "key: key1, value: value1, descriptors: ["
    f"{{key: sub, {rate(5)}}}, {{key: sub, value: subvalue, {rate(10)}}},"
    f"{{key: deep, {rate(7)}, descriptors: [{{key: deeper, {rate(8)}}}]}}]",
    f"key: key2, {rate(20)}",
    f"key: key2, value: value2, {rate(30)}",
    "key: key2, value: value3",  # no limit: others than that value have one
    f"key: empty, value: '', {rate(40)}",
    f"key: key5, value: value5, {rate(15)}, descriptors: [{{key: sub, value: subvalue, {rate(25)}}}]",
    "key: free, rate_limit: {unlimited: true}",
)


@pytest.mark.parametrize("entries, requests", [
    ("key1=value1/sub=anything", 5),
    ("key1=value1/sub", 5),
    ("key1=value1/sub=subvalue", 10),
    ("key1=value1/deep=x", 7),
    ("key1=value1/deep=x/deeper=y", 8),
    ("key2=anything", 20),
    ("key2", 20),
    ("key2=value2", 30),
    ("empty=", 40),
    ("empty=anything", 40),  # an empty value in the file is none
    ("key5=value5", 15),
    ("key5=value5/sub=subvalue", 25),
])
def test_the_limit_that_is_most_like_a_descriptor(serve_domains, entries, requests):
    _, service = serve_domains(TREE)
    assert told(service.ask("tree", entries)) == ("OK", [requests - 1], [(requests, "MINUTE")], [60])


@pytest.mark.parametrize("entries", [
    "key1=value1",                        # not deep enough
    "key1=value1/deep=x/deeper=y/more=z",  # too deep
    "key1=other/sub=x",
    "key1=value1/other=x",
    "key2=value3",
    "key2=value2/more=x",
    "sub=subvalue",                       # not at this depth
    "KEY2=x",
    "key=2_x",
])
def test_no_limit_where_none_is_written(serve_domains, entries):
    _, service = serve_domains(TREE)
    assert told(service.ask("tree", entries)) == NONE


def test_an_unknown_domain_limits_nothing(serve_domains):
    _, service = serve_domains(TREE)
    for name in ("Tree", "tre", "tree2", "tree\0", "*", "ф"):
        assert told(service.ask(name, "key2=x", descriptor("a=b", limit=(0, "HOUR")))) == (
            "OK", [0, 0], [None, None], [None, None])


def test_what_is_not_limited(serve_domains):
    _, service = serve_domains(TREE)
    answer = service.ask("tree", "free=x", hits=2**32 - 1)
    assert (answer.code, answer.left, answer.limits) == ("OK", [UNLIMITED], [None])


# --------------------------------------------------------------------------------------------------------- wildcards

SIBLINGS = [f"key: k, value: foo, {rate(101)}", f"key: k, value: 'foo*', {rate(102)}", f"key: k, value: 'fo*b', {rate(103)}",
            f"key: k, {rate(104)}"]
# What is asked, and the limit in the order of the file and with the two wildcards the other way round.
WILDCARD_ROWS = [("foo", 101, 101), ("foobar", 102, 102), ("fob", 103, 103), ("foob", 102, 103), ("foo*", 102, 102),
                 ("fo*b", 103, 103), ("x", 104, 104), ("", 104, 104), ("fo", 104, 104), ("Foobar", 104, 104),
                 ("foo\n", 102, 102), ("foo\0", 102, 102), ("fo\nb", 103, 103)]


def shared(line):
    return line.replace("rate_limit", "share_threshold: true, rate_limit") if "*" in line else line


@pytest.mark.parametrize("share", [False, True], ids=["each", "shared"])
@pytest.mark.parametrize("below", [False, True], ids=["top", "below"])
@pytest.mark.parametrize("swapped", [False, True], ids=["file-order", "swapped"])
def test_C56_exact_before_wildcards_before_the_key_alone(serve_domains, swapped, below, share):
    first, second, third, fourth = map(shared, SIBLINGS) if share else SIBLINGS
    lines = [fourth, third, second, first] if swapped else [first, second, third, fourth]
    if below:
        lines = ["key: top, descriptors: [" + ", ".join(f"{{{line}}}" for line in lines) + "]"]
    _, service = serve_domains(domain("wild", *lines))
    for value, requests, requests_swapped in WILDCARD_ROWS:
        entries = [("top", "x")] * below + [("k", value)]
        (found,) = service.ask("wild", descriptor(entries)).limits
        assert found == (requests_swapped if swapped else requests, "MINUTE"), value


@pytest.mark.parametrize("pattern, matching, other", [
    ("ba*ab", ["baab", "baxab", "baabab"], ["bab", "ba", "ab", "baabx", ""]),
    ("foo*bar*baz", ["foobarbaz", "fooxbarybaz", "foobarbarbaz", "foobarbazbaz"], ["foobaz", "foobarba", "foobazbarbaz"[:-3]]),
    ("*", ["", "x", "*"], []),
    ("*a", ["a", "ba", "aa"], ["ab", ""]),
    ("a**b", ["ab", "axb"], ["a", "b", "aab_"]),
    ("a*a*a", ["aaa", "axaxa"], ["aa", "a"]),
])
def test_C56_parts_of_a_pattern_do_not_overlap(serve_domains, pattern, matching, other):
    _, service = serve_domains(domain("wild", f"key: k, value: '{pattern}', {rate(5)}"))
    for value in matching:
        assert service.ask("wild", descriptor([("k", value)])).limits == [(5, "MINUTE")], value
    for value in other:
        assert service.ask("wild", descriptor([("k", value)])).limits == [None], value


def test_C56_each_value_has_its_own_counter_unless_the_threshold_is_shared(serve_domains):
    _, service = serve_domains(domain("wild", f"key: own, value: 'files/*', {rate(2)}",
                                      f"key: all, value: 'files/*', share_threshold: true, {rate(2)}"))
    own = [service.ask("wild", descriptor([("own", f"files/{name}")])).left for name in "abcabc"]
    assert own == [[1], [1], [1], [0], [0], [0]]
    together = [service.ask("wild", descriptor([("all", f"files/{name}")])).code for name in "abcd"]
    assert together == ["OK", "OK", "OVER_LIMIT", "OVER_LIMIT"]


def test_C56_what_is_shared_above_is_shared_below(serve_domains):
    """`user` and `resource` are one each, whatever their values; `action` is not, and neither is what stands beside it."""
    _, service = serve_domains(domain(
        "wild",
        "key: user, value: 'user/*', share_threshold: true, descriptors: [{key: resource, value: 'res/*', share_threshold: true,"
        f" descriptors: [{{key: action, {rate(2)}}}]}}]",
        "key: path, value: 'path/*', share_threshold: true, descriptors: [{key: file, value: 'file/*', descriptors: ["
        f"{{key: type, {rate(2)}}}]}}]"))

    def left(*pairs):
        return service.ask("wild", descriptor(pairs)).left[0]

    assert left(("user", "user/a"), ("resource", "res/a"), ("action", "read")) == 1
    assert left(("user", "user/b"), ("resource", "res/b"), ("action", "read")) == 0
    assert left(("user", "user/a"), ("resource", "res/a"), ("action", "write")) == 1
    assert left(("path", "path/a"), ("file", "file/a"), ("type", "x")) == 1
    assert left(("path", "path/b"), ("file", "file/a"), ("type", "x")) == 0
    assert left(("path", "path/b"), ("file", "file/b"), ("type", "x")) == 1


def test_C56_an_exact_value_has_no_part_in_what_is_shared(serve_domains):
    _, service = serve_domains(domain("wild", f"key: file, value: test1, {rate(1)}",
                                      f"key: file, value: 'test*', share_threshold: true, {rate(2)}"))
    assert service.codes(2, "wild", "file=test1") == ["OK", "OVER_LIMIT"]
    assert [service.ask("wild", f"file=test{n}").code for n in (2, 3, 4)] == ["OK", "OK", "OVER_LIMIT"]


# ------------------------------------------------------------------------------------------------------------ counting

def test_25_calls_on_20_a_minute(serve_domains):
    server, service = serve_domains(domain("one", f"key: k, {rate(20)}"))
    server.set_clock(T0 + 10 * S)
    for left in range(19, -1, -1):
        assert told(service.ask("one", "k=v")) == ("OK", [left], [(20, "MINUTE")], [50])
    for _ in range(5):
        assert told(service.ask("one", "k=v")) == ("OVER_LIMIT", [0], [(20, "MINUTE")], [50])
    assert service.ask("one", "k=other").left == [19]
    server.set_clock(T0 + 60 * S - 1)
    assert told(service.ask("one", "k=v")) == ("OVER_LIMIT", [0], [(20, "MINUTE")], [1])
    server.set_clock(T0 + 60 * S)
    assert told(service.ask("one", "k=v")) == ("OK", [19], [(20, "MINUTE")], [60])


def test_two_descriptors_and_a_refusal_spends_nothing(serve_domains):
    server, service = serve_domains(domain("two", f"key: a, {rate(20)}", f"key: b, {rate(10, 'hour')}"))
    for n in range(10):
        answer = service.ask("two", "a=x", "b=x")
        assert (answer.code, answer.codes, answer.left) == ("OK", ["OK", "OK"], [19 - n, 9 - n])
        assert answer.limits == [(20, "MINUTE"), (10, "HOUR")]
    for _ in range(15):
        answer = service.ask("two", "a=x", "b=x")
        assert (answer.code, answer.codes, answer.left) == ("OVER_LIMIT", ["OK", "OVER_LIMIT"], [10, 0])
    assert service.ask("two", "a=x").left == [9]
    server.set_clock(T0 + 3600 * S)
    assert service.ask("two", "a=x", "b=x").left == [19, 9]


def test_two_descriptors_where_refused_requests_count(serve_domains):
    """As the reference service counts: what is refused has been spent."""
    counted = "count_refused: true"
    _, service = serve_domains(domain("two", f"key: a, {counted}, {rate(20)}", f"key: b, {counted}, {rate(10, 'hour')}"))
    for n in range(25):
        answer = service.ask("two", "a=x", "b=x")
        assert answer.codes == ["OK" if n < 20 else "OVER_LIMIT", "OK" if n < 10 else "OVER_LIMIT"], n
        assert answer.left == [max(19 - n, 0), max(9 - n, 0)], n


def test_the_same_descriptor_twice_counts_twice(serve_domains):
    _, service = serve_domains(domain("one", f"key: k, {rate(3)}"))
    assert service.ask("one", "k=v", "k=v").code == "OK"
    assert service.ask("one", "k=v", "k=v").code == "OVER_LIMIT"  # there is room for one
    assert service.ask("one", "k=v").left == [0]


def test_nothing_at_all_is_allowed_by_zero(serve_domains):
    _, service = serve_domains(domain("zero", f"key: k, {rate(0)}"))
    for _ in range(2):
        assert told(service.ask("zero", "k=v")) == ("OVER_LIMIT", [0], [(0, "MINUTE")], [60])
    assert "retry-after" not in service.ask("zero", "k=v").fields


@pytest.mark.parametrize("unit", PERIODS)
def test_C18_windows_begin_with_the_epoch(serve_domains, unit):
    server, service = serve_domains(domain("unit", f"key: k, {rate(2, unit.lower())}"))
    period = PERIODS[unit]
    now = T0 // S + 12345
    end = now - now % period + period
    server.set_clock(now * S)
    assert told(service.ask("unit", "k=v")) == ("OK", [1], [(2, unit)], [end - now])
    server.set_clock(end * S - 1)
    assert told(service.ask("unit", "k=v"))[:2] == ("OK", [0 if unit != "SECOND" or end - now > 1 else 0])
    assert told(service.ask("unit", "k=v")) == ("OVER_LIMIT", [0], [(2, unit)], [1])
    server.set_clock(end * S)
    assert told(service.ask("unit", "k=v")) == ("OK", [1], [(2, unit)], [period])


# ------------------------------------------------------------------------------------------------------------- addends

def test_C30_hits_of_the_request(serve_domains):
    _, service = serve_domains(domain("one", f"key: k, {rate(10)}"))
    assert service.ask("one", "k=v", hits=0).left == [9]
    assert service.ask("one", "k=v", hits=4).left == [5]
    refused = service.ask("one", "k=v", hits=6)
    assert (refused.code, refused.left) == ("OVER_LIMIT", [0])  # as the reference says, though nothing was spent
    assert service.ask("one", "k=v", hits=5).left == [0]


def test_C30_a_descriptor_that_costs_nothing_looks_only(serve_domains):
    _, service = serve_domains(domain("one", f"key: k, {rate(1, 'hour')}"))
    look = descriptor("k=v", hits=0)
    assert told(service.ask("one", look)) == ("OK", [1], [(1, "HOUR")], [3600])
    assert told(service.ask("one", look, hits=5)) == ("OK", [1], [(1, "HOUR")], [3600])  # its own word counts
    assert service.ask("one", "k=v").left == [0]
    assert told(service.ask("one", look)) == ("OK", [0], [(1, "HOUR")], [3600])  # only what remains tells
    assert service.ask("one", "k=v").code == "OVER_LIMIT"


def test_hits_of_each_descriptor(serve_domains):
    _, service = serve_domains(domain("one", f"key: k, {rate(10)}"))
    answer = service.ask("one", descriptor("k=a", hits=3), descriptor("k=b"), descriptor("k=c", hits=0), hits=7)
    assert answer.left == [7, 3, 10]
    answer = service.ask("one", descriptor("k=a", hits=8), descriptor("k=b", hits=3))
    assert (answer.code, answer.codes) == ("OVER_LIMIT", ["OVER_LIMIT", "OK"])
    assert service.ask("one", descriptor("k=a", hits=0), descriptor("k=b", hits=0)).left == [7, 3]


@pytest.mark.parametrize("hits", [11, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_no_number_of_hits_wraps(serve_domains, hits):
    _, service = serve_domains(domain("one", f"key: k, {rate(10)}"))
    assert service.ask("one", descriptor("k=v", hits=hits)).code == "OVER_LIMIT"
    if hits < 2**32:
        assert service.ask("one", "k=v", hits=hits).code == "OVER_LIMIT"
    assert service.ask("one", descriptor("k=v", hits=hits), descriptor("k=v", hits=hits)).code == "OVER_LIMIT"
    assert service.ask("one", "k=v").left == [9]


def test_the_largest_limit(serve_domains):
    _, service = serve_domains(domain("one", f"key: k, {rate(2**32 - 1, 'year')}"))
    assert told(service.ask("one", "k=v", hits=1))[:3] == ("OK", [2**32 - 2], [(2**32 - 1, "YEAR")])
    assert service.ask("one", "k=v", hits=2**32 - 1).code == "OVER_LIMIT"
    assert service.ask("one", "k=v", hits=2**32 - 2).left == [0]
    assert service.ask("one", "k=v").code == "OVER_LIMIT"


# ----------------------------------------------------------------------------------------------------- quota and shadow

def test_a_quota_that_is_exceeded_is_told_and_refuses_nothing(serve_domains):
    _, service = serve_domains(domain("modes", f"key: q, quota_mode: true, {rate(1)}", f"key: b, {rate(3)}"))
    assert told(service.ask("modes", "q")) == ("OK", [0], [(1, "MINUTE")], [60])
    for left in (2, 1, 0):
        answer = service.ask("modes", "q", "b")
        assert (answer.code, answer.codes, answer.left) == ("OK", ["OK", "OK"], [0, left])
        assert answer.limits == [(1, "MINUTE"), (3, "MINUTE")]
    answer = service.ask("modes", "q", "b")
    assert (answer.code, answer.codes, answer.left) == ("OVER_LIMIT", ["OK", "OVER_LIMIT"], [0, 0])


def test_a_limit_in_shadow_mode_is_counted_and_refuses_nothing(serve_domains):
    _, service = serve_domains(domain("modes", f"key: s, shadow_mode: true, {rate(2)}", f"key: b, {rate(4)}"))
    assert [service.ask("modes", "s").left for _ in range(3)] == [[1], [0], [0]]
    answer = service.ask("modes", "s", "b")
    assert (answer.code, answer.codes, answer.left) == ("OK", ["OK", "OK"], [0, 3])


@pytest.mark.parametrize("modes, codes", [
    ("", "OVER_LIMIT"), ("shadow_mode: true,", "OK"), ("quota_mode: true,", "OK"), ("shadow_mode: true, quota_mode: true,", "OK"),
    ("shadow_mode: false, quota_mode: false,", "OVER_LIMIT"),
])
@pytest.mark.parametrize("beside", ["", "shadow_mode: true,", "quota_mode: true,"])
def test_every_two_modes_beside_each_other(serve_domains, modes, codes, beside):
    """The whole is refused when one that is enforced refuses; each has its own code."""
    _, service = serve_domains(domain("modes", f"key: a, {modes} {rate(1)}", f"key: b, {beside} {rate(0)}"))
    expected_b = "OK" if beside else "OVER_LIMIT"
    first = service.ask("modes", "a", "b")
    assert (first.code, first.codes) == (expected_b, ["OK", expected_b])
    service.ask("modes", "a")  # now a has nothing left, whatever became of the first
    second = service.ask("modes", "a", "b")
    assert second.codes == [codes, expected_b]
    assert second.code == ("OVER_LIMIT" if "OVER_LIMIT" in second.codes else "OK")


# ------------------------------------------------------------------------------------- limits that the request brings

OVERRIDES = domain("over", f"key: k, {rate(5)}", f"key: s, shadow_mode: true, {rate(5)}",
                   f"key: q, quota_mode: true, {rate(5)}", "key: free, rate_limit: {unlimited: true}")


@pytest.mark.parametrize("unit", PERIODS)
@pytest.mark.parametrize("entries", ["k=v", "unknown=v", "a=b/c=d", "free=x"])
def test_C60_an_override_is_enforced(serve_domains, unit, entries):
    server, service = serve_domains(OVERRIDES)
    period = PERIODS[unit]
    left = period - T0 // S % period
    asked = descriptor(entries, limit=(2, unit))
    assert [told(service.ask("over", asked)) for _ in range(3)] == [
        ("OK", [1], [(2, unit)], [left]), ("OK", [0], [(2, unit)], [left]), ("OVER_LIMIT", [0], [(2, unit)], [left])]
    server.set_clock(T0 + left * S)
    assert service.ask("over", asked).left == [1]


@pytest.mark.parametrize("unit", [0, 8, 99, 2**31 - 1, -1])
def test_C60_an_override_of_no_unit_is_refused_by_name(serve_domains, unit):
    _, service = serve_domains(OVERRIDES)
    code, words = service.error(service.ask, "over", "k=v", descriptor("k=v", limit=(5, unit)))
    assert code == "INVALID_ARGUMENT"
    assert "unit" in words and "descriptors[1]" in words, words
    assert service.ask("over", "k=v").left == [4]  # nothing was spent


def test_C60_an_override_of_nothing(serve_domains):
    _, service = serve_domains(OVERRIDES)
    assert told(service.ask("over", descriptor("k=v", limit=(0, "HOUR")))) == ("OVER_LIMIT", [0], [(0, "HOUR")], [3600])


@pytest.mark.parametrize("key", ["s", "q"])
def test_C60_an_override_is_neither_in_shadow_nor_a_quota(serve_domains, key):
    _, service = serve_domains(OVERRIDES)
    assert service.codes(2, "over", descriptor(f"{key}=v", limit=(1, "HOUR"))) == ["OK", "OVER_LIMIT"]
    assert service.codes(7, "over", f"{key}=v") == ["OK"] * 7


def test_C60_a_changed_override_keeps_the_count(serve_domains):
    _, service = serve_domains(OVERRIDES)

    def ask(requests):
        answer = service.ask("over", descriptor("k=v", limit=(requests, "HOUR")))
        return answer.code, answer.left[0]

    assert [ask(2) for _ in range(3)] == [("OK", 1), ("OK", 0), ("OVER_LIMIT", 0)]
    assert ask(5) == ("OK", 2)
    assert ask(1) == ("OVER_LIMIT", 0)
    assert ask(4) == ("OK", 0)


def test_two_overrides_of_one_counter_are_an_error_and_no_refusal(serve_domains):
    """What cannot be counted is told as such, and spends nothing."""
    server, service = serve_domains(OVERRIDES)
    both = [descriptor("free=v"), *(descriptor("k=v", limit=(requests, "HOUR")) for requests in (5, 6))]
    status, words = service.error(service.ask, "over", *both)
    assert status == "INVALID_ARGUMENT" and words.startswith("descriptors[2].limit: descriptors[1] has another one"), words
    limits = [{"entries": [{"key": "k", "value": "v"}], "limit": {"requestsPerUnit": requests, "unit": "HOUR"}} for requests in (5, 6)]
    assert ask_json(server, {"domain": "over", "descriptors": limits}).status == 400
    same = [descriptor("k=v", limit=(5, "HOUR"))] * 2
    assert service.ask("over", *same).left == [4, 3]


def test_C59_overrides_of_several_units_are_several_limits(serve_domains):
    """At the full hour all their windows begin at the same instant."""
    _, service = serve_domains(OVERRIDES)
    both = [descriptor("k=v", limit=(10, unit)) for unit in ("SECOND", "MINUTE", "HOUR")]
    answers = [service.ask("over", *both).left for _ in range(3)]
    assert answers == [[9] * 3, [8] * 3, [7] * 3]


@pytest.mark.measured
def test_C92_overrides_cost_no_memory_and_no_metric_each(serve_domains, long_run):
    server, service = serve_domains(OVERRIDES)

    def ask(first, count):
        for n in range(first, first + count, 50):
            service.ask("over", *(descriptor(f"user={i}", limit=(1 + i % 1000, "HOUR")) for i in range(n, n + 50)))

    ask(0, 20_000)  # as many as the store has room for
    rss, series = server.rss_bytes(), get(server.admin, "/metrics").body.count(b"\n")
    ask(20_000, 200_000 if long_run else 20_000)
    assert server.rss_bytes() - rss < 2 << 20
    assert get(server.admin, "/metrics").body.count(b"\n") <= series + 10


# -------------------------------------------------------------------------------------------------------------- replaces

REPLACES = domain(
    "replace",
    "key: category, value: account, rate_limit: {replaces: [{name: narrow}, {name: absent}], unit: minute, requests_per_unit: 4}",
    f"key: foo, descriptors: [{{key: bar, value: x, {rate(1, more=', name: narrow')}}}, "
    f"{{key: bar, value: banned, {rate(0, more=', name: banned')}}}]",
    "key: pass, rate_limit: {unlimited: true, replaces: [{name: banned}]}",
    "key: chain, rate_limit: {name: middle, replaces: [{name: narrow}], unit: minute, requests_per_unit: 9}",
    "key: top, rate_limit: {replaces: [{name: middle}], unit: minute, requests_per_unit: 9}",
)


def test_a_limit_stands_for_those_that_it_replaces(serve_domains):
    _, service = serve_domains(REPLACES)
    assert service.codes(2, "replace", "foo=y/bar=x") == ["OK", "OVER_LIMIT"]
    for left in (3, 2, 1, 0):
        answer = service.ask("replace", "foo=y/bar=x", "category=account")
        assert (answer.code, answer.left, answer.limits) == ("OK", [0, left], [None, (4, "MINUTE")])
    answer = service.ask("replace", "foo=y/bar=x", "category=account")
    assert (answer.code, answer.codes) == ("OVER_LIMIT", ["OK", "OVER_LIMIT"])


def test_what_is_unlimited_may_replace(serve_domains):
    _, service = serve_domains(REPLACES)
    assert service.ask("replace", "foo=y/bar=banned").code == "OVER_LIMIT"
    answer = service.ask("replace", "foo=y/bar=banned", "pass")
    assert (answer.code, answer.codes, answer.left[1]) == ("OK", ["OK", "OK"], UNLIMITED)


def test_what_is_replaced_replaces_nonetheless(serve_domains):
    _, service = serve_domains(REPLACES)
    answer = service.ask("replace", "top", "chain", "foo=y/bar=x")
    assert (answer.code, answer.limits) == ("OK", [(9, "MINUTE"), None, None])


# -------------------------------------------------------------------------------------------------------- keys apart

def test_C59_entries_that_look_alike_when_they_are_joined(serve_domains):
    _, service = serve_domains(domain("apart", f"key: a, {rate(1)}", f"key: a_b, {rate(1)}"))
    for pairs in ([("a", "b_c")], [("a_b", "c")]):
        assert service.codes(2, "apart", descriptor(pairs)) == ["OK", "OVER_LIMIT"], pairs


def test_C59_a_key_with_an_underscore_beside_a_value(serve_domains):
    _, service = serve_domains(domain("apart", f"key: key1, {rate(50)}", f"key: key1_local, {rate(60)}",
                                      f"key: key1, value: x, {rate(70)}"))
    limits = [service.ask("apart", entries).limits[0][0] for entries in ("key1=local", "key1_local", "key1_local=x", "key1=x")]
    assert limits == [50, 60, 60, 70]


ODD = ["", "a", "b", "a=b", "_", "a_b", "|", "/", "\0", "\0\0", "a\0", "{", "}", "{a}", "é", "e\u0301", " ", ",", "\r\n", "a" * 1000, "1", "\u2028"]


def test_C59_no_two_requests_share_a_record(serve_domains):
    """Each pair of odd strings, as (key, value), (domain, value), and cut into entries at another place."""
    text = domain("d", "key: k, descriptors: [{key: k, " + rate(1000) + "}]", f"key: one, {rate(1000)}")
    _, service = serve_domains(text, text.replace("domain: d", "domain: D"))
    every = [descriptor([("k", x), ("k", y)]) for x, y in itertools.product(ODD, ODD)] + [descriptor([("one", x)]) for x in ODD]
    every += [descriptor([("x", x), (y, "x")], limit=(1000, unit))
              for x, y in itertools.product(ODD, ODD) if y for unit in ("MINUTE", "HOUR")]
    for name in ("d", "D"):
        for first in range(0, len(every), 50):
            part = every[first : first + 50]
            answer = service.ask(name, *part)
            assert answer.left == [999] * len(part), [one for one, left in zip(part, answer.left) if left != 999]


def test_C75_long_values_are_told_apart(serve_domains):
    _, service = serve_domains(domain("long", f"key: k, {rate(1)}"))
    for value in ("x" * 4000, "x" * 3999 + "y", "x" * 60000 + "a", "x" * 60000 + "b"):
        try:
            codes = service.codes(2, "long", descriptor([("k", value)]))
        except Exception as error:  # over the cap: refused, but never unlimited
            assert error.code().name == "INVALID_ARGUMENT", error
        else:
            assert codes == ["OK", "OVER_LIMIT"]


# --------------------------------------------------------------------------------------------------- what else is told

def test_fields_for_the_response(serve_domains):
    server, service = serve_domains(domain("fields", f"key: a, {rate(2, more=', name: of-a')}", f"key: b, {rate(5, 'hour')}"))
    server.set_clock(T0 + 10 * S)
    first = service.ask("fields", "a=x", "b=x").fields
    assert "retry-after" not in first
    assert first["ratelimit"].startswith('"of-a";r=1;t=50'), first  # the one that is nearest to its end
    assert '"of-a";q=2;w=60' in first["ratelimit-policy"]
    service.ask("fields", "a=x", "b=x")
    refused = service.ask("fields", "a=x", "b=x")
    assert refused.code == "OVER_LIMIT"
    assert refused.fields["retry-after"] == "50"
    assert refused.fields["ratelimit"].startswith('"of-a";r=0;t=50')
    assert refused.fields["caudal-limit"] == "of-a"


def test_no_fields_where_no_limit_applies(serve_domains):
    _, service = serve_domains(TREE)
    assert service.ask("tree", "nothing=x").fields == {}


def test_the_name_of_the_limit(serve_domains):
    _, service = serve_domains(domain("named", f"key: a, {rate(2, more=', name: of-a')}", f"key: b, {rate(2)}"))
    assert [status.current_limit.name for status in service.ask("named", "a=x", "b=x").raw.statuses] == ["of-a", ""]


def test_metadata_tell_of_quotas(serve_domains):
    """As the reference service tells, when it is set up to, and with what the file says of the rule."""
    _, service = serve_domains(domain(
        "meta", f"key: a, quota_mode: true, metadata: {{owner: {{name: team, size: 3}}}}, {rate(1)}", f"key: b, {rate(5)}"))

    def metadata(*descriptors):
        response = service.ask("meta", *descriptors).raw
        return json_format.MessageToDict(response.dynamic_metadata) if response.HasField("dynamic_metadata") else None

    assert metadata("b=x") is None  # nobody has asked for any
    first = metadata("b=x", "a=x")
    assert first["domain"] == "meta" and first["quotaModeEnabled"] is True and "quotaModeViolations" not in first
    assert [one["entries"] for one in first["descriptors"]] == [["b=x"], ["a=x"]]
    assert first["descriptors"][1]["metadata"] == {"owner": {"name": "team", "size": 3}}
    assert metadata("b=x", "a=x")["quotaModeViolations"] == [1]


# ---------------------------------------------------------------------------------------------------------------- JSON

def ask_json(server, value):
    return post(server.http, "/json", value)


def test_the_same_over_json(serve_domains):
    server, service = serve_domains(domain("json", f"key: k, {rate(2)}"))
    asked = {"domain": "json", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}
    answers = [ask_json(server, asked) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert all(answer.get("content-type").startswith("application/json") for answer in answers)
    last = answers[2].json()
    assert last["overallCode"] == "OVER_LIMIT"
    assert last["statuses"] == [{"code": "OVER_LIMIT", "currentLimit": {"requestsPerUnit": 2, "unit": "MINUTE"},
                                 "durationUntilReset": "60s"}]
    assert answers[0].json()["statuses"][0]["limitRemaining"] == 1
    assert service.ask("json", "k=v").code == "OVER_LIMIT"  # one counter for both


def test_json_in_every_spelling_of_protobuf(serve_domains):
    """Names of fields as they are and in lowerCamelCase, 64-bit numbers as text."""
    server, service = serve_domains(domain("json", f"key: k, {rate(100)}"))
    entry = {"entries": [{"key": "k", "value": "v"}]}
    for hits, more in ((1, {}), (2, {"hits_addend": 2}), (3, {"hitsAddend": 3}), (1, {"hitsAddend": 0}), (4, {"hitsAddend": "4"})):
        before = service.ask("json", descriptor("k=v", hits=0)).left[0]
        assert ask_json(server, {"domain": "json", "descriptors": [entry], **more}).status == 200
        assert service.ask("json", descriptor("k=v", hits=0)).left == [before - hits], more
    answer = ask_json(server, {"domain": "json", "descriptors": [{**entry, "hitsAddend": "0"}]})
    assert answer.json()["statuses"][0]["limitRemaining"] == 89
    answer = ask_json(server, {"domain": "json", "descriptors": [{**entry, "limit": {"requests_per_unit": 5, "unit": "WEEK"}}]})
    assert answer.json()["statuses"][0]["currentLimit"] == {"requestsPerUnit": 5, "unit": "WEEK"}


@pytest.mark.parametrize("body", [
    "", "{", "[]", "null", '"x"', '{"domain": 5}', '{"domain": "json"}', '{"domain": "json", "descriptors": []}',
    '{"domain": "", "descriptors": [{"entries": [{"key": "k"}]}]}',
    '{"domain": "json", "descriptors": [{"entries": [{"key": "k"}], "limit": {"requests_per_unit": 1, "unit": "FORTNIGHT"}}]}',
    '{"domain": "json", "descriptors": [{"entries": [{"key": "k"}]}], "hitsAddend": -1}',
    '{"domain": "json", "descriptors": [{"entries": [{"key": "k"}]}], "hitsAddend": 4294967296}',
    '{"domain": "json", "descriptors": [{"entries": [{"key": "k"}]}], "unknown": 1}',
    '{"domain": "json", "descriptors": [{"entries": [{"key": "k", "value": 5}]}]}',
    "[" * 30_000,
])
def test_json_that_is_no_request(serve_domains, body):
    server, _ = serve_domains(domain("json", f"key: k, {rate(2)}"))
    answer = ask_json(server, body.encode())
    assert answer.status == 400, answer
    assert get(server.admin, "/healthz").status == 200


def test_json_is_posted(serve_domains):
    server, _ = serve_domains(domain("json", f"key: k, {rate(2)}"))
    assert http_request(server.http, "GET", "/json").status == 405


# ------------------------------------------------------------------------------------------------------- bad requests

@pytest.mark.parametrize("asked, word", [
    (request("", "k=v"), "domain"),
    (request("one"), "descriptors"),
    (pb.Request(domain="one", descriptors=[pb.Descriptor()]), "entries"),
    (request("one", descriptor([("", "v")])), "key"),
    (request("one", *["k=v"] * 65), "descriptors"),
    (request("one", *["k=v"] * 5000), "descriptors"),
    (request("one", descriptor([("k", "v")] * 33)), "entries"),
    (request("one", descriptor([("k", "v")] * 5000)), "entries"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_request_is_told_why(serve_domains, asked, word):
    _, service = serve_domains(domain("one", f"key: k, {rate(5)}"))
    code, words = service.error(service.ask_bytes, asked.SerializeToString())
    assert code == "INVALID_ARGUMENT" and word in words, (code, words)
    assert service.ask("one", "k=v").left == [4]


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


@pytest.mark.parametrize("message", [
    b"\x0a", b"\x0a\xff", b"\x0a\x05abcd", b"\x08", b"\x07", b"\x00", b"\x0b\x0c", b"\x12\x02\x0a\x05", b"\xff" * 11,
    b"\x0a" + varint(2**31), b"\x0a" + varint(2**63), b"\x0a" + varint(2**64 - 1), b"\x18" + b"\xff" * 10 + b"\x01",
    b"\x12\x80", b"\x1d\x01", b"\x19\x01",
])
def test_bytes_that_are_no_message(serve_domains, message):
    _, service = serve_domains(domain("one", f"key: k, {rate(5)}"))
    code, words = service.error(service.ask_bytes, message)
    assert code == "INVALID_ARGUMENT" and words, (code, words)
    assert service.ask("one", "k=v").left == [4]


def test_fields_that_nobody_knows_are_passed_over(serve_domains):
    """Of later versions: at each depth, of each wire type (groups have gone out of use)."""
    _, service = serve_domains(domain("one", f"key: k, {rate(5)}"))
    unknown = b"\xa0\x06\x01" + b"\xa1\x06" + b"x" * 8 + b"\xa2\x06\x03abc" + b"\xa5\x06" + b"x" * 4
    entry = b"\x0a\x01k\x12\x01v" + unknown
    described = b"\x0a" + varint(len(entry)) + entry + unknown
    message = unknown + b"\x0a\x03one\x12" + varint(len(described)) + described + unknown
    assert service.ask_bytes(message).left == [4]


def test_C75_bytes_that_are_no_text_are_keys_of_their_own(serve_domains):
    _, service = serve_domains(domain("one", f"key: k, {rate(5)}"))

    def ask(value):
        entry = b"\x0a\x01k\x12" + varint(len(value)) + value
        described = b"\x0a" + varint(len(entry)) + entry
        return service.ask_bytes(b"\x0a\x03one\x12" + varint(len(described)) + described).left

    for value in (b"\xff", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\0\xff"):
        assert ask(value) == [4], value


def test_a_gRPC_method_that_is_not_there(serve_domains):
    _, service = serve_domains(TREE)
    for method in ("/envoy.service.ratelimit.v3.RateLimitService/Other", "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
                   "/x", "/"):
        assert service.error(service.ask_bytes, b"", method)[0] == "UNIMPLEMENTED", method


# ------------------------------------------------------------------------------------------------------------- health

def test_health(serve_domains):
    _, service = serve_domains(TREE)
    assert service.serving() == "SERVING"
    assert service.serving("ratelimit") == "SERVING"
    assert service.serving("envoy.service.ratelimit.v3.RateLimitService") == "SERVING"
    assert service.error(service.serving, "nonsense")[0] == "NOT_FOUND"


def test_several_connections_count_together(serve_domains):
    server, service = serve_domains(domain("one", f"key: k, {rate(10)}"))
    with Service(server.grpc) as second, Service(server.grpc) as third:
        left = [one.ask("one", "k=v").left[0] for _ in range(3) for one in (service, second, third)]
    assert left == list(range(9, 0, -1))


def test_a_counter_is_the_same_as_by_its_limits_name(serve_domains):
    """Whoever asks another way asks the same store."""
    server, service = serve_domains(domain("one", f"key: k, {rate(3)}"))
    service.ask("one", "k=v")
    limits = get(server.admin, "/v1/limits").json()["limits"]
    assert [limit for limit in limits if "one" in json.dumps(limit)], limits
