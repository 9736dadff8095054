"""Random histories of one key: the store must answer as the reference model does, or within the stated rounding.

See judge.py for what is exact and what may be rounded, strategies.py for what is drawn.
"""
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from judge import explain, play
from strategies import STARTS, examples, limits, steps


def run(store, limit, start, history):
    record = []
    with store.limit(limit) as number:
        try:
            play(store, number, limit, start, history, record)
        except AssertionError:
            note(explain(limit, record))
            raise


@examples(4)
@given(limit=limits("token_bucket"), start=STARTS, history=st.lists(steps(), min_size=1, max_size=40))
def test_token_bucket_answers_as_the_model(store, limit, start, history):
    run(store, limit, start, history)


@examples(1.5)
@given(limit=limits("fixed_window"), start=STARTS, history=st.lists(steps(), min_size=1, max_size=40))
def test_fixed_window_answers_as_the_model(store, limit, start, history):
    run(store, limit, start, history)


@examples(2)
@given(limit=limits("sliding_window"), start=STARTS, history=st.lists(steps(), min_size=1, max_size=40))
def test_sliding_window_answers_as_the_model(store, limit, start, history):
    run(store, limit, start, history)


@examples(2)
@given(limit=limits("sliding_log"), start=STARTS, history=st.lists(steps(), min_size=1, max_size=40))
def test_sliding_log_answers_as_the_model(store, limit, start, history):
    run(store, limit, start, history)


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window", "sliding_log"])
@examples(1.5)
@given(data=st.data())
def test_what_was_spent_stays_spent_when_the_limit_changes(store, algorithm, data):
    limit = data.draw(limits(algorithm))
    history = data.draw(st.lists(steps(limits(algorithm)), min_size=1, max_size=30))
    run(store, limit, data.draw(STARTS), history)


@examples(1)
@given(limit=limits(), start=STARTS, history=st.lists(steps(limits()), min_size=1, max_size=30))
def test_another_algorithm_counts_from_the_beginning(store, limit, start, history):
    run(store, limit, start, history)
