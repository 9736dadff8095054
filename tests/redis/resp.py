"""RESP2 from the client's side, as plain as can be: what a test asks is what is sent, once."""

import socket

TIMEOUT_S = 20


class Error(Exception):
    """An error reply. Its first word is `code`."""

    @property
    def code(self):
        return str(self).split(" ")[0]


def pack(words):
    """The bytes of a command."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    """A connection to a server. `address` is a port of the loopback interface, or the path of a Unix socket."""

    def __init__(self, address, password=None, user="default", database=0, tls=None, timeout=TIMEOUT_S):
        if isinstance(address, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            self._socket.connect(address)
        else:
            self._socket = socket.create_connection(("127.0.0.1", address), timeout)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        self._file = self._socket.makefile("rb")
        if password is not None:
            self("AUTH", user, password)
        if database:
            self("SELECT", database)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._file.close()
        self._socket.close()

    def send(self, *words):
        """Sends a command whose reply nobody waits for."""
        self._socket.sendall(pack(words))

    def __call__(self, *words):
        """Sends a command and returns its reply: bytes, an integer, None, or a list of these. Raises Error for an error."""
        return self.many([words])[0]

    def many(self, commands):
        """Sends commands together, and returns their replies."""
        self._socket.sendall(b"".join(pack(words) for words in commands))
        replies = [self.read() for _ in commands]
        for reply in replies:
            if isinstance(reply, Error):
                raise reply
        return replies

    def read(self):
        """The next reply; errors are returned."""
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2]
        assert kind == b"*", line
        return None if rest == b"-1" else [self.read() for _ in range(int(rest))]

    def info(self, section):
        """What INFO says, by name."""
        lines = self("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def scan(self):
        """All keys of the database."""
        cursor, keys = b"0", set()
        while True:
            cursor, some = self("SCAN", cursor, "COUNT", 1000)
            keys.update(some)
            if cursor == b"0":
                return sorted(keys)


def as_map(flat):
    """What RESP3 sends as a map comes as a list of names and values."""
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2])}
