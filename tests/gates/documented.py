"""The public headers: every function, enum value and struct field is documented.

A function stands directly under its own /** comment */, which names each parameter by @param and has @return when there is
something to return. Two shorthands save repeating a contract: a function `x_at` may rely on the comment of `x`, and
"Parameters ... as NAME" in a comment refers to the comment of the function NAME. A parameter that neither knows (the
`now_ns` of a twin) must at least be named in the function's own comment.

An enum value or a field has a comment of its own on its line or above it, or stands in a run of lines under one comment, or
in an enum or struct that has a comment directly above it.
"""

import pathlib
import re
import tempfile

import _gate

PROTOTYPE = re.compile(r"^CAUDAL_API\s+([^;]*?)\b(\w+)\s*\(([^;]*)\)\s*;", re.MULTILINE)
COMMENT_ABOVE = re.compile(r"(/\*(?:(?!\*/).)*\*/)[ \t]*\n\Z", re.DOTALL)
TYPE_WITH_BODY = re.compile(r"^(enum|struct)\s+(\w+)\s*\{\n(.*?)^\};", re.MULTILINE | re.DOTALL)


def comment_above(text, offset):
    """The comment that ends on the line before `offset`, or ''."""
    match = COMMENT_ABOVE.search(text, 0, offset)
    return match.group(1) if match else ""


def parameter_names(parameters):
    """The names in a parameter list: `const void *key, int (*call)(int a, int b)` gives ['key', 'call']."""
    names, depth, part = [], 0, ""
    for character in parameters + ",":
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            pointer_to_function = re.search(r"\(\s*\*\s*(\w+)\s*\)", part)
            plain = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part)
            name = pointer_to_function or plain
            if name and name.group(1) != "void":
                names.append(name.group(1))
            part = ""
        else:
            part += character
    return names


class Function:
    def __init__(self, file, text, match):
        self.place = f"{file}:{_gate.line_of(text, match.start())}: {match.group(2)}"
        self.returns = match.group(1).strip()
        self.name = match.group(2)
        self.parameters = parameter_names(match.group(3))
        self.comment = comment_above(text, match.start())
        self.described = re.findall(r"@param\s+(\w+)", self.comment)
        self.has_return = "@return" in self.comment

    def refers_to(self):
        """The function whose comment completes this one's, or None."""
        shorthand = re.search(r"Parameters[^.]*?\bas\s+(\w+)", self.comment)
        if shorthand:
            return shorthand.group(1)
        return self.name[: -len("_at")] if self.name.endswith("_at") else None


def described_parameters(function, functions, seen=()):
    """All parameters that a function's comment describes, with those of the comments it refers to."""
    other = functions.get(function.refers_to())
    if other is None or other.name in seen:
        return set(function.described)
    return set(function.described) | described_parameters(other, functions, (*seen, function.name))


def describes_return(function, functions, seen=()):
    other = functions.get(function.refers_to())
    if function.has_return or other is None or other.name in seen:
        return function.has_return
    return describes_return(other, functions, (*seen, function.name))


def function_problems(headers):
    functions = {}
    for file, text in headers:
        for match in PROTOTYPE.finditer(text):
            function = Function(file, text, match)
            functions[function.name] = function
        if len(re.findall(r"^CAUDAL_API\b", text, re.MULTILINE)) != len(PROTOTYPE.findall(text)):
            return [f"{file}: a CAUDAL_API declaration was not understood"]
    problems = []
    for function in functions.values():
        if not function.comment.startswith("/**"):
            problems.append(f"{function.place}: no /** comment */ directly above")
            continue
        known = described_parameters(function, functions)
        for name in function.parameters:
            if name not in known and not re.search(rf"`{name}`", function.comment):
                problems.append(f"{function.place}: parameter {name} is not documented")
        for name in function.described:
            if name not in function.parameters:
                problems.append(f"{function.place}: @param {name} is not a parameter")
        if function.returns != "void" and not describes_return(function, functions):
            problems.append(f"{function.place}: no @return")
    return problems if functions else ["no CAUDAL_API prototype was found"]


