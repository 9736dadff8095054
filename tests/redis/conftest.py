"""What the tests against real Redis and Valkey servers share.

    python3 tests/run.py redis                                what make check does
    CAUDAL_BINARY=… CAUDAL_LIBRARY=… CAUDAL_HAMMER=… build/venv/bin/python -m pytest tests/redis -k C39

Each starts the servers that it needs (servers.py). After each, no key without an expiry may be left on any of them.
"""

import os
import pathlib
import sys

import pytest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / folder) for folder in ("e2e", "property", "oracle")]

import program  # noqa: E402
import servers  # noqa: E402

SANITIZER_WORDS = ("Sanitizer", "runtime error:")


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="the sizes of check-long")


def pytest_configure(config):
    if not os.environ.get("CAUDAL_LIBRARY"):
        raise pytest.UsageError("set CAUDAL_LIBRARY to the path of the libcaudal.so to test")
    config.addinivalue_line("markers", "measured: measures time, of the program as it is released")


def pytest_terminal_summary(terminalreporter):
    if "valkey" not in servers.PROGRAMS:
        terminalreporter.write_line("NOTE: Valkey is neither installed nor there as a package of python: Redis alone was asked")


def pytest_generate_tests(metafunc):
    brands = list(servers.PROGRAMS)
    if "brand" in metafunc.fixturenames:
        metafunc.parametrize("brand", brands, scope="module")
    if "cluster" in metafunc.fixturenames:
        # A cluster is not up before two seconds have passed: each brand's is for the long run.
        metafunc.parametrize("cluster", brands if metafunc.config.getoption("--long") else ["redis"], indirect=True)


@pytest.fixture(scope="session")
def long_run(request):
    return request.config.getoption("--long")


@pytest.fixture
def farm(tmp_path):
    """Servers of one test."""
    farm = servers.Farm(tmp_path)
    yield farm
    try:
        assert not farm.immortal_keys(), "keys without expiry are left"
    finally:
        farm.stop()


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    """A cluster of each brand that tests share which leave it as it was."""
    farms, made = [], {}

    def of(brand):
        if brand not in made:
            farms.append(servers.Farm(tmp_path_factory.mktemp(brand)))
            made[brand] = farms[-1], farms[-1].cluster(program=brand)
        return made[brand]

    yield of
    for farm in farms:
        farm.stop()


def lend_cluster(clusters, brand):
    farm, cluster = clusters(brand)
    yield cluster
    assert not farm.immortal_keys(), "keys without expiry are left"
    for node in cluster.primaries:
        node("FLUSHALL")


@pytest.fixture
def cluster(request, clusters):
    """Three primaries, empty."""
    yield from lend_cluster(clusters, request.param)


@pytest.fixture
def place(request, farm, clusters):
    """One of the arrangements "node", "sentinel" and "cluster", empty."""
    if request.param == "cluster":
        yield from lend_cluster(clusters, "redis")
    else:
        yield farm.sentinel_group() if request.param == "sentinel" else farm.node()


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory, brand):
    """One server that the tests of a module share, of each brand in turn."""
    farm = servers.Farm(tmp_path_factory.mktemp(brand))
    yield farm.node(brand)
    try:
        assert not farm.immortal_keys(), "keys without expiry are left"
    finally:
        farm.stop()


@pytest.fixture
def serve(tmp_path):
    """Starts servers of ours: serve(policy, *arguments). Ends them after the test, which fails if one of them had crashed."""
    started = []

    def start(policy, *arguments, **more):
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        started.append(program.Server(policy, folder, arguments, **more))
        return started[-1].wait_until_up()

    yield start
    statuses = [server.stop() for server in started]
    for server, status in zip(started, statuses, strict=True):
        assert status == 0, f"{server.command} ended with {status}: {server.log()}"
        assert not any(word in server.log() for word in SANITIZER_WORDS), server.log()
