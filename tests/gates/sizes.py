"""Size limits: a function over 100 lines or a file over 1,000 says why, in a comment with the words "Long because".

For a function the comment stands directly above it or at the top of its body; for a file in its first 30 lines.
"""

import ast
import re

import _gate

FUNCTION_LINES = 100
FILE_LINES = 1000
HEAD_LINES = 30
REASON = "Long because"
EXEMPT = ("tests/oracle/",)  # copies of the reference model, kept as they were given


def c_functions(lines):
    """(name, first line, last line), counted from 0, of each function. The layout is clang-format's: the braces of a
    function, and of nothing that has parentheses before it, stand at the start of a line."""
    code = _gate.without_comments("\n".join(lines)).split("\n")
    for opening, line in enumerate(code):
        if line.rstrip() != "{":
            continue
        first = opening
        while first > 0 and code[first - 1].strip() and code[first - 1].rstrip()[-1] not in ";}":
            first -= 1
        closing = next((at for at in range(opening, len(code)) if code[at].startswith("}")), len(code) - 1)
        name = re.search(r"(\w+)\s*\(", " ".join(code[first:opening]))
        yield name.group(1) if name else "?", first, closing


def python_functions(lines):
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno - 1, node.end_lineno - 1


def function_says_why(lines, first):
    """Is the reason in the comment directly above a function, or in its first lines?"""
    above = first
    while above > 0 and lines[above - 1].strip() and not lines[above - 1].startswith("}"):
        above -= 1
    return REASON in "\n".join(lines[above : first + 10])


def function_problems(name, lines):
    functions = python_functions if name.endswith(".py") else c_functions
    problems = []
    for function, first, last in functions(lines):
        if last - first + 1 > FUNCTION_LINES and not function_says_why(lines, first):
            problems.append(f"{name}:{first + 1}: {function} has {last - first + 1} lines and does not say why")
    return problems


def file_problems(name, lines):
    if len(lines) > FILE_LINES and REASON not in "\n".join(lines[:HEAD_LINES]):
        return [f"{name}: {len(lines)} lines, and its head does not say why"]
    return []


def all_problems(judge):
    names = [path for path in _gate.tree_files()
             if path.suffix in (".c", ".h", ".py") and not str(path).startswith(EXEMPT)]
    problems = []
    for name in names:
        problems += judge(str(name), (_gate.ROOT / name).read_text().splitlines())
    return problems if names else ["no source files were found"]


def self_test():
    """One function of each language at the limit, above it, and above it with its reason."""
    body = ["    x();"] * (FUNCTION_LINES - 3)
    fits = ["static int f(int a,", "             int b)", "{", *body[1:], "}"]
    long = ["static int g(int a)", "{", *body, "", "}"]
    c = [*fits, "", *long, "", f"/* {REASON} it is a table. */", *long]
    python = ["def f():", *body, "    x()", "    x()", "", "def g():", *body, "    x()", "    x()", "    x()"]
    found = function_problems("x.c", c) + function_problems("x.py", python)
    found += file_problems("y.c", ["x"] * FILE_LINES) + file_problems("z.c", ["x"] * (FILE_LINES + 1))
    places = [problem.split(": ")[0] for problem in found]
    expected = [f"x.c:{len(fits) + 2}", f"x.py:{FUNCTION_LINES + 2}", "z.c"]
    return [] if places == expected else [f"expected problems at {expected}, found {found}"]


if __name__ == "__main__":
    _gate.report([
        ("the gate finds violations", self_test),
        (f"functions of at most {FUNCTION_LINES} lines", lambda: all_problems(function_problems)),
        (f"files of at most {FILE_LINES} lines", lambda: all_problems(file_problems)),
    ])
