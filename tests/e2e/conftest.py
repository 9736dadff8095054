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

import envoy_client  # noqa: E402
import program  # noqa: E402
import proxies  # noqa: E402
from upstream import Upstream  # noqa: E402

T0 = 1764547200 * 10**9  # 2025-12-01T00:00:00Z: a second, a minute, an hour and a day begin

SANITIZER_WORDS = ("Sanitizer", "runtime error:")


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="the sizes of check-long")


def pytest_configure(config):
    config.addinivalue_line("markers", "measured: measures time or memory, of the program as it is released")


def pytest_ignore_collect(collection_path, config):
    """To build another program takes minutes."""
    return collection_path.name == "test_reference.py" and not config.getoption("--long") or None


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
def serve_domains(serve, tmp_path):
    """Starts a server of files of descriptors, whose clock stands at T0, and connects to it: (server, service)."""
    services = []

    def start(*domains, binary=program.CLOCK_BINARY, arguments=("--store", "memory:?keys=20000"), more=""):
        if len(domains) == 1 and not more:
            server = serve(domains[0], *arguments, binary=binary)
        else:
            for number, text in enumerate(domains):
                (tmp_path / f"domain{number}.yaml").write_text(text)
            names = ", ".join(str(tmp_path / f"domain{number}.yaml") for number in range(len(domains)))
            server = serve(f"envoy: [{names}]\n{more}", *arguments, binary=binary)
        if binary == program.CLOCK_BINARY:
            server.set_clock(T0)
        services.append(envoy_client.Service(server.grpc))
        return server, services[-1]

    yield start
    for service in services:
        service.channel.close()


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
