"""The device as NVML and the host see it; where NVML is missing, the sentence that says why."""

from rich.text import Text

from kvtui.records import GpuReading, HostReading
from kvtui.session.live import Live
from kvtui.tui.palette import BLUE, DIM, LABEL, ORANGE
from kvtui.tui.panels.base import LABEL_WIDTH, Panel, flow, pair, wrapped
from kvtui.tui.plots import Part, stacked_bar
from kvtui.units import NOT_AVAILABLE, format_bytes


class GpuPanel(Panel, can_focus=True):
    """Draws the latest readings."""

    def __init__(self, live: Live) -> None:
        """Show ``live``."""
        super().__init__("device", id="gpu")
        self._live = live

    def lines(self, width: int, height: int) -> list[Text]:
        """GPU first, then what was noticed, then the host and the engine; processes last."""
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
            threads = live.device.threads
            found += flow(
                "engine",
                [
                    live.device.name,
                    Text(f"torch {live.device.torch_version}", DIM),
                    Text(f"{threads} thread{'' if threads == 1 else 's'}", DIM),
                ],
                width,
            )
        if live.gpu is not None and live.gpu.processes and len(found) < height:
            found += self._processes(live.gpu, height - len(found), width)
        for other in sorted(live.other_gpus.values(), key=lambda one: one.index):
            found += self._other(other, width)
        return found or [Text("Waiting for the monitor.", DIM)]

    def _gpu(self, gpu: GpuReading, width: int) -> list[Text]:
        used, total = gpu.used_bytes, gpu.total_bytes
        found = flow(
            "GPU",
            [
                Text(gpu.name or NOT_AVAILABLE, "bold"),
                Text(f"NVML #{gpu.index}" if gpu.index >= 0 else "", DIM),
                Text("MIG" if gpu.mig else "", f"bold {ORANGE}"),
                Text("UNIFIED with the host's memory" if gpu.unified else "", f"bold {ORANGE}"),
            ],
            width,
        )
        found += flow(
            "memory",
            [
                f"{format_bytes(used)} of {format_bytes(total)}",
                pair("driver", format_bytes(gpu.reserved_bytes)),
            ],
            width,
        )
        if used is not None and total:
            found.append(self._bar(used, total, width))
        if gpu.throttle is None:
            throttle = pair("throttled", NOT_AVAILABLE)
        elif gpu.throttle:
            throttle = Text(f"THROTTLED: {', '.join(gpu.throttle)}", f"bold {ORANGE}")
        else:
            throttle = pair("throttled", "no")
        clocks = f"{_shown(gpu.memory_clock_mhz)} of {_shown(gpu.max_memory_clock_mhz, 'MHz')}"
        return [
            *found,
            *flow(
                "busy",
                [
                    _shown(gpu.busy_percent, "%"),
                    pair(
                        "power", f"{_shown(gpu.power_w, 'W')} of {_shown(gpu.power_limit_w, 'W')}"
                    ),
                    Text(_shown(gpu.temperature_c, "°C")),
                ],
                width,
            ),
            *flow(
                "clocks",
                [pair("SM", _shown(gpu.sm_clock_mhz)), pair("mem", clocks), throttle],
                width,
            ),
            *flow("ECC", _ecc(gpu), width),
        ]

    def _other(self, gpu: GpuReading, width: int) -> list[Text]:
        """Another device of the machine in one line."""
        held = f"{format_bytes(gpu.used_bytes)} of {format_bytes(gpu.total_bytes)}"
        name = Text(gpu.name or NOT_AVAILABLE, DIM)
        busy = pair("busy", _shown(gpu.busy_percent, "%"))
        return flow(f"GPU #{gpu.index}", [held, busy, name], width)

    def _host(self, host: HostReading, width: int) -> list[Text]:
        used = host.total_bytes - host.available_bytes
        load = NOT_AVAILABLE if host.load_average is None else f"{host.load_average:.2f}"
        found = flow(
            "host",
            [
                f"{format_bytes(used)} used of {format_bytes(host.total_bytes)}",
                pair("CPU", _shown(host.cpu_percent, "%")),
                pair("load", load),
            ],
            width,
        )
        return [*found, self._bar(used, host.total_bytes, width)]

    def _bar(self, used: int, total: int, width: int) -> Text:
        bar = stacked_bar(
            [Part(used, self.glyphs.full, BLUE)], total, width - LABEL_WIDTH, self.glyphs
        )
        return Text(" " * LABEL_WIDTH, no_wrap=True).append_text(bar)

    def _processes(self, gpu: GpuReading, room: int, width: int) -> list[Text]:
        rows = sorted(gpu.processes or [], key=lambda one: -(one.used_bytes or 0))
        found = []
        for one in rows[:room]:
            ours = " (this run)" if one.pid == self._live.worker_pid else ""
            line = Text(no_wrap=True).append(f"{one.pid:<{LABEL_WIDTH}}", LABEL)
            line.append(f"{format_bytes(one.used_bytes):>9}")
            name = Text(f"  {one.name or NOT_AVAILABLE}", DIM)
            name.truncate(max(0, width - line.cell_len - len(ours)), overflow="ellipsis")
            found.append(line.append_text(name).append(ours, BLUE))
        return found


def _ecc(gpu: GpuReading) -> list[Text | str]:
    if gpu.ecc is None:
        return [NOT_AVAILABLE]
    if not gpu.ecc:
        return ["off"]
    errors = gpu.ecc_uncorrected
    if errors:
        return ["on", Text(f"{errors:,} UNCORRECTED ERRORS", f"bold {ORANGE}")]
    return ["on", pair("uncorrected", NOT_AVAILABLE if errors is None else "0")]


def _shown(value: float | None, unit: str = "") -> str:
    return NOT_AVAILABLE if value is None else f"{value:,.0f} {unit}".rstrip()
