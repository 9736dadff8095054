"""The protocol of Redis from the client's side, RESP2 and RESP3, as plain as can be: what a test asks is what is sent, once."""

import contextlib
import socket

TIMEOUT_S = 20


class Error(Exception):
    """An error reply. Its first word is `code`."""

    @property
    def code(self):
        return str(self).split(" ")[0]


def as_bytes(word):
    return word if isinstance(word, bytes) else str(word).encode()


def pack(words):
    """The bytes of a command."""
    words = [as_bytes(word) for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    """A connection to a server. `address` is a port of the loopback interface, (host, port), or the path of a Unix socket."""

    def __init__(self, address, password=None, user="default", database=0, tls=None, timeout=TIMEOUT_S):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(("127.0.0.1", address) if isinstance(address, int) else address, timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._file = self.socket.makefile("rb")
        if password is not None:
            self("AUTH", user, password)
        if database:
            self("SELECT", database)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self._file.close()
            self.socket.close()

    def send(self, *words):
        """Sends a command whose reply nobody waits for."""
        self.socket.sendall(pack(words))

    def __call__(self, *words):
        """Sends a command and returns its reply: bytes, an integer, None, or a list of these; of RESP3 also a map, a float and a
        truth value. Raises Error for an error."""
        return self.many([words])[0]

    def many(self, commands):
        """Sends commands together, and returns their replies."""
        replies = self.ask(b"".join(pack(words) for words in commands), len(commands))
        for reply in replies:
            if isinstance(reply, Error):
                raise reply
        return replies

    def ask(self, data, count=1):
        """Sends bytes, and returns so many replies; errors are returned as well."""
        self.socket.sendall(data)
        return [self.read() for _ in range(count)]

    def read(self):
        """The next reply; errors are returned."""
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind in b"*$" and rest == b"-1":
            return None
        return READERS[kind](self, rest)

    def read_bytes(self, count):
        """So many bytes as they come."""
        data = self._file.read(count)
        if len(data) < count:
            raise ConnectionError(f"the server closed the connection after {data!r}")
        return data

    def skip(self, count, head):
        """Takes replies, as they come, until so many have come that begin with `head`; nothing else may be among them."""
        tail = b""
        while count > 0:
            data = self._file.read1(1 << 18)
            if not data:
                raise ConnectionError(f"the server closed the connection {count} replies early")
            data = tail + data
            count -= data.count(head)
            tail = data[1 - len(head) :]

    def at_end(self):
        """Waits until the server has closed its side; returns what came before that."""
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while more := self._file.read1(65536):
                data += more
        return data

    def _read_text(self, length):
        return self.read_bytes(int(length) + 2)[:-2]

    def _read_elements(self, count):
        return [self.read() for _ in range(int(count))]

    def _read_map(self, count):
        return {self.read(): self.read() for _ in range(int(count))}

    def info(self, section):
        """What INFO says, by name."""
        lines = self("INFO", section)
        return dict(line.split(":", 1) for line in lines.decode().splitlines() if ":" in line)

    def scan(self):
        """All keys of the database."""
        cursor, keys = b"0", set()
        while True:
            cursor, some = self("SCAN", cursor, "COUNT", 1000)
            keys.update(some)
            if cursor == b"0":
                return sorted(keys)


# What follows the first byte of a reply, by that byte.
READERS = {
    b"+": lambda client, text: text,
    b"-": lambda client, text: Error(text.decode()),
    b":": lambda client, text: int(text),
    b"(": lambda client, text: int(text),
    b",": lambda client, text: float(text),
    b"#": lambda client, text: {b"t": True, b"f": False}[text],
    b"_": lambda client, text: None,
    b"$": Client._read_text,
    b"=": lambda client, length: client._read_text(length)[4:],
    b"!": lambda client, length: Error(client._read_text(length).decode()),
    b"*": Client._read_elements,
    b"~": Client._read_elements,
    b">": Client._read_elements,
    b"%": Client._read_map,
}


def as_map(reply):
    """What RESP3 sends as a map comes as a list of names and values in RESP2."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name.decode(): value for name, value in pairs}
