"""Helper processes on this machine: started, read, and stopped in one place.

A helper gets its own pipes and its own session; its stderr is kept as a short tail that names the
cause when it dies. Stopping closes stdin, terminates after 0.3 s and kills after 0.7 s.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Command,
    Gone,
    Hello,
    Notice,
    RecordError,
    Role,
    decode_record,
    encode,
)

_LINE_LIMIT: Final = 16 * 2**20
_TAIL_LINES: Final = 50
_TERMINATE_AFTER_S: Final = 0.3
_KILL_AFTER_S: Final = 0.7
_SEND_S: Final = 1.0


class LocalHelper:
    """One child process; a ``Source``."""

    def __init__(self, role: Role, process: asyncio.subprocess.Process) -> None:
        """Follow ``process``, which was started with three pipes."""
        self._role: Role = role
        self._process = process
        self._asked_to_stop = False
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._error_notice: str | None = None
        self._draining = asyncio.create_task(self._drain_stderr())

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    async def records(self) -> AsyncIterator[AnyRecord]:
        """Every record from the hello on; the last is the ``Gone`` that names the cause."""
        stdout = self._process.stdout
        assert stdout is not None
        greeted = False
        foreign: str | None = None
        while True:
            try:
                line = await stdout.readline()
            except ValueError:
                continue  # a line beyond the limit is no record of ours
            if not line:
                break
            try:
                record = decode_record(line)
            except RecordError:
                continue
            if record is None:
                continue
            if not greeted:
                if not isinstance(record, Hello):
                    continue
                if record.schema != RECORDS_SCHEMA:
                    foreign = (
                        f"The {self._role} speaks {record.schema}, this kvtui {RECORDS_SCHEMA}: "
                        "install the same version on both sides."
                    )
                    break
                greeted = True
            if isinstance(record, Notice) and record.severity == "error":
                self._error_notice = record.sentence
            yield record
        expected = self._asked_to_stop
        if foreign is not None:
            await self.stop()
        else:
            await self._process.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self._draining}, timeout=_TERMINATE_AFTER_S)
        yield Gone(
            role=self._role,
            sentence=foreign or self._cause(expected=expected),
            exit_status=self._process.returncode,
            expected=expected and foreign is None,
        )

    async def send(self, command: Command) -> bool:
        """Write one command; False when the child is gone or does not read."""
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing() or self._process.returncode is not None:
            return False
        try:
            stdin.write(encode(command))
            await asyncio.wait_for(stdin.drain(), _SEND_S)
        except (OSError, TimeoutError):
            return False
        return True

    async def stop(self) -> None:
        """Close stdin, then TERM, then KILL; returns when the child is gone."""
        self._asked_to_stop = True
        process = self._process
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.close()
        for wait_s, escalate in (
            (_TERMINATE_AFTER_S, signal.SIGTERM),
            (_KILL_AFTER_S - _TERMINATE_AFTER_S, signal.SIGKILL),
        ):
            if await self._gone_within(wait_s):
                break
            self._signal(escalate)
        await process.wait()
        self._draining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._draining

    def kill_now(self) -> None:
        """KILL, without waiting."""
        self._asked_to_stop = True
        self._signal(signal.SIGKILL)

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), seconds)
        return self._process.returncode is not None

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _drain_stderr(self) -> None:
        """Keep the last lines; a child that floods stderr is never blocked by it."""
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(65536):
            text = chunk.decode("utf-8", errors="replace")
            self._tail.extend(line for line in text.splitlines() if line.strip())

    def _cause(self, *, expected: bool) -> str:
        """Why the child is gone, in a sentence."""
        status = self._process.returncode
        if expected:
            return f"The {self._role} was stopped."
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            reason = f"The {self._role} was killed by {name}"
            if -status == signal.SIGKILL:
                reason += "; often the kernel's out-of-memory killer"
        else:
            reason = f"The {self._role} ended with status {status}"
        last = self._error_notice or (self._tail[-1].strip() if self._tail else "")
        return f"{reason}: {last[:300]}" if last else f"{reason}."


async def start_helper(role: Role, command: Sequence[str] | None = None) -> LocalHelper:
    """Start the helper of ``role``; ``command`` replaces this interpreter's own module."""
    argv = command or (sys.executable, "-m", f"kvtui.{role}")
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
        start_new_session=True,
    )
    return LocalHelper(role, process)


async def start_worker() -> LocalHelper:
    """Start the engine process."""
    return await start_helper("worker")


async def start_monitor() -> LocalHelper:
    """Start the NVML and host readings."""
    return await start_helper("monitor")
