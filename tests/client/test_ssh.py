"""Helpers over ssh, with a fake ssh that runs the far side on this machine."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kvtui import __version__
from kvtui.client.ssh import RemoteHelper, RemoteHost, helpers_on, readings_of, start_remote
from kvtui.errors import InputError, UnavailableError
from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Gone,
    Hello,
    HostReading,
    LinkReading,
    Notice,
    PingCommand,
    Pong,
    StopCommand,
    decode_command,
    encode,
)
from tests.client.far import FakeSsh, far_kvtui, far_python

BANNER = ("Welcome to gpu-box", '{"type":"stage","name":"early","detail":""}', "Last login: never")
HOST = RemoteHost("gpu-box", "never-run")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    return FakeSsh(tmp_path / "bin", monkeypatch)


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    """Pings end with their source."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before <= {asyncio.current_task()}


@pytest.fixture
def host(tmp_path: Path) -> RemoteHost:
    return far_kvtui(tmp_path)


def far(tmp_path: Path, code: str) -> RemoteHost:
    """A far machine whose Python runs ``code``, whatever it is asked to run."""
    return far_python(tmp_path, f"import sys\n{code}", shell=sys.executable)


def hello(*, schema: str = RECORDS_SCHEMA, version: str = __version__) -> str:
    return encode(Hello(schema=schema, role="worker", version=version, pid=1)).decode().strip()


async def everything(host: RemoteHost) -> list[AnyRecord]:
    source = await start_remote("worker", host)
    return [record async for record in source.records()]


async def last(host: RemoteHost) -> Gone:
    found = (await everything(host))[-1]
    assert isinstance(found, Gone)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "", "-oProxyCommand=id", "user@-x", "-x@host", "a b", "a\tb", "a\nb", "a;id", "$(id)",
        "`id`", "host\x1b[2J", "user@", "@host", "h" * 256, "a'b", "ssh://-x",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    """A dash, a space, a control character or anything a shell knows never reaches ssh."""
    with pytest.raises(InputError, match="host is"):
        RemoteHost(name)


@pytest.mark.parametrize("name", ["gpu-box", "me@10.0.0.7", "me@[fe80::1%eth0]", "bücher.example"])
def test_names_as_ssh_takes_them_are_taken(name: str) -> None:
    """Aliases, users, addresses and names in any script."""
    command = RemoteHost(name).command("worker")
    assert command[-3:-1] == ("--", name)


@pytest.mark.parametrize("python", ["", " ", "-c", "a\nb"])
def test_what_is_no_python_is_refused(python: str) -> None:
    """A dash or a control character is no path."""
    with pytest.raises(InputError, match="host python is"):
        RemoteHost("gpu-box", python)


