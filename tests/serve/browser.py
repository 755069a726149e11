"""A headless Chromium, driven over the WebDriver protocol by the standard library alone."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_DRIVER = shutil.which("chromedriver")
_HEARD = """
  window.heard = "";
  window.WebSocket = class extends window.WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", (message) => {
        if (typeof message.data !== "string")
          window.heard += new TextDecoder().decode(message.data);
      });
    }
  };
"""
"""What the dashboard draws ends on a canvas; its bytes are kept on the way there."""

_LOOK = """
  const there = arguments[0].every((word) => window.heard.includes(word));
  if (there) window.heard = "";
  return there;
"""


class Browser:
    """One window; tabs are opened in it."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._base = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with (folder / "chromedriver.log").open("wb") as log:
            self._driver = subprocess.Popen(
                [_DRIVER or "", f"--port={self._base.rpartition(':')[2]}"], stdout=log, stderr=log
            )
        self._session = ""
        self._wait_for_driver()
        options = {
            "binary": _CHROMIUM,
            "args": [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                "--enable-unsafe-swiftshader", "--window-size=1400,900", "--no-first-run",
                f"--user-data-dir={folder / 'profile'}", "--disable-background-networking",
            ],
        }  # fmt: skip
        capabilities = {"alwaysMatch": {"goog:chromeOptions": options}}
        self._session = self._call("POST", "/session", {"capabilities": capabilities})["sessionId"]

    def _wait_for_driver(self) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                assert self._driver.poll() is None, "chromedriver ended"
                assert time.monotonic() < end, "chromedriver does not answer"

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        address = self._base + (f"/session/{self._session}" if self._session else "") + path
        request = urllib.request.Request(
            address, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                pytest.fail(f"{method} {path}: {error.read().decode()[:500]}")

    def open(self, address: str, *, new_tab: bool = False) -> str:
        """Open ``address``; the tab's handle."""
        if new_tab:
            handle = self._call("POST", "/window/new", {"type": "tab"})["handle"]
            self.turn_to(handle)
        self._call(
            "POST",
            "/goog/cdp/execute",
            {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": _HEARD}},
        )
        self._call("POST", "/url", {"url": address})
        return str(self._call("GET", "/window"))

    def turn_to(self, handle: str) -> None:
        """Make this tab the one that is looked at."""
        self._call("POST", "/window", {"handle": handle})

    def run(self, script: str, *arguments: object) -> Any:
        """The value of a piece of JavaScript in the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def shows(self, *words: str, seconds: float = 60) -> None:
        """Wait until all ``words`` were drawn since the last look."""
        end = time.monotonic() + seconds
        while not self.run(_LOOK, words):
            assert time.monotonic() < end, self.run("return window.heard")[-2000:]

    def press(self, key: str) -> None:
        """One key, pressed and released, in the terminal of the page."""
        self.run("document.querySelector('textarea').focus()")
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._call(
            "POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]}
        )

    def screenshot(self, path: Path) -> bytes:
        """The page as PNG, written to ``path`` too."""
        png = base64.b64decode(self._call("GET", "/screenshot"))
        path.write_bytes(png)
        return png

    def close(self) -> None:
        """End browser and driver."""
        try:
            if self._session:
                self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)


def browser_or_skip(folder: Path) -> Browser:
    """A browser; skips where there is none."""
    if _CHROMIUM is None or _DRIVER is None:
        pytest.skip("no Chromium with its driver here (Debian: chromium chromium-driver)")
    return Browser(folder)
