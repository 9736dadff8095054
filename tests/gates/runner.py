"""The runner counts right: every case by its own name, and nothing that did not run passes."""

import sys

import _gate

sys.path.insert(0, str(_gate.ROOT / "tests"))
import run  # noqa: E402

# (what a program printed, its exit status, how many pass, the names of those that fail)
CASES = [
    ("1..2\nok 1 - a\nok 2 - b\n", 0, 2, []),
    ("1..1\nok 1 - a\n# note\n1..1\nok 1 - b\n", 0, 2, []),
    ("1..2\nok 1 - a\nnot ok 2 - b\n", 1, 1, ["b"]),
    ("1..1\nnot ok 1 - a\n", 0, 0, ["a"]),
    ("1..2\nok 1 - a\n", 0, 1, ["planned 2 tests and ran 1"]),
    ("ok 1 - a\n", 0, 1, ["planned 0 tests and ran 1"]),
    ("1..1\nok 1 - a\n==1==ERROR: LeakSanitizer\n", 23, 1, ["exit status 23"]),
    ("1..2\nok 1 - a # SKIP no redis\nnot ok 2 # TODO b\n", 0, 0,
     ["a # SKIP no redis (a skip is a failure)", "# TODO b (a skip is a failure)"]),
    ("1..1\nok 1 - a\nBail out! no memory\n", 0, 1, ["bailed out"]),
    ("1..0 # skipped\n", 0, 0, ["ran no test"]),
    ("", 1, 0, ["exit status 1"]),
    ("1..1\nok 1 - looks\n  not ok 2 - indented is part of a test\n", 0, 1, []),
]


class Recorder(run.Stage):
    """A stage without a log."""

    def __init__(self):
        self.results = []

    def record(self, name, problem=None):
        self.results.append((name.removeprefix("program: "), problem is None))


def counting_problems():
    problems = []
    for text, status, passed, failed in CASES:
        stage = Recorder()
        stage.record_tap("program", text, status)
        if [name for name, good in stage.results if not good] != failed or sum(
                good for _, good in stage.results) != passed:
            problems.append(f"{text!r} with status {status} was counted as {stage.results}")
    return problems


def stage_problems():
    """Every stage of check is named in check-long, as itself or in its longer form."""
    return [f"check-long lacks {name}" for name in run.CHECK
            if name not in run.CHECK_LONG and f"{name}-long" not in run.CHECK_LONG]


if __name__ == "__main__":
    _gate.report([
        ("every case counts by its own name", counting_problems),
        ("check-long contains check", stage_problems),
    ])
