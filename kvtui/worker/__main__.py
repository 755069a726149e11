"""``python -m kvtui.worker``: says hello before it imports torch, then serves commands."""

import os
import signal
import threading

from kvtui import __version__
from kvtui.helper_process import die_with_parent, take_over_stdout
from kvtui.records import RECORDS_SCHEMA, Hello
from kvtui.worker.publisher import Publisher
from kvtui.worker.serving import Server

_TERMINATED = 143
"""128 + SIGTERM."""


def leave_on_sigterm() -> None:
    """End at once on SIGTERM, also in the middle of a kernel that takes seconds.

    A Python handler alone would wait for the main thread; the interpreter's wake-up descriptor is
    written by the signal itself, and a thread that reads it does not wait.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def wait() -> None:
        os.read(read_end, 1)
        os._exit(_TERMINATED)

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def main() -> None:
    """Serve commands until stdin ends."""
    records = take_over_stdout()
    die_with_parent()
    leave_on_sigterm()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; a terminal signals both
    publisher = Publisher(records)
    publisher.put(Hello(schema=RECORDS_SCHEMA, role="worker", version=__version__, pid=os.getpid()))
    status = Server(publisher).serve()
    # Not sys.exit: torch's own teardown takes longer than whoever closed stdin will wait.
    os._exit(status)


if __name__ == "__main__":
    main()
