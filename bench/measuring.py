"""What the benchmarks of this folder share: servers that run for a while, the processor time they take, and rounds summed up.

Standard library only."""
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    fail(f"nobody answers on port {port}")


class Server:
    """A process that answers on `ports`."""

    def __init__(self, name, command, ports):
        self.name, self.port = name, ports[0]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for port in ports:
            wait_for(port)

    def processor_seconds(self):
        """User and system, of all its threads."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        self.process.send_signal(signal.SIGTERM)  # caudal drains at the first
        self.process.wait(10)


def start_caudal(name, program, directory, policy, front):
    """`caudal serve` with a policy, listening for one front only, and for the administrator."""
    path, port = pathlib.Path(directory) / f"{name}.yaml", free_port()
    path.write_text(policy, encoding="ascii")
    admin = free_port()
    addresses = {"http": "none", "resp": "none", "grpc": "none", front: f"127.0.0.1:{port}", "admin": f"127.0.0.1:{admin}"}
    server = Server(name, [program, "serve", path, *(word for key, value in addresses.items() for word in (f"--{key}", value))],
                    [port])
    server.admin = admin
    return server


def start_redis(directory, *settings):
    port = free_port()
    return Server("redis", ["redis-server", "--port", port, "--save", "", "--dir", directory, *settings], [port])


def summary(values):
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def in_turns(rounds, measures):
    """Measures each in turn, A B A B, after one round of warm-up: {name: [what each round measured]}."""
    results = {name: [] for name in measures}
    for number in range(rounds + 1):
        for name, measure in measures.items():
            result = measure()
            if number > 0:
                results[name].append(result)
    return results


def summaries(results):
    """{key: summary} of rounds that measured the same keys."""
    return {key: summary([result[key] for result in results]) for key in results[0]}


def ratios(results, others, key):
    """Of two that took turns, round by round."""
    return summary([a[key] / b[key] for a, b in zip(results, others)])


def span(value, digits):
    return f"{value['median']:.{digits}f} ({value['lowest']:.{digits}f}..{value['highest']:.{digits}f})"
