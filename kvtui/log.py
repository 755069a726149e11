"""The log on demand: nothing is written anywhere unless a file was named.

Everything goes through the one logger here, which without a file keeps quiet: a line on stderr
would be drawn across the screen.
"""

import logging
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError

LOG: Final = logging.getLogger("kvtui")
LOG.propagate = False
LOG.addHandler(logging.NullHandler())


def log_to(path: Path) -> None:
    """Append to ``path`` from now on.

    Raises:
        SourceError: the file cannot be opened.
    """
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"log {path}: {error.strerror or error}.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)
