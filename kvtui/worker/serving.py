"""The worker's threads: a reader for commands, the publisher for records, the loop between them.

Commands are read before torch is there, so that the end of stdin is noticed at any time.
"""

import gc
import os
import queue
import select
import threading
from collections.abc import Callable, Iterator
from typing import Final

from kvtui.engine.control import Control
from kvtui.records import (
    Held,
    HoldCommand,
    Notice,
    PingCommand,
    Pong,
    RecordError,
    RunCommand,
    Stage,
    StopCommand,
    decode_command,
)
from kvtui.worker.publisher import Publisher

_GRACE_S: Final = 0.2
"""How long a step may still take after stdin has ended; then the process leaves regardless."""
_SILENCE_S: Final = 60.0
"""Who pings does so every few seconds. A link that is cut without a word leaves stdin open, and the
device's memory taken, for as long as TCP is patient: a quarter of an hour."""
_NO_ENGINE: Final = 3
"""Exit status where torch cannot be imported."""
_STDIN: Final = 0


class Server:
    """Runs commands in order; hold and stop reach the runs from the reader thread."""

    def __init__(self, publisher: Publisher) -> None:
        """Report through ``publisher``."""
        self._publisher = publisher
        self._commands: queue.SimpleQueue[tuple[RunCommand, Control] | None] = queue.SimpleQueue()
        self._open: list[Control] = []
        """Of runs not ended yet: the present one first, then those that wait."""
        self._lock = threading.Lock()
        self._patience_s: float | None = None
        """How long stdin may be silent; None where nobody pings."""

    def serve(self) -> int:
        """Run commands until stdin ends; the exit status."""
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        self._publisher.put(Stage(name="torch", detail="Loading torch."))
        try:
            from kvtui.worker.runner import Runner
        except (ImportError, OSError) as error:
            sentence = f"The engine cannot be loaded: {error}. Live runs need torch."
            self._publisher.put(Notice(topic="worker", severity="error", sentence=sentence))
            self._publisher.close(_GRACE_S)
            return _NO_ENGINE
        gc.freeze()  # torch's modules stay; no collection need look at them again
        runner = Runner(self._publisher)
        while (item := self._commands.get()) is not None:
            command, control = item
            runner.run(command, control)
            with self._lock:
                self._open.remove(control)
        self._publisher.close(_GRACE_S)
        return 0

    def _read(self) -> None:
        """Take commands in; at the end of stdin stop the run and, if need be, the process."""
        for line in _lines(_STDIN, lambda: self._patience_s):
            try:
                self._take(line)
            except RecordError as error:
                sentence = f"Ignored: {error}"
                self._publisher.put(Notice(topic="command", severity="error", sentence=sentence))
        leave = threading.Timer(_GRACE_S, os._exit, (0,))
        leave.daemon = True
        leave.start()
        self._stop_all()
        self._commands.put(None)

    def _take(self, line: bytes) -> None:
        match decode_command(line):
            case RunCommand() as command:
                number = command.run
                control = Control(
                    lambda paused: self._publisher.put(Held(run=number, paused=paused))
                )
                with self._lock:
                    self._open.append(control)
                self._commands.put((command, control))
            case HoldCommand(paused=paused):
                self._hold(paused=paused)
            case StopCommand():
                self._stop_all()
            case PingCommand(ping=number):
                self._patience_s = _SILENCE_S
                self._publisher.put(Pong(ping=number))
            case other:
                sentence = f"Ignored: {type(other).__name__} is for another helper."
                self._publisher.put(Notice(topic="command", severity="warning", sentence=sentence))

    def _hold(self, *, paused: bool) -> None:
        with self._lock:
            present = self._open[0] if self._open else None
        if present is None:
            return
        if paused:
            present.hold()
        else:
            present.resume()

    def _stop_all(self) -> None:
        """Runs asked for before a stop end with it."""
        with self._lock:
            for control in self._open:
                control.stop()


def _lines(descriptor: int, patience_s: Callable[[], float | None]) -> Iterator[bytes]:
    """Lines as they come, until the end or a silence longer than ``patience_s`` says.

    No buffer object is used, whose lock an exiting interpreter would wait for.
    """
    pending = b""
    while select.select([descriptor], [], [], patience_s())[0]:
        if not (chunk := os.read(descriptor, 65536)):
            return
        *lines, pending = (pending + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())
