"""HTTP/1.1 from the client's side, over a plain socket: tests say which bytes go out and see which come back."""

import contextlib
import json
import socket
import ssl

TIMEOUT_S = 20


class Closed(Exception):
    """The server closed the connection before the answer was complete."""


class Response:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        version, status, self.reason = (lines[0] + " ").split(" ", 2)
        assert version == "HTTP/1.1", lines[0]
        self.status = int(status)
        self.fields = []  # (name in lower case, value), in the order of the answer
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            assert colon and name and name == name.strip(), f"not a field line: {line!r}"
            self.fields.append((name.lower(), value.strip()))
        self.body = body

    def all(self, name):
        return [value for field, value in self.fields if field == name.lower()]

    def get(self, name):
        """The value of a field that may be there once; None without it."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} was sent {len(values)} times"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:500]!r}>"


def build(method, target, fields=(), body=b"", host="test"):
    """The bytes of a request. Fields are (name, value) pairs, str or bytes, and may repeat."""
    if isinstance(body, str):
        body = body.encode()
    lines = [b" ".join((as_bytes(method), as_bytes(target), b"HTTP/1.1"))]
    if host is not None:
        lines.append(b"Host: " + as_bytes(host))
    lines += [as_bytes(name) + b": " + as_bytes(value) for name, value in fields]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


class Connection:
    """An open connection. `address` is (host, port) or the path of a Unix socket."""

    def __init__(self, address, tls=None, server_name="localhost", source=None):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(TIMEOUT_S)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, TIMEOUT_S, source_address=source)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=server_name)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _receive(self):
        try:
            more = self.socket.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError) as error:
            raise Closed(self.received) from error
        if not more:
            raise Closed(self.received)
        self.received += more

    def _take(self, count):
        while len(self.received) < count:
            self._receive()
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def read(self, method="GET"):
        """The next response; the answer to `method` HEAD has no body."""
        while b"\r\n\r\n" not in self.received:
            self._receive()
        head = self._take(self.received.index(b"\r\n\r\n"))
        self._take(4)
        response = Response(head, b"")
        if response.get("transfer-encoding"):
            response.body = self._read_chunks()
        elif method != "HEAD" and response.status >= 200 and response.status not in (204, 304):
            length = response.get("content-length")
            response.body = self._take(int(length)) if length is not None else self._read_rest()
        return response

    def _read_chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self.received:
                self._receive()
            size = int(self._take(self.received.index(b"\r\n") + 2), 16)
            body += self._take(size)
            assert self._take(2) == b"\r\n"
            if size == 0:
                return body

    def _read_rest(self):
        with contextlib.suppress(Closed):
            while True:
                self._receive()
        return self._take(len(self.received))

    def request(self, method, target, fields=(), body=b"", **more):
        self.send(build(method, target, fields, body, **more))
        return self.read(method)

    def at_end(self):
        """Waits until the server has closed its side; returns what came before that."""
        with contextlib.suppress(Closed):
            while True:
                self._receive()
        return self.received


def request(address, method, target, fields=(), body=b"", **more):
    """One request on a connection of its own."""
    with Connection(address, **{key: more.pop(key) for key in ("tls", "source") if key in more}) as connection:
        return connection.request(method, target, fields, body, **more)


def get(address, target, fields=(), **more):
    return request(address, "GET", target, fields, **more)


def post(address, target, value, fields=(), **more):
    """Posts a value as JSON."""
    body = value if isinstance(value, (bytes, str)) else json.dumps(value)
    return request(address, "POST", target, [("Content-Type", "application/json"), *fields], body, **more)


def statuses(address, count, target="/check", fields=()):
    """The status of each of `count` equal requests, sent one after the other on one connection."""
    with Connection(address) as connection:
        return [connection.request("GET", target, fields).status for _ in range(count)]
