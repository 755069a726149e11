"""One child process over three pipes: read without tasks, ended in one place.

The exit is known from the process itself and not from its pipes, which a grandchild may hold open
for as long as it likes. Whatever is left of the child's session ends with the child.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from kvtui.client.lines import Lines, Tail

_LINE_LIMIT: Final = 16 * 2**20
_LAST_BYTES_S: Final = 0.3
"""How long after the exit bytes may still come; a pipe holds what is left, so it is enough."""
_TERMINATE_AFTER_S: Final = 0.3
_KILL_AFTER_S: Final = 0.7
_GIVE_UP_AFTER_S: Final = 3.0
"""A killed process can wait inside the kernel, in a driver for one; nobody waits longer for it."""


class Child(asyncio.SubprocessProtocol):
    """A running process; made by ``start_child``."""

    def __init__(self) -> None:
        self.lines = Lines(_LINE_LIMIT)
        """Its stdout."""
        self.tail = Tail()
        """The end of its stderr."""
        self.exited = asyncio.Event()
        self.status: int | None = None
        """Exit status, negative for a signal; None while it runs."""
        self.pid = 0
        self._said_all = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # -- called by asyncio -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process runs."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport, self.pid = transport, transport.get_pid()
        stdin, stdout = transport.get_pipe_transport(0), transport.get_pipe_transport(1)
        assert isinstance(stdin, asyncio.WriteTransport)
        assert isinstance(stdout, asyncio.ReadTransport)
        self._stdin = stdin
        self.lines.throttle(
            lambda pause: stdout.pause_reading() if pause else stdout.resume_reading()
        )

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Bytes of stdout (1) or stderr (2)."""
        if fd == 1:
            self.lines.feed(data)
        else:
            self.tail.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """One pipe is at its end."""
        if fd == 1:
            self.lines.end()
            self._said_all.set()
        elif fd == 0:
            self._writable.set()

    def pause_writing(self) -> None:
        """The child does not read its stdin."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()

    def process_exited(self) -> None:
        """The process is gone; its pipes may not be."""
        assert self._transport is not None
        self.status = self._transport.get_returncode()
        self._kill_session()
        self._writable.set()
        self.lines.throttle(None)
        self.exited.set()
        asyncio.get_running_loop().call_later(_LAST_BYTES_S, self._let_go)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Process and pipes are gone."""
        self._let_go()

    # -- called by the owner -----------------------------------------------------------------

    async def exited_within(self, seconds: float) -> bool:
        """The process was gone before ``seconds`` were over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.exited.wait(), seconds)
        return self.exited.is_set()

    async def write(self, data: bytes, within_s: float) -> bool:
        """Hand ``data`` to its stdin; False when it is gone or does not read. Never raises."""
        stdin = self._stdin
        try:
            await asyncio.wait_for(self._writable.wait(), within_s)
        except TimeoutError:
            return False
        if stdin is None or stdin.is_closing() or self.exited.is_set():
            return False
        stdin.write(data)
        return not stdin.is_closing()

    async def end(self) -> None:
        """Close stdin, then TERM, then KILL; returns when nothing is left. May be called again."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.close()
        for wait_s, next_step in (
            (_TERMINATE_AFTER_S, signal.SIGTERM),
            (_KILL_AFTER_S - _TERMINATE_AFTER_S, signal.SIGKILL),
            (_GIVE_UP_AFTER_S, None),
        ):
            if await self.exited_within(wait_s):
                break
            if next_step is signal.SIGKILL:
                self.kill_now()
            elif next_step is not None:
                self._signal(next_step)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._said_all.wait(), _LAST_BYTES_S)
        self._let_go()

    def kill_now(self) -> None:
        """KILL it and whatever it started, without waiting and without a loop."""
        if not self.exited.is_set():
            self._kill_session()
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self.exited.is_set() and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _kill_session(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.pid:
                os.killpg(self.pid, signal.SIGKILL)

    def _let_go(self) -> None:
        self.lines.end()
        self._said_all.set()
        if self._transport is not None:
            self._transport.close()


async def start_child(command: Sequence[str], environment: Mapping[str, str] | None) -> Child:
    """Start ``command`` in a session of its own; raises ``OSError`` when it cannot be."""
    _, child = await asyncio.get_running_loop().subprocess_exec(
        Child,
        *command,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    return child
