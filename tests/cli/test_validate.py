"""caudal validate: exit status, where what is said goes, and that the shipped policies are good."""

from conftest import ROOT

GOOD = "exempt: [{path: /healthz}]\nlimits:\n- {name: a, rate: 1/s}\n"


def test_a_good_file(caudal, policy):
    result = caudal("validate", policy(GOOD))
    assert (result.returncode, result.stdout, result.stderr) == (0, "policy.yaml: ok, 1 limit\n", "")


def test_the_shipped_policies(caudal):
    files = [str(ROOT / "examples" / name) for name in ("policy.yaml", "quickstart.yaml")]
    result = caudal("validate", "--strict", *files)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == len(files) > 0


def test_all_errors_at_once_with_their_places(caudal, policy):
    result = caudal("validate", policy("limits:\n- {name: a, rate: 1/x}\n- {name: a, rat: 1/s}\nfoo: 1\n"))
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "policy.yaml:2:21: 'rate': expected a period, such as 30s or minute, found 'x'",
        "policy.yaml:3:3: the limit has no 'rate'",
        "policy.yaml:3:10: the limit name 'a' is used twice; first at line 2, column 10",
        "policy.yaml:3:13: unknown key 'rat' in limits; did you mean 'rate'?",
        "policy.yaml:4:1: unknown key 'foo' in the policy; expected identity, exempt, limits, fields, instances, listen, "
        "store, log",
    ]


def test_one_bad_file_among_good_ones(caudal, policy):
    result = caudal("validate", policy(GOOD, "a"), policy("", "b"), policy(GOOD, "c"), "d")
    assert result.returncode == 1
    assert result.stdout == "a: ok, 1 limit\nc: ok, 1 limit\n"
    assert result.stderr.splitlines() == ["b:1:1: the file is empty; a policy has at least one limit",
                                          "d: cannot be read: No such file or directory"]


def test_warnings_are_shown_and_with_strict_they_count(caudal, policy):
    name = policy("limits:\n- {name: a, rate: 1/s, per: header.authorization}\n")
    result = caudal("validate", name)
    assert result.returncode == 0
    assert result.stdout == "policy.yaml: ok, 1 limit\n"
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [["policy.yaml:2:10", "warning"],
                                                                             ["policy.yaml:2:29", "warning"]]
    result = caudal("validate", "--strict", name)
    assert (result.returncode, result.stdout) == (1, "")


def test_more_errors_than_are_shown(caudal, policy):
    text = "limits:\n" + "".join(f"- {{name: a{i}, rate: x}}\n" for i in range(60))
    result = caudal("validate", policy(text))
    lines = result.stderr.splitlines()
    assert result.returncode == 1
    assert len(lines) == 51
    assert lines[-1] == "policy.yaml: 10 errors more"


def test_what_stands_in_the_file_does_not_reach_the_terminal(caudal, policy):
    result = caudal("validate", policy('"\\e[31m": 1\nlimits: [{name: "\\e]0;x\\a", rate: 1/s}]\n'))
    assert result.returncode == 1
    assert all(char == "\n" or char >= " " for char in result.stderr)


def test_file_names_that_look_like_options(caudal, policy):
    result = caudal("validate", "--", policy(GOOD, "--strict"))
    assert (result.returncode, result.stdout) == (0, "--strict: ok, 1 limit\n")
