"""caudal validate: exit status, where what is said goes, and that the shipped policies are good."""

from conftest import ROOT

GOOD = "exempt: [{path: /healthz}]\nlimits:\n- {name: a, rate: 1/s}\n"


def test_a_good_file(caudal, policy):
    result = caudal("validate", policy(GOOD))
    assert (result.returncode, result.stdout, result.stderr) == (0, "policy.yaml: ok, 1 limit\n", "")


def test_the_shipped_policies(caudal):
    files = [str(ROOT / "examples" / name) for name in ("policy.yaml", "quickstart.yaml", "ratelimit")]
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
        "store, log, metrics, resp, envoy",
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


RATE = "rate_limit: {unit: minute, requests_per_unit: 5}"


def test_a_file_of_envoys_rate_limit_service(caudal, policy):
    result = caudal("validate", policy(f"domain: d\ndescriptors: [{{key: a, {RATE}}}, {{key: b}}]\n", "rl.yaml"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "rl.yaml: ok, 1 limit\n", "")


def test_C54_a_folder_of_such_files(caudal, tmp_path):
    mounted = tmp_path / "rl" / "..2026_01_01"
    mounted.mkdir(parents=True)
    for name in "ab":
        (mounted / f"{name}.yaml").write_text(f"domain: {name}\ndescriptors: [{{key: k, {RATE}}}]\n")
        (tmp_path / "rl" / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    (tmp_path / "rl" / "..data").symlink_to("..2026_01_01")
    (tmp_path / "rl" / "a.yaml~").write_text("domain: [")
    result = caudal("validate", "rl")
    assert (result.returncode, result.stdout, result.stderr) == (0, "rl: ok, 2 limits\n", "")


def test_C53_what_is_wrong_has_its_file_and_place(caudal, tmp_path):
    (tmp_path / "rl").mkdir()
    (tmp_path / "rl" / "a.yaml").write_text(f"domain: d\ndescriptors: [{{key: k, {RATE}}}]\n")
    (tmp_path / "rl" / "b.yaml").write_text(f"domain: d\ndescriptors:\n- {{key: k, {RATE}}}\n- {{key: l, colour: red}}\n")
    result = caudal("validate", "rl")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "rl/b.yaml:1:9: the domain 'd' is in rl/a.yaml already, at line 1; files that are parts of one domain need "
        "'merge_domains: true'"]
    (tmp_path / "policy.yaml").write_text("envoy: {files: rl, merge_domains: true}\n")
    result = caudal("validate", "policy.yaml")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "rl/b.yaml:3:3: the descriptor 'k' is given twice; first at rl/a.yaml:2:15"
    assert lines[1].startswith("rl/b.yaml:4:12: unknown key 'colour' in descriptors")
