"""The device as NVML and the host see it; where NVML is missing, the sentence that says why."""

from rich.text import Text

from kvtui.records import GpuReading, HostReading
from kvtui.session.live import Live
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import Panel, wrapped
from kvtui.tui.plots import Part, stacked_bar
from kvtui.units import NOT_AVAILABLE, format_bytes


class GpuPanel(Panel, can_focus=True):
    """Draws the latest readings."""

    def __init__(self, live: Live) -> None:
        """Show ``live``."""
        super().__init__("device", id="gpu")
        self._live = live

    def lines(self, width: int, height: int) -> list[Text]:
        """GPU first, then the host, then what was noticed."""
        live = self._live
        found: list[Text] = []
        if live.gpu is not None:
            found += self._gpu(live.gpu, width)
        for topic in ("nvml", "monitor"):
            notice = live.notices.get(topic)
            if notice is not None and notice.severity != "info":
                found += wrapped(notice.sentence, width, ORANGE)
        if live.host is not None:
            found += self._host(live.host, width)
        if live.device is not None:
            found += wrapped(
                f"engine: {live.device.name}, torch {live.device.torch_version}, "
                f"{live.device.threads} thread" + ("s" if live.device.threads != 1 else ""),
                width,
                DIM,
                most=2,
            )
        if live.gpu is not None and live.gpu.processes and len(found) < height:
            found += self._processes(live.gpu, height - len(found))
        return found or [Text("Waiting for the monitor.", DIM)]

    def _gpu(self, gpu: GpuReading, width: int) -> list[Text]:
        used, total = gpu.used_bytes, gpu.total_bytes
        found = [
            Text.assemble(
                (f"{gpu.name or NOT_AVAILABLE} ", "bold"), (f"NVML #{gpu.index}", DIM), no_wrap=True
            ),
            self._pairs(
                ("memory", f"{format_bytes(used)} of {format_bytes(total)}"),
                ("driver", format_bytes(gpu.reserved_bytes)),
            ),
        ]
        if used is not None and total:
            found.append(
                stacked_bar([Part(used, self.glyphs.full, BLUE)], total, width, self.glyphs)
            )
        found += [
            self._pairs(
                ("busy", _shown(gpu.busy_percent, "%")),
                ("power", f"{_shown(gpu.power_w, 'W')} of {_shown(gpu.power_limit_w, 'W')}"),
                ("temp", _shown(gpu.temperature_c, "°C")),
            ),
            self._pairs(
                ("SM", _shown(gpu.sm_clock_mhz, "MHz")),
                (
                    "memory clock",
                    (
                        f"{_shown(gpu.memory_clock_mhz, 'MHz')} of "
                        f"{_shown(gpu.max_memory_clock_mhz, 'MHz')}"
                    ),
                ),
            ),
        ]
        if gpu.throttle is None:
            found.append(self._pairs(("throttled", NOT_AVAILABLE)))
        elif gpu.throttle:
            found.append(Text(f"THROTTLED: {', '.join(gpu.throttle)}", f"bold {ORANGE}"))
        else:
            found.append(self._pairs(("throttled", "no")))
        return found

    def _host(self, host: HostReading, width: int) -> list[Text]:
        used = host.total_bytes - host.available_bytes
        return [
            self._pairs(
                ("host", f"{format_bytes(used)} used of {format_bytes(host.total_bytes)}"),
                ("CPU", _shown(host.cpu_percent, "%")),
                (
                    "load",
                    NOT_AVAILABLE if host.load_average is None else f"{host.load_average:.2f}",
                ),
            ),
            stacked_bar([Part(used, self.glyphs.full, BLUE)], host.total_bytes, width, self.glyphs),
        ]

    def _processes(self, gpu: GpuReading, room: int) -> list[Text]:
        rows = sorted(gpu.processes or [], key=lambda one: -(one.used_bytes or 0))
        return [
            Text(
                f"{one.pid:>8} {format_bytes(one.used_bytes):>9} {one.name or NOT_AVAILABLE}"
                + (" (this run)" if one.pid == self._live.worker_pid else ""),
                DIM,
                no_wrap=True,
            )
            for one in rows[:room]
        ]

    def _pairs(self, *pairs: tuple[str, str]) -> Text:
        line = Text(no_wrap=True)
        for label, value in pairs:
            line.append(f"{label} ", LABEL)
            line.append(f"{value}  ", "")
        return line


def _shown(value: float | None, unit: str) -> str:
    return NOT_AVAILABLE if value is None else f"{value:.0f} {unit}"
