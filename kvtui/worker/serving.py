"""The worker's threads: a reader for commands, the publisher for records, the loop between them."""

import os
import queue
import sys
import threading
import traceback
from typing import BinaryIO, Final

from kvtui.engine.run import Control
from kvtui.records import (
    Ended,
    HoldCommand,
    Notice,
    RecordError,
    RunCommand,
    StopCommand,
    decode_command,
)
from kvtui.worker.publisher import Publisher
from kvtui.worker.runner import Runner, held

_GRACE_S: Final = 0.25
"""How long a step may still take after stdin has ended; then the process leaves regardless."""


class Server:
    """Runs commands in order; hold and stop reach the present run from the reader thread."""

    def __init__(self, records: BinaryIO) -> None:
        """Publish to ``records``."""
        self._publisher = Publisher(records)
        self._runner = Runner(self._publisher)
        self._commands: queue.SimpleQueue[tuple[RunCommand, Control] | None] = queue.SimpleQueue()
        self._present: tuple[int, Control] | None = None
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Run commands until stdin ends."""
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        while (item := self._commands.get()) is not None:
            command, control = item
            try:
                self._runner.run(command, control)
            except Exception as error:  # noqa: BLE001  # a run must never take the process with it
                traceback.print_exc(file=sys.stderr)
                self._publisher.put(
                    Ended(
                        run=command.run,
                        reason="refused",
                        sentence=f"The run failed: {type(error).__name__}: {error}",
                        steps=0,
                        tokens=0,
                        held_kv_bytes=0,
                    )
                )
        self._publisher.close(_GRACE_S)

    def _read(self) -> None:
        """Take commands in; at the end of stdin stop the run and, if need be, the process."""
        for line in iter(sys.stdin.buffer.readline, b""):
            try:
                self._take(line)
            except RecordError as error:
                self._publisher.put(
                    Notice(topic="command", severity="error", sentence=f"Ignored: {error}")
                )
        with self._lock:
            if self._present is not None:
                self._present[1].stop()
        self._commands.put(None)
        leave = threading.Timer(_GRACE_S, os._exit, (0,))
        leave.daemon = True
        leave.start()

    def _take(self, line: bytes) -> None:
        command = decode_command(line)
        with self._lock:
            match command:
                case RunCommand():
                    control = Control()
                    self._present = (command.run, control)
                    self._commands.put((command, control))
                case HoldCommand() if self._present is not None:
                    number, control = self._present
                    if command.paused:
                        control.hold()
                    else:
                        control.resume()
                    self._publisher.put(held(number, paused=command.paused))
                case StopCommand() if self._present is not None:
                    self._present[1].stop()
                case _:
                    pass
