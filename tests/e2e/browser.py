"""A headless Chromium, driven by the DevTools protocol over a pipe: JSON messages that end in a zero byte, on two inherited
descriptors. So nothing listens anywhere."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

TIMEOUT_S = 60


class BrowserError(Exception):
    """What the browser said of a command that it did not carry out, or that it did not answer."""


class Browser:
    """One page in a browser of its own. `events` are all that came from the page so far: [(method, parameters)]."""

    def __init__(self, profile):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        assert program, "chromium is not installed: scripts/install-packages.sh e2e"
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()

        def place_pipes():
            # Through numbers that are out of the way: one of the pipes may be 3 or 4 itself.
            os.dup2(commands, 100)
            os.dup2(answers, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        # Tests run as root in containers, where the sandbox does not start.
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen([program, *arguments], preexec_fn=place_pipes, close_fds=False,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self._numbers = itertools.count(1)
        self._bytes = b""
        self._session = None
        self.events = []
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser, and waits until it has written all that it keeps."""
        self._session = None
        try:
            self.call("Browser.close")
        finally:
            try:
                self._process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            os.close(self._to)
            os.close(self._from)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _next_message(self, deadline):
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(self._from, 1 << 16) if ready else b""
            if not piece:
                raise BrowserError("the browser has ended" if ready else f"no answer within {TIMEOUT_S} s")
            self._bytes += piece
        message, self._bytes = self._bytes.split(b"\0", 1)
        message = json.loads(message)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message

    def call(self, method, **parameters):
        """Carries out a command and returns its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next_message(deadline)
            if answer.get("id") == number:
                break
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url):
        """Loads a page to its end."""
        before = len(self.events)
        failure = self.call("Page.navigate", url=url).get("errorText")
        if failure:
            raise BrowserError(f"{url}: {failure}")
        deadline = time.monotonic() + TIMEOUT_S
        while not any(method == "Page.loadEventFired" for method, _ in self.events[before:]):
            self._next_message(deadline)

    def evaluate(self, expression):
        """The value of a JavaScript expression within the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def show_as(self, width, height, scheme="light", media="screen"):
        """As a screen of that size, or a printer, shows the page to a reader who has chosen `scheme`."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, clip=None):
        """A PNG file's bytes: of what is seen, or of a part of the whole page."""
        part = {} if clip is None else {"clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **part)["data"])