def undocumented_members(kind, body):
    """The enum values or fields in a body that have no comment."""
    body = re.sub(r"/\*.*?\*/", lambda comment: comment.group().replace("\n", " "), body, flags=re.DOTALL)
    end = ";" if kind == "struct" else ","
    found = []
    under_comment = False  # in a run of lines that a comment stands above
    code = ""  # of a member so far; it may take several lines
    for line in map(str.strip, body.splitlines()):
        if not line:
            under_comment = False
        elif not code and line.startswith("/*"):
            under_comment = True
        else:
            code += line.split("/*")[0].strip() + " "
            commented = "/*" in line
            if commented or code.rstrip().endswith(end):
                if not commented and not under_comment:
                    found.append(code.strip())
                code = ""
    if code and not under_comment:  # an enum's last value needs no comma
        found.append(code.strip())
    return found


def member_problems(headers):
    problems, types = [], 0
    for file, text in headers:
        for match in TYPE_WITH_BODY.finditer(text):
            types += 1
            kind, name, body = match.groups()
            if comment_above(text, match.start()):
                continue
            place = f"{file}:{_gate.line_of(text, match.start())}: {kind} {name}"
            problems += [f"{place}: no comment on: {member}" for member in undocumented_members(kind, body)]
    return problems if types else ["no enum or struct was found"]


def read_headers(root):
    folder = root / "include" / "caudal"
    return [(file.relative_to(root), file.read_text()) for file in sorted(folder.glob("*.h"))]


SELF_TEST = """\
/** Fine. @param a  one @param call  two @return a number */
CAUDAL_API int caudal_fine(int a, int (*call)(void *context, int b));
/** caudal_fine at `now_ns`. */
CAUDAL_API int caudal_fine_at(int a, int (*call)(void *context, int b), int64_t now_ns);
/** Other. Parameters and codes as caudal_fine. @return the same */
CAUDAL_API int caudal_other(int a, int (*call)(void *context, int b));
/** Nothing to say. */
CAUDAL_API void caudal_quiet(void);

CAUDAL_API void caudal_bare(void);
/** Far away. */

CAUDAL_API void caudal_far(void);
/* Not two stars. */
CAUDAL_API void caudal_star(void);
/** No parameter, no return. */
CAUDAL_API char *caudal_poor(int x);
/** Stale. @param gone  no more */
CAUDAL_API void caudal_stale(void);
/** caudal_fine late. */
CAUDAL_API int caudal_lone_at(int64_t now_ns);

enum caudal_colour {
    CAUDAL_RED = 0, /* said */
    CAUDAL_GREEN,
    CAUDAL_BLUE =
        2, /* said
              at length */
    CAUDAL_LAST
};

/* All of it. */
enum caudal_said {
    CAUDAL_YES,
};

struct caudal_thing {
    int a; /* said */
    /* Two of them. */
    int b;
    int c;

    int d;
    int64_t
        e; /* said */
};
"""


def self_test():
    """A header with one violation of each kind: each must be found, and nothing else."""
    expected = ["caudal_bare: no /**", "caudal_far: no /**", "caudal_star: no /**", "caudal_poor: parameter x",
                "caudal_poor: no @return", "caudal_stale: @param gone", "caudal_lone_at: parameter now_ns",
                "caudal_lone_at: no @return", "CAUDAL_GREEN", "CAUDAL_LAST", "int d"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "include" / "caudal").mkdir(parents=True)
        (root / "include" / "caudal" / "x.h").write_text(SELF_TEST)
        headers = read_headers(root)
        found = function_problems(headers) + member_problems(headers)
    problems = [f"not found: {text}" for text in expected if not any(text in problem for problem in found)]
    if len(found) != len(expected):
        problems.append(f"found {len(found)} problems instead of {len(expected)}: {found}")
    return problems


if __name__ == "__main__":
    HEADERS = read_headers(_gate.ROOT)
    _gate.report([
        ("the gate finds violations", self_test),
        ("every public function", lambda: function_problems(HEADERS)),
        ("every public enum value and field", lambda: member_problems(HEADERS)),
    ])
