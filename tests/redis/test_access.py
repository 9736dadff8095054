"""Who may ask the store, and over what: users, passwords, TLS, Unix sockets, databases, RESP2 and RESP3."""

import pytest

import caudal
from asking import ask, events, policy, wait_until_shared
from authority import Authority
from caudal import Limit
from client import get
from waiting import until

S, DAY = 10**9, 86400 * 10**9
PASSWORD = "p@ss:w/rd%20"
QUOTED = "p%40ss%3Aw%2Frd%2520"
ALLOW = "name: one, rate: 1000/day, on_store_failure: allow"


def works(url):
    """Two takes and a look, through the library."""
    with caudal.Store(url, clock_ns=None, deadline_ns=10 * S) as store, store.limit(Limit("token_bucket", 10, DAY)) as number:
        assert [store.take(number, b"k").remaining for _ in range(2)] == [9, 8]
        assert store.peek(number, b"k", 0).remaining == 8
        store.reset(number, b"k")


def check_works(serve, url, env=None):
    server = serve(policy(url, ALLOW), env=env)
    wait_until_shared(server, "one")
    return server


def check_refused(serve, url, event, env=None):
    """The failure policy answers, and the counter tells why."""
    server = serve(policy(url, ALLOW), env=env)
    def is_counted():
        assert ask(server, "take", limit="one")["source"] == "failure_policy"
        return events(server, event) > 0

    until(is_counted, f"it is counted as {event}")
    assert get(server.admin, "/readyz").status == 200
    for secret in (PASSWORD, QUOTED, "wrong-secret"):
        assert secret not in server.log() + get(server.admin, "/v1/limits").body.decode()
    return server


# ----------------------------------------------------------------------------------------------------- users (C102)


@pytest.fixture
def guarded(farm):
    """A server with a user who may do what the script does and nothing else."""
    node = farm.node(requirepass="admin-secret")
    node("ACL", "SETUSER", "caudal", "on", f">{PASSWORD}", "~caudal*", "&*", "-@all", "+@connection", "+@scripting", "+@read",
         "+@write", "+time", "+role", "+wait")
    return node


def test_a_user_and_a_password_in_the_url(guarded, serve):
    server = check_works(serve, f"redis://caudal:{QUOTED}@{guarded.address}/0")
    assert PASSWORD not in server.log() and QUOTED not in server.log()
    with guarded.client() as client:
        assert b"user=caudal" in client("CLIENT", "LIST")


def test_the_default_user_s_password(farm):
    node = farm.node(requirepass="plain-secret")
    works(f"redis://:plain-secret@{node.address}")


def test_credentials_from_a_file_and_from_the_environment(guarded, serve, tmp_path):
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    check_works(serve, f"redis://caudal@{guarded.address}?password_file={file}")
    check_works(serve, f"redis://caudal@{guarded.address}?password_env=STORE_SECRET", env={"STORE_SECRET": PASSWORD})


def test_a_wrong_password_is_a_failure_of_its_own(guarded, serve):
    check_refused(serve, f"redis://caudal:wrong-secret@{guarded.address}", "wrongpass")


def test_no_password_where_one_is_needed(guarded, serve):
    check_refused(serve, f"redis://{guarded.address}", "noauth")


def test_a_user_who_may_not_run_scripts(guarded, serve):
    guarded("ACL", "SETUSER", "caudal", "-@scripting")
    check_refused(serve, f"redis://caudal:{QUOTED}@{guarded.address}", "noperm")


# ------------------------------------------------------------------------------------------------------ ways to speak


@pytest.mark.parametrize("protocol", [2, 3])
def test_RESP2_and_RESP3(farm, serve, brand, protocol):
    node = farm.node(brand)
    server = check_works(serve, f"{node.url}?protocol={protocol}")
    with node.client() as client:
        lines = [line for line in client("CLIENT", "LIST").decode().splitlines() if "name=caudal" in line]
        assert lines and all(f"resp={protocol}" in line for line in lines), lines
    assert events(server, "protocol") == 0
    works(f"{node.url}?protocol={protocol}")


def test_a_unix_socket(farm, serve):
    node = farm.node()
    check_works(serve, f"unix:{node.socket}")
    works(f"unix:{node.socket}")


def test_a_database(farm):
    node = farm.node()
    with caudal.Store(f"{node.url}/5", clock_ns=None, deadline_ns=10 * S) as store:
        with store.limit(Limit("token_bucket", 10, DAY)) as number:
            store.take(number, b"k")
    assert node.info("keyspace").keys() == {"db5"}


def test_a_prefix_of_key_names(farm):
    node = farm.node()
    for prefix, remaining in (("one", 9), ("two", 9), ("one", 8)):
        with caudal.Store(f"{node.url}?prefix={prefix}", clock_ns=None, deadline_ns=10 * S) as store:
            assert store.take(store.add_limit("same", Limit("token_bucket", 10, DAY)), b"k").remaining == remaining
    with node.client() as client:
        assert sorted(key[:3] for key in client.scan()) == [b"one", b"two"]


# ------------------------------------------------------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture
def sealed(farm, authority):
    """A server that wants a certificate of our authority from its clients."""
    certificate, key = authority.issue("localhost")
    return farm.node(tls={"tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": authority.certificate,
                          "tls-auth-clients": "yes"})


def parameters(authority, client):
    return f"tls_ca={authority.certificate}&tls_cert={client[0]}&tls_key={client[1]}"


def test_TLS_with_an_authority_and_a_certificate_of_our_own(sealed, authority, serve):
    client = authority.issue("client")
    for host in ("127.0.0.1", "localhost"):
        url = f"rediss://{host}:{sealed.tls_port}?{parameters(authority, client)}"
        check_works(serve, url)
        works(url)


def test_a_server_of_another_authority_is_refused(sealed, authority, serve, tmp_path):
    other = Authority(tmp_path, "other")
    client = authority.issue("client")
    url = f"rediss://localhost:{sealed.tls_port}?tls_ca={other.certificate}&tls_cert={client[0]}&tls_key={client[1]}"
    check_refused(serve, url, "tls")
    assert sealed.calls("evalsha") == 0


def test_a_certificate_for_another_name_is_refused(sealed, authority, serve):
    client = authority.issue("client")
    url = f"rediss://localhost:{sealed.tls_port}?{parameters(authority, client)}&tls_name=elsewhere.example"
    check_refused(serve, url, "tls")


def test_without_a_client_certificate_the_server_refuses(sealed, authority, serve):
    server = serve(policy(f"rediss://localhost:{sealed.tls_port}?tls_ca={authority.certificate}", ALLOW))
    # Under TLS 1.3 the client's handshake is over before the server has looked: then it is a connection that was lost.
    until(lambda: events(server, "tls") + events(server, "lost") > 0, "it is counted")
    assert ask(server, "take", limit="one")["source"] == "failure_policy"


def test_plain_bytes_are_not_taken_for_TLS(farm, serve):
    """A server without TLS that is asked for it: it waits for the rest of a command, and connecting takes too long."""
    check_refused(serve, f"rediss://{farm.node().address}?connect_timeout=200ms", "tls")
