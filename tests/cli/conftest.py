"""The program as its users call it: command lines in, exit status and text out.

Environment: CAUDAL_BINARY, the program under test.
"""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def caudal(tmp_path):
    """Runs the program in an empty folder."""
    binary = os.environ["CAUDAL_BINARY"]

    def run(*words):
        return subprocess.run([binary, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def policy(tmp_path):
    """Writes a policy file into that folder and returns its name."""

    def write(text, name="policy.yaml"):
        (tmp_path / name).write_text(text)
        return name

    return write
