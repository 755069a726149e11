"""What every test gets: no user configuration, no colour or terminal settings from outside."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def isolated_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    for name in ("NO_COLOR", "FORCE_COLOR", "KVTUI_ASCII", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
