"""Recordings that were damaged or made up: whatever is in them, reading and summing go on."""

import random
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from kvtui.client.recording import Recording
from kvtui.records import (
    Gone,
    GpuProcess,
    GpuReading,
    Held,
    Limit,
    Notice,
    RunAsked,
    encode,
)
from kvtui.session.flags import flags, regime
from kvtui.session.ladder import ladder
from kvtui.session.live import Live
from kvtui.session.recorded import recorded_request
from kvtui.session.summary import summary
from tests.client.recordings import decode, opening, write

STRANGE: tuple[object, ...] = (
    0,
    -1,
    1,
    2**31,
    2**62,
    -(2**62),
    1e300,
    -1e300,
    0.5,
    None,
    "",
    "[/]",
    [],
    {},
    True,
)


def read_through(path: Path) -> None:
    """Everything the screen and the report ask of a recording, after every few records."""
    live = Live()
    with closing(Recording(path)) as recording:
        for count, record in enumerate(recording.read()):
            live.apply(record)
            if isinstance(record, RunAsked):
                recorded_request(record, live.device, live.limit_before)
            if count % 7 == 0:
                look_at(live)
    look_at(live)


def look_at(live: Live) -> None:
    """Every figure that is shown."""
    encode(summary(live))
    flags(live)
    regime(live)
    ladder(live)
    for name in ("progress", "seconds_left", "budget_bytes", "predicted_tokens_per_s"):
        getattr(live, name)


def changed(value: object, chance: random.Random) -> object:
    """``value`` with one of its leaves replaced by something strange."""
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        return {**value, key: changed(value[key], chance)}
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [*value[:at], changed(value[at], chance), *value[at + 1 :]]
    return chance.choice(STRANGE)


RARE = (
    GpuReading(
        index=0, uuid="GPU-1", name="A GPU", pci_bus_id="00000000:01:00.0", total_bytes=2**37,
        used_bytes=2**35, free_bytes=2**36, reserved_bytes=2**29, unified=False, busy_percent=90.0,
        power_w=300.0, power_limit_w=700.0, temperature_c=60.0, sm_clock_mhz=1900,
        memory_clock_mhz=3200, max_memory_clock_mhz=3200, throttle=["power cap"], mig=False,
        processes=[GpuProcess(pid=4711, used_bytes=2**34, name="python")], missing={"x": "why"},
    ),
    Notice(topic="nvml", severity="warning", sentence="No driver."),
    Held(run=1, paused=True),
    Held(run=1, paused=False),
    Limit(run=1, when="after", read_bytes_per_s=19e9, probe_bytes=2**30, threads=1),
    Gone(role="monitor", sentence="Gone.", exit_status=-9, expected=False),
)  # fmt: skip
"""Records that the recordings of other tests do not have."""


def strange(folder: Path, seed: int) -> Path:
    """A recording with a dozen and a half of its values replaced."""
    chance = random.Random(seed)
    write(folder / "good", 300, seed=seed)
    lines = (folder / "good").read_bytes().splitlines()
    for rare in RARE * 2:
        lines.insert(chance.randrange(12, len(lines)), encode(rare).rstrip())
    for _ in range(18):
        at = chance.randrange(1, len(lines))
        lines[at] = msgspec.json.encode(changed(msgspec.json.decode(lines[at]), chance))
    path = folder / "strange"
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.mark.parametrize("seed", range(60))
def test_strange_values_in_any_field_break_nothing(tmp_path: Path, seed: int) -> None:
    """Leaves of any record replaced by extreme or foreign values: read, summed, never raised."""
    read_through(strange(tmp_path, seed))


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_break_nothing(tmp_path: Path, seed: int) -> None:
    """Damage anywhere after the first line costs the lines it hits and no more."""
    chance = random.Random(seed)
    write(tmp_path / "good", 300, seed=seed)
    data = bytearray((tmp_path / "good").read_bytes())
    for _ in range(20):
        data[chance.randrange(200, len(data))] = chance.randrange(256)
    (tmp_path / "damaged").write_bytes(data)
    read_through(tmp_path / "damaged")


@pytest.mark.parametrize("seed", range(60))
def test_a_question_with_strange_shapes_breaks_nothing(tmp_path: Path, seed: int) -> None:
    """The command and the typed fields are from outside too."""
    chance = random.Random(seed)
    asked, *rest = opening(decode(100))
    value = msgspec.to_builtins(asked)
    for _ in range(3):
        part = chance.choice(("command", "fields"))
        value = {**value, part: changed(value[part], chance)}
    path = tmp_path / "strange"
    path.write_bytes(msgspec.json.encode(value) + b"\n" + b"".join(encode(one) for one in rest))
    read_through(path)
