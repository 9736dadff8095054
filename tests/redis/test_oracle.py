"""Random histories through a real store against the reference model: see histories.py."""

import os
import pathlib
import subprocess
import sys

import pytest

HISTORIES = pathlib.Path(__file__).resolve().parent / "histories.py"


@pytest.mark.parametrize("place, decisions, long", [("node", 8_000, 500_000), ("cluster", 2_000, 50_000)], indirect=["place"],
                         ids=["node", "cluster"])
def test_random_histories_answer_as_the_model(place, long_run, decisions, long):
    """Two processes beside each other; each has keys of its own, and its own seed."""
    decisions = long if long_run else decisions
    processes = [subprocess.Popen([sys.executable, str(HISTORIES), place.url, f"seed{index}", str(decisions)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ)
                 for index in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)
    assert sum(map(int, outputs)) >= 2 * decisions


def test_random_histories_on_valkey(farm, brand):
    done = subprocess.run([sys.executable, str(HISTORIES), farm.node(brand).url, brand, "2000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
