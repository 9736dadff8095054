"""clang-tidy, by the .clang-tidy of the tree, has nothing to say about src/.

Needs build/asan (made by `python3 tests/run.py asan`), whose compile commands it reads.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess

import _gate

BUILD = _gate.ROOT / "build" / "asan"

# The commands are gcc's: clang does not know all its warnings, and sanitizers change nothing that is looked at here.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-fno-sanitize=all"]


def tidy(file):
    result = subprocess.run(["clang-tidy", "--quiet", "-p", BUILD, *EXTRA, file], cwd=_gate.ROOT, capture_output=True,
                            text=True)
    if result.returncode == 0:
        return []
    return [f"{file.relative_to(_gate.ROOT)}:", *result.stdout.splitlines(), *result.stderr.splitlines()]


def compiled_sources():
    """The files of src/ that the build compiles, each once."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    files = {pathlib.Path(os.path.normpath(os.path.join(entry["directory"], entry["file"]))) for entry in commands}
    return sorted(file for file in files if file.is_relative_to(_gate.ROOT / "src"))


def tidy_problems():
    files = compiled_sources()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        problems = [line for lines in pool.map(tidy, files) for line in lines]
    return problems if files else ["no source files were found"]


def all_compiled():
    """A source file that no build compiles is looked at by nobody."""
    compiled = set(compiled_sources())
    return [f"{file.relative_to(_gate.ROOT)} is in no meson.build" for file in _gate.c_files(folders=("src",))
            if file.suffix == ".c" and file not in compiled]


if __name__ == "__main__":
    _gate.report([
        ("every source file is compiled", all_compiled),
        ("clang-tidy has nothing to say", tidy_problems),
    ])
