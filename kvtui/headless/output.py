"""The only writers: data to stdout, everything else to stderr.

stdout is flushed before stderr gets its line, so that the two never interleave in a log. A reader
that goes away (``| head``) ends the program quietly.
"""

import os
import sys


def data(text: str) -> None:
    """Write ``text`` and a newline to stdout."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more while it exits; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def note(text: str) -> None:
    """Write one line to stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"kvtui: {text}\n")
    sys.stderr.flush()


def progress(text: str) -> None:
    """Rewrite the progress line of a terminal; nothing where stderr is none."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
