"""Every key with its id, its tooltip and its place in the help; and what the figures mean."""

import contextlib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from textual.binding import Binding

from kvtui.errors import InputError

BINDINGS: Final = [
    Binding("r", "run", "run/stop", id="run", tooltip="Run what is on the screen, or stop it"),
    Binding("h", "hold", "hold", id="hold", tooltip="Hold the run itself, or let it go on"),
    Binding("space", "pause", "pause", id="pause", tooltip="Freeze the view; recording goes on"),
    Binding("w", "record", "record", id="record",
            tooltip="Record to a file, the present run from its beginning; again to end it"),
    Binding("e", "export", "export", id="export",
            tooltip="Write what is on the screen: SVG, CSV, JSON or Markdown"),
    Binding("1", "show('size')", "size", id="size",
            tooltip="Inputs; again for the payload and its formulas"),
    Binding("2", "show('live')", "live", id="live", tooltip="The live run"),
    Binding("3", "show('memory')", "memory", id="memory",
            tooltip="Where the bytes went; again for the device"),
    Binding("c,4", "compare", "compare", id="compare",
            tooltip="The same question under other kinds, formats and engines, and bytes over T"),
    Binding("m", "move", "move", id="move",
            tooltip="Make the move that is shown first; again for the next"),
    Binding("u", "undo", "undo", id="undo", tooltip="Take the last move back"),
    Binding("p", "pick('models')", "model", id="preset", tooltip="Choose a model preset"),
    Binding("s", "save", "save", id="save", tooltip="Save the question as a workload preset"),
    Binding("l", "pick('workloads')", "workload", id="workload",
            tooltip="Choose a workload preset, shipped or saved"),
    Binding("g", "pick('devices')", "gpu", id="device", tooltip="Choose the device to plan for"),
    Binding("[", "step('halve')", "halve", id="halve", tooltip="Halve the focused number"),
    Binding("]", "step('double')", "double", id="double", tooltip="Double the focused number"),
    Binding("+,plus,=", "step('raise')", "up", id="raise", tooltip="One more of the focused number",
            key_display="+"),
    Binding("-,minus", "step('lower')", "down", id="lower",
            tooltip="One less of the focused number", key_display="-"),
    Binding("tab", "walk(1)", "next", id="next", tooltip="Next field; from the last, next panel"),
    Binding("shift+tab", "walk(-1)", "back", id="previous",
            tooltip="Field before; from the first, panel before"),
    Binding("z", "zoom", "zoom", id="zoom", tooltip="Maximise the focused panel, or go back"),
    Binding("t", "theme", "theme", id="theme", tooltip="Choose a theme"),
    Binding("question_mark,f1", "help", "help", id="help", tooltip="Keys and what figures mean",
            key_display="?"),
    Binding("ctrl+p", "command_palette", "palette", id="palette",
            tooltip="Every action by name"),
    Binding("q", "quit", "quit", id="quit", tooltip="Stop everything and leave"),
    Binding("ctrl+c", "quit", "quit", id="quit-ctrl-c", priority=True, show=False,
            tooltip="Stop everything and leave"),
]  # fmt: skip

_FOOTER: Final = ("run", "hold", "pause", "compare", "move", "record", "export", "preset",
                 "device", "theme", "zoom", "help", "palette", "quit")  # fmt: skip
"""Keys named at the foot of the screen, by id, in the order shown."""
_FOOTER_FIRST: Final = ("run", "help", "quit", "hold", "preset", "device", "compare", "pause",
                       "palette", "export", "record", "move", "zoom", "theme")  # fmt: skip
"""The same keys in the order in which they get room."""

FIGURES: Final = (
    ("KV", "Logical payload: keys and values of all cached tokens, ideal storage."),
    ("FITS TIGHT OVER", "Tight fits the expected overhead and not the high end of its band."),
    ("other", "Activations, graphs, context: a band, since engines differ tenfold."),
    ("step ≥", "Floor: bytes a step must move over bandwidth, or FLOPs over peak if longer."),
    ("KV read", "Cache bytes each step needs, once, over its device time. Weights are apart."),
    ("limit", "Read bandwidth measured here before the run; shares are of this figure."),
    ("cache-resident", "A step touches less than 5 caches: its share means nothing."),
    ("kernel-bound", "The attention kernel, not memory, sets the time."),
    ("launch-bound", "Starting operators takes longer than moving their bytes."),
    ("payload … total", "Each rung holds the one above it; the gap between two has a name."),
    ("REC", "Records go to a file too; NOT RECORDED: it is incomplete, a notice says why."),
    ("n/a", "Not reported by this device or driver; never shown as 0."),
)
"""What the help says about figures: label and one sentence."""
EDITING: Final = (
    ("arrows", "Walk the fields, or the figures of a panel"),
    ("Enter", "Edit a field, or list its choices"),
    ("Esc", "Leave a field as it was"),
    ("Backspace", "Give a field back to the preset"),
)
"""Keys of the inputs, which belong to no binding."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind of screen, for whoever lists them."""

    bindings: tuple[Binding, ...]
    footer: tuple[str, ...]
    """Keys named at the foot, by id, in the order shown."""
    footer_first: tuple[str, ...]
    """The same keys in the order in which they get room."""

    def rebound(self, keymap: Mapping[str, str]) -> "Keys":
        """The same actions under other keys, by binding id."""
        return replace(
            self,
            bindings=tuple(
                replace(one, key=keymap[one.id], key_display=None)
                if one.id is not None and one.id in keymap
                else one
                for one in self.bindings
            ),
        )


