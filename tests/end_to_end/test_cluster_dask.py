"""Somebody's own cluster of Dask: a scheduler and workers as its programs start them, with TLS."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer.errors import HostLost, Impossible, ReplayerError
from replayer.storage import spin_worker
from tests import cluster_jobs
from tests.waiting import wait_until

dask = pytest.importorskip("dask")
tls = pytest.importorskip("replayer.cluster.tls")
hosts = pytest.importorskip("replayer.cluster.hosts")
plugin = pytest.importorskip("replayer.cluster.dask_plugin")


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Have Dask configured with a certificate, as a user's files do it; return the environment."""
    secret = tls.new_secret()
    for name, text in (("cert.pem", secret.certificate), ("key.pem", secret.key)):
        (tmp_path / name).write_text(text)
    settings = {"distributed.comm.tls.ca-file": str(tmp_path / "cert.pem")}
    for role in ("client", "scheduler", "worker"):
        settings[f"distributed.comm.tls.{role}.cert"] = str(tmp_path / "cert.pem")
        settings[f"distributed.comm.tls.{role}.key"] = str(tmp_path / "key.pem")
    with dask.config.set(settings):
        yield {
            **os.environ,
            "PYTHONPATH": str(cluster_jobs.ROOT),
            "DASK_TEMPORARY_DIRECTORY": str(tmp_path),
            **{
                "DASK_" + key.upper().replace(".", "__").replace("-", "_"): value
                for key, value in settings.items()
            },
        }


@contextlib.contextmanager
def started(
    program: str, environment: dict[str, str], *words: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program of Dask, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + program, *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)


@pytest.fixture
def cluster(
    configured: dict[str, str], tmp_path: Path
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Return a scheduler's address and process; its worker has a nanny, as they come."""
    file = tmp_path / "scheduler.json"
    words = ("--scheduler-file", str(file), "--no-dashboard", "--protocol", "tls")
    where = ("--host", "127.0.0.1", "--port", "0")
    with (
        started("dask_scheduler", configured, *where, *words) as scheduler,
        started("dask_worker", configured, "--name", "theirs", "--nthreads", "1", *words),
    ):
        wait_until(file.exists)
        yield json.loads(file.read_text())["address"], scheduler


def _connected(address: str) -> tuple[contextlib.ExitStack, Any]:
    """Return the hosts, once the cluster has a worker."""
    end = time.monotonic() + 120
    while True:
        try:
            with contextlib.ExitStack() as stack:
                connected = stack.enter_context(hosts.connect_hosts([], cluster=address))
                return stack.pop_all(), connected
        except Impossible:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


@pytest.mark.slow
def test_workers_of_a_cluster_do_the_jobs_and_are_given_back(
    cluster: tuple[str, "subprocess.Popen[bytes]"],
) -> None:
    """Behind a nanny, too; afterwards the cluster does its own work again, and again ours."""
    address, _ = cluster
    for _ in range(2):
        stack, connected = _connected(address)
        with stack:
            assert connected.names == ("theirs",)
            jobs = [spin_worker.SpinWork("cpu", 0.2, 4096)] * 2
            with connected.pool(spin_worker.work, jobs, processes=2) as pool:
                pool.open()
                assert all(events > 0 for events, _ in pool.results())
            with pytest.raises(ReplayerError, match="another replayer works on"):
                _connected(address)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_ends_the_run(
    cluster: tuple[str, "subprocess.Popen[bytes]"],
) -> None:
    """Its workers close themselves: the host is told as lost, and nothing works on."""
    address, scheduler = cluster
    stack, connected = _connected(address)
    with stack:
        jobs = [spin_worker.SpinWork("cpu", 600.0, 4096)] * 2
        with connected.pool(spin_worker.work, jobs, processes=2) as pool:
            pool.open()
            assert _children()
            scheduler.kill()
            with pytest.raises(HostLost, match="theirs"):
                pool.results(timeout=120)
        wait_until(lambda: not _children())


def _children() -> list[Path]:
    """Return the processes that work on somebody's workers."""
    found: list[Path] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [file] if b"\0somebodys\0" in file.read_bytes() else []
    return found


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://192.0.2.1:8786", "is not encrypted and not on this host"),
        ("ucx://192.0.2.1:8786", "begins with tls://"),
        ("db:8786", "begins with tls://"),
    ],
)
def test_a_cluster_without_tls_is_refused(address: str, words: str) -> None:
    """Before anything is sent to it."""
    with pytest.raises(Impossible, match=words), hosts.connect_hosts([], cluster=address):
        pass


def test_a_cluster_that_is_not_there_is_told(
    configured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, when it was asked for as long as is said."""
    monkeypatch.setattr(plugin, "CONNECT_SECONDS", 0.2)
    with (
        pytest.raises(ReplayerError, match="does not answer"),
        hosts.connect_hosts([], cluster="tls://127.0.0.1:1"),
    ):
        pass


def test_hosts_and_a_cluster_are_not_both_the_clients() -> None:
    """One of them is to be given."""
    with (
        pytest.raises(Impossible, match="give one"),
        hosts.connect_hosts(["a"], cluster="tls://b:1"),
    ):
        pass
