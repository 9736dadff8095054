"""caudal doctor: what it finds on real servers, one arrangement after the other, and that it leaves nothing behind."""

import json

import pytest


@pytest.fixture
def doctor(caudal):
    """Looks at a store: (exit status, the checks by (subject, server))."""

    def run(url, *words, **more):
        result = caudal("doctor", "--json", "--store", url, *words, **more)
        assert result.stderr == ""
        report = json.loads(result.stdout)
        checks = {}
        for check in report["checks"]:
            checks.setdefault((check["subject"], check["server"]), check)
        worst = max((check["level"] for check in report["checks"]), key=["ok", "warn", "fail"].index)
        assert report["level"] == worst
        assert (result.returncode == 0) == (worst != "fail")
        return result.returncode, checks

    return run


def test_a_server_alone(doctor, redis):
    status, checks = doctor(redis.url)
    assert status == 0
    levels = {subject: check["level"] for (subject, _), check in checks.items()}
    assert levels == {"transport": "ok", "server": "ok", "eviction": "ok", "persistence": "warn", "replication": "ok",
                      "clock": "ok", "script": "ok"}
    version = redis.info("server")["redis_version"]
    assert checks["server", redis.address]["found"] == f"Redis {version}"
    assert checks["script", None]["found"].startswith("20 calls: ")
    assert redis("DBSIZE") == 0, "what it took it has forgotten again"


def test_as_text(caudal, farm):
    redis = farm.node(requirepass="hunter2", appendonly="yes")
    result = caudal("doctor", env={"CAUDAL_STORE": f"redis://:hunter2@{redis.address}"})
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == f"redis://***@{redis.address}, of $CAUDAL_STORE"
    assert lines[1] == "ok    transport    no TLS, and nothing leaves this machine"
    assert f"ok    eviction     {redis.address}: noeviction, and no maxmemory" in lines
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in lines[1:])
    assert "hunter2" not in result.stdout


def test_a_unix_socket_and_the_older_protocol(doctor, redis):
    status, checks = doctor(f"unix:{redis.socket}?protocol=2")
    assert status == 0
    assert checks["clock", redis.socket]["level"] == "ok"


def test_C42_a_cache_would_forget_buckets(doctor, farm):
    redis = farm.node(maxmemory="64mb", maxmemory_policy="allkeys-lru")
    status, checks = doctor(redis.url)
    assert status == 1
    eviction = checks["eviction", redis.address]
    assert (eviction["level"], "allkeys-lru" in eviction["found"]) == ("fail", True)
    assert "noeviction" in eviction["advice"]


def test_replicas(doctor, farm):
    primary = farm.node()
    replica = farm.replica_of(primary)
    status, checks = doctor(replica.url)
    assert status == 1
    assert "cannot be written to" in checks["replication", replica.address]["found"]
    assert checks["script", None]["level"] == "fail"
    status, checks = doctor(primary.url)
    assert (status, checks["replication", primary.address]["level"]) == (0, "warn")
    assert "one full bucket a key" in checks["replication", primary.address]["found"]


def test_a_user_that_may_only_do_what_a_server_needs(doctor, redis):
    redis("ACL", "SETUSER", "limited", "on", ">pw", "~caudal*", "+evalsha", "+eval", "+time", "+get", "+set", "+del",
          "+pttl", "+hello", "+select", "+client|setname", "+ping")
    status, checks = doctor(f"redis://limited:pw@{redis.address}")
    assert status == 1
    assert checks["server", redis.address]["found"].startswith("it answers: NOPERM")
    assert checks["clock", redis.address]["level"] == "ok"


def test_config_is_not_asked(doctor, redis):
    redis("ACL", "SETUSER", "careful", "on", ">pw", "~*", "+@all", "-config", "-debug", "-@admin", "+client|setname")
    status, _ = doctor(f"redis://careful:pw@{redis.address}")
    assert status == 0
    assert redis.calls("config|get") == 0


def test_a_cluster_is_looked_at_node_by_node(doctor, farm):
    cluster = farm.cluster(primaries=3)
    status, checks = doctor(cluster.url)
    assert status == 0
    assert checks["cluster", None]["found"] == "all slots are served, by 3 primaries"
    for node in cluster.primaries:
        assert checks["server", node.address]["level"] == "ok"
        assert ("kind", node.address) not in checks
    status, checks = doctor(cluster.primaries[0].url)
    assert status == 1
    assert checks["kind", cluster.primaries[0].address]["advice"] == "write redis-cluster:// instead"


def test_sentinels(doctor, farm):
    group = farm.sentinel_group()
    status, checks = doctor(group.url)
    assert status == 0
    for node in group.sentinels:
        assert "3 usable Sentinels" in checks["sentinel", node.address]["found"]
    assert checks["server", "the primary"]["level"] == "ok"
    status, checks = doctor(group.url.replace("/main", "/other"))
    assert status == 1
    assert "No such master" in checks["sentinel", group.sentinels[0].address]["found"]
    status, checks = doctor(group.sentinels[0].url)
    assert status == 1
    assert "a sentinel" in checks["kind", group.sentinels[0].address]["found"]


def test_nobody_answers(caudal, redis):
    redis.kill()
    result = caudal("doctor", "--store", redis.url)
    assert result.returncode == 2
    assert f"fail  server       {redis.address}: " in result.stdout


def test_the_store_of_a_policy(caudal, policy, redis):
    name = policy(f"store: {{url: {redis.url}, deadline: 40ms}}\nlimits: [{{name: a, rate: 1/s}}]\n")
    result = caudal("doctor", "--policy", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{redis.url}, of policy.yaml\n")
    assert "servers wait 40 ms" in result.stdout


@pytest.mark.parametrize("words, said", [
    (("x",), "no operands, not 'x'"),
    (("--store", "memory:"), "lives in one process"),
    (("--store", "redis://h?tls=yes"), "the store of --store, redis://h?tls=yes: parameter 'tls' is for"),
    (("--store", "rediss://127.0.0.1:1?tls_ca=/nowhere"), "/nowhere"),
    (("--store", "redis://:hunter2@a@b"), "--store, redis:***: an '@' stands once"),
    (("--policy", "/nowhere"), "/nowhere: cannot be read"),
])
def test_command_lines_that_are_wrong(caudal, words, said):
    result = caudal("doctor", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "hunter2" not in result.stderr
