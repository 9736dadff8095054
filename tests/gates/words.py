"""Words that do not belong into the tree: hosts of package registries, and paths of one person's machine.

Packages are asked for by name, from wherever the machine that builds is set up to get them; a host written down here would
overrule that. Commit subjects are at most 72 characters.
"""

import re
import subprocess

import _gate

SUBJECT_CHARACTERS = 72

REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|crates\.io|npmjs\.(org|com)|proxy\.golang\.org|maven\.org|maven\.apache\.org"
    r"|rubygems\.org|(deb|security|ftp|snapshot)\.debian\.org|(archive|security|ports)\.ubuntu\.com|docker\.io|ghcr\.io")
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(work|root|home|Users|mnt)(?=/|\b)")


def text_problems(pattern, name, text):
    return [f"{name}:{_gate.line_of(text, match.start())}: {match.group()}" for match in pattern.finditer(text)]


def tree_problems(pattern):
    problems = []
    names = _gate.tree_files()
    for name in names:
        text = (_gate.ROOT / name).read_bytes().decode("utf-8", "replace")
        problems += text_problems(pattern, name, text)
    return problems if names else ["no files were found"]


def subject_problems(subjects):
    return [f"{len(subject)} characters: {subject}" for subject in subjects if len(subject) > SUBJECT_CHARACTERS]


def commit_problems():
    log = subprocess.run(["git", "log", "--no-merges", "--format=%s"], cwd=_gate.ROOT, check=True, capture_output=True,
                         text=True)
    return subject_problems(log.stdout.splitlines())


def self_test():
    host, path = "pypi" + ".org", "/" + "root/x"
    found = [
        text_problems(REGISTRY, "x", f"pip install from\nhttps://{host}/simple"),
        text_problems(MACHINE_PATH, "x", f"cd {path}"),
        subject_problems(["x" * (SUBJECT_CHARACTERS + 1)]),
    ]
    clean = [
        text_problems(REGISTRY, "x", "crates, npm, pip"),
        text_problems(MACHINE_PATH, "x", "src/root/x ../work/y"),
        subject_problems(["x" * SUBJECT_CHARACTERS]),
    ]
    problems = [f"expected one problem, found {problems}" for problems in found if len(problems) != 1]
    return problems + [f"expected no problem, found {problems}" for problems in clean if problems]


if __name__ == "__main__":
    _gate.report([
        ("the gate finds violations", self_test),
        ("no host of a package registry", lambda: tree_problems(REGISTRY)),
        ("no path of one machine", lambda: tree_problems(MACHINE_PATH)),
        (f"commit subjects of at most {SUBJECT_CHARACTERS} characters", commit_problems),
    ])
