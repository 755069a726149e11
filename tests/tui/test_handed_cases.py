"""Trouble with terminal tools as users reported it: what must be right is the case's."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvtui.history import Extent
from kvtui.records import GpuReading, Notice
from kvtui.tui.palette import UNICODE
from kvtui.tui.panels.gpu import GpuPanel
from kvtui.tui.panels.live import LivePanel
from kvtui.tui.plots import Curve, line_plot
from tests.tui.sources import HandRoom, memory, opening, steps
from tests.tui.test_dashboard import TUTORIAL, dashboard, screen_text, settle, text
from tests.tui.test_terminal import Terminal

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "handed.json").read_text())
    if case["kind"] == "tui"
}
HERE = {"UI-01", "UI-04", "UI-06", "UI-07", "UI-08", "UI-11", "UI-14", "UI-18", "UI-20"}
ELSEWHERE = {
    "UI-16": "test_terminal: leaving in the middle of a run",
    "UI-17": "test_terminal: signals, a closed terminal and a crash leave it clean",
}
GPU = GpuReading(
    index=0, uuid="GPU-a", name="GPU [/x]", pci_bus_id=None, total_bytes=80 * 2**30,
    used_bytes=40 * 2**30, free_bytes=40 * 2**30, reserved_bytes=None, unified=False,
    busy_percent=97, power_w=650, power_limit_w=700, temperature_c=61, sm_clock_mhz=1980,
    memory_clock_mhz=2619, max_memory_clock_mhz=2619, throttle=[], mig=False, processes=[],
    missing={},
)  # fmt: skip
COLOUR = re.compile(rb"\x1b\[[0-9;]*?\b(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|38;|48;)[0-9;]*m")


def given(case: str) -> Any:
    return CASES[case]["input"]


def test_every_case_has_its_place() -> None:
    """A case of this kind is tested here, or is listed with where it is."""
    assert set(CASES) == HERE | set(ELSEWHERE)


async def test_brackets_are_text() -> None:
    """UI-01: names, paths and errors with brackets are shown as they are."""
    case, room = given("UI-01"), HandRoom()
    app = dashboard(room, TUTORIAL)
    async with app.run_test(size=(200, 60)) as pilot:
        for name in (case["model_name"], case["config_path"]):
            app.form.set("model", name)
            app.ask()
            await pilot.pause()
            assert name in screen_text(app)
        gpu = msgspec.structs.replace(GPU, name=case["gpu_name"])
        room.monitor.put(gpu, Notice(topic="nvml", severity="error", sentence=case["error"]))
        await settle(pilot, lambda: case["error"] in text(app, GpuPanel))
        assert case["gpu_name"] in text(app, GpuPanel)
        app.tell(case["error"])
        await pilot.pause()


def test_a_series_without_height_has_an_axis() -> None:
    """UI-04: zeros between equal limits are drawn, and on a line of their own."""
    case = given("UI-04")
    low, high = case["y_limits"]
    zeros = Curve([Extent(float(one), float(one)) for one in case["series"]], "")
    drawn = line_plot([zeros], 4, 3, low, high, UNICODE)
    assert [bool(line.plain.strip("\u2800 ")) for line in drawn] == [False, False, True]


async def test_any_size_and_a_message_below_the_least() -> None:
    """UI-06: resizing through one-cell screens during a run; below 40x10 it says so; q quits."""
    case, room = given("UI-06"), HandRoom()
    app = dashboard(room)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 20), memory(1))
        await settle(pilot, lambda: app.live.steps == 20)
        for width, height in case["sizes"]:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            assert screen_text(app) is not None
            least_width, least_height = CASES["UI-06"]["right"]["below"]
            if 20 <= width < least_width and height < least_height:
                assert "too small" in " ".join(screen_text(app).split())
        await pilot.resize_terminal(1, 1)
        await pilot.press("q")
    assert app.return_code == 0


async def test_a_plot_grows_again() -> None:
    """UI-07: zoomed, after 100, 60 and 140 columns the plot is wider than at first."""
    room, widths = HandRoom(), []
    app = dashboard(room)
    async with app.run_test(size=tuple(given("UI-07")["sizes_in_order"][0])) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 20), memory(1))
        await settle(pilot, lambda: app.live.steps == 20)
        app.screen.query_one(LivePanel).focus()
        await pilot.press("z")
        for width, height in given("UI-07")["sizes_in_order"]:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            await pilot.pause()
            panel = app.screen.query_one(LivePanel)
            widths.append(max(map(len, panel.render().plain.splitlines())))
            assert widths[-1] <= panel.content_size.width
    assert widths[2] > widths[0] > widths[1]


@pytest.mark.parametrize("size", given("UI-08")["sizes"])
async def test_eight_gpus_are_within_reach(size: list[int]) -> None:
    """UI-08: all eight are shown, on a small screen with the panel zoomed, and q still quits."""
    room = HandRoom()
    app = dashboard(room, TUTORIAL)
    others = [
        msgspec.structs.replace(GPU, index=index, uuid=f"GPU-{index}", followed=False)
        for index in range(1, given("UI-08")["gpus"])
    ]
    async with app.run_test(size=(size[0], size[1])) as pilot:
        room.monitor.put(GPU, *others)
        await settle(pilot, lambda: len(app.live.other_gpus) == len(others))
        app.screen.query_one(GpuPanel).focus()
        if size[1] < 60:
            await pilot.press("3", "3", "z")
        await settle(pilot, lambda: "GPU #7" in screen_text(app))
        shown = screen_text(app)
        assert all(f"GPU #{index}" in shown for index in range(1, len(others) + 1))
        assert "NVML #0" in shown
        await pilot.press("q")
    assert app.return_code == 0


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """UI-11: with NO_COLOR no colour sequence is written, and the verdict is a word."""
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal("--workload", "tutorial", "--gpu", "h200", columns=80, rows=24)
    seen = b""
    while b"FITS" not in seen:
        assert terminal.read(5.0)
        seen += terminal.output
        terminal.output = b""
    terminal.press("q")
    assert terminal.ends(10) == 0
    assert COLOUR.findall(seen + terminal.output) == []


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_ascii_is_ascii(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    """UI-14: in ASCII mode no character of any screen is above 127, during a run as well."""
    monkeypatch.setenv("KVTUI_ASCII", "1")
    room = HandRoom()
    app = dashboard(room, TUTORIAL)
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        room.workers[0].put(*opening(1), steps(1, 1, 20), memory(1))
        room.monitor.put(GPU)
        await settle(pilot, lambda: app.live.steps == 20)
        for key in ("1", "2", "3", "c"):
            await pilot.press(key)
            await pilot.pause(0.3)
            above = sorted({one for one in screen_text(app) if ord(one) > 127})
            assert above == [], key


def test_idle_writes_next_to_nothing() -> None:
    """UI-18: looking at a size, without a key, five seconds write less than a screenful."""
    terminal = Terminal("--workload", "tutorial", "--gpu", "h200", columns=80, rows=24)
    terminal.shows("FITS")
    while terminal.read(1.0) and terminal.output:
        terminal.output = b""  # the first frames, until a second passes without one
    for _ in range(5):
        assert terminal.read(1.0)
    assert len(terminal.output) <= given_bytes_in(5)
    terminal.press("q")
    assert terminal.ends(10) == 0


def given_bytes_in(seconds: int) -> int:
    most: int = CASES["UI-18"]["right"]["terminal_bytes_in_60s_max"]
    return most * seconds // 60


def test_machine_output_is_numbers() -> None:
    """UI-20: three samples as CSV have one header and three rows; JSON has numbers and a time."""
    found = {}
    for form in ((), ("--csv",)):
        result = subprocess.run(
            [sys.executable, "-m", "kvtui", "monitor", "--samples", "3", "--interval", "0.25",
             *form],
            capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ),
        )  # fmt: skip
        found[form] = result.stdout.splitlines()
    rows = list(csv.DictReader(found["--csv",]))
    assert len(found["--csv",]) == 4
    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
    assert all(stamp.fullmatch(row["time"]) and int(row["total_bytes"]) > 0 for row in rows)
    lines = [json.loads(line) for line in found[()]]
    hosts = [line for line in lines if line["type"] == "host"]
    assert len(hosts) == 3
    for line in hosts:
        assert isinstance(line["total_bytes"], int)
        assert line["cpu_percent"] is None or isinstance(line["cpu_percent"], float)
        assert stamp.fullmatch(line["time"])
