"""``python -m kvtui.worker``: says hello before it imports torch, then serves commands."""

import os
import signal
import sys

from kvtui import __version__
from kvtui.helper_process import die_with_parent, take_over_stdout
from kvtui.records import RECORDS_SCHEMA, Hello, Notice, encode


def main() -> None:
    """Serve commands until stdin ends."""
    records = take_over_stdout()
    die_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; a terminal signals both
    records.write(
        encode(Hello(schema=RECORDS_SCHEMA, role="worker", version=__version__, pid=os.getpid()))
    )
    try:
        from kvtui.worker.serving import Server
    except ImportError as error:
        notice = Notice(
            topic="worker",
            severity="error",
            sentence=f"The engine cannot be loaded: {error}. Live runs need torch.",
        )
        records.write(encode(notice))
        sys.exit(3)
    Server(records).serve()


if __name__ == "__main__":
    main()
