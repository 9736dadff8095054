"""Real proxies, run with the files of examples/ as they are shipped: only addresses and paths are replaced."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess

import client
from program import ROOT
from waiting import DEADLINE_S, until

EXAMPLES = ROOT / "examples"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def find_program(name):
    """Daemons are in sbin, which is not in everybody's PATH."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    assert path, f"{name} is not installed: scripts/install-packages.sh e2e"
    return path


class Proxy:
    """A proxy between its address and the application, that asks caudal."""

    name = None

    def __init__(self, folder, caudal, app):
        self.folder = folder
        self.address = ("127.0.0.1", free_port())
        self.replacements = {
            ":8000": ":%d" % self.address[1],
            "127.0.0.1:8080": "%s:%d" % caudal,
            "127.0.0.1:3000": "%s:%d" % app,
        }
        self.caudal, self.app = caudal, app
        command = self.configure()
        self.output = open(folder / f"{self.name}.out", "ab")
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=self.output, start_new_session=True,
                                        env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder),
                                             "XDG_CONFIG_HOME": str(folder)})

    def wait_until_up(self):
        until(self._is_up, f"{self.name} accepts connections")
        return self

    def _is_up(self):
        assert self.process.poll() is None, f"{self.name} has ended: {self.said()}"
        with contextlib.suppress(OSError):
            client.Connection(self.address).close()
            return True
        return False

    def said(self):
        return (self.folder / f"{self.name}.out").read_text(errors="replace")

    def example(self, file, **more):
        """Writes a shipped file, with addresses that are free, into the folder, and returns its path and text."""
        text = (EXAMPLES / file).read_text()
        for old, new in {**self.replacements, **more}.items():
            text = text.replace(old, new)
        path = self.folder / os.path.basename(file)
        path.write_text(text)
        return path, text

    def configure(self):
        """Writes the configuration and returns the command."""
        raise NotImplementedError

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                pass
        with contextlib.suppress(ProcessLookupError):  # its workers
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.output.close()


class Nginx(Proxy):
    name = "nginx"

    def configure(self):
        path, _ = self.example("nginx.conf")
        main = self.folder / "nginx.main.conf"
        temporary = "\n".join(f"    {kind}_temp_path {self.folder}/{kind};"
                              for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main.write_text(f"daemon off;\npid {self.folder}/nginx.pid;\nworker_processes 2;\nerror_log stderr warn;\n"
                        f"{'user root;' if os.geteuid() == 0 else ''}\n"
                        f"events {{}}\nhttp {{\n    access_log off;\n{temporary}\n    include {path};\n}}\n")
        return [find_program("nginx"), "-p", str(self.folder), "-e", "stderr", "-c", str(main)]


class Caddy(Proxy):
    name = "caddy"

    def configure(self):
        path, text = self.example("Caddyfile")
        path.write_text("{\n\tadmin off\n}\n" + text)
        return [find_program("caddy"), "run", "--adapter", "caddyfile", "--config", str(path)]


class Haproxy(Proxy):
    name = "haproxy"

    def configure(self):
        self.example("haproxy.lua")
        path, _ = self.example("haproxy.cfg", **{"/etc/haproxy/haproxy.lua": str(self.folder / "haproxy.lua")})
        return [find_program("haproxy"), "-db", "-f", str(path)]


class Apache(Proxy):
    name = "apache2"

    def configure(self):
        script, text = self.example("apache.lua")
        script.write_text(text.replace('"127.0.0.1", 8080', '"%s", %d' % self.caudal))
        path, _ = self.example("apache.conf", **{"/etc/apache2/caudal.lua": str(script)})
        main = self.folder / "apache.main.conf"
        modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"
                            for name in ("mpm_event", "authz_core", "lua", "headers", "proxy", "proxy_http"))
        user = "User www-data\nGroup www-data\n" if os.geteuid() == 0 else ""
        main.write_text(f"ServerRoot {self.folder}\nServerName test\nPidFile {self.folder}/apache.pid\n"
                        f"DefaultRuntimeDir {self.folder}\nErrorLog /dev/stderr\nListen {self.address[1]}\n"
                        f"{modules}\n{user}Include {path}\n")
        return [find_program("apache2"), "-DFOREGROUND", "-f", str(main)]


ALL = {proxy.name: proxy for proxy in (Nginx, Caddy, Haproxy, Apache)}
