"""Hub ids: fetched through a stand-in for huggingface_hub, since tests never reach the network."""

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvtui.errors import KvtuiError, SourceError, UnavailableError
from kvtui.session.answer import compose
from kvtui.sources import hub
from kvtui.sources.request import Request, scenario

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "hidden_size": 512, "vocab_size": 1000, "intermediate_size": 1024,
    "head_dim": 64, "max_position_embeddings": 4096,
}  # fmt: skip


def library(monkeypatch: pytest.MonkeyPatch, download: Callable[..., Any]) -> None:
    module = ModuleType("huggingface_hub")
    module.hf_hub_download = download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """owner/model without huggingface_hub is exit 3 and names the extra."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnavailableError, match=r"kvtui\[hub\]") as caught:
        scenario(Request(model="owner/model", context="8"))
    assert caught.value.exit_code == 3


def test_a_hub_that_cannot_be_reached_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the library raises is one sentence with status 3; what it prints is not shown."""

    def refuse(*_: object, **__: object) -> str:
        print("Retrying", file=sys.stderr)
        raise ConnectionError("no route.\nto host")

    library(monkeypatch, refuse)
    with pytest.raises(UnavailableError, match=r"from the hub: no route\.$") as caught:
        hub.read("owner/model")
    assert caught.value.exit_code == 3
    assert capsys.readouterr().err == ""


def test_a_hub_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that keeps trying is left to it, and the answer is a sentence."""
    answered = threading.Event()

    def wait(*_: object, **__: object) -> str:
        answered.wait(60)
        raise ConnectionError("late")

    library(monkeypatch, wait)
    monkeypatch.setattr(hub, "_PATIENCE_S", 0.05)
    with pytest.raises(UnavailableError, match="no answer"):
        hub.read("owner/model")
    answered.set()


def test_an_id_the_hub_does_not_know_is_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that is not there is exit 2, unlike a hub that is not there."""

    class RepositoryNotFoundError(Exception):
        pass

    def refuse(*_: object, **__: object) -> str:
        raise RepositoryNotFoundError("404")

    library(monkeypatch, refuse)
    with pytest.raises(SourceError, match="owner/model") as caught:
        hub.read("owner/model")
    assert caught.value.exit_code == 2


def test_a_hub_id_is_its_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only config.json is asked for, and read like any other under the id's name."""
    asked = []
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "name": "another", "source": "elsewhere"}))

    def give(*names: str, **_: object) -> str:
        asked.append(names)
        return str(path)

    library(monkeypatch, give)
    found = compose(scenario(Request(model="owner/model", context="8")))
    assert asked == [("owner/model", "config.json")]
    assert (found.model, found.model_source) == ("owner/model", "hub: owner/model")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"hidden_size": NaN}'])
def test_a_config_that_lies_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A fetched file is trusted no more than any other."""
    path = tmp_path / "config.json"
    path.write_text(text)
    library(monkeypatch, lambda *_, **__: str(path))
    with pytest.raises(KvtuiError) as caught:
        hub.read("owner/model")
    assert caught.value.exit_code == 2


def test_what_is_there_is_no_hub_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path that exists, be it a link that leads nowhere, is never asked for at the hub."""
    library(monkeypatch, lambda *_, **__: pytest.fail("the hub was asked"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "loop").symlink_to("loop")
    (tmp_path / "owner" / "gone").symlink_to("nowhere")
    (tmp_path / "owner" / "folder").mkdir()
    for name in ("owner/loop", "owner/gone", "owner/folder", "owner/m.gguf", "owner/m.json"):
        with pytest.raises(SourceError):
            scenario(Request(model=name, context="8"))
    with pytest.raises(KvtuiError):
        scenario(Request(model="a" * 5000, context="8"))
