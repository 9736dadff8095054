"""HTTP/2 from the client's side by hand-made frames: tests say which bytes go out, however wrong, and see which frames come back."""

import contextlib
import select
import socket
import struct

import hpack

from envoy_client import METHOD, request

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
CANCEL = 8
TIMEOUT_S = 20


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """`length`: what the frame says, where that is not true."""
    return struct.pack(">I", len(payload) if length is None else length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values):
    numbers = {"header_table_size": 1, "enable_push": 2, "max_concurrent_streams": 3, "initial_window_size": 4,
               "max_frame_size": 5, "max_header_list_size": 6}
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", numbers[name], value) for name, value in values.items()))


def header_block(*more, method="POST", path=METHOD, content_type="application/grpc", te="trailers", **replaced):
    """Encoded without the dynamic table, so that it may be sent again on any stream. What is None is left away."""
    fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "test"), ("content-type", content_type),
              ("te", te), *more]
    fields = [(name, value) for name, value in fields if value is not None]
    return literal(*fields)


def literal(*fields):
    """Each field as a literal that is never indexed, without Huffman's code."""
    block = b""
    for name, value in fields:
        name, value = (text if isinstance(text, bytes) else text.encode() for text in (name, value))
        block += b"\x10" + integer(len(name), 7) + name + integer(len(value), 7) + value
    return block


def integer(number, bits):
    limit = (1 << bits) - 1
    if number < limit:
        return bytes([number])
    out, number = bytes([limit]), number - limit
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def message(payload, compressed=0, length=None):
    """A message as gRPC frames it."""
    return struct.pack(">BI", compressed, len(payload) if length is None else length) + payload


GOOD = message(request("one", "k=v").SerializeToString())
GOOD_HEADERS = header_block()


def call(stream, body=GOOD, block=GOOD_HEADERS):
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body)


class Frame:
    def __init__(self, kind, flags, stream, payload):
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream, payload

    def error(self):
        """The code of a GOAWAY or RST_STREAM."""
        return struct.unpack(">I", self.payload[4:8] if self.kind == GOAWAY else self.payload)[0]

    def __repr__(self):
        return f"<{self.kind} flags {self.flags} stream {self.stream} {self.payload[:100]!r}>"


class Connection:
    """An open connection that has sent its preface."""

    def __init__(self, address, start=PREFACE + frame(SETTINGS)):
        self.socket = socket.create_connection(address, TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.decoder = b"", hpack.Decoder()
        self.fields, self.data, self.ends = {}, {}, {}  # of each stream; of its end: None, or the code of its reset
        self.goaways = []  # their codes
        self.is_closed = False
        self.send(start)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """False: the server has closed the connection."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.is_closed = True
        return not self.is_closed

    def send_or_stall(self, data, seconds=TIMEOUT_S):
        """Sends what fits; False when the server has closed the connection, or takes nothing more for so long."""
        self.socket.settimeout(seconds)
        try:
            return self.send(data)
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(TIMEOUT_S)

    def _fill(self, count):
        while len(self.received) < count:
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                self.is_closed = True
                return False
            self.received += more
        return True

    def read(self):
        """The next frame; None at the end of the connection."""
        if not self._fill(9):
            return None
        length = int.from_bytes(self.received[:3], "big")
        if not self._fill(9 + length):
            return None
        head, payload = self.received[:9], self.received[9 : 9 + length]
        self.received = self.received[9 + length :]
        one = Frame(head[3], head[4], int.from_bytes(head[5:9], "big"), payload)
        self._remember(one)
        return one

    def _remember(self, one):
        """What it says of its call: calls may be answered at the same time, and each block of headers has to be decoded in its turn."""
        if one.kind == HEADERS:
            self.fields.setdefault(one.stream, {}).update(self.decoder.decode(one.payload))
        if one.kind == DATA:
            self.data[one.stream] = self.data.get(one.stream, b"") + one.payload
        if one.kind == RST_STREAM:
            self.ends[one.stream] = one.error()
        if one.kind == GOAWAY:
            self.goaways.append(one.error())
        if one.kind in (HEADERS, DATA) and one.flags & END_STREAM:
            self.ends[one.stream] = None

    def until(self, wanted):
        """The frames up to the first for which `wanted` holds; None stands for the end."""
        found = []
        while True:
            found.append(self.read())
            if found[-1] is None or wanted(found[-1]):
                return found

    def until_closed(self):
        return self.until(lambda _: False)[:-1]

    def says_something(self):
        return bool(self.received) or bool(select.select([self.socket], [], [], 0)[0])

    def result(self, stream):
        """What became of a call: (its status of HTTP, of gRPC, the words, the data); of HTTP also ("reset", code) and ("closed", code)."""
        while stream not in self.ends:
            got = self.read()
            if got is None or got.kind == GOAWAY and got.error() != 0:
                return "closed", got and got.error()
        if self.ends[stream] is not None:
            return "reset", self.ends[stream]
        fields = self.fields.get(stream, {})
        status = fields.get("grpc-status")
        return fields.get(":status"), status and int(status), fields.get("grpc-message", ""), self.data.get(stream, b"")

    def answers(self, stream):
        """Whether a good call is still answered here."""
        with contextlib.suppress(OSError):
            if self.send(call(stream)):
                return self.result(stream)[:2] == ("200", 0)
        return False
