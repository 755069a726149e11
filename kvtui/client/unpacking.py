"""A gzip unpacked as it is read, to a temporary file that nobody else sees.

Readers of a recording jump about in it, which a compressed stream does not allow. What is torn or
damaged ends there; what came before is kept.
"""

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_MAGIC: Final = b"\x1f\x8b"
_WINDOW: Final = 31
"""zlib's spelling of a gzip stream."""
_CHUNK_BYTES: Final = 2**18
_PIECE_BYTES: Final = 2**22


def beginning(path: Path, length: int) -> bytes:
    """The first ``length`` bytes of ``path``, or of what it holds."""
    with path.open("rb") as file:
        packed = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        if not packed:
            return file.read(length)
        found = b""
        for piece in _inflated(file):
            found += piece
            if len(found) >= length:
                break
        return found[:length]


def unpacked(path: Path) -> IO[bytes]:
    """``path`` itself, or a temporary file with what a gzip holds, as far as it goes."""
    file = path.open("rb")
    magic = file.read(len(_MAGIC))
    file.seek(0)
    if magic != _MAGIC:
        return file
    plain = tempfile.TemporaryFile()  # noqa: SIM115  # closed by whoever closes the recording
    try:
        with file:
            for piece in _inflated(file):
                plain.write(piece)
        plain.flush()
    except OSError:
        plain.close()
        raise
    return plain


def _inflated(file: IO[bytes]) -> Iterator[bytes]:
    """What a gzip holds, in pieces of bounded size; it ends where the file is torn or damaged."""
    unpack = zlib.decompressobj(wbits=_WINDOW)
    try:
        while left := file.read(_CHUNK_BYTES):
            while left:
                yield unpack.decompress(left, _PIECE_BYTES)
                left = unpack.unconsumed_tail
                if unpack.eof:
                    left = unpack.unused_data
                    unpack = zlib.decompressobj(wbits=_WINDOW)
        yield unpack.flush()
    except zlib.error:
        return