def test_the_far_shell_gets_one_quoted_command() -> None:
    """Whatever is in the path, the far shell sees one word; ssh asks nothing."""
    command = RemoteHost("gpu-box", "~/my env/$(id)/python").command("monitor", "--once")
    assert command[:2] == ("ssh", "-T")
    assert {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5"} <= set(command)
    assert shlex.split(command[-1]) == [
        "exec", "my env/$(id)/python", "-P", "-m", "kvtui.monitor", "--once",
    ]  # fmt: skip


async def test_banners_are_skipped_and_the_latency_is_measured(
    ssh: FakeSsh, host: RemoteHost
) -> None:
    """The real monitor behind a chatty login: its hello first, then readings and round trips."""
    ssh.write(banner=BANNER, noise=("Authorized use only.",))
    source = await start_remote("monitor", host, every_s=0.01)
    stream = source.records()
    first = await anext(stream)
    assert isinstance(first, Hello)
    links = []
    async for record in stream:
        assert not isinstance(record, Pong)
        if isinstance(record, LinkReading):
            links.append(record)
            if len(links) == 3:
                break
    await source.stop()
    gone = [record async for record in stream][-1:]
    assert all(one.host == "gpu-box" and 0 < one.round_trip_ms < 5000 for one in links)
    assert all(isinstance(one, Gone) and one.expected for one in gone)
    (call,) = ssh.calls.read_text().splitlines()
    assert json.loads(call) == [*host.command("monitor")[1:]]


async def test_stopping_leaves_no_process(ssh: FakeSsh, host: RemoteHost) -> None:
    """stop, twice and from two places, ends ssh and what it runs; kill_now needs no loop."""
    for end in ("stop", "kill_now"):
        source = await start_remote("monitor", host)
        assert isinstance(source, RemoteHelper)
        stream = source.records()
        assert isinstance(await anext(stream), Hello)
        if end == "kill_now":
            source.kill_now()
        await asyncio.gather(source.stop(), source.stop())
        with pytest.raises(ProcessLookupError):
            os.kill(source.pid, 0)
        assert await source.send(StopCommand()) is False
        await stream.aclose()  # type: ignore[attr-defined]


async def test_only_the_monitor_s_answers_are_measured(ssh: FakeSsh, tmp_path: Path) -> None:
    """A worker is pinged too, so that it knows the link is there, but may be in a step."""
    pong = encode(Pong(ping=1)).decode().strip()
    host = far(
        tmp_path,
        f"print({hello()!r}, flush=True)\nline = sys.stdin.readline()\n"
        f"print({pong!r}, flush=True)\nprint(line, file=sys.stderr)",
    )
    records = await everything(host)
    assert [type(record) for record in records] == [Hello, Gone]
    gone = records[-1]
    assert isinstance(gone, Gone)
    assert decode_command(gone.sentence.partition(": ")[2].rstrip(".").encode()) == PingCommand(
        ping=1
    )


@pytest.mark.parametrize(
    ("noise", "sentence"),
    [
        ("ssh: Could not resolve hostname gpu-box: Name or service not known", "can resolve"),
        ("Host key verification failed.", "The host key of gpu-box is not known"),
        (
            "@  WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\nHost key verification failed.",
            "The host key of gpu-box has changed",
        ),
        ("me@gpu-box: Permission denied (publickey,password).", "without a password: ssh-copy-id"),
        ("ssh: connect to host gpu-box port 22: Connection refused", "Nothing answers for ssh"),
        ("ssh: connect to host gpu-box port 22: Connection timed out", "does not answer"),
        ("ssh: connect to host gpu-box port 22: No route to host", "There is no way to gpu-box"),
        (
            "/home/me/.ssh/config: line 3: Bad configuration option: hots",
            "ssh cannot use its configuration: /home/me/.ssh/config: line 3",
        ),
        (
            "kex_exchange_identification: Connection closed by remote host",
            "ssh cannot reach gpu-box: kex_exchange_identification",
        ),
        ("", "ssh cannot reach gpu-box."),
    ],
)
async def test_each_failure_of_ssh_has_its_sentence(
    ssh: FakeSsh, noise: str, sentence: str
) -> None:
    """255 before the hello is ssh's own failure, told by what it wrote among the far banner."""
    ssh.write(noise=("Authorized use only.", *noise.splitlines()), status=255)
    gone = await last(HOST)
    assert sentence in gone.sentence
    assert (gone.expected, gone.exit_status) == (False, 255)


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("no-such-python", "gpu-box has no no-such-python: install Python 3.11"),
        ("/etc/passwd", "/etc/passwd on gpu-box cannot be executed"),
    ],
)
async def test_a_missing_python_is_said(ssh: FakeSsh, python: str, sentence: str) -> None:
    """What the far shell's status means, and how to name another."""
    found = (await last(RemoteHost("gpu-box", python))).sentence
    assert sentence in found
    assert "--host-python" in found


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("sys.exit('far-python: No module named kvtui')", f"install kvtui {__version__} into it"),
        ("sys.exit('ModuleNotFoundError: No module named torch')", "install torch there"),
        ("print('Unknown option: -P', file=sys.stderr); sys.exit(2)", "is older than 3.11"),
        (
            "sys.exit('RuntimeError: odd')",
            "worker on gpu-box ended with status 1: RuntimeError",
        ),
    ],
)
async def test_what_is_missing_there_is_said(
    ssh: FakeSsh, tmp_path: Path, code: str, sentence: str
) -> None:
    """No kvtui, no torch, an old Python: each with what to install."""
    assert sentence in (await last(far(tmp_path, code))).sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "Timeout, server gpu-box not responding.",
            "The link to gpu-box was lost: Timeout, server gpu-box not responding. What was",
        ),
        ("client_loop: send disconnect: Broken pipe", "Broken pipe. What was measured"),
        ("", "The worker on gpu-box was killed by a signal"),
    ],
)
async def test_a_lost_link_is_no_lost_worker(
    ssh: FakeSsh, tmp_path: Path, words: str, sentence: str
) -> None:
    """255 after the hello: the link's own words, or a far signal that ssh does not pass on."""
    code = f"print({hello()!r}, flush=True)\nprint({words!r}, file=sys.stderr)\nsys.exit(255)"
    assert sentence in (await last(far(tmp_path, code))).sentence


async def test_another_schema_is_refused_and_another_version_said(
    ssh: FakeSsh, tmp_path: Path
) -> None:
    """A far kvtui that cannot be read ends with a sentence; one that can is used, and named."""
    host = far(tmp_path, f"print({hello(schema='kvtui.records/9')!r}, flush=True); input()")
    assert "kvtui.records/9" in (await last(host)).sentence
    host = far(tmp_path, f"print({hello(version='9.9')!r}, flush=True)")
    records = await everything(host)
    assert [type(record) for record in records] == [Hello, Notice, Gone]
    assert isinstance(records[1], Notice)
    assert "gpu-box has kvtui 9.9, this machine" in records[1].sentence


async def test_without_ssh_the_source_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No OpenSSH client: one record with the reason, as from any source."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for start in (helpers_on(HOST).worker, helpers_on(HOST).monitor):
        source = await start()
        (gone,) = [record async for record in source.records()]
        assert isinstance(gone, Gone)
        assert gone.sentence == "There is no ssh on this machine: --host needs the OpenSSH client."
    with pytest.raises(UnavailableError, match="no ssh"):
        readings_of(HOST)


def test_one_look_at_the_far_machine(ssh: FakeSsh, host: RemoteHost) -> None:
    """The far monitor's readings, banner skipped; what keeps them away is raised as a sentence."""
    ssh.write(banner=BANNER)
    records = readings_of(host)
    assert isinstance(records[0], Hello)
    assert any(isinstance(record, HostReading) for record in records)
    ssh.write(noise=("Host key verification failed.",), status=255)
    with pytest.raises(UnavailableError, match="host key of gpu-box is not known"):
        readings_of(HOST)
