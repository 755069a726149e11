"""``kvtui serve`` in a real browser, and what it refuses without one."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from kvtui.cli import run
from tests.client.far import ROOT
from tests.serve.browser import Browser, browser_or_skip

COMMAND = (sys.executable, "-P", "-m", "kvtui", "serve")
PAINTED_BYTES = 40_000
"""A page without text compresses to a few kilobytes."""
ARTEFACTS = Path(os.environ.get("KVTUI_TEST_ARTEFACTS", ROOT / "artefacts"))
"""Where screenshots are kept; not under version control."""


class Service:
    """A running server."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "is served on http://" in line, self.process.communicate()
        self.address = line.split()[4]
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def children(self) -> list[psutil.Process]:
        """Dashboards and their helpers."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def workers(self) -> list[psutil.Process]:
        """The engines among them."""
        return [one for one in self.children() if "kvtui.worker" in _words(one)]

    def ends(self, number: signal.Signals) -> int:
        """Send it; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(20)

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process.poll() is None:
            for one in self.children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            self.process.kill()
        self.process.communicate()


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.chdir(tmp_path)
    found = Service()
    yield found
    found.close()


Refusal = Callable[..., str]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """Runs the command line that must end with a status, and gives what it said on stderr."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def ends(status: int, *arguments: str) -> str:
        assert run(["serve", *arguments]) == status
        found = capsys.readouterr()
        assert found.out == ""
        return found.err

    return ends


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = browser_or_skip(tmp_path)
    yield found
    found.close()


def until(condition: object, seconds: float = 60) -> None:
    """Look until ``condition()`` holds."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to the expected state"


def test_the_page_paints_the_dashboard_and_takes_keys(service: Service, browser: Browser) -> None:
    """The first screen, the help behind ?, pictures of both; q ends the tab's process."""
    browser.open(service.address)
    browser.shows("payload against budget", "inputs")
    ARTEFACTS.mkdir(exist_ok=True)
    until(lambda: len(browser.screenshot(ARTEFACTS / "serve.png")) > PAINTED_BYTES)
    before = browser.screenshot(ARTEFACTS / "serve.png")
    assert before.startswith(b"\x89PNG")
    assert browser.run("return document.title") == "kvtui"
    browser.press("?")
    browser.shows("KEYS", "Run what is on the screen")
    until(lambda: browser.screenshot(ARTEFACTS / "serve-help.png") != before)

    def left() -> bool:
        """The first q closes the help, a later one the dashboard."""
        browser.press("q")
        return bool(browser.run("return document.body.classList.contains('-closed')"))

    until(left)
    until(lambda: not service.children())
    assert service.ends(signal.SIGTERM) == 143


def test_a_second_tab_is_told_before_a_second_engine_starts(
    service: Service, browser: Browser
) -> None:
    """r in two tabs is one engine; the second tab names the holder, and r again starts its own."""
    browser.open(service.address)
    browser.shows("payload against budget")
    browser.press("r")
    until(service.workers)
    (first,) = service.workers()
    browser.open(service.address, new_tab=True)
    browser.shows("payload against budget")
    browser.press("r")
    browser.shows("in use by the kvtui")
    assert service.workers() == [first]
    browser.press("r")
    until(lambda: len(service.workers()) == 2)
    children = service.children()
    assert service.ends(signal.SIGTERM) == 143
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


@contextlib.asynccontextmanager
async def tab_of(service: Service) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A tab without a browser, once its dashboard has drawn."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{service.address}ws?width=80&height=24") as tab,
    ):
        heard = b""
        async with asyncio.timeout(60):
            while b"payload against budget" not in heard:
                message = await tab.receive()
                assert message.type is aiohttp.WSMsgType.BINARY, message
                heard += message.data
        yield tab


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)],
    ids=["TERM", "INT", "KILL"],
)
async def test_every_process_ends_with_the_server(
    service: Service, number: signal.Signals, status: int
) -> None:
    """However it ends, with a tab open and a run under way, dashboards and helpers end too."""
    async with tab_of(service) as tab:
        await tab.send_json(["stdin", "r"])
        await asyncio.to_thread(until, lambda: len(service.children()) == 3)
        children = service.children()
        assert await asyncio.to_thread(service.ends, number) == status
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive


