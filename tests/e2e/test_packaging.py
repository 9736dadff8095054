"""What is installed beside the program: that it says what is true of the program."""

import re
import shutil
import subprocess

import pytest

from policies import limits
from program import BINARY, ROOT, run

MAN = ROOT / "man"


def options_in_help(command):
    status, out, _ = run(command, "--help")
    assert status == 0
    return set(re.findall(r"^ +--([a-z-]+)", out, re.MULTILINE))


def commands():
    status, out, _ = run("--help")
    assert status == 0
    return re.findall(r"^  ([a-z]+)  ", out, re.MULTILINE)


def test_each_command_has_a_manual_page_with_its_options():
    assert {"serve", "validate", "explain"} <= set(commands())
    overview = (MAN / "caudal.1").read_text()
    for command in commands():
        assert f".It Cm {command}\n" in overview
        (page,) = (path.read_text() for path in MAN.glob(f"caudal-{command}.1*"))
        assert set(re.findall(r"^\.It Fl -([a-z-]+)", page, re.MULTILINE)) == options_in_help(command), command


def test_the_policy_page_names_every_section_of_the_manual():
    """examples/policy.yaml is the manual; the page says what is in it."""
    example = (ROOT / "examples" / "policy.yaml").read_text()
    page = (MAN / "caudal-policy.5.in").read_text()
    sections = set(re.findall(r"^(?:# )?([a-z_]+):(?= |$)", example, re.MULTILINE))
    assert sections == set(re.findall(r"^\.It Cm ([a-z_]+)$", page[:page.index("\n.El\n")], re.MULTILINE))


def test_the_policy_pages_example_is_a_policy(tmp_path):
    page = (MAN / "caudal-policy.5.in").read_text()
    (example,) = re.findall(r"^\.Bd -literal.*\n([^.]*(?:\n[^.].*)*?)\n\.Ed", page, re.MULTILINE)
    file = tmp_path / "policy.yaml"
    file.write_text(example)
    assert run("validate", "--strict", file)[0] == 0


def test_the_shipped_policy_is_valid():
    status, _, err = run("validate", ROOT / "examples" / "policy.yaml")
    assert status == 0, err


def test_the_unit_is_good_for_systemd(tmp_path):
    text = (ROOT / "packaging" / "caudal.service.in").read_text()
    # It looks for the program and for the manual pages where they will be.
    text = text.replace("@bindir@/caudal", BINARY)
    text = re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE)
    unit = tmp_path / "caudal.service"
    unit.write_text(text)
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is not installed: scripts/install-packages.sh e2e"
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = subprocess.run([program, "security", "--offline=true", "--threshold=20", str(unit)], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout[-300:]


@pytest.mark.parametrize("command", [[], ["explian"], ["--versoin"], ["validate"], ["explain"], ["serve"],
                                     ["serve", "a", "b"], ["validate", "--strickt", "x"]])
def test_a_wrong_command_line_exits_2_and_helps(command):
    status, out, err = run(*command)
    assert status == 2 and not out
    assert "--help" in err


def test_C91_a_key_that_only_clients_choose_is_warned_of(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(limits("name: per-token, per: [header.authorization], rate: 1/minute"))
    status, _, err = run("validate", file)
    assert status == 0 and "chooses" in err
    assert run("validate", "--strict", file)[0] == 1


def test_C89_explain_shows_the_key(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(limits("name: per-client, per: [client_ip], rate: 100/minute"))
    status, out, _ = run("explain", file, "--request", "GET /x", "--peer", "127.0.0.1",
                         "--header", "x-forwarded-for: 203.0.113.7:99")
    assert status == 0
    assert "client_ip = 203.0.113.7\n" in out
