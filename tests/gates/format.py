"""The layout of C code is clang-format's, by the .clang-format of the tree. `--fix` lays out anew what differs.

The version is pinned in tests/requirements.txt, since each version has its own taste; build/venv is made on need.
"""

import subprocess
import sys

import _gate

CLANG_FORMAT = _gate.ROOT / "build" / "venv" / "bin" / "clang-format"


def clang_format(*arguments):
    files = [path.relative_to(_gate.ROOT) for path in _gate.c_files()]
    return subprocess.run([CLANG_FORMAT, *arguments, *files], cwd=_gate.ROOT, capture_output=True, text=True)


def self_test():
    crooked = subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", "--assume-filename=src/x.c"], cwd=_gate.ROOT,
                             input="int  f( void ){return 0;}\n", capture_output=True, text=True)
    return [] if crooked.returncode != 0 else ["crooked code was accepted"]


def format_problems():
    result = clang_format("--dry-run", "-Werror")
    lines = [line for line in result.stderr.splitlines() if ": error:" in line]
    if result.returncode != 0 and not lines:
        return result.stderr.splitlines() or [f"clang-format exited with {result.returncode}"]
    return lines


if __name__ == "__main__":
    subprocess.run([_gate.ROOT / "scripts" / "make-venv.sh"], check=True)
    if sys.argv[1:] == ["--fix"]:
        sys.exit(clang_format("-i").returncode)
    _gate.report([
        ("the gate finds violations", self_test),
        ("C code is laid out by .clang-format", format_problems),
    ])
