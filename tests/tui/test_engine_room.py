"""The helpers behind the screen: replaced when they take no commands, locked to one device."""

import asyncio

import pytest

from kvtui.client.device_lock import DeviceBusyError, DeviceLock
from kvtui.client.local import Helpers, NotStarted
from kvtui.client.source import Source
from kvtui.decode_run import DecodeRun
from kvtui.records import (
    Command,
    Gone,
    LinkReading,
    Notice,
    RunCommand,
)
from kvtui.session.live import Live
from kvtui.session.runs import RunOptions
from kvtui.sources.request import Request
from kvtui.spec import FullAttention
from kvtui.tui.app import KvtuiApp
from kvtui.tui.engine_room import EngineRoom
from kvtui.tui.panels.live import LivePanel
from tests.tui.sources import HandRoom, HandSource, ended, opening, steps
from tests.tui.test_dashboard import dashboard, screen_text, settle, text

RUN = DecodeRun(
    groups=(FullAttention(layers=1, q_heads=1, kv_heads=1, k_width=8, v_width=8),),
    batch=1, start=4096, target=16384, device="cpu",
)  # fmt: skip


class DeafSource(HandSource):
    """Takes the first command and no other, though it lives."""

    async def send(self, command: Command) -> bool:
        return not self.sent and await super().send(command)


def deaf_room(live: Live) -> tuple[EngineRoom, list[DeafSource]]:
    workers: list[DeafSource] = []

    async def worker() -> Source:
        workers.append(DeafSource())
        return workers[-1]

    async def monitor() -> Source:
        return HandSource()

    return EngineRoom(live, Helpers(worker, monitor)), workers


def busy() -> bool:
    """Somebody holds the CPU."""
    lock = DeviceLock()
    found = lock.take("cpu") is not None
    lock.release()
    return found


async def until(condition: object) -> None:
    """Let the loop turn until ``condition()`` holds."""
    assert callable(condition)
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to the expected state")


async def test_a_worker_that_takes_no_command_is_stopped_before_another_starts() -> None:
    """Two workers never live side by side, and the old one's last words are of no run any more."""
    live = Live()
    room, workers = deaf_room(live)
    await room.run(RUN)
    workers[0].put(*opening(1), ended(1, 5))
    await until(lambda: live.phase == "ended")
    await room.run(RUN)
    old, new = workers
    assert old.stopped
    assert [command for command in new.sent if isinstance(command, RunCommand)]
    old.put(Gone(role="worker", sentence="The old one died.", exit_status=1, expected=False))
    new.put(*opening(2), steps(2, 1, 3))
    await until(lambda: live.steps == 3)
    assert live.running
    assert live.gone is None
    await room.stop()
    assert new.stopped


async def test_helpers_that_cannot_start_say_so_as_records() -> None:
    """Starting raises nothing: the source's one record is the reason, for worker and monitor."""

    async def worker() -> Source:
        return NotStarted("worker", "No processes left.")

    async def monitor() -> Source:
        return NotStarted("monitor", "No pipes left.")

    live = Live()
    room = EngineRoom(live, Helpers(worker, monitor))
    await room.watch()
    await room.run(RUN)
    await until(lambda: live.gone is not None)
    assert live.phase == "ended"
    assert live.gone is not None
    assert live.gone.sentence == "No processes left."
    assert live.notices["monitor"].sentence == "No pipes left."
    await room.stop()


async def test_a_monitor_that_is_gone_comes_back_with_the_next_run() -> None:
    """A link that was lost took both helpers; r brings both back."""
    room_of = HandRoom()
    live = Live()
    room = room_of(live)
    await room.watch()
    first = room_of.monitor
    first.put(Gone(role="monitor", sentence="Lost.", exit_status=255, expected=False))
    await until(lambda: "monitor" in live.notices)
    second = room_of.monitor = HandSource()
    await room.run(RUN)
    second.put(Notice(topic="nvml", severity="info", sentence="Here again."))
    await until(lambda: "nvml" in live.notices)
    await room.stop()


async def test_a_busy_device_is_said_once_and_then_taken_anyway() -> None:
    """The first r names the holder and starts nothing; the second runs; an ended run lets go."""
    holder = DeviceLock()
    assert holder.take("cpu") is None
    live = Live()
    hands = HandRoom()
    room = hands(live)
    with pytest.raises(
        DeviceBusyError, match=r"cpu is in use by the kvtui with pid .* runs anyway"
    ):
        await room.run(RUN)
    assert (live.phase, hands.workers) == ("idle", [])
    await room.run(RUN)
    assert len(hands.workers) == 1
    hands.workers[0].put(*opening(1), ended(1, 5))
    await until(lambda: live.phase == "ended")
    holder.release()
    await room.run(RUN)
    assert busy()
    hands.workers[0].put(ended(2, 5))
    await until(lambda: live.phase == "ended")
    assert not busy()
    await room.run(RUN)
    await room.stop()
    assert not busy()


async def test_the_screen_says_who_holds_the_device() -> None:
    """r shows the holder in place of a run, r again starts one."""
    holder = DeviceLock()
    hands = HandRoom()
    app = dashboard(hands)
    holder.take("cpu")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("r")
        await settle(pilot, lambda: "in use by the kvtui" in text(app, LivePanel))
        assert not hands.workers
        await pilot.press("r")
        await settle(pilot, lambda: bool(hands.workers))
    holder.release()


@pytest.mark.parametrize("reached", [True, False])
async def test_the_header_shows_the_other_machine_and_its_latency(reached: bool) -> None:
    """The name while nothing is measured, then the round trip, then that there is no link."""
    hands = HandRoom()

    def far(live: Live) -> EngineRoom:
        local = hands(live)
        helpers = local._helpers
        return EngineRoom(live, Helpers(helpers.worker, helpers.monitor, place="gpu-box"))

    app = KvtuiApp(Request(workload="tutorial", gpu="h200"), RunOptions(), room=far)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot, lambda: "gpu-box" in screen_text(app))
        if reached:
            hands.monitor.put(LinkReading(host="gpu-box", round_trip_ms=12.0))
            await settle(pilot, lambda: "gpu-box 12" in screen_text(app))
        hands.monitor.put(Gone(role="monitor", sentence="Cut.", exit_status=255, expected=False))
        said = "gpu-box LINK LOST" if reached else "gpu-box NO LINK"
        await settle(pilot, lambda: said in screen_text(app))
