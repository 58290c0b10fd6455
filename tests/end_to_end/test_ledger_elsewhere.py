"""The ledger of a server on another host, beside iostat on that host."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from replayer.machine.host import Host
from tests import namespaces
from tests.command import COMMAND

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.quiet]

ATTEMPTS = 2
SECONDS = 20
PHYSICAL = f"""
description = "physical reads"
[[step]]
step = "sessions"
memory = "direct"
num_schemas = 2
num_threads = 2
scale = "64M"
run_time = "{SECONDS}s"
"""
ISO = {"LC_ALL": "C", "S_TIME_FORMAT": "ISO", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Any]:
    """Return the hosts."""
    with namespaces.rig("user", "db", "c1", "c2") as made:
        yield made


@pytest.fixture(scope="module")
def url(hosts: dict[str, namespaces.Host]) -> str:
    """Return the URL of a server that reads around the page cache."""
    settings = ("shared_buffers = 2MB", "debug_io_direct = data", "io_method = sync")
    return str(namespaces.postgres(hosts["db"], *settings))


def measured(
    hosts: dict[str, namespaces.Host], url: str, device: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a step of sessions, and what iostat on the database's host printed meanwhile."""
    (hosts["user"].own / "asked.toml").write_text(PHYSICAL)
    watching = hosts["db"].start(
        "iostat",
        "-x",
        "-y",
        "-t",
        "-o",
        "JSON",
        device,
        "1",
        stdout=subprocess.PIPE,
        text=True,
        env=ISO,
    )
    try:
        words = (
            *COMMAND,
            "run",
            "/srv/asked.toml",
            "--engine",
            url,
            "--clients",
            "c1,c2",
            "--watch",
            "db",
        )
        done = hosts["user"].run(*words, "--json", timeout=600)
    finally:
        # It closes its JSON upon Ctrl-C.
        hosts["db"].run("kill", "-INT", *inside(hosts["db"], "iostat"))
        printed = watching.communicate(timeout=30)[0]
    (step,) = json.loads(done.stdout)["steps"]
    (host,) = json.loads(printed)["sysstat"]["hosts"]
    return step, host["statistics"]


def inside(host: namespaces.Host, name: str) -> list[str]:
    """Return the pids, as the host itself knows them, of processes with a name."""
    return str(host.run("pidof", name).stdout).split()


def around(step: dict[str, Any], reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return iostat's seconds of the measured window, and those that have a part of it."""
    begin, end = step["series"]["window"] or (0, step["series"]["seconds"][-1])
    started = datetime.fromisoformat(step["series"]["started"])
    # A report is of the second before its time, which it has in whole seconds.
    first, last = started + timedelta(seconds=begin - 1), started + timedelta(seconds=end + 2)
    return [
        report["disk"][0]
        for report in reports
        if first <= datetime.fromisoformat(report["timestamp"]) <= last
    ]


def test_ledger_of_a_server_elsewhere_agrees_with_iostat_on_its_host(
    hosts: dict[str, namespaces.Host], url: str
) -> None:
    """Reads and bytes of the device in the window are those that iostat counts, to 3 percent."""
    if shutil.which("iostat") is None:
        pytest.skip("iostat is not installed")
    device = Host().device_of(hosts["db"].own)
    assert device is not None
    differences = []
    for _ in range(ATTEMPTS):
        step, reports = measured(hosts, url, device)
        seconds = around(step, reports)
        ledger = step["ledger"]
        theirs = sum(one["r/s"] for one in seconds), sum(one["rkB/s"] for one in seconds) * 1024
        ours = [
            ledger[name] * ledger["window_seconds"]
            for name in ("device_reads", "device_read_bytes")
        ]

        assert ledger["verdict"] == "physical"
        assert SECONDS <= len(seconds) <= SECONDS + 5
        differences.append([our / their - 1 for our, their in zip(ours, theirs, strict=True)])
        if all(abs(one) <= 0.03 for one in differences[-1]):
            return
    pytest.fail(f"the ledger differs from iostat by {differences}")
