"""Servers of ours whose state is in Redis: their policies, what they count, and clients that ask them all the while."""

import json
import pathlib
import threading
import time

from client import TIMEOUT_S, Closed, Connection, build, get, post
from exposition import Metrics
from policies import TRUSTING
from waiting import DEADLINE_S, until

WORKERS = 2  # as program.Server starts it


def policy(url, *limits, deadline="15ms", more=""):
    """A policy of limits in YAML's flow style, whose state is at `url`."""
    text = "".join(f"  - {{{line}}}\n" for line in limits)
    return f"{TRUSTING}store: {{url: '{url}', deadline: {deadline}}}\n{more}limits:\n{text}"


def scrape(server):
    return Metrics(get(server.admin, "/metrics").body.decode())


def events(server, event):
    """How often something came of asking the store."""
    return scrape(server).sum("caudal_store_events_total", event=event)


def ask(server, question, **value):
    """The decision of POST /v1/take and its like."""
    answer = post(server.http, f"/v1/{question}", value)
    assert answer.status in (200, 429), answer
    return answer.json()


def wait_until_shared(server, limit, seconds=DEADLINE_S, **value):
    """Until the store decides whatever worker is asked: ten answers in a row, each on a connection of its own."""
    def decides():
        answers = [post(server.http, "/v1/peek", {"limit": limit, "cost": 0, **value}) for _ in range(10)]
        return all(answer.status == 200 and answer.json()["source"] == "store" for answer in answers)

    until(decides, "the store decides", seconds)


def durations(server):
    """{bound in seconds: requests that took at most so long}"""
    found = {}
    for (name, labels), value in scrape(server).samples.items():
        if name == "caudal_request_duration_seconds_bucket":
            bound = float(dict(labels)["le"].replace("+Inf", "inf"))
            found[bound] = found.get(bound, 0) + value
    return found


def share_within(before, after, seconds):
    """The part of the requests between two looks at `durations` that took at most so long; a bound of the histogram."""
    counts = {bound: after[bound] - before[bound] for bound in after}
    assert counts[float("inf")] > 0, "nothing was asked"
    return counts[seconds] / counts[float("inf")]


def connections_to(server, port):
    """How many sockets a server of ours has to a port, in any state."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            inodes.add(str(entry.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[2].split(":")[1], 16) == port and f"socket:[{row[9]}]" in inodes for row in rows)


class Answer:
    def __init__(self, number, begin, end, response):
        self.number, self.begin, self.end, self.status = number, begin, end, response.status
        self.body = json.loads(response.body) if response.body else {}
        self.fields = {name for name, _ in response.fields}

    @property
    def source(self):
        return self.body.get("source")

    def __repr__(self):
        return f"<{self.status} after {(self.end - self.begin) * 1000:.1f} ms: {self.body}>"


class Load:
    """Clients that ask POST /v1/take of each limit in turn, at so many a second in all. A client that the machine has held up
    does not catch up, so that the rate is never above. After `stop`, `answers` has all, in order, and `lost` what had no
    answer."""

    def __init__(self, server, limits, rate, clients=4, values=lambda number: {}):
        self.answers, self.lost = [], []
        self._server, self._limits, self._pause, self._values = server, limits, clients / rate, values
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(index,), daemon=True) for index in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, index):
        number, due = index, time.monotonic()
        connection = Connection(self._server.http)
        try:
            while not self._over.wait(max(0, due - time.monotonic())):
                value = {"limit": self._limits[number % len(self._limits)], **self._values(number)}
                body = json.dumps(value)
                begin = time.monotonic()
                connection.send(build("POST", "/v1/take", [("Content-Type", "application/json")], body))
                response = connection.read("POST")
                self.answers.append(Answer(number, begin, time.monotonic(), response))
                number += len(self._threads)
                due = max(due + self._pause, time.monotonic() - self._pause)
                if response.get("connection") == "close":
                    break
        except (Closed, OSError) as problem:
            self.lost.append(problem)
        finally:
            connection.close()

    def since(self, instant):
        """Answers to what was asked from an instant of the monotonic clock on."""
        return [answer for answer in list(self.answers) if answer.begin >= instant]

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        assert not any(thread.is_alive() for thread in self._threads)
        self.answers.sort(key=lambda answer: answer.end)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
