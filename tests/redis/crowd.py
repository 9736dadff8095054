"""Clients that ask several servers of ours about one key as fast as they answer, and what all of them together were granted.

What is counted is a batch: requests that travelled together, when they were sent, when the last of them was answered, and how many
were admitted. A batch that lies within an interval was admitted within it, so that the sum of such batches is held against what a
limit admits in an interval of that length, for every interval between two instants of a grid."""

import contextlib
import re
import threading
import time

from client import TIMEOUT_S, Connection, build
from waiting import until

STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
TOGETHER = 32


class Batch:
    def __init__(self, begin, end, statuses):
        self.begin, self.end = begin, end
        self.admitted, self.asked = statuses.count(b"200"), len(statuses)
        self.failed = statuses.count(b"503")


class Crowd:
    """So many connections to each server, each with a thread. A server that closes its connections is asked no more; `join` adds
    another, or the same one again."""

    def __init__(self, servers, connections=2):
        self.batches = {}  # by server
        self.began = time.monotonic()
        self._connections = connections
        self._over = threading.Event()
        self._threads = []
        for server in servers:
            self.join(server)

    def join(self, server):
        self.batches.setdefault(server, [])
        for _ in range(self._connections):
            self._threads.append(threading.Thread(target=self._ask, args=(server, Connection(server.http)), daemon=True))
            self._threads[-1].start()

    def _ask(self, server, connection):
        question = build("GET", "/check") * TOGETHER
        with connection, contextlib.suppress(OSError):
            while not self._over.is_set():
                begin, received, statuses = time.monotonic(), b"", []
                try:
                    connection.send(question)
                    while len(statuses) < TOGETHER:
                        more = connection.socket.recv(1 << 18)
                        received += more
                        statuses = STATUS.findall(received)
                        if not more:
                            return
                finally:
                    self.batches[server].append(Batch(begin, time.monotonic(), statuses))

    def run(self, seconds):
        end = self.began + seconds
        until(lambda: time.monotonic() >= end, "the time is over", seconds + 60)

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        assert not any(thread.is_alive() for thread in self._threads)
        self.ended = time.monotonic()
        return self

    def all(self):
        return [batch for batches in self.batches.values() for batch in batches]

    def admitted(self):
        return sum(batch.admitted for batch in self.all())

    def worst(self, bound, step):
        """The most that was admitted in any interval between two instants of the grid, less what `bound` says of its length."""
        batches = sorted((batch for batch in self.all() if batch.admitted > 0), key=lambda batch: batch.end)
        worst, start = None, self.began
        while start < self.ended:
            within, end = 0, start + step
            for batch in batches:
                if batch.begin < start:
                    continue
                while batch.end > end:
                    end += step
                within += batch.admitted
                excess = within - bound(end - start)
                worst = excess if worst is None else max(worst, excess)
            start += step
        return worst

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self._over.is_set():
            self.stop()
