"""Helper processes on another machine: the same records, through ssh's stdio.

ssh is called from an argument list, without a terminal and in batch mode, so it asks nothing and
no local shell is involved; what the far shell gets is quoted for it. A source made here differs
from a local one in two things: it pings, so that the way is known to be there and how long it is,
and its last sentence tells a failure of the link from one of the far helper.
"""

import asyncio
import contextlib
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final

from kvtui import __version__
from kvtui.client.child import start_child
from kvtui.client.lines import Tail
from kvtui.client.local import Helpers, LocalHelper, NotStarted
from kvtui.client.source import Source
from kvtui.client.ssh_causes import why_far_gone, why_no_ssh
from kvtui.errors import InputError, UnavailableError
from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Command,
    Gone,
    Hello,
    LinkReading,
    Notice,
    PingCommand,
    Pong,
    RecordError,
    Role,
    decode_record,
)

PING_EVERY_S: Final = 2.0
_UNANSWERED: Final = 64
"""Pings remembered while none is answered: two minutes of them."""
_CONNECT_S: Final = 10
_ALIVE_S: Final = 5
_ALIVE_COUNT: Final = 3
"""A link that answers nothing for 15 s is lost."""
_OPTIONS: Final = {
    "BatchMode": "yes",
    "ConnectTimeout": f"{_CONNECT_S}",
    "ServerAliveInterval": f"{_ALIVE_S}",
    "ServerAliveCountMax": f"{_ALIVE_COUNT}",
    "ClearAllForwardings": "yes",
}
_ONCE_S: Final = 30.0
_NAME_CHARACTERS: Final = frozenset("._-:%@[]+")
_NAME_LENGTH: Final = 255


@dataclass(frozen=True, slots=True)
class RemoteHost:
    """A machine that ssh reaches, and the Python there that has kvtui."""

    name: str
    python: str = "python3"

    def __post_init__(self) -> None:
        """Refuse what ssh or the far shell would take for something else than a name."""
        parts = self.name.split("@")
        plain = all(one.isalnum() or one in _NAME_CHARACTERS for one in self.name)
        dashed = any(not part or part.startswith("-") for part in parts)
        if not plain or dashed or len(self.name) > _NAME_LENGTH:
            raise InputError(
                "host",
                self.name,
                "a name as in ~/.ssh/config or user@name: letters, digits and ._-:%[]+, "
                "no part beginning with a dash",
            )
        path = self.python
        if not path.strip() or path.startswith("-") or not path.isprintable():
            raise InputError(
                "host python", path, "the name or path of a Python on the far side, such as python3"
            )

    def command(self, role: Role, *arguments: str) -> tuple[str, ...]:
        """The local command that runs the helper there.

        -P keeps files of the far home folder from being imported; a path is relative to it anyway.
        """
        python = self.python.removeprefix("~/")
        far = shlex.join(("exec", python, "-P", "-m", f"kvtui.{role}", *arguments))
        options = (part for name, value in _OPTIONS.items() for part in ("-o", f"{name}={value}"))
        return ("ssh", "-T", *options, "--", self.name, far)


