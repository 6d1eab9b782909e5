"""A real Chromium without a window, driven by the DevTools protocol: opens pages, runs expressions, takes pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

__all__ = ["CHROMIUM", "Browser", "needs_chromium", "shown"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic", "--remote-debugging-port=0",
         "--hide-scrollbars")  # fmt: skip
PATIENCE_S = 60

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="THERE IS NO CHROMIUM: no page was looked at")


class Browser:
    """One browser with one page. `complaints` are the page's errors and the scripts and loads that were refused."""

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 800, flags: Sequence[str] = ()) -> None:
        self._profile, self._size, self._flags = profile, (width, height), flags
        self._last = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def __enter__(self) -> Browser:
        command = [str(CHROMIUM), *FLAGS, *self._flags, f"--user-data-dir={self._profile}", "about:blank"]
        # A group of its own: the browser's helpers end with it.
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
        )
        assert self._process.stderr is not None
        address = next(line.split()[-1] for line in self._process.stderr if line.startswith("DevTools listening on"))
        self._connection = connect(address, max_size=None, open_timeout=PATIENCE_S)
        self._socket: ClientConnection = self._connection.__enter__()
        self._session: str | None = None
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.__exit__(kind, error, trace)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stderr.close()

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command, and returns its result; keeps what the page complains of meanwhile."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            received = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if received.get("id") == self._last:
                assert "error" not in received, received
                result: dict[str, Any] = received["result"]
                return result
            self._note(received.get("method"), received.get("params", {}))

    def _note(self, method: str | None, received: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(received["exceptionDetails"].get("exception", received)))
        elif method == "Log.entryAdded" and received["entry"]["level"] == "error":
            self.complaints.append(received["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(received["request"]["url"])

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def visit(self, url: str) -> None:
        """Opens a page that may be none of ours, and waits until it is loaded."""
        self.command("Page.navigate", url=url)
        loaded = f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        wait = f"new Promise((done) => {{ const look = () => {loaded} ? done(true) : setTimeout(look, 5); look(); }})"
        assert self.run(wait)

    def open(self, url: str) -> None:
        """Opens a page, and waits until its script says that it is ready."""
        self.command("Page.navigate", url=url)
        ready = (
            "new Promise((done) => { const look = () => document.documentElement?.dataset.ready"
            " ? done(true) : setTimeout(look, 5); look(); })"
        )
        assert self.run(ready)

    def run(self, expression: str) -> Any:
        """Returns the value of an expression, awaited, in the page."""
        received = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in received, received["exceptionDetails"]
        return received["result"].get("value")

    def drawn(self) -> None:
        """Waits for the next two frames."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def click(self, ref: str) -> None:
        """Chooses a row of the timeline, with one click."""
        self.run(f"document.getElementById('row-{ref}').click()")
        self.drawn()

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def picture(self, path: Path) -> None:
        """Takes a picture of what is in sight."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot")["data"]))


def shown(browser: Browser, html: str, folder: Path, query: str = "") -> Browser:
    """Opens a page in a window of the usual size."""
    path = folder / "run.html"
    path.write_bytes(html.encode("utf-8", "replace"))
    browser.complaints.clear()
    browser.requests.clear()
    browser.resize(1280, 800)
    browser.open(path.as_uri() + query)
    browser.drawn()
    return browser
