"""The command line: parses, then imports the one front end that was asked for.

Nothing heavy is imported before a command is chosen. Expected failures leave as one sentence on
stderr and their exit status; stdout stays empty then.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from kvtui import __version__
from kvtui.errors import ExitCode, InputError, KvtuiError

_MODEL_FLAGS = (
    ("model", "NAME|FILE|FOLDER", "preset, config.json, folder, .gguf file or hub id"),
    ("layers", "N", "layers, L"),
    ("q-heads", "N", "query heads, Hq; may be missing where only bytes are asked"),
    ("kv-heads", "N", "KV heads, Hkv"),
    ("head-dim", "N", "head width, D"),
    ("v-head-dim", "N", "width of V where it differs from K"),
    ("attention", "KIND", "mha, gqa, mqa, mla, window or sinks"),
    ("window", "N", "tokens of a sliding window"),
    ("full-layers", "N", "layers that keep everything beside windowed ones"),
    ("sinks", "N", "first tokens kept beside the window"),
    ("kv-lora-rank", "N", "MLA latent width, d_c"),
    ("rope-dim", "N", "MLA rotary width, d_rope"),
)
_WORKLOAD_FLAGS = (
    ("workload", "NAME|FILE", "workload preset or TOML file"),
    ("batch", "N", "sequences, B"),
    ("context", "N", "tokens per sequence, T"),
    ("lengths", "T*N,...|FILE", "ragged lengths, such as 6000*20,3000*4"),
    ("mean", "N", "mean of log-normal lengths, with --p95 and --batch"),
    ("p95", "N", "length that 95 %% of them stay within"),
    ("shared-prefix", "N", "first tokens that all sequences share"),
    ("in-flight", "N", "tokens of prompts being prefilled beside them"),
    ("draft", "NAME", "speculative draft model, resident beside the target"),
    ("lookahead", "N", "slots each sequence reserves for speculated tokens"),
)
_STORAGE_FLAGS = (
    ("dtype", "NAME", "element format of the KV cache (bf16)"),
    ("v-dtype", "NAME", "element format of V where it differs"),
    ("block", "N", "tokens per page (1)"),
    ("state-dtype", "NAME", "element format of recurrent state"),
)
_MACHINE_FLAGS = (
    ("gpu", "NAME|auto|host", "GPU preset, the GPU that NVML finds, or host"),
    ("memory", "SIZE", "memory of one device"),
    ("bandwidth", "RATE", "memory bandwidth, such as 4.8TB/s"),
    ("flops", "RATE", "dense 16-bit FLOP/s, such as 989TFLOPS"),
    ("tp", "N", "tensor-parallel ranks (1)"),
    ("pp", "N", "pipeline stages (1)"),
    ("pp-layers", "N,N,...", "layers of each stage"),
    ("dp-attention", "N", "attention data-parallel groups of the tp ranks (1)"),
    ("dcp", "N", "decode context-parallel ranks (1)"),
    ("ep", "N", "expert-parallel ranks (1: experts split over tp)"),
)
_BUDGET_FLAGS = (
    ("weights", "SIZE", "weights of the whole model; 0 is allowed"),
    ("weights-dtype", "NAME", "element format of the weights"),
    ("activations", "SIZE", "activations, in place of the band"),
    ("overhead", "SIZE", "graphs, context, communication, in place of the band"),
    ("reserve", "SIZE", "memory kept free (0)"),
    ("utilization", "SHARE", "share of the memory that may be used (1)"),
    ("kv-budget", "SIZE", "memory for the cache on one rank, given directly"),
    ("kv-blocks", "N", "the same as a number of blocks"),
)
_SHAPE_GROUPS = (
    ("model", _MODEL_FLAGS),
    ("workload", _WORKLOAD_FLAGS),
    ("storage", _STORAGE_FLAGS),
    ("machine", _MACHINE_FLAGS),
    ("budget", _BUDGET_FLAGS),
)


class _Parser(argparse.ArgumentParser):
    """Usage errors are sentences with exit status 2, like all other bad input."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        raise KvtuiUsageError(f"{message}. See {self.prog} --help.")


