"""The manual pages are well-formed for mandoc and for groff, and are all installed."""

import re
import subprocess

import _gate

PAGES = _gate.ROOT / "man"
COMMANDS = (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-mdoc", "-ww", "-z", "-Tutf8"])


def lint(text):
    problems = []
    for command in COMMANDS:
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        problems += f"{done.stdout}{done.stderr}".splitlines()
        if done.returncode != 0 and not problems:
            problems.append(f"{command[0]}: exit status {done.returncode}")
    return problems


def pages():
    return sorted(path for path in PAGES.iterdir() if re.search(r"\.\d(\.in)?$", path.name))


def lint_problems():
    problems = [f"{path.name}: {problem}" for path in pages() for problem in lint(path.read_text())]
    return problems if pages() else ["there is no page"]


def missing_pages():
    """Pages that another page names and that are not there, and pages that are not installed."""
    names = {path.name.removesuffix(".in") for path in pages()}
    named = {f"{name}.{section}" for path in pages()
             for name, section in re.findall(r"^\.Xr (caudal\S*) (\d)", path.read_text(), re.MULTILINE)}
    build = (PAGES / "meson.build").read_text()
    return ([f"there is no {name}" for name in sorted(named - names)]
            + [f"{name} is not installed" for name in sorted(names) if f"'{name}'" not in build])


def self_test():
    good = ".Dd December 1, 2026\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd a page\n"
    problems = [f"a good page: {problem}" for problem in lint(good)]
    return problems if lint(good + ".Xx\n") else [*problems, "an unknown macro was not noticed"]


if __name__ == "__main__":
    _gate.report([
        ("the gate finds violations", self_test),
        ("no warnings", lint_problems),
        ("every page is there and installed", missing_pages),
    ])
