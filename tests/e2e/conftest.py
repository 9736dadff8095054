"""What the end-to-end tests share. Everything runs on free ports of the loopback interface, in folders of the test.

    python3 tests/run.py e2e                                  all of it, as make check does
    CAUDAL_BINARY=build/release/src/caudal build/venv/bin/python -m pytest tests/e2e -k C65

A test is named after the case of the field that it holds, where there is one.
"""

import pathlib
import shutil
import sys
import tempfile

import pytest

sys.dont_write_bytecode = True

import program  # noqa: E402
import proxies  # noqa: E402
from upstream import Upstream  # noqa: E402

SANITIZER_WORDS = ("Sanitizer", "runtime error:")


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="the sizes of check-long")


def pytest_configure(config):
    config.addinivalue_line("markers", "measured: measures time or memory, of the program as it is released")


@pytest.fixture
def long_run(request):
    return request.config.getoption("--long")


@pytest.fixture
def serve(tmp_path):
    """Starts servers: serve(policy, *arguments). Ends them after the test, which fails if one of them had crashed."""
    servers = []

    def start(policy, *arguments, env=None, binary=program.BINARY):
        folder = tmp_path / f"server{len(servers)}"
        folder.mkdir()
        servers.append(program.Server(policy, folder, arguments, env, binary))
        return servers[-1].wait_until_up()

    yield start
    statuses = [server.stop() for server in servers]
    for server, status in zip(servers, statuses, strict=True):
        log = server.log()
        assert status == 0, f"{server.command} ended with {status}: {log}"
        assert not any(word in log for word in SANITIZER_WORDS), log


@pytest.fixture
def app():
    upstream = Upstream()
    yield upstream
    upstream.stop()


@pytest.fixture
def proxy(app):
    """Starts a proxy by its name, between clients and `app`, that asks a server."""
    started = []

    def start(name, server):
        # Not in tmp_path, which is for our user only: some proxies take another.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="caudal-e2e-"))
        folder.chmod(0o755)
        started.append(proxies.ALL[name](folder, server.http, app.server_address))
        return started[-1].wait_until_up()

    yield start
    for one in started:
        one.stop()
        shutil.rmtree(one.folder)
