"""Every step on servers of other versions: what is proven on the usual ones is proven there."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from replayer.conditions import memory_bound
from replayer.machine.host import Host
from replayer.steps.build import doubling
from tests import servers
from tests.command import Replayer

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ROWS = 98_304
_WITHOUT_DIRECT = ("13", "14")
_BOUNDED = ("--set=physical.scale=256M", "--set=physical.memory_limit=32M")
"""Tables that are much larger than what a cgroup leaves to the page cache."""


@pytest.fixture(scope="module")
def average() -> float:
    """Return the average id of the table, by the rule of the doubling alone."""
    ids = list(range(100, 106))
    for _ in doubling.doublings(ROWS):
        ids += [one + number for number, one in enumerate(ids, 1)]
    return fmean(ids)


@pytest.fixture
def run(
    replayer: Replayer, other_server: Callable[[str], Path], own_home: Path
) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a workload on a version with its own programs."""

    def call(name: str, *words: object, workload: object = "smoke") -> dict[str, Any]:
        engine = {"postgresql": "postgres", "mysql": "mysql"}[name.partition("-")[0]]
        where = ("--engine", engine, "--bindir", other_server(name))
        done: dict[str, Any] = json.loads(
            replayer.process("run", workload, "--json", *where, *words, timeout=800).out
        )
        return done

    return call


@pytest.mark.parametrize("name", servers.SERVERS)
def test_every_step_is_done_and_proven(
    name: str, run: Callable[..., dict[str, Any]], average: float
) -> None:
    """The same rows, nothing left dirty, cold from the device, cached and physical sessions."""
    version = name.partition("-")[2]
    bounded = _BOUNDED if version in _WITHOUT_DIRECT else ()
    result = run(name, *bounded)
    steps = {step["name"]: step for step in result["steps"]}

    assert result["engine"]["version"].startswith(f"{version}.")
    assert "server.newer_than_tried" not in result["engine"]["facts"]
    assert {name: step["status"] for name, step in steps.items()} == dict.fromkeys(
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


def _check_memory(version: str, step: dict[str, Any]) -> None:
    """Hold that a version without direct I/O was given another way, and that this is said."""
    if version in _WITHOUT_DIRECT:
        way = next(kind for kind in memory_bound.KINDS if not memory_bound.refusal(kind, Host()))
        assert step["facts"]["memory.kind"] == way
        assert f"direct I/O came with PostgreSQL 16, and this one is {version}" in step["notes"][0]
    else:
        assert step["facts"]["memory.kind"] == "direct"


def test_what_no_way_can_do_is_skipped_and_the_rest_runs(
    run: Callable[..., dict[str, Any]],
) -> None:
    """Tables that no bound of the memory could keep out of it: a reason, and the other steps."""
    steps = {step["name"]: step for step in run("postgresql-13")["steps"]}

    assert [name for name, step in steps.items() if step["status"] != "done"] == ["physical"]
    assert steps["physical"]["status"] == "skipped"
    for kind in ("direct", *memory_bound.KINDS):
        assert f"memory = '{kind}'" in steps["physical"]["reason"]


@pytest.mark.root
def test_the_keys_that_a_skipped_step_names_do_it(run: Callable[..., dict[str, Any]]) -> None:
    """Tables that are only too small: typed as they stand in the reason, the keys are enough."""
    skipped = {step["name"]: step for step in run("postgresql-13")["steps"]}["physical"]
    keys = re.findall(r"--set \S+", skipped["reason"])
    assert len(keys) == 2

    words = (word for key in keys for word in key.split())
    steps = {step["name"]: step for step in run("postgresql-13", *words)["steps"]}

    assert steps["physical"]["facts"]["memory.kind"] == "cgroup"
    assert steps["physical"]["ledger"]["verdict"] == "physical"


RATE = """
# A mix at a rate.
description = "a mix at a rate"
[[step]]
step = "sessions"
num_schemas = 2
num_threads = 2
scale = "8M"
memory = "cached"
run_time = "3s"
rate = 200
mix = "point=60 range=10 update=20 insert=9 scan=1 work_unit=8 cpu=1ms"
"""


@pytest.mark.quiet
@pytest.mark.parametrize("name", servers.SERVERS)
def test_a_mix_at_a_rate_is_sustained(
    name: str, run: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Every kind of statement, the CPU that it burns and what the server counts of it."""
    workload = tmp_path / "rate.toml"
    workload.write_text(RATE)
    (step,) = run(name, workload=workload)["steps"]
    values = {m["metric"]: m["value"] for m in step["measurements"]}

    assert step["status"] == "done", step["reason"]
    assert step["facts"]["sessions.sustained"] is True
    assert values["sessions.completed"] == pytest.approx(200, rel=0.02)
    assert values["sessions.commits"] > 50
    assert values["sessions.wal_bytes"] > 1000
    assert values["sessions.statement_cpu"] == pytest.approx(0.001, rel=0.4)
