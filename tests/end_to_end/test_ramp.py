"""Ramps and searches against the real server, free and limited: curves, knees, what gives first."""

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from replayer.engines import engine as engines
from replayer.load.mix import WeightedMix
from replayer.load.resources import measure_point
from replayer.machine.machine_facts import read_facts
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server, open_server
from replayer.steps.ramp import step as ramp
from replayer.steps.ramp.spec import Spec
from tests.fixture_types import Surroundings
from tests.known import quantity
from tests.limited import limited, slow_flushes
from tests.performed import performed

POINT = WeightedMix(point=1)


def spec_of(**keys: object) -> Spec:
    """Return a small ramp; every key can be set."""
    small = {
        "num_schemas": 1,
        "scale": "16M",
        "levels": (1, 2, 3, 4),
        "around_knee": False,
        "shortest": "1s",
        "longest": "1s",
        "mix": POINT,
    }
    return Spec.model_validate({"step": "ramp", "name": "ramp", **small, **keys})


def rows_of(outcome: Outcome, table: str) -> dict[Any, dict[str, Any]]:
    """Return a table's rows by what their first column says."""
    return {next(iter(row.values())): row for row in outcome.tables[table]}


@pytest.mark.slow
def test_ramp_of_cached_reads_has_a_curve_and_a_law(context: Context) -> None:
    """Every level three times in a drawn order, a law, Little's law kept, and uses that add up."""
    outcome = performed(ramp, spec_of(), context)
    trials = outcome.tables["trials"]
    levels = rows_of(outcome, "levels")
    order = [row["sessions"] for row in trials]

    assert sorted(order) == sorted([1, 2, 3, 4] * 3)
    assert order[:4] != sorted(order[:4]) or order[4:] != sorted(order[4:])
    assert set(levels) == {1, 2, 3, 4}
    assert outcome.foreign is not None
    assert outcome.foreign.cpu_share is not None
    for row in levels.values():
        assert row["repeats"] == 3
        assert row["least_per_second"] <= row["throughput_per_second"] <= row["most_per_second"]
        assert 0 < row["p50_s"] <= row["p95_s"] <= row["p99_s"]
        assert (
            0
            < row["server_cores"] + row["client_cores"]
            <= 1.1 * quantity(read_facts(context.host)["cpu.threads"])
        )
        assert row["hit_share"] > 0.9
    missed = [row["little_share"] for row in trials]
    assert (max(missed) > 0.02) is any("Little's law" in note for note in outcome.notes)
    assert {row["coefficient"] for row in outcome.tables["scalability"]} >= {
        "scale",
        "contention",
        "coherency",
    }
    assert outcome.facts["ramp.proof"]
    assert {"CPU of the machine", "CPU of the clients", "log flushes", "row locks"} <= set(
        rows_of(outcome, "resources")
    )


@pytest.mark.quiet
def test_littles_law_holds_for_most_levels(context: Context) -> None:
    """It is missed by half a percent at most, but where a window of a second ends in a stall."""
    missed = [row["little_share"] for row in performed(ramp, spec_of(), context).tables["trials"]]

    assert sorted(missed)[len(missed) // 2] <= 0.005


def highest(outcome: Outcome) -> float:
    """Return the highest throughput of all levels."""
    return max(float(row["throughput_per_second"]) for row in outcome.tables["levels"])


@pytest.mark.quiet
def test_cpu_quota_gives_first(context: Context, server: Server) -> None:
    """With 0.3 cores for the server: the quota is named, and the knee is within 10 % of the cap.

    The cap is the quota over what a statement costs without any limit, before and after.
    """
    mix = WeightedMix(range=1, work_unit=1500)
    keys = {"mix": mix, "levels": (1, 2, 4, 8), "shortest": "3s", "longest": "3s"}
    one = spec_of(**{**keys, "levels": (1,)})
    free = [performed(ramp, one, context)]
    with limited(server, cores=0.3):
        outcome = performed(ramp, spec_of(**keys), context)
    free.append(performed(ramp, one, context))
    trials = [row for ramped in free for row in ramped.tables["trials"]]
    cost = fmean(row["server_cores"] / row["throughput_per_second"] for row in trials)

    assert outcome.facts["ramp.first"] == "CPU quota", outcome.facts["ramp.proof"]
    assert "limit of the server's cgroup, used up in" in str(outcome.facts["ramp.proof"])
    assert highest(outcome) == pytest.approx(0.3 / cost, rel=0.1)


@pytest.mark.quiet
def test_device_limit_gives_first(context: Context, server: Server) -> None:
    """With 400 reads a second: device reads are named, and the knee is within 10 % of the cap."""
    keys = {
        "memory": "direct",
        "shared_buffers": "1M",
        "scale": "256M",
        "levels": (1, 2, 4, 8),
        "shortest": "3s",
        "longest": "3s",
    }
    with limited(server, read_iops=400):
        outcome = performed(ramp, spec_of(**keys), context)
    reads = rows_of(outcome, "resources")["device reads"]
    top = rows_of(outcome, "levels")[8]

    assert outcome.facts["ramp.first"] == "device reads", outcome.facts["ramp.proof"]
    assert reads["busiest_share"] == pytest.approx(1, abs=0.05)
    # By the server's own count, each that it misses is one read.
    misses = top["misses_per_second"] / top["throughput_per_second"]
    assert highest(outcome) == pytest.approx(400 / misses, rel=0.1)


@pytest.mark.quiet
def test_slow_log_flushes_give_first(
    made_home: Path,
    surroundings: Surroundings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With 5 ms more for each flush of the log, commits wait for it from the first session on."""
    folder = tmp_path_factory.mktemp("slow")
    for part in (folder, *folder.parents[:2]):
        part.chmod(0o755)
    monkeypatch.setenv("LD_PRELOAD", str(slow_flushes(folder, 0.005)))
    update = WeightedMix(update=1)
    with open_server(engines.load("postgres")) as server:
        server.start()
        keys = {"mix": update, "levels": (1, 2, 4, 8), "shortest": "2s", "longest": "2s"}
        outcome = performed(ramp, spec_of(**keys), surroundings(server))
    one = rows_of(outcome, "levels")[1]

    assert outcome.facts["ramp.first"] == "log flushes", outcome.facts["ramp.proof"]
    assert one["throughput_per_second"] < 200
    assert one["log_share"] > 0.8


@pytest.mark.quiet
def test_one_hot_row_gives_first(context: Context) -> None:
    """All sessions update the same row: they stand in line for its lock, not for the log."""
    hot = WeightedMix(update=1, hot="0.01%/100%")
    keys = {"mix": hot, "levels": (1, 2, 4, 8), "shortest": "2s", "longest": "2s"}
    outcome = performed(ramp, spec_of(**keys), context)

    assert outcome.facts["ramp.first"] == "row locks", outcome.facts["ramp.proof"]


@pytest.mark.slow
def test_ramp_that_is_cut_short_keeps_its_trials(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the third trial leaves two in the findings."""
    calls: list[object] = []

    def failing(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise RuntimeError("the third trial")
        return measure_point(*arguments)

    monkeypatch.setattr(ramp, "measure_point", failing)
    with pytest.raises(RuntimeError, match="third"):
        ramp.run(spec_of(), context)

    assert len(context.findings.tables["trials"]) == 2
