"""Flags that several commands share: the shape in question, and the live run.

Values stay text here; the request and the run options read them, so that a bad one is named the
same way wherever it came from.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from kvtui.errors import InputError

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
    ("hit-rate", "SHARE", "share of them that find it in a prefix cache"),
    ("in-flight", "N", "tokens of prompts being prefilled beside them"),
    ("chunk", "N", "tokens an engine schedules a step: max_num_batched_tokens, ubatch"),
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


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Model, workload, storage, machine and budget."""
    for title, flags in _SHAPE_GROUPS:
        group = parser.add_argument_group(title)
        for name, metavar, text in flags:
            group.add_argument(f"--{name}", metavar=metavar, help=text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """How a live run is carried out."""
    group = parser.add_argument_group("live run")
    group.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N")
    group.add_argument("--start", metavar="N", help="tokens prefilled, T0 (a quarter of T)")
    group.add_argument("--work", default="layer", metavar="KIND", help="attention, layer or block")
    group.add_argument(
        "--cache",
        default="contiguous",
        metavar="KIND",
        help="contiguous, paged, concat, offload or expanded (MLA)",
    )
    group.add_argument("--hot", metavar="N", help="tokens --cache offload keeps on the device")
    group.add_argument(
        "--backend", default="auto", metavar="NAME", help="auto, kernel (CPU) or torch"
    )
    group.add_argument("--threads", metavar="N", help="CPU threads (all cores but one)")
    group.add_argument(
        "--probe", metavar="SIZE", help="bytes read to measure the limit; 0 measures none"
    )
    group.add_argument("--margin", metavar="SIZE", help="memory that must stay free")
    group.add_argument("--time-limit", metavar="SECONDS", help="end the run by the clock")


def add_screen(parser: argparse.ArgumentParser) -> None:
    """How a screen looks and behaves."""
    parser.add_argument("--theme", metavar="NAME", help="a Textual theme")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.add_argument("--interval", metavar="SECONDS", help="between repaints (0.25)")
    parser.add_argument("--ascii", action="store_true", help="draw without box and braille glyphs")
    add_log(parser)


def add_record(parser: argparse.ArgumentParser) -> None:
    """Where records go as well."""
    parser.add_argument(
        "--record", metavar="FILE", help="write every record to FILE, compressed if it ends in .gz"
    )


def add_host(parser: argparse.ArgumentParser) -> None:
    """Where the helper processes run."""
    group = parser.add_argument_group("another machine")
    group.add_argument("--host", metavar="NAME", help="run there over ssh, as ssh NAME reaches it")
    group.add_argument(
        "--host-python", metavar="PATH", help="the Python there that has kvtui (python3)"
    )


def add_log(parser: argparse.ArgumentParser) -> None:
    """Where to write what happens."""
    parser.add_argument("--log", metavar="FILE", help="append what happens to FILE")


def settings(options: argparse.Namespace, *, ids: tuple[str, ...] = ()) -> "Settings":
    """What holds of file, environment and flags; ``ids`` are the keys that can be changed."""
    from kvtui import config

    given = vars(options)
    flags = {
        "theme": given.get("theme"),
        "mouse": False if given.get("no_mouse") else None,
        "interval": given.get("interval"),
        "ascii": True if given.get("ascii") else None,
        "log": given.get("log"),
    }
    return config.settings(flags, os.environ, ids=ids)


def begin_log(settings: "Settings") -> None:
    """Open the log if one was asked for, with what holds in its first lines."""
    if settings.log is None:
        return
    from kvtui import __version__
    from kvtui.log import LOG, log_to

    log_to(settings.log)
    LOG.info("kvtui %s: %s", __version__, sys.argv[1:])
    for name, found in settings.origins.items():
        LOG.debug("%s = %r (%s)", name, found.value, found.origin)


def screen_settings(options: argparse.Namespace) -> "Settings":
    """What holds for a screen; its log is open and its glyphs are chosen."""
    from kvtui.tui.bindings import changeable_keys

    found = settings(options, ids=tuple(changeable_keys()))
    begin_log(found)
    os.environ["KVTUI_ASCII"] = "1" if found.ascii else "0"
    return found


def request(options: argparse.Namespace) -> "Request":
    """The shape as it was typed."""
    from kvtui.sources.request import Request

    given = vars(options)
    return Request(**{name: given.get(name) for name in Request.__dataclass_fields__})


def run_options(options: argparse.Namespace) -> "RunOptions":
    """How the run was asked for; raises ``InputError`` naming a bad value."""
    from kvtui.decode_run import DEFAULT_HOT
    from kvtui.session.runs import RunOptions
    from kvtui.units import count, parse_bytes

    for name, allowed in (
        ("work", ("attention", "layer", "block")),
        ("cache", ("contiguous", "paged", "concat", "offload", "expanded")),
        ("backend", ("auto", "kernel", "torch")),
    ):
        if getattr(options, name) not in allowed:
            raise InputError(name, getattr(options, name), "one of " + ", ".join(allowed))
    return RunOptions(
        device=options.device,
        start=None if options.start is None else count("start", options.start),
        cache=options.cache,
        hot=DEFAULT_HOT if options.hot is None else count("hot", options.hot),
        backend=options.backend,
        work=options.work,
        threads=None if options.threads is None else count("threads", options.threads, high=4096),
        margin_bytes=None if options.margin is None else parse_bytes("margin", options.margin),
        time_limit_s=None if options.time_limit is None else _seconds(options.time_limit),
        probe_bytes=None if options.probe is None else parse_bytes("probe", options.probe),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0 < seconds <= 86_400:
        raise InputError("time limit", text, "seconds above 0 and at most 86400")
    return seconds


def remote(options: argparse.Namespace) -> "RemoteHost | None":
    """The other machine; None for this one. Raises ``InputError`` for a name that is none."""
    if options.host is None:
        if options.host_python is not None:
            raise InputError("host python", options.host_python, "given together with --host")
        return None
    from kvtui.client.ssh import RemoteHost

    given = options.host_python
    return RemoteHost(options.host) if given is None else RemoteHost(options.host, given)


def helpers(options: argparse.Namespace) -> "Helpers":
    """Where worker and monitor come from."""
    found = remote(options)
    if found is None:
        from kvtui.client.local import LOCAL

        return LOCAL
    from kvtui.client.ssh import helpers_on

    return helpers_on(found)


def detect_on(options: argparse.Namespace) -> "DetectDevice":
    """What ``--gpu auto`` and ``--gpu host`` stand for on the machine that was chosen."""
    found = remote(options)
    if found is None:
        return detect
    from kvtui.machine import FarMachine

    return FarMachine(found).detect


def detect(name: str) -> "Device":
    """What ``--gpu auto`` and ``--gpu host`` stand for."""
    from kvtui.machine import detect as detect_device

    return detect_device(name)


if TYPE_CHECKING:  # importing them would cost every command
    from kvtui.client.local import Helpers
    from kvtui.client.ssh import RemoteHost
    from kvtui.config import Settings
    from kvtui.session.runs import RunOptions
    from kvtui.sources.request import DetectDevice, Request
    from kvtui.spec import Device