LIVE_KEYS: Final = Keys(tuple(BINDINGS), _FOOTER, _FOOTER_FIRST)

_PLAYING: Final = [
    Binding("r", "run", "again", id="run", tooltip="Play again from the start"),
    Binding("h", "hold", "hold", id="hold", tooltip="Hold the replay, or let it go on"),
    Binding("space", "pause", "pause", id="pause", tooltip="Hold the replay, or let it go on"),
    Binding("comma", "wind(-1)", "back", id="back", tooltip="Wind back by a fiftieth",
            key_display=","),
    Binding("full_stop", "wind(1)", "on", id="on", tooltip="Wind on by a fiftieth",
            key_display="."),
    Binding("less_than_sign", "speed(-1)", "slower", id="slower", tooltip="Play at half the speed",
            key_display="<"),
    Binding("greater_than_sign", "speed(1)", "faster", id="faster",
            tooltip="Play at twice the speed; beyond 64x as fast as it can be read",
            key_display=">"),
    Binding("home", "wind_to('start')", "first", id="start", tooltip="Wind to the start"),
    Binding("end", "wind_to('end')", "last", id="end", tooltip="Wind to the end"),
]  # fmt: skip
_REPLACED: Final = {"record", *(binding.id for binding in _PLAYING)}
REPLAY_BINDINGS: Final = [*_PLAYING, *(one for one in BINDINGS if one.id not in _REPLACED)]
REPLAY_KEYS: Final = Keys(
    tuple(REPLAY_BINDINGS),
    (
        "pause",
        "back",
        "on",
        "slower",
        "faster",
        "run",
        "end",
        "export",
        "zoom",
        "help",
        "palette",
        "quit",
    ),
    (
        "pause",
        "help",
        "quit",
        "back",
        "on",
        "faster",
        "slower",
        "run",
        "palette",
        "export",
        "end",
        "zoom",
    ),
)


def changeable_keys() -> dict[str, tuple[str, str]]:
    """Key and meaning of every binding that settings may change, by id."""
    found: dict[str, tuple[str, str]] = {}
    for one in (*LIVE_KEYS.bindings, *REPLAY_KEYS.bindings):
        if one.id is not None:
            found.setdefault(one.id, (one.key, one.tooltip))
    return found


def check_keymap(keymap: Mapping[str, str]) -> None:
    """One key, one action, on each kind of screen.

    Raises:
        InputError: a changed key belongs to another action already.
    """
    for keys in (LIVE_KEYS, REPLAY_KEYS):
        owners: dict[str, str] = {}
        for binding in keys.rebound(keymap).bindings:
            for key in binding.key.split(","):
                owner = owners.setdefault(_key_name(key), binding.id or "")
                if owner != binding.id:
                    changed = binding.id if binding.id in keymap else owner
                    other = owner if changed == binding.id else binding.id
                    allowed = f"a key of its own; {other} has that one"
                    raise InputError(f"keys.{changed}", keymap.get(changed or "", key), allowed)


def _key_name(key: str) -> str:
    """One spelling of a key, for comparing: a character, or its Unicode name."""
    if len(key) != 1 or key.isalnum():
        return key
    return unicodedata.name(key, key).lower().replace("-", "_").replace(" ", "_")


def shown_key(binding: Binding) -> str:
    """A key as it is written in the footer and the help: the character where there is one."""
    if binding.key_display is not None:
        return binding.key_display
    key = binding.key.split(",")[0]
    with contextlib.suppress(KeyError):
        character = unicodedata.lookup(key.replace("_", " "))
        if character.isprintable() and not character.isspace():
            return character
    return key


def commands(keys: Keys = LIVE_KEYS) -> Iterator[tuple[str, str, str]]:
    """Title, key and action of every binding that the palette does not have by itself."""
    for binding in keys.bindings:
        if binding.show and binding.id not in ("palette", "quit", "help"):
            yield binding.tooltip or binding.description, shown_key(binding), binding.action
