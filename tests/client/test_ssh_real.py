"""The same over a real OpenSSH: client and server on loopback, the server as this user."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from kvtui.client.ssh import RemoteHost, readings_of, start_remote
from kvtui.decode_run import DecodeRun
from kvtui.errors import UnavailableError
from kvtui.records import (
    AnyRecord,
    EngineDevice,
    Gone,
    Hello,
    LinkReading,
    Started,
    Steps,
    run_command,
)
from kvtui.spec import FullAttention
from tests.client.far import ROOT, far_kvtui

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
SSH, KEYGEN = shutil.which("ssh"), shutil.which("ssh-keygen")
RUN = DecodeRun(
    groups=(FullAttention(layers=2, q_heads=4, kv_heads=2, k_width=16, v_width=16),),
    batch=1, start=16, target=2**20, device="cpu", threads=1, probe_bytes=2**20,
)  # fmt: skip


class Server:
    """An sshd of this user alone, and an ssh on the PATH that finds it as ``gpu-box``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        for name in ("host_key", "user_key"):
            subprocess.run(
                [KEYGEN or "", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        public = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")
        (folder / "banner").write_text("Authorized use only.\n")
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nPidFile {folder}/pid\n"
            f"Banner {folder}/banner\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        )
        self.client_config()
        program = folder / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {SSH} -F {folder}/config "$@"\n')
        program.chmod(0o755)
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [SSHD or "", "-D", "-e", "-f", folder / "sshd_config"], stderr=log
            )

    def client_config(self, *, key: str = "user_key", known: str = "known_hosts") -> None:
        """How ssh reaches it."""
        (self.folder / "config").write_text(
            f"Host gpu-box\n  HostName 127.0.0.1\n  Port {self.port}\n"
            f"  IdentityFile {self.folder}/{key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/{known}\n  GlobalKnownHostsFile /dev/null\n"
        )

    def answers(self) -> bool:
        """Somebody listens at its port."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def connections(self) -> list[psutil.Process]:
        """Its processes for connections, and what runs in them."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self) -> None:
        """End it and its connections."""
        found = self.connections()
        self.process.terminate()
        self.process.wait(10)
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not (SSHD and SSH and KEYGEN):
        pytest.skip("no OpenSSH server here (Debian: openssh-server)")
    if os.getuid() == 0:  # where root's sshd gives its privileges up; other users need no folder
        with contextlib.suppress(OSError):
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder = tmp_path_factory.mktemp("sshd")
    server = Server(folder)
    try:
        for _ in range(200):
            if server.answers() or server.process.poll() is not None:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(0.05)
        if not server.answers():
            pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()[-300:]}")
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture
def server(sshd: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    sshd.client_config()
    monkeypatch.setenv("PATH", str(sshd.folder / "bin"), prepend=":")
    return sshd


@pytest.fixture
def host(tmp_path: Path) -> RemoteHost:
    return far_kvtui(tmp_path)


async def until(stream: AsyncIterator[AnyRecord], kind: type[AnyRecord]) -> list[AnyRecord]:
    """Records up to the first of ``kind``."""
    found: list[AnyRecord] = []
    async with asyncio.timeout(60):
        async for record in stream:
            found.append(record)
            if isinstance(record, kind):
                return found
    pytest.fail(f"the stream ended: {found[-1]}")


async def test_a_run_over_the_link(server: Server, host: RemoteHost) -> None:
    """Hello, device and steps come through, latency is measured, and stop leaves nothing there."""
    worker = await start_remote("worker", host)
    monitor = await start_remote("monitor", host, every_s=0.05)
    readings = monitor.records()
    assert isinstance((await until(readings, LinkReading))[-1], LinkReading)
    assert await worker.send(run_command(1, RUN))
    records = await until(worker.records(), Steps)
    kinds = [type(record) for record in records]
    assert kinds[0] is Hello
    assert {EngineDevice, Started} <= set(kinds)
    roles = {"kvtui.worker", "kvtui.monitor"}
    far = [one for one in server.connections() if any("kvtui" in part for part in one.cmdline())]
    assert len([one for one in far if roles & set(one.cmdline())]) == 2
    await asyncio.gather(worker.stop(), monitor.stop())
    _, alive = psutil.wait_procs(far, timeout=5)
    assert not alive


async def test_a_link_that_is_cut_ends_the_run_as_lost(server: Server, host: RemoteHost) -> None:
    """When the connection goes, the last record says so, and the far worker ends by itself."""
    worker = await start_remote("worker", host)
    assert await worker.send(run_command(1, RUN))
    stream = worker.records()
    await until(stream, Steps)
    connections = server.connections()
    far = [one for one in connections if any("kvtui" in part for part in one.cmdline())]
    for one in connections:
        if one not in far:
            one.kill()
    gone = (await until(stream, Gone))[-1]
    assert isinstance(gone, Gone)
    assert not gone.expected
    assert gone.sentence.startswith("The link to gpu-box was lost: ")
    assert gone.sentence.endswith("What was measured until then is kept.")
    _, alive = psutil.wait_procs(far, timeout=5)
    assert not alive


async def test_a_far_worker_that_is_killed_is_told_from_the_link(
    server: Server, host: RemoteHost
) -> None:
    """ssh passes no signal on: the sentence says what it often was, and names no link's words."""
    worker = await start_remote("worker", host)
    stream = worker.records()
    hello = await anext(stream)
    assert isinstance(hello, Hello)
    os.kill(hello.pid, signal.SIGKILL)
    gone = (await until(stream, Gone))[-1]
    assert isinstance(gone, Gone)
    assert "The worker on gpu-box was killed" in gone.sentence


def test_a_whole_headless_run(server: Server, host: RemoteHost) -> None:
    """kvtui run --host: summary on stdout, exit 0, with the far device and link records."""
    found = subprocess.run(
        [sys.executable, "-P", "-m", "kvtui", "run", "--host", "gpu-box", "--host-python",
         host.python, "--device", "cpu", "--layers", "1", "--batch", "1", "--context", "64",
         "--q-heads", "2", "--kv-heads", "1", "--head-dim", "16", "--dtype", "fp32",
         "--probe", "0", "--threads", "1", "--json"],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert '"ended":"target"' in found.stdout.splitlines()[-1]


def test_each_refusal_has_its_sentence(server: Server, host: RemoteHost) -> None:
    """Phrases of the real client: unknown and changed host key, no right, no name, no python."""
    server.client_config(known="nobody")
    with pytest.raises(UnavailableError, match="The host key of gpu-box is not known"):
        readings_of(host)
    other = (server.folder / "user_key.pub").read_text()
    (server.folder / "changed").write_text(f"[127.0.0.1]:{server.port} {other}")
    server.client_config(known="changed")
    with pytest.raises(UnavailableError, match="The host key of gpu-box has changed"):
        readings_of(host)
    server.client_config(key="host_key")
    with pytest.raises(UnavailableError, match="without a password: ssh-copy-id gpu-box"):
        readings_of(host)
    server.client_config()
    with pytest.raises(UnavailableError, match=r"nosuchname\.invalid is not a name that ssh can"):
        readings_of(RemoteHost("nosuchname.invalid"))
    with pytest.raises(UnavailableError, match="gpu-box has no no-such-python: install Python"):
        readings_of(RemoteHost("gpu-box", "no-such-python"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        config = (server.folder / "config").read_text()
        port = closed.getsockname()[1]
        (server.folder / "config").write_text(config.replace(f"{server.port}", f"{port}"))
        with pytest.raises(UnavailableError, match="Nothing answers for ssh on gpu-box"):
            readings_of(host)
