"""Settings: the user's file, the environment above it, flags above both.

Every value is checked where it is read, and carries where it came from. A bad one is a sentence
that names field, value and range. Nothing here draws, and no key or theme is known by name: what
can only be said with the screen at hand is checked by whoever has it.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from kvtui.errors import InputError, SourceError

Value: TypeAlias = str | bool | float | None
INTERVAL_MIN_S: Final = 0.25
"""Faster repaints show nothing new: a run publishes ten times a second, and people read slower."""
INTERVAL_MAX_S: Final = 60.0
_PREFIX: Final = "KVTUI_"
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of the file."""

    name: str
    default: Value
    meaning: str
    read: Callable[[str, object], Value]
    """Checks what was written under a name; ``InputError`` for what cannot be."""
    example: str
    """As the commented default shows it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it came from."""

    value: Value
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds, each field with its origin under ``origins``."""

    theme: str | None
    mouse: bool
    interval_s: float
    ascii: bool
    log: Path | None
    keys: Mapping[str, str]
    """Binding id to key, only those changed."""
    origins: Mapping[str, Found]
    """Every field by its name in the file, keys as ``keys.ID``."""
    file: Path


def _text(name: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InputError(name, given, "a name in quotes")
    return given.strip()


def _switch(name: str, given: object) -> bool:
    if isinstance(given, bool):
        return given
    word = given.strip().lower() if isinstance(given, str) else ""
    if word not in (*_TRUE, *_FALSE):
        raise InputError(name, given, "true or false")
    return word in _TRUE


def _interval(name: str, given: object) -> float:
    seconds = math.nan
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
    if not INTERVAL_MIN_S <= seconds <= INTERVAL_MAX_S:
        allowed = f"{INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds (faster shows nothing new)"
        raise InputError(name, given, allowed)
    return seconds


SETTINGS: Final = (
    Setting("theme", None, "a theme of the palette's list (t)", _text, '"nord"'),
    Setting("mouse", True, "false leaves the mouse to the terminal", _switch, "true"),
    Setting(
        "interval",
        INTERVAL_MIN_S,
        f"seconds between repaints, {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g}",
        _interval,
        f"{INTERVAL_MIN_S:g}",
    ),
    Setting("ascii", False, "true draws without box and braille glyphs", _switch, "false"),
    Setting("log", None, "a file that what happens is appended to", _text, '"kvtui.log"'),
)
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


def user_folder(environment: Mapping[str, str]) -> Path:
    """The user's own folder for settings and presets; it need not exist.

    By the XDG base directory specification, which ignores a path that is not absolute.
    """
    base = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = environment.get("HOME")
    folder = base if base.is_absolute() else (Path(home) if home else Path.home()) / ".config"
    return folder / "kvtui"


def config_file(environment: Mapping[str, str]) -> Path:
    """Where the user's file lives; it need not exist."""
    return user_folder(environment) / "config.toml"


def settings(
    flags: Mapping[str, object], environment: Mapping[str, str], *, ids: tuple[str, ...] = ()
) -> Settings:
    """What holds: defaults, the file, ``environment``, ``flags``, in rising strength.

    ``flags`` has fields by name, None where not given. ``ids`` are the keys that can be changed.

    Raises:
        InputError: a value cannot be used; names field, value and range.
        SourceError: the file cannot be read.
    """
    file = config_file(environment)
    found = {one.name: Found(one.default, "default") for one in SETTINGS}
    keys: dict[str, Found] = {}
    for name, given in _table(file).items():
        if name == "keys":
            keys |= _file_keys(given, file, ids)
        elif name in _BY_NAME:
            found[name] = Found(_BY_NAME[name].read(f"{name} in {file}", given), str(file))
        else:
            allowed = "one of " + ", ".join((*_BY_NAME, "keys"))
            raise InputError(f"setting in {file}", name, allowed)
    for name, setting in _BY_NAME.items():
        variable = f"{_PREFIX}{name.upper()}"
        if environment.get(variable):
            found[name] = Found(setting.read(variable, environment[variable]), variable)
        if flags.get(name) is not None:
            found[name] = Found(setting.read(name, flags[name]), "flag")
    keys |= _typed_keys(environment.get(f"{_PREFIX}KEYS", ""), ids)
    log = found["log"].value
    return Settings(
        theme=_as_text(found["theme"].value),
        mouse=bool(found["mouse"].value),
        interval_s=float(found["interval"].value or INTERVAL_MIN_S),
        ascii=bool(found["ascii"].value),
        log=Path(str(log)).expanduser() if log is not None else None,
        keys={name: str(one.value) for name, one in keys.items()},
        origins={**found, **{f"keys.{name}": one for name, one in keys.items()}},
        file=file,
    )


def default_file(keys: Mapping[str, tuple[str, str]]) -> str:
    """The commented default; ``keys`` gives key and meaning of each binding id."""
    lines = [
        "# kvtui's settings. Environment variables (KVTUI_THEME, KVTUI_MOUSE, ...) win over this",
        "# file, flags over both. Remove a # to change a line.",
        "",
    ]
    for setting in SETTINGS:
        lines += [f"# {setting.meaning}", f"#{setting.name} = {setting.example}", ""]
    lines += ["# Keys by the id of their action; several are separated by commas.", "[keys]"]
    width = max((len(name) + len(key) for name, (key, _) in keys.items()), default=0)
    for name, (key, meaning) in keys.items():
        shown = f'#{name} = "{key}"'
        lines.append(f"{shown:<{width + 8}}# {meaning}")
    return "\n".join(lines)


def _table(file: Path) -> Mapping[str, object]:
    """The file's fields; none where there is no file."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SourceError(f"settings {file}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"settings {file}: no TOML: {error}.") from None


def _file_keys(given: object, file: Path, ids: tuple[str, ...]) -> dict[str, Found]:
    if not isinstance(given, dict):
        raise InputError(f"keys in {file}", str(given), 'a table such as [keys] with run = "x"')
    return {
        str(name): Found(_key(f"keys.{name} in {file}", str(name), key, ids), str(file))
        for name, key in given.items()
    }


def _typed_keys(text: str, ids: tuple[str, ...]) -> dict[str, Found]:
    """``run=x hold=H``, as an environment variable has it."""
    variable, found = f"{_PREFIX}KEYS", {}
    for part in text.split():
        name, equals, key = part.partition("=")
        if not equals:
            raise InputError(variable, text, "pairs such as run=x hold=H")
        found[name] = Found(_key(f"{variable} ({name})", name, key, ids), variable)
    return found


def _key(field: str, name: str, key: object, ids: tuple[str, ...]) -> str:
    if ids and name not in ids:
        raise InputError(f"action of {field}", name, "one of " + ", ".join(ids))
    if not isinstance(key, str) or not all(part.strip() for part in key.split(",")):
        raise InputError(field, key, "a key, or several separated by commas")
    return ",".join(part.strip() for part in key.split(","))


def _as_text(value: Value) -> str | None:
    return None if value is None else str(value)
