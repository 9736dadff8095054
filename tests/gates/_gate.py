"""What the gates share: the files of the tree, C text without comments, and the report.

A gate is a script that looks at the sources rather than at what they do. It is a list of named checks; each check returns
a list of problems, one line each, and passes when the list is empty. The report is TAP, so that every check is counted.
Run one by hand from anywhere: python3 tests/gates/layers.py
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_FOLDERS = ("src", "include", "tests", "examples", "bench", "fuzz")


def tree_files():
    """The files of the tree, as paths relative to its root: what git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(pathlib.Path(name) for name in set(names) if (ROOT / name).is_file())


def c_files(root=ROOT, folders=C_FOLDERS):
    """Every .c and .h file of some folders, as absolute paths."""
    found = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in (".c", ".h")]
    return sorted(found)


_COMMENT_OR_LITERAL = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def without_comments(text, keep_strings=False):
    """C text with its comments, and on demand the contents of its literals, blanked out. Lines keep their numbers."""

    def blank(match):
        token = match.group()
        if token[0] in "\"'":
            return token if keep_strings else token[0] + " " * (len(token) - 2) + token[0]
        return re.sub(r"[^\n]", " ", token)

    return _COMMENT_OR_LITERAL.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def report(checks):
    """Runs [(name, function)], prints TAP and ends the program."""
    print(f"1..{len(checks)}")
    all_passed = True
    for number, (name, check) in enumerate(checks, start=1):
        problems = check()
        all_passed = all_passed and not problems
        print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        for problem in problems:
            print(f"# {problem}")
    sys.exit(0 if all_passed else 1)
