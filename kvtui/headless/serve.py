"""``kvtui serve``: the dashboard in a browser, one process of its own for each tab.

textual-serve brings the terminal in the page and the protocol to the process behind it; this is
the server around them. Whoever reaches it can run things as this user, so it listens on loopback
unless told otherwise, and takes no page of another site for the user: a foreign Origin, or a
foreign name that leads to loopback, is refused. When the server ends, so does every dashboard.
"""

import asyncio
import contextlib
import ipaddress
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from kvtui.client.local import helper_environment
from kvtui.errors import ExitCode, InputError
from kvtui.headless import output

_PAGE: Final = Path(__file__).with_suffix(".html")
_ENDING: Final = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.TERMINATED,
}
_LEAVE_S: Final = 3.0
"""How long a dashboard may take to stop its helpers; then it is killed, and they with it."""
_MOST_COLUMNS: Final = 500
_MOST_ROWS: Final = 200
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Dashboard(AppService):
    """The process behind one tab."""

    async def gone(self) -> None:
        """Return when it says nothing more, whether it left, died or never drew."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def end(self) -> None:
        """Ask it to leave, and see to it that it does, however the asking fails."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LEAVE_S):
                await self.stop()
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await process.wait()
                return
            with contextlib.suppress(ProcessLookupError):
                process.kill()


class DashboardServer(Server):
    """Serves the page, and starts a dashboard for each tab that opens it."""

    def __init__(self, command: Sequence[str], bind: str) -> None:
        """Run ``command`` for each tab; ``bind`` decides which names the server answers to."""
        super().__init__(f"exec {shlex.join(command)}", host=bind, title="kvtui")
        self._open: dict[_Dashboard, web.WebSocketResponse] = {}

    def application(self) -> web.Application:
        """Its routes."""
        application = web.Application(middlewares=[self._of_this_site])
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/ws", self._tab, name="websocket"),
                web.get("/download/{key}", self.handle_download),
                web.static("/static", self.statics_path),
            ]
        )
        return application

    async def end(self) -> None:
        """End every dashboard; returns when no process is left."""
        found = dict(self._open)
        await asyncio.gather(*(one.end() for one in found))
        for socket in found.values():
            with contextlib.suppress(Exception):
                await socket.close()

    @web.middleware
    async def _of_this_site(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        named = urlsplit(f"//{request.host}").hostname or ""
        if is_loopback(self.host) and not (is_loopback(named) or named == self.host):
            raise web.HTTPForbidden(text="This server answers to names of this machine only.")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(text="A page of another site cannot open a dashboard.")
        return await handler(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:  # noqa: ARG002
        return web.FileResponse(_PAGE, headers={"X-Frame-Options": "DENY"})

    async def _tab(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=15)
        await socket.prepare(request)
        dashboard = _Dashboard(
            self.command,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=lambda: _closed(socket),
            download_manager=self.download_manager,
        )
        self._open[dashboard] = socket
        try:
            await dashboard.start(
                _cells(request.query.get("width"), 80, _MOST_COLUMNS),
                _cells(request.query.get("height"), 24, _MOST_ROWS),
            )
            following = asyncio.create_task(_close_after(dashboard, socket))
            try:
                await self._process_messages(socket, dashboard)
            finally:
                following.cancel()
        finally:
            await dashboard.end()
            self._open.pop(dashboard, None)
        return socket


def serve(arguments: Sequence[str], *, bind: str, port: int) -> ExitCode:
    """Serve dashboards with these ``arguments`` until a signal ends it.

    Raises:
        InputError: ``bind`` is no address of this machine, or ``port`` is taken.
    """
    os.environ.update(helper_environment())
    command = (sys.executable, "-P", "-m", "kvtui", *arguments)
    return asyncio.run(_serve(DashboardServer(command, bind), bind, port))


def is_loopback(name: str) -> bool:
    """``name`` cannot be reached from another machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _serve(server: DashboardServer, bind: str, port: int) -> ExitCode:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[ExitCode] = loop.create_future()

    def end(code: ExitCode) -> None:
        if not ended.done():
            ended.set_result(code)

    for number, code in _ENDING.items():
        loop.add_signal_handler(number, end, code)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=_LEAVE_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, bind, port).start()
        except OSError as error:
            raise _refused(bind, port, error) from None
        _announce(bind, runner.addresses[0][1])
        # What a dashboard that failed said is passed on by textual-serve, as if it were data.
        with contextlib.redirect_stdout(sys.stderr):
            return await ended
    finally:
        await server.end()
        await runner.cleanup()


def _announce(bind: str, port: int) -> None:
    """Where it is, on stdout; who can reach it, on stderr."""
    if is_loopback(bind):
        output.note("every user of this machine who opens it can run things as you.")
    else:
        output.note(
            f"WARNING: bound to {bind}: anyone who reaches it over the network can run things "
            "as you, and nothing is encrypted."
        )
    shown = f"[{bind}]" if ":" in bind else bind
    output.data(f"kvtui is served on http://{shown}:{port}/ (ctrl+c ends it)")


def _refused(bind: str, port: int, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    if "address already in use" in reason or isinstance(error, PermissionError):
        return InputError("port", port, f"one that can be opened on {bind} ({_short(error)})")
    return InputError("bind", bind, f"an address of this machine ({_short(error)})")


def _short(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _cells(text: str | None, otherwise: int, most: int) -> int:
    """A size the page asked for, within reason."""
    if text is None or not (text.isascii() and text.isdecimal() and len(text) < 9):
        return otherwise
    return min(max(int(text), 1), most)


async def _close_after(dashboard: _Dashboard, socket: web.WebSocketResponse) -> None:
    """The page learns that its dashboard is gone."""
    await dashboard.gone()
    await socket.close()


async def _closed(socket: web.WebSocketResponse) -> None:
    await socket.close()
