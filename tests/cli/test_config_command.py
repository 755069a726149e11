"""``kvtui config`` and the flags above it, as a shell meets them."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path


def kvtui(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kvtui", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "XDG_CONFIG_HOME": str(home), **environment},
        check=False,
    )


def test_it_says_where_settings_live_what_holds_and_why(tmp_path: Path) -> None:
    """The file's path, and each value with its origin, as text and as JSON."""
    folder = tmp_path / "kvtui"
    folder.mkdir()
    (folder / "config.toml").write_text('mouse = false\n[keys]\nrun = "x"\n', encoding="utf-8")
    shown = kvtui("config", home=tmp_path, KVTUI_INTERVAL="2")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines() if line}
    assert lines["file"] == [str(folder / "config.toml")]
    assert lines["mouse"] == ["false", str(folder / "config.toml")]
    assert lines["interval"] == ["2.0", "KVTUI_INTERVAL"]
    assert lines["theme"] == ["-", "default"]
    assert lines["keys.run"] == ["x", str(folder / "config.toml")]
    found = json.loads(kvtui("config", "--json", home=tmp_path).stdout)
    assert (found["schema"], found["exists"]) == ("kvtui.config/1", True)
    assert found["settings"]["mouse"] == {
        "value": False, "origin": str(folder / "config.toml")
    }  # fmt: skip


def test_the_default_file_is_printed_as_toml(tmp_path: Path) -> None:
    """It can be redirected into place."""
    shown = kvtui("config", "--default", home=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert tomllib.loads(shown.stdout) == {"keys": {}}
    assert "#interval = 0.25" in shown.stdout


def test_a_bad_value_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    """Whoever reads settings stops at once, with stdout empty."""
    for arguments in (("config",), ("run", "--json"), ("replay", "/nowhere", "--json")):
        result = kvtui(*arguments, home=tmp_path, KVTUI_INTERVAL="0.01")
        assert (result.returncode, result.stdout) == (2, "")
        assert "KVTUI_INTERVAL is '0.01'; it must be 0.25 to 60 seconds" in result.stderr
        assert result.stderr.count("\n") == 1


def test_what_only_the_screen_can_judge_is_judged_too(tmp_path: Path) -> None:
    """A theme that does not exist and a key that is taken are named with their origin."""
    theme = kvtui("config", home=tmp_path, KVTUI_THEME="plaid")
    assert (theme.returncode, theme.stdout) == (2, "")
    assert "theme (KVTUI_THEME) is 'plaid'; it must be one of" in theme.stderr
    key = kvtui("config", home=tmp_path, KVTUI_KEYS="run=q")
    assert (key.returncode, key.stdout) == (2, "")
    assert "keys.run is 'q'; it must be a key of its own; quit has that one." in key.stderr


def test_the_log_says_what_was_called_and_what_happened(tmp_path: Path) -> None:
    """--log appends; a file that cannot be opened is a sentence."""
    log = tmp_path / "log"
    run = (
        *"run --device cpu --layers 1 --batch 1 --context 64 --start 32 --q-heads 2 --kv-heads 1 "
        "--head-dim 64 --dtype fp32 --probe 0".split(),
    )
    for _ in range(2):
        assert kvtui(*run, "--log", str(log), home=tmp_path).returncode == 0
    text = log.read_text(encoding="utf-8")
    assert text.count("kvtui 0") == 2
    assert text.count("Ended(") == 2
    result = kvtui(*run, "--log", str(tmp_path / "no" / "log"), home=tmp_path)
    assert result.returncode == 2
    assert "No such file or directory" in result.stderr
