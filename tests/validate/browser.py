"""Headless Chromium over the pipe of its DevTools protocol: no port, no driver, no other package.

https://chromedevtools.github.io/devtools-protocol/ : messages are JSON, each ended by a NUL byte,
read by the browser from descriptor 3 and written to descriptor 4.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-sync", "--disable-background-networking", "--disable-component-update"),
    *("--disable-dev-shm-usage", "--disable-default-apps", "--disable-extensions"),
    *("--hide-scrollbars", "--no-default-browser-check"),
)
SECONDS = 60.0


def find_chromium() -> str | None:
    """The browser of this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Page:
    """One tab. `requests` are the addresses that it asked for."""

    to_browser: int
    from_browser: int
    session: str = ""
    requests: list[str] = field(default_factory=list)
    _sent: int = 0
    _seen: bytes = b""
    _events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda told: told.get("id") == self._sent)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network"):
            self.call(f"{domain}.enable")

    def show(self, url: str, width: int, scheme: Literal["light", "dark"]) -> None:
        """Open an address in a window of this width, without scripts."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        self._events.clear()
        self.call("Page.navigate", url=url)
        if not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._wait(lambda told: told.get("method") == "Page.loadEventFired")

    def ask(self, expression: str) -> object:
        """The value of a JavaScript expression in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"]["value"]

    def screenshot(self) -> bytes:
        """The whole page, below the fold too, as PNG."""
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(done["data"])

    def _wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for message in self._read(deadline):
                if message.get("method") == "Network.requestWillBeSent":
                    self.requests.append(message["params"]["request"]["url"])
                self._events.append(message)
                if wanted(message):
                    return message
        raise TimeoutError("the browser did not answer")

    def _read(self, deadline: float) -> Iterator[dict[str, Any]]:
        """What is there, one message at a time; what is left over stays for the next call."""
        if b"\0" not in self._seen:
            with selectors.DefaultSelector() as selector:
                selector.register(self.from_browser, selectors.EVENT_READ)
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return
            chunk = os.read(self.from_browser, 1 << 20)
            assert chunk, "the browser ended"
            self._seen += chunk
        while b"\0" in self._seen:
            first, _, self._seen = self._seen.partition(b"\0")
            yield json.loads(first)


@contextmanager
def open_page(program: str, profile: Path) -> Iterator[Page]:
    """A tab of a browser with a profile of its own, ended with the block."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    # The shell only moves the descriptors to where the browser looks for them.
    script = f'exec "$@" 3<&{their_in} 4>&{their_out}'
    command = [program, *QUIET, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    child = subprocess.Popen(
        ["bash", "-c", script, "bash", *command],
        pass_fds=(their_in, their_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_in)
    os.close(their_out)
    page = Page(our_out, our_in)
    try:
        page.attach()
        yield page
    finally:
        _end(page, child)


def _end(page: Page, child: subprocess.Popen[bytes]) -> None:
    page.session = ""
    with suppress(OSError, AssertionError, TimeoutError):
        page.call("Browser.close")
    for descriptor in (page.to_browser, page.from_browser):
        os.close(descriptor)
    try:
        child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
