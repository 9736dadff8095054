"""A way to a server on which things go wrong: replies come late, or never, or the way leads elsewhere from now on."""

import contextlib
import queue
import socket
import threading
import time


def reply_length(data, at=0):
    """Where the reply that begins at `at` ends; None: it is not whole. RESP2 and RESP3."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, rest, at = data[at:at + 1], data[at + 1:end], end + 2
    if kind in b"$=!":
        return at if rest == b"-1" else at + int(rest) + 2 if len(data) >= at + int(rest) + 2 else None
    elements = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}.get(kind, 0) * int(rest if kind in b"*~>%|" else 0)
    for _ in range(elements):
        at = reply_length(data, at)
        if at is None:
            return None
    return at


class Way:
    """Listens on a port of its own and passes everything on, but as a test wants it.

    delay_s   how late each reply arrives
    target    the port that new connections lead to
    swallow   asked about each reply (its bytes); True: it is dropped, and the connection is reset in its place
    hold_s    asked about each reply; for so long it and all after it on this connection are held back
    """

    def __init__(self, target):
        self.target, self.delay_s = target, 0
        self.swallow, self.hold_s = lambda reply: False, lambda reply: 0
        self.swallowed = self.held = self.accepted = 0
        self._open, self._lock = set(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def open_connections(self):
        with self._lock:
            return len(self._open)

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add((near, far))
            replies = queue.Queue()
            for work in ((self._forth, near, far), (self._split, far, replies), (self._back, near, far, replies)):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    @staticmethod
    def _forth(near, far):
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)
        _shut(far)

    @staticmethod
    def _split(far, replies):
        data = b""
        with contextlib.suppress(OSError):
            while more := far.recv(65536):
                data, at = data + more, 0
                while (end := reply_length(data, at)) is not None:
                    replies.put((time.monotonic(), data[at:end]))
                    at = end
                data = data[at:]
        replies.put(None)

    def _back(self, near, far, replies):
        with contextlib.suppress(OSError):
            while (item := replies.get()) is not None:
                came, reply = item
                if self.swallow(reply):
                    self.swallowed += 1
                    break
                late = self.hold_s(reply)
                self.held += late > 0
                pause = came + self.delay_s + late - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                near.sendall(reply)
        _shut(near)
        _shut(far)
        with self._lock:
            self._open.discard((near, far))

    def close(self):
        _shut(self._listener)
        self._listener.close()
        with self._lock:
            ways = list(self._open)
        for near, far in ways:
            _shut(near)
            _shut(far)


def _shut(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
