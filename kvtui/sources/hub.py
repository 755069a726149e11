"""A model by its hub id: only its config.json is fetched, where huggingface_hub is there.

The library's own notices and progress bars never reach the terminal, which may be showing a
dashboard; whatever it raises becomes one sentence.
"""

import contextlib
import io
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from kvtui.errors import SourceError, UnavailableError
from kvtui.sources import config_json
from kvtui.spec import Model

_ANSWER_S: Final = 5
"""How long the hub may take to answer one question."""
_PATIENCE_S: Final = 10
"""How long the library may try in all; left alone it tries for half a minute without a network."""
_NO_SUCH: Final = frozenset(
    {"RepositoryNotFoundError", "EntryNotFoundError", "RemoteEntryNotFoundError",
     "RevisionNotFoundError", "HFValidationError"}
)  # fmt: skip
"""The library's errors that say that the id is wrong, not that the hub is away."""


def read(name: str) -> Model:
    """The model ``name`` (owner/model).

    Raises:
        UnavailableError: huggingface_hub is not installed, or the hub cannot be reached.
        SourceError: there is no such model, or the file it gives is no config.json.
        InputError: a field of the config.json cannot be used.
    """
    model = config_json.read(_fetched(name))
    return replace(model, name=name, source=f"hub: {name}")


def _fetched(name: str) -> Path:
    """The local copy of the model's config.json."""
    try:
        with _silence():
            from huggingface_hub import hf_hub_download
    except ImportError:
        raise UnavailableError(
            f"{name} is no file and no preset; to ask the hub for it, install kvtui[hub]."
        ) from None
    done: list[str] = []
    failed: list[Exception] = []

    def fetch() -> None:
        try:
            done.append(hf_hub_download(name, "config.json", etag_timeout=_ANSWER_S))
        except Exception as error:  # noqa: BLE001  # the library raises dozens of kinds
            failed.append(error)

    # A daemon: it must not keep the process from ending while it waits for a network.
    thread = threading.Thread(target=fetch, name="hub", daemon=True)
    with _silence():
        thread.start()
        thread.join(_PATIENCE_S)
    if done:
        return Path(done[0])
    if failed and type(failed[0]).__name__ in _NO_SUCH:
        raise SourceError(
            f"{name} is no file and no preset, and the hub has no config.json of that id."
        )
    reason = _reason(failed[0]) if failed else f"no answer within {_PATIENCE_S} s"
    raise UnavailableError(
        f"{name} is no file and no preset, and cannot be had from the hub: {reason}."
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing of what the library prints is shown."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _reason(error: Exception) -> str:
    """The first line of what the library says, without its full stop."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(" .") if lines else type(error).__name__
