"""The layers of the design: a file includes only what stands to its left, and one file alone reads clocks.

    include/caudal <- base <- { algorithm identity wire metrics } <- policy <- store <- limiter <- server, replay <- cli
                           <- net (for server only)
"""

import pathlib
import re
import tempfile

import _gate

# For each folder of src/, the other folders that it may include. Narrower than "all to the left" where the design says
# that a layer must never know another: a store knows no policy, the limiter no wire format, the server no algorithm.
MAY_INCLUDE = {
    "base": "",
    "algorithm": "base",
    "identity": "base",
    "wire": "base",
    "metrics": "base",
    "net": "base",
    "policy": "base algorithm identity wire metrics",
    "store": "base algorithm identity wire metrics",
    "limiter": "base algorithm identity metrics policy store",
    "server": "base identity wire metrics policy store limiter net",
    "replay": "base algorithm identity wire metrics policy store limiter",
    "cli": "base algorithm identity wire metrics policy store limiter server replay",
}

CLOCK_FILE = pathlib.PurePath("src/base/clock.c")
READS_CLOCK = re.compile(r"(?<![\w.>])(clock_gettime|gettimeofday|timespec_get|time|clock|ftime|__rdtsc)\s*\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def resolve(root, file, name):
    """The file of the tree that an #include names, or None for a header of the system."""
    for folder in (file.parent, root / "include", root / "src"):
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root)
    return None


def includes(root, file):
    """(line, name as written, file of the tree or None) for each #include."""
    text = _gate.without_comments(file.read_text(), keep_strings=True)
    for match in INCLUDE.finditer(text):
        name = match.group(1) or match.group(2)
        yield _gate.line_of(text, match.start()), match.group(1), resolve(root, file, name)


def judge_include(file, target):
    """What is wrong with `file` including `target` (both relative to the root), or None."""
    if target.parts[:2] == ("include", "caudal"):
        return None
    if file.parts[0] == "include":
        return "a public header may include public headers only"
    if target.parts[0] != "src" or len(target.parts) < 3:
        return "not a header of a layer"
    here, there = file.parts[1], target.parts[1]
    if here == there or there in MAY_INCLUDE[here].split():
        return None
    return f"{here} may include only: {MAY_INCLUDE[here] or 'itself'}"


def layer_problems(root):
    problems = []
    files = _gate.c_files(root, ("include", "src"))
    for file in files:
        relative = file.relative_to(root)
        if relative.parts[0] == "src" and (len(relative.parts) < 3 or relative.parts[1] not in MAY_INCLUDE):
            problems.append(f"{relative}: stands in no layer; add its folder to tests/gates/layers.py")
            continue
        for line, quoted, target in includes(root, file):
            if target is None:
                if quoted:
                    problems.append(f'{relative}:{line}: "{quoted}" is not a file of the tree')
                continue
            wrong = judge_include(relative, target)
            if wrong:
                problems.append(f"{relative}:{line}: includes {target}: {wrong}")
    return problems if files else ["no source files were found"]


def clock_problems(root):
    problems = []
    files = _gate.c_files(root, ("include", "src"))
    for file in files:
        relative = file.relative_to(root)
        if relative == CLOCK_FILE:
            continue
        text = _gate.without_comments(file.read_text())
        for match in READS_CLOCK.finditer(text):
            line = _gate.line_of(text, match.start())
            problems.append(f"{relative}:{line}: calls {match.group(1)}; only {CLOCK_FILE} reads clocks")
    return problems if files else ["no source files were found"]


def self_test():
    """A small tree with one violation of each kind: each must be found, and nothing else."""
    tree = {
        "include/caudal/good.h": "#include <stdint.h>\n",
        "include/caudal/bad.h": '#include "../../src/base/bytes.h"\n',
        "src/base/bytes.h": '#include "caudal/good.h"\n/* #include "store/store.h" */\n',
        "src/base/clock.c": "int f(void) { return clock_gettime(0, 0); }\n",
        "src/base/late.c": '#include "store/store.h"\n',
        "src/store/store.h": '#include "base/bytes.h"\n/* time(NULL) */\nint uptime(int x);\n',
        "src/store/now.c": '#include "store.h"\nlong f(void) { return time(0); }\n',
        "src/net/loop.c": '#include "../store/store.h"\n',
        "src/elsewhere/x.c": "\n",
        "src/store/gone.c": '#include "gone.h"\n',
    }
    expected = {
        "layers": ["include/caudal/bad.h:1", "src/base/late.c:1", "src/elsewhere/x.c", "src/net/loop.c:1",
                   "src/store/gone.c:1"],
        "clocks": ["src/store/now.c:2"],
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = {"layers": layer_problems(root), "clocks": clock_problems(root)}
    return [f"{kind}: expected problems at {places}, found {found[kind]}" for kind, places in expected.items()
            if [problem.split(": ")[0] for problem in found[kind]] != places]


if __name__ == "__main__":
    _gate.report([
        ("the gate finds violations", self_test),
        ("a file includes only what stands to its left", lambda: layer_problems(_gate.ROOT)),
        ("one file alone reads clocks", lambda: clock_problems(_gate.ROOT)),
    ])