async def test_a_tab_that_is_closed_ends_its_dashboard(service: Service) -> None:
    """Nobody looks any more: the process and its monitor end, the server stays."""
    async with tab_of(service):
        assert service.children()
    await asyncio.to_thread(until, lambda: not service.children(), 20)
    assert service.process.poll() is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["", "ws"])
def test_pages_of_other_sites_are_refused(
    service: Service, headers: dict[str, str], path: str
) -> None:
    """A foreign name or origin gets neither the page nor a dashboard."""
    request = urllib.request.Request(service.address + path, headers=headers)
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(request, timeout=10)
    refused.value.close()
    assert not service.children()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "port is '70000'; it must be 0 to 65535."),
        (["--port", "x"], "port is 'x'"),
        (["--bind", "192.0.2.1", "--port", "0"], "bind is '192.0.2.1'; it must be an address of"),
        (["--bind", "no such name", "--port", "0"], "bind is 'no such name'"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--host=-x"], "host is '-x'"),
        (["--work", "none"], "work is 'none'"),
    ],
)
def test_bad_input_is_refused_before_anything_listens(
    arguments: list[str], words: str, refusal: Refusal
) -> None:
    """A sentence with field, value and what is allowed, and exit 2."""
    assert words in refusal(2, *arguments)


def test_a_taken_port_is_said(refusal: Refusal) -> None:
    """With the system's reason."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal(2, "--port", f"{port}")
    assert f"port is {port}; it must be one that can be opened on 127.0.0.1" in said
    assert "Address already in use" in said


def test_without_the_extra_it_names_it(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, and exit 3."""
    monkeypatch.setitem(sys.modules, "textual_serve.app_service", None)
    monkeypatch.delitem(sys.modules, "kvtui.headless.serve", raising=False)
    assert "pip install 'kvtui[serve]'" in refusal(3)


def test_other_addresses_come_with_a_warning() -> None:
    """Bound to every address, it says what that means; foreign names are answered then."""
    service = Service("--bind", "0.0.0.0")
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{service.port}/", headers={"Host": "gpu-box"}
        )
        with urllib.request.urlopen(request, timeout=10) as page:
            assert b"textual-terminal" in page.read()
        assert service.ends(signal.SIGTERM) == 143
        assert service.process.stderr is not None
        assert "WARNING: bound to 0.0.0.0: anyone who reaches it" in service.process.stderr.read()
    finally:
        service.close()


def test_the_dashboard_s_flags_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was typed behind serve is the question of every tab."""
    monkeypatch.chdir(tmp_path)
    service = Service("--workload", "support-desk", "--no-mouse")

    async def look() -> list[str]:
        async with tab_of(service):
            (found,) = [one for one in service.children() if "kvtui.monitor" not in _words(one)]
            return _words(found)

    try:
        words = asyncio.run(look())
        assert words[-2:] == ["--no-mouse", "--workload=support-desk"]
    finally:
        service.close()


async def test_a_dashboard_that_dies_is_told_to_its_page(service: Service) -> None:
    """The tab's connection is closed, so that the page can say so; the server stays."""
    async with tab_of(service) as tab:
        for one in service.children():
            with contextlib.suppress(psutil.NoSuchProcess):  # the first takes its helpers with it
                one.kill()
        async with asyncio.timeout(20):
            while (await tab.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
    assert service.process.poll() is None


async def test_a_dashboard_that_cannot_start_says_why_on_stderr() -> None:
    """Its page is closed, and the sentence is where the server was started; stdout is clean."""
    service = Service("--theme", "no-such-theme")
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{service.address}ws") as tab,
            asyncio.timeout(30),
        ):
            assert (await tab.receive()).type is aiohttp.WSMsgType.CLOSE
        assert await asyncio.to_thread(service.ends, signal.SIGTERM) == 143
        assert service.process.stderr is not None
        assert "theme is 'no-such-theme'" in service.process.stderr.read()
        assert service.process.stdout is not None
        assert service.process.stdout.read() == ""
    finally:
        service.close()
