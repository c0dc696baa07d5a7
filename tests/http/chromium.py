"""Headless Chromium, driven by its DevTools protocol over a pipe: no port, no further package."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# A first start on a busy machine takes some seconds.
ANSWER_S = 60.0
# Events that mean that something on the page is not as it should be.
TROUBLE = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


class Chromium:
    """One tab. `trouble`: errors of scripts, of the console and of the content security policy."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            found = self._next(until)
            if found.get("id") == self._number:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
        raise TimeoutError(method)

    def open(self, url: str) -> None:
        """Goes there, and waits until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait_loaded()

    def wait_loaded(self) -> None:
        """Waits for the next page that is loaded."""
        until = time.monotonic() + ANSWER_S
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next(until)

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, script: str) -> None:
        """Clicks the element that an expression names, and waits for the page where that leads."""
        self.events.clear()
        self.call("Runtime.evaluate", expression=f"({script}).click()", userGesture=True)
        self.wait_loaded()

    def key(self, key: str) -> None:
        """Presses one key."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    def look_like(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """A screen of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file: Path) -> None:
        """Writes the whole page as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(found["data"]))

    @property
    def trouble(self) -> list[str]:
        """What went wrong since the last page was opened."""
        self.run("0")  # what was said before it has arrived then
        return [json.dumps(event)[:500] for event in self.events if event["method"] in TROUBLE]

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if time.monotonic() > until:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._back, 1 << 20)
            if not part:
                raise EOFError("Chromium ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        if "method" in found:
            self.events.append(found)
        return found


@contextmanager
def chromium(directory: Path) -> Iterator[Chromium]:
    """A browser with an empty profile; it ends with the block."""
    assert EXECUTABLE is not None
    read_by_it, to = os.pipe()
    back, written_by_it = os.pipe()
    # It reads from descriptor 3 and writes to descriptor 4.
    command = (
        f'exec 3<&{read_by_it} 4>&{written_by_it}; exec "$0" --headless=new --no-sandbox --disable-gpu '
        "--disable-dev-shm-usage --no-first-run --disable-background-networking --hide-scrollbars "
        '--remote-debugging-pipe --user-data-dir="$1" about:blank'
    )
    process = subprocess.Popen(
        ["bash", "-c", command, EXECUTABLE, str(directory / "profile")],
        pass_fds=(read_by_it, written_by_it),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_by_it)
    os.close(written_by_it)
    try:
        yield Chromium(to, back)
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(back)
