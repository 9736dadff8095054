"""The frame of all commands: help, version, and command lines that are wrong."""

import os
import subprocess

import pytest

COMMANDS = ["take", "validate", "explain", "doctor"]


def test_version(caudal):
    result = caudal("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("caudal ")
    assert len(result.stdout.split()) == 2


def test_help_names_every_command(caudal):
    for words in (["--help"], ["-h"], ["help"]):
        result = caudal(*words)
        assert (result.returncode, result.stderr) == (0, "")
        for command in COMMANDS:
            assert command in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(caudal, command):
    texts = [caudal(*words) for words in ([command, "--help"], ["help", command], [command, "x", "-h"])]
    for result in texts:
        assert (result.returncode, result.stderr, result.stdout) == (0, "", texts[0].stdout)
    assert texts[0].stdout.startswith(f"usage: caudal {command} ")
    assert all(len(line) <= 100 for line in texts[0].stdout.splitlines())


@pytest.mark.parametrize("words, message", [
    ([], "usage: caudal COMMAND"),
    (["valdate"], "caudal: unknown command 'valdate'; did you mean 'validate'?"),
    (["frobnicate"], "caudal: unknown command 'frobnicate'\n"),
    (["--verison"], "caudal: unknown option '--verison'"),
    (["help", "explian"], "unknown command 'explian'; did you mean 'explain'?"),
    (["validate"], "caudal validate: which file? None was given\ntry 'caudal validate --help'"),
    (["validate", "--strcit", "x"], "caudal validate: unknown option '--strcit'; did you mean '--strict'?"),
    (["validate", "--strict=1", "x"], "the option '--strict' takes no value"),
    (["validate", "-s", "x"], "unknown option '-s'; options are written out"),
    (["explain"], "caudal explain: which file? None was given"),
    (["explain", "a", "b"], "one file only; 'b' is a second"),
    (["explain", "a", "--request"], "the option '--request' needs a value"),
    (["explain", "a", "--header", "novalue", "--request", "GET /"], '--header: expected "NAME: VALUE", found \'novalue\''),
    (["explain", "a", "--client-ip", "10.0.0"], "--client-ip: '10.0.0' is not an address"),
    (["explain", "a", "--client-ip", "10.0.0.1", "--peer", "10.0.0.2", "--request", "GET /"], "two answers"),
    (["explain", "a", "--cost", "-1"], "--cost: '-1' is not a whole number"),
    (["explain", "a", "--client-ip", "10.0.0.1"], "there is no --request"),
])
def test_wrong_command_lines_exit_2(caudal, words, message):
    result = caudal(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr


def test_an_answer_that_cannot_be_written_is_a_failure(policy, tmp_path):
    name = policy("limits: [{name: a, rate: 1/s, when: {path: /a}}]\n")
    with open("/dev/full", "w") as full:
        result = subprocess.run([os.environ["CAUDAL_BINARY"], "validate", name], cwd=tmp_path, stdout=full,
                                stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert "standard output" in result.stderr