class KvtuiUsageError(KvtuiError):
    """A command line that cannot be parsed."""

    exit_code = ExitCode.USAGE


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; the exit status."""
    try:
        return int(_dispatch(_parser().parse_args(arguments)))
    except KvtuiError as error:
        from kvtui.headless import output

        output.note(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kvtui",
        description="Size a KV cache, run it live, see where the bytes went. "
        "Without a command: the dashboard.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kvtui {__version__}")
    _dashboard_flags(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    size = commands.add_parser(
        "size",
        help="size a cache against a budget",
        allow_abbrev=False,
        description="Bytes, verdict, limits, step floor and levers of one cache.",
    )
    _shape_flags(size)
    size.add_argument("--json", action="store_true", help="one JSON object on stdout")
    size.add_argument("--check", action="store_true", help="exit 4 when it does not fit")
    size.add_argument("--explain", action="store_true", help="every number with its formula")

    live = commands.add_parser(
        "run",
        help="run a decode loop that grows the cache",
        allow_abbrev=False,
        description="A real decode loop on this machine; without a shape, a demonstration.",
    )
    _shape_flags(live)
    _run_flags(live)
    live.add_argument("--json", action="store_true", help="one record a line, last the summary")
    live.add_argument("--record", metavar="FILE", help="write every record to FILE")

    for name, text in (
        ("check", "prove that cached equals recomputed and predicted equals allocated"),
        ("lab", "the lessons' experiments, figure beside figure"),
    ):
        proof = commands.add_parser(name, help=text)
        proof.add_argument("--json", action="store_true", help="one JSON object on stdout")
        proof.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda:N")

    listing = commands.add_parser("presets", help="list models, devices and workloads")
    listing.add_argument("--json", action="store_true", help="one JSON object on stdout")

    monitor = commands.add_parser("monitor", help="NVML and host readings")
    monitor.add_argument("--once", action="store_true", help="one reading of every device")
    monitor.add_argument("--interval", metavar="SECONDS", help="between readings (1)")
    return parser


def _dashboard_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--theme", metavar="NAME", help="a Textual theme")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    _shape_flags(parser)
    _run_flags(parser)


def _shape_flags(parser: argparse.ArgumentParser) -> None:
    for title, flags in _SHAPE_GROUPS:
        group = parser.add_argument_group(title)
        for name, metavar, text in flags:
            group.add_argument(f"--{name}", metavar=metavar, help=text)


def _run_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("live run")
    group.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N")
    group.add_argument("--start", metavar="N", help="tokens prefilled, T0 (a quarter of T)")
    group.add_argument("--work", default="layer", metavar="KIND", help="attention, layer or block")
    group.add_argument(
        "--cache", default="contiguous", metavar="KIND", help="contiguous, paged or concat"
    )
    group.add_argument("--threads", metavar="N", help="CPU threads (all cores but one)")
    group.add_argument("--margin", metavar="SIZE", help="memory that must stay free")
    group.add_argument("--time-limit", metavar="SECONDS", help="end the run by the clock")


def _dispatch(options: argparse.Namespace) -> ExitCode | int:
    match options.command:
        case "size":
            from kvtui.headless.size import size

            return size(
                _request(options),
                as_json=options.json,
                check=options.check,
                explain=options.explain,
                detect=_detect,
            )
        case "run":
            from kvtui.headless.live import run_live

            return run_live(
                _request(options),
                _run_options(options),
                as_json=options.json,
                record=options.record,
                detect=_detect,
            )
        case "check" | "lab":
            from kvtui.headless.engine_command import engine_command

            return engine_command(options.command, device=options.device, as_json=options.json)
        case "presets":
            from kvtui.headless.listing import presets

            return presets(as_json=options.json)
        case "monitor":
            from kvtui.headless.monitor import monitor

            return monitor(once=options.once, interval=options.interval)
    return _main_job(options)


def _main_job(options: argparse.Namespace) -> ExitCode | int:
    """The dashboard; the same job headless where there is no terminal to draw on."""
    why = _no_screen()
    if why is None:
        from kvtui.tui.app import run as run_dashboard

        return run_dashboard(
            _request(options),
            _run_options(options),
            theme=options.theme,
            mouse=not options.no_mouse,
            detect=_detect,
        )
    from kvtui.headless.main_job import main_job

    return main_job(_request(options), _run_options(options), why=why, detect=_detect)


def _no_screen() -> str | None:
    """Why the dashboard cannot be drawn; None when it can. Textual draws on stderr."""
    if os.environ.get("TERM", "") == "dumb":
        return "TERM is dumb"
    for name, stream in (("stdin", sys.stdin), ("stderr", sys.stderr)):
        try:
            if stream is None or not stream.isatty():
                return f"{name} is not a terminal"
        except ValueError:
            return f"{name} is closed"
    return None


def _request(options: argparse.Namespace) -> "Request":
    from kvtui.sources.request import Request

    given = vars(options)
    return Request(**{name: given.get(name) for name in Request.__dataclass_fields__})


def _run_options(options: argparse.Namespace) -> "RunOptions":
    from kvtui.session.runs import RunOptions
    from kvtui.units import count, parse_bytes

    for name, allowed in (
        ("work", ("attention", "layer", "block")),
        ("cache", ("contiguous", "paged", "concat")),
    ):
        if getattr(options, name) not in allowed:
            raise InputError(name, getattr(options, name), "one of " + ", ".join(allowed))
    return RunOptions(
        device=options.device,
        start=None if options.start is None else count("start", options.start),
        cache=options.cache,
        work=options.work,
        threads=None if options.threads is None else count("threads", options.threads, high=4096),
        margin_bytes=None if options.margin is None else parse_bytes("margin", options.margin),
        time_limit_s=None if options.time_limit is None else _seconds(options.time_limit),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0 < seconds <= 86_400:
        raise InputError("time limit", text, "seconds above 0 and at most 86400")
    return seconds


def _detect(name: str) -> "Device":
    """What ``--gpu auto`` and ``--gpu host`` stand for."""
    from kvtui.machine import detect

    return detect(name)


if TYPE_CHECKING:  # importing them would cost every command
    from kvtui.session.runs import RunOptions
    from kvtui.sources.request import Request
    from kvtui.spec import Device
