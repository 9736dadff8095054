"""Random histories of one key whose limit comes with each call: as a named limit that is changed between the calls, or rounded by less
than a part of a token, never in the caller's favour. See per_call.py.
"""
import itertools

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from judge import explain
from per_call import Door, play
from strategies import STARTS, examples, limits, steps

ASKED_BY = ("token_bucket", "fixed_window")
keys = itertools.count()


@pytest.fixture(scope="module")
def door():
    with Door("memory:?keys=4096") as opened:
        yield opened


def run(door, limit, start, history):
    record = []
    try:
        play(door, f"key {next(keys)}".encode(), limit, start, history, record)
    except AssertionError:
        note(explain(limit, record))
        raise


@pytest.mark.parametrize("algorithm", ASKED_BY)
@examples(0.75)
@given(data=st.data())
def test_one_limit_answers_as_the_model(door, algorithm, data):
    run(door, data.draw(limits(algorithm)), data.draw(STARTS), data.draw(st.lists(steps(), min_size=1, max_size=40)))


@examples(2)
@given(limit=limits("token_bucket"), start=STARTS,
       history=st.lists(steps(limits("token_bucket")), min_size=1, max_size=40))
def test_a_debt_is_kept_in_tokens_whatever_rates_come(door, limit, start, history):
    run(door, limit, start, history)


@examples(1)
@given(limit=limits("fixed_window"), start=STARTS,
       history=st.lists(steps(limits("fixed_window")), min_size=1, max_size=40))
def test_a_window_keeps_its_count_or_begins_anew(door, limit, start, history):
    run(door, limit, start, history)


@examples(1)
@given(limit=limits(*ASKED_BY), start=STARTS, history=st.lists(steps(limits(*ASKED_BY)), min_size=1, max_size=40))
def test_another_algorithm_begins_anew(door, limit, start, history):
    run(door, limit, start, history)
