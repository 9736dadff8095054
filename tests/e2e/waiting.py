"""Waiting for what has no event of its own. Every wait in these tests has a deadline, and none is a fixed pause."""

import time

DEADLINE_S = 20  # long enough for a busy machine; a test that passes never gets there
PAUSE_S = 0.01


def until(condition, what, seconds=DEADLINE_S):
    """Asks again and again until the condition holds, and returns what it returned."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"after {seconds} s still not so: {what}"
        time.sleep(PAUSE_S)


def holds(condition, what, seconds):
    """The opposite: the condition must hold all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"no longer so: {what}"
        time.sleep(PAUSE_S)
