"""Helper processes as sources of records, as they are on this machine.

What they say before their hello is skipped, what they say last is one ``Gone`` that names the
cause. How they are ended stands in ``child``; what is different over a link, in ``ssh``.
"""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvtui.client.causes import last_words, why_gone, why_not_started
from kvtui.client.child import Child, start_child
from kvtui.client.source import Source
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

_SEND_S: Final = 1.0
_EXIT_S: Final = 1.0
"""How long a helper that closed its stdout may take to end by itself."""


Start = Callable[[], Awaitable[Source]]
"""Starts a helper. Never raises: what cannot be started is a source that says why."""
Explain = Callable[[int | None, str, Sequence[str]], str]
"""Exit status, the helper's own last error, its last lines on stderr -> why it is gone."""


@dataclass(frozen=True, slots=True)
class Helpers:
    """Where the two helper processes come from."""

    worker: Start
    monitor: Start
    place: str = ""
    """The machine they run on; "" is this one."""


class LocalHelper:
    """One child process; a ``Source``."""

    def __init__(self, role: Role, child: Child, explain: Explain | None = None) -> None:
        """Follow ``child``; ``explain`` says why it is gone where a status does not."""
        self._role: Role = role
        self._child = child
        self._explain = explain or self._why_gone
        self._asked_to_stop = False
        self._own_words = ""
        """The last error, where it was about the helper itself."""

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    async def records(self) -> AsyncIterator[AnyRecord]:
        """Every record from the hello on; the last is the ``Gone`` that names the cause."""
        greeted = False
        foreign = ""
        while (line := await self._child.lines.next()) is not None:
            record = _record(line)
            if record is None or (not greeted and not isinstance(record, Hello)):
                continue
            if isinstance(record, Hello) and record.schema != RECORDS_SCHEMA:
                foreign = (
                    f"The {self._role} speaks {record.schema}, this kvtui {RECORDS_SCHEMA}: "
                    "install the same version on both sides."
                )
                break
            greeted = True
            if isinstance(record, Notice) and record.severity == "error":
                self._own_words = record.sentence if record.topic == self._role else ""
            yield record
        silent = not foreign and not await self._child.exited_within(_EXIT_S)
        if foreign or silent:
            await self._child.end()
        yield self._gone(foreign, silent=silent)

    async def send(self, command: Command) -> bool:
        """Write one command; False when the child is gone or does not read. Never raises."""
        return await self._child.write(encode(command), _SEND_S)

    async def stop(self) -> None:
        """Close stdin, TERM after 0.3 s, KILL after 0.7 s; returns when the child is gone."""
        self._note_stop()
        await self._child.end()

    def kill_now(self) -> None:
        """KILL, without waiting."""
        self._note_stop()
        self._child.kill_now()

    def _note_stop(self) -> None:
        """One that was gone already did not end because it was asked."""
        if not self._child.exited.is_set():
            self._asked_to_stop = True

    def _gone(self, foreign: str, *, silent: bool) -> Gone:
        status, expected = self._child.status, self._asked_to_stop and not foreign
        if foreign:
            sentence = foreign
        elif expected and status is not None:
            sentence = f"The {self._role} was stopped."
        elif silent and status is not None:
            sentence = f"The {self._role} closed its output but did not end; it was stopped."
        else:
            # A signal comes from outside: what the helper said before is not its cause.
            own = self._own_words if status is not None and status > 0 else ""
            sentence = self._explain(status, own, self._child.tail.lines())
        return Gone(role=self._role, sentence=sentence, exit_status=status, expected=expected)

    def _why_gone(self, status: int | None, own: str, lines: Sequence[str]) -> str:
        return why_gone(self._role, status, own or last_words(lines))


class NotStarted:
    """A helper that could not be started; a ``Source`` whose only record says why."""

    def __init__(self, role: Role, sentence: str) -> None:
        """Say ``sentence``."""
        self._gone = Gone(role=role, sentence=sentence, exit_status=None, expected=False)

    async def records(self) -> AsyncIterator[AnyRecord]:
        """The reason."""
        yield self._gone

    async def send(self, command: Command) -> bool:  # noqa: ARG002
        """Nobody is there."""
        return False

    async def stop(self) -> None:
        """Nothing is left."""

    def kill_now(self) -> None:
        """Nothing is left."""


async def start_helper(role: Role, command: Sequence[str] | None = None) -> LocalHelper:
    """Start the helper of ``role``; ``command`` replaces this interpreter's own module.

    Raises:
        OSError: it cannot be started at all; ``causes.why_not_started`` has the sentence.
    """
    if command is not None:
        return LocalHelper(role, await start_child(command, None))
    return LocalHelper(role, await start_child(helper_command(role), helper_environment()))


async def start_worker() -> Source:
    """The engine process, or what says why there is none."""
    return await _started("worker")


async def start_monitor(arguments: Sequence[str] = ()) -> Source:
    """The NVML and host readings, or what says why there are none."""
    return await _started("monitor", arguments)


LOCAL: Final = Helpers(start_worker, start_monitor)
"""Both on this machine."""


def helper_command(name: str) -> tuple[str, ...]:
    """This interpreter with the module ``kvtui.NAME``; -P keeps files of the present folder out.

    Without it a ``torch.py`` or ``random.py`` where kvtui happens to be called would be imported.
    """
    return (sys.executable, "-P", "-m", f"kvtui.{name}")


def helper_environment() -> Mapping[str, str]:
    """This environment, with the folder of a kvtui that runs from a checkout on the path."""
    root = Path(__file__).resolve().parents[2]
    if root.name in ("site-packages", "dist-packages"):
        return os.environ
    given = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*given, str(root)])}


async def _started(role: Role, arguments: Sequence[str] = ()) -> Source:
    command = (*helper_command(role), *arguments)
    try:
        return LocalHelper(role, await start_child(command, helper_environment()))
    except OSError as error:
        return NotStarted(role, why_not_started(role, command, error))


def _record(line: bytes) -> AnyRecord | None:
    """The record in ``line``; None for a banner, a torn line or a type of another version."""
    try:
        return decode_record(line)
    except RecordError:
        return None
