"""Every step on servers of other versions: what is proven on the usual ones is proven there."""

import json
import os
import subprocess
import sys
from statistics import fmean

import pytest

from replayer.conditions import memory_bound
from replayer.machine.host import Host
from replayer.steps.build import doubling
from tests import servers

pytestmark = pytest.mark.slow

ROWS = 98_304
_WITHOUT_DIRECT = ("13", "14")
_BOUNDED = ("--set=physical.scale=256M", "--set=physical.memory_limit=32M")
"""Tables that are much larger than what a cgroup leaves to the page cache."""


@pytest.fixture(scope="module")
def average():
    """Return the average id of the table, by the rule of the doubling alone."""
    ids = list(range(100, 106))
    for _ in doubling.doublings(ROWS):
        ids += [one + number for number, one in enumerate(ids, 1)]
    return fmean(ids)


def replayer(folder, name, bindir, *words):
    """Run the smoke workload on a version with its own programs; return the run."""
    engine = {"postgresql": "postgres", "mysql": "mysql"}[name.partition("-")[0]]
    command = [sys.executable, "-m", "replayer", "run", "smoke", "--json", "--engine", engine]
    done = subprocess.run(
        [*command, "--bindir", str(bindir), "--results", str(folder), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", servers.NAMES)
def test_every_step_is_done_and_proven(name, other_server, own_home, tmp_path, average):
    """The same rows, nothing left dirty, cold from the device, cached and physical sessions."""
    version = name.partition("-")[2]
    bounded = _BOUNDED if version in _WITHOUT_DIRECT else ()
    run = replayer(tmp_path, name, other_server(name), *bounded)
    steps = {step["name"]: step for step in run["steps"]}

    assert run["engine"]["version"].startswith(f"{version}.")
    assert "server.newer_than_tried" not in run["engine"]["facts"]
    assert {step: result["status"] for step, result in steps.items()} == dict.fromkeys(
        ("build", "flush", "walk", "scan", "cached", "physical"), "done"
    )
    rows = {row["statement"]: row["result"] for row in steps["scan"]["tables"]["statements"]}
    assert float(rows["avg"]) == pytest.approx(average)
    assert int(rows["full count"]) == ROWS
    assert steps["flush"]["facts"]["proven"] is True
    for step in ("walk", "scan"):
        assert steps[step]["cold"]["got"] in {"cold", "lukewarm"}
        assert steps[step]["cold"]["device_bytes"] > 0
    if os.geteuid() == 0:
        assert steps["walk"]["cold"]["got"] == "cold"
    # A busy machine may take pages away from a cached run, and add reads to it.
    assert steps["cached"]["ledger"]["riops"] > 1000
    assert steps["cached"]["ledger"]["verdict"] in {"cached", "mixed"}
    assert steps["physical"]["ledger"]["verdict"] == "physical"
    _check_memory(version, steps["physical"])


def _check_memory(version, step):
    """Hold that a version without direct I/O was given another way, and that this is said."""
    if version in _WITHOUT_DIRECT:
        way = next(kind for kind in memory_bound.KINDS if not memory_bound.refusal(kind, Host()))
        assert step["facts"]["memory.kind"] == way
        assert f"direct I/O came with PostgreSQL 16, and this one is {version}" in step["notes"][0]
    else:
        assert step["facts"]["memory.kind"] == "direct"


def test_what_no_way_can_do_is_skipped_and_the_rest_runs(other_server, own_home, tmp_path):
    """Tables that no bound of the memory could keep out of it: a reason, and the other steps."""
    run = replayer(tmp_path, "postgresql-13", other_server("postgresql-13"))
    steps = {step["name"]: step for step in run["steps"]}

    assert [name for name, step in steps.items() if step["status"] != "done"] == ["physical"]
    assert steps["physical"]["status"] == "skipped"
    for kind in ("direct", *memory_bound.KINDS):
        assert f"memory = '{kind}'" in steps["physical"]["reason"]
