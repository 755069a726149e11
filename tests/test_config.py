"""Settings from file, environment and flags."""

import tomllib
from pathlib import Path

import pytest

from kvtui.config import SETTINGS, config_file, default_file, settings
from kvtui.errors import InputError, SourceError
from kvtui.tui.bindings import LIVE_KEYS, REPLAY_KEYS, changeable_keys, check_keymap, shown_key

IDS = tuple(changeable_keys())


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "kvtui").mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def written(home: dict[str, str], text: str) -> Path:
    file = config_file(home)
    file.write_text(text, encoding="utf-8")
    return file


def test_it_lives_where_the_xdg_rules_say() -> None:
    """XDG_CONFIG_HOME, or ~/.config where it is not set or not absolute."""
    assert config_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/kvtui/config.toml")
    for relative in ("", "x/y"):
        found = config_file({"HOME": "/h", "XDG_CONFIG_HOME": relative})
        assert found == Path("/h/.config/kvtui/config.toml")


def test_without_a_file_the_defaults_hold(home: dict[str, str]) -> None:
    """Every field has a default, and says that it is one."""
    found = settings({}, home)
    assert (found.theme, found.mouse, found.interval_s, found.ascii) == (None, True, 0.25, False)
    assert (found.log, found.keys) == (None, {})
    assert {one.origin for one in found.origins.values()} == {"default"}


def test_flags_win_over_the_environment_and_that_over_the_file(home: dict[str, str]) -> None:
    """Each field comes from the strongest place that gives it, and names that place."""
    file = written(home, 'theme = "a"\nmouse = false\ninterval = 1\nascii = true\n[keys]\nrun="x"')
    found = settings(
        {"theme": "c", "log": "~/k.log", "mouse": None},
        {**home, "KVTUI_THEME": "b", "KVTUI_INTERVAL": "2.5", "KVTUI_KEYS": "run=y hold=H"},
        ids=IDS,
    )
    assert (found.theme, found.origins["theme"].origin) == ("c", "flag")
    assert (found.interval_s, found.origins["interval"].origin) == (2.5, "KVTUI_INTERVAL")
    assert (found.mouse, found.origins["mouse"].origin) == (False, str(file))
    assert found.ascii is True
    assert found.log == Path("~/k.log").expanduser()
    assert found.keys == {"run": "y", "hold": "H"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("interval = 0.1", r"interval in .*config\.toml is 0\.1; it must be 0\.25 to 60 seconds"),
        ("interval = true", "interval in .* is True; it must be"),
        ("interval = nan", "interval in .* is nan; it must be"),
        ('interval = "fast"', "interval in .* is 'fast'; it must be"),
        ("mouse = 3", "mouse in .* is 3; it must be true or false"),
        ("theme = 3", "theme in .* is 3; it must be a name"),
        ('colour = "red"', "setting in .* is 'colour'; it must be one of theme, mouse, interval"),
        ("keys = 3", "keys in .* is '3'; it must be a table"),
        ('[keys]\nfly = "x"', "action of keys.fly in .* is 'fly'; it must be one of .*run"),
        ("[keys]\nrun = 3", "keys.run in .* is 3; it must be a key"),
        ('[keys]\nrun = ""', "keys.run in .* is ''; it must be a key"),
    ],
)
def test_bad_values_in_the_file_are_sentences(
    home: dict[str, str], text: str, sentence: str
) -> None:
    """Field, value and range, and the file they stand in."""
    written(home, text)
    with pytest.raises(InputError, match=sentence):
        settings({}, home, ids=IDS)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("INTERVAL", "0", "KVTUI_INTERVAL is '0'; it must be 0.25 to 60"),
        ("MOUSE", "maybe", "KVTUI_MOUSE is 'maybe'; it must be true or false"),
        ("ASCII", "please", "KVTUI_ASCII is 'please'"),
        ("KEYS", "run", "KVTUI_KEYS is 'run'; it must be pairs"),
        ("KEYS", "fly=x", "is 'fly'; it must be one of"),
    ],
)
def test_bad_values_in_the_environment_are_sentences(
    home: dict[str, str], name: str, value: str, sentence: str
) -> None:
    """The variable is the field."""
    with pytest.raises(InputError, match=sentence):
        settings({}, {**home, f"KVTUI_{name}": value}, ids=IDS)


@pytest.mark.parametrize("text", ["theme = ", "\0", "[keys"])
def test_a_file_that_is_no_toml_is_a_sentence(home: dict[str, str], text: str) -> None:
    """The file is named, and where it goes wrong."""
    written(home, text)
    with pytest.raises(SourceError, match=r"^settings .*config\.toml: no TOML: .*\.$"):
        settings({}, home)


def test_a_folder_in_place_of_the_file_is_a_sentence(home: dict[str, str]) -> None:
    """What cannot be read is named."""
    config_file(home).mkdir()
    with pytest.raises(SourceError, match=r"^settings .*: Is a directory\.$"):
        settings({}, home)


def test_the_default_file_is_valid_with_and_without_its_marks(home: dict[str, str]) -> None:
    """As printed it changes nothing; with every line turned on it still reads, key by key."""
    text = default_file(changeable_keys())
    assert tomllib.loads(text) == {"keys": {}}
    lines = [
        line[1:] if line.startswith("#") and " = " in line and line[1] != " " else line
        for line in text.splitlines()
    ]
    written(home, "\n".join(lines))
    found = settings({}, home, ids=IDS)
    assert set(found.origins) == {
        *(one.name for one in SETTINGS),
        *(f"keys.{name}" for name in IDS),
    }
    assert found.keys == {name: key for name, (key, _) in changeable_keys().items()}
    check_keymap(found.keys)


def test_a_key_is_shown_as_what_is_on_it() -> None:
    """A character by itself, whichever way it was written; other keys by their name."""
    shown = {
        key: next(shown_key(one) for one in LIVE_KEYS.rebound({"run": key}).bindings
                  if one.id == "run")
        for key in ("x", "X", "!", "exclamation_mark", "space", "ctrl+r", "f5,x", "tab")
    }  # fmt: skip
    assert list(shown.values()) == ["x", "X", "!", "!", "space", "ctrl+r", "f5", "tab"]


def test_one_key_has_one_action() -> None:
    """A key that is taken is refused; two that change places are not."""
    with pytest.raises(InputError, match=r"keys\.run is 'q'; it must be a key of its own; quit"):
        check_keymap({"run": "q"})
    with pytest.raises(InputError, match=r"keys\.zoom is '\?'.*help"):
        check_keymap({"zoom": "?"})
    check_keymap({"run": "h", "hold": "r"})
    for keys in (LIVE_KEYS, REPLAY_KEYS):
        assert [one.key for one in keys.rebound({"run": "x"}).bindings if one.id == "run"] == ["x"]