class RemoteHelper:
    """A helper on another machine; a ``Source``."""

    def __init__(
        self,
        role: Role,
        host: RemoteHost,
        *,
        every_s: float = PING_EVERY_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``begin`` starts it; it is pinged every ``every_s`` from its hello on."""
        self._role: Role = role
        self._host, self._every_s, self._clock = host, every_s, clock
        self._greeted = False
        self._sent: dict[int, float] = {}
        self._pings: asyncio.Task[None] | None = None

    async def begin(self, arguments: Sequence[str] = ()) -> None:
        """Start ssh; raises ``OSError`` when there is none."""
        child = await start_child(self._host.command(self._role, *arguments), None)
        self._helper = LocalHelper(self._role, child, self._why_gone)

    @property
    def pid(self) -> int:
        """Process id of the local ssh."""
        return self._helper.pid

    async def records(self) -> AsyncIterator[AnyRecord]:
        """What the helper says, how long the way is, and last why it is gone."""
        try:
            async for record in self._helper.records():
                match record:
                    case Pong():
                        if (reading := self._answered(record)) is not None:
                            yield reading
                        continue
                    case Hello():
                        self._greeted = True
                        yield record
                        if record.version == __version__:
                            self._pings = asyncio.create_task(self._ping())
                        elif self._role == "worker":
                            yield self._other_version(record.version)
                    case Gone():
                        self._end_pings()
                        yield record
                    case _:
                        yield record
        finally:
            self._end_pings()

    async def send(self, command: Command) -> bool:
        """Pass a command on; False when the link is gone or full. Never raises."""
        return await self._helper.send(command)

    async def stop(self) -> None:
        """Close the far stdin, then end ssh; returns when that is gone."""
        self._end_pings()
        await self._helper.stop()

    def kill_now(self) -> None:
        """KILL the local ssh, without a loop; the far side ends with its stdin."""
        self._helper.kill_now()

    async def _ping(self) -> None:
        number = 0
        while True:
            number += 1
            self._sent[number] = self._clock()
            self._sent.pop(number - _UNANSWERED, None)
            await self._helper.send(PingCommand(ping=number))
            await asyncio.sleep(self._every_s)

    def _answered(self, pong: Pong) -> LinkReading | None:
        """The monitor's answers are measured: a worker may be in the middle of a step."""
        sent = self._sent.pop(pong.ping, None)
        if sent is None or self._role != "monitor":
            return None
        return LinkReading(host=self._host.name, round_trip_ms=(self._clock() - sent) * 1e3)

    def _end_pings(self) -> None:
        if self._pings is not None:
            self._pings.cancel()
            self._pings = None

    def _other_version(self, theirs: str) -> Notice:
        return Notice(
            topic="link",
            severity="warning",
            sentence=f"{self._host.name} has kvtui {theirs}, this machine {__version__}: "
            "figures may be defined differently, and the latency is not measured; "
            "install the same version on both sides.",
        )

    def _why_gone(self, status: int | None, own: str, lines: Sequence[str]) -> str:
        return why_far_gone(
            self._role,
            self._host.name,
            self._host.python,
            status,
            own=own,
            lines=lines,
            greeted=self._greeted,
        )


async def start_remote(
    role: Role, host: RemoteHost, arguments: Sequence[str] = (), *, every_s: float = PING_EVERY_S
) -> Source:
    """The helper of ``role`` on ``host``, or what says why there is none."""
    helper = RemoteHelper(role, host, every_s=every_s)
    try:
        await helper.begin(arguments)
    except OSError as error:
        return NotStarted(role, why_no_ssh(error))
    return helper


def helpers_on(host: RemoteHost) -> Helpers:
    """Both helpers on ``host``."""
    return Helpers(
        worker=partial(start_remote, "worker", host),
        monitor=partial(start_remote, "monitor", host),
        place=host.name,
    )


def readings_of(host: RemoteHost) -> list[AnyRecord]:
    """One look at every GPU of ``host`` and at its memory, by its monitor.

    Raises:
        UnavailableError: it cannot be asked; the text says why.
    """
    try:
        found = subprocess.run(
            host.command("monitor", "--once"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ONCE_S,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise UnavailableError(why_no_ssh(error)) from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(
            f"The monitor on {host.name} said nothing for {_ONCE_S:g} s."
        ) from None
    records: list[AnyRecord] = []
    for line in found.stdout.splitlines():
        with contextlib.suppress(RecordError):
            record = decode_record(line)
            if record is not None and (records or isinstance(record, Hello)):
                records.append(record)
    greeting = next((one for one in records if isinstance(one, Hello)), None)
    if greeting is not None and greeting.schema != RECORDS_SCHEMA:
        raise UnavailableError(
            f"The monitor on {host.name} speaks {greeting.schema}, this kvtui {RECORDS_SCHEMA}: "
            "install the same version on both sides."
        )
    if found.returncode or greeting is None:
        tail = Tail()
        tail.feed(found.stderr)
        raise UnavailableError(
            why_far_gone(
                "monitor",
                host.name,
                host.python,
                found.returncode,
                own="",
                lines=tail.lines(),
                greeted=greeting is not None,
            )
        )
    return records
