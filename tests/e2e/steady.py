"""A client that does nothing wrong: asks so many questions, one after the other on one connection, and prints how long each answer took, in
microseconds. A program of its own, so that what a test does meanwhile does not slow it down.

    steady.py HOST PORT COUNT
"""

import json
import sys
import time

from frames import DATA, END_STREAM, HEADERS, WINDOW_UPDATE, Connection, call, frame


def main(host, port, count):
    times = []
    with Connection((host, int(port))) as connection:
        print("asking", flush=True)
        for stream in range(1, 2 * int(count), 2):
            begin = time.perf_counter()
            connection.send(call(stream))
            got = connection.until(lambda one: one.stream == stream and one.kind == HEADERS and one.flags & END_STREAM)
            assert got[-1] is not None, "the connection was closed"
            times.append(round((time.perf_counter() - begin) * 1e6))
            size = sum(len(one.payload) for one in got if one.kind == DATA)
            connection.send(frame(WINDOW_UPDATE, payload=size.to_bytes(4, "big")))
            time.sleep(0.0005)
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
