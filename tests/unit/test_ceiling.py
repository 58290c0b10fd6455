"""What a device could do, beside what a database got of it."""

from collections.abc import Callable
from typing import Any

import pytest

from replayer.analysis.capacity import ceiling
from replayer.model import Reads, Run, Status, StepResult
from replayer.results import upgrades
from tests.fixture_types import RunOf


@pytest.fixture
def probed(run_of: RunOf) -> Callable[..., Run]:
    """Return a function that makes a run with a probe of 8 KiB random reads at depth 4."""

    def make(
        iops: float,
        device: str = "vda",
        depth: int = 4,
        started: str = "2026-11-20T09:00:00+00:00",
        rate: float | None = None,
    ) -> Run:
        row = {
            "access": "random",
            "operation": "read",
            "direct": True,
            "block_bytes": 8192,
            "depth": depth,
            "client": "1",
            "iops": iops,
        }
        step = StepResult(
            step="probe",
            name="probe",
            repeat=1,
            status=Status.DONE,
            started=started,
            elapsed=1.0,
            spec={"rate": rate},
            facts={"storage.device": device},
            tables={"io": (row,)},
        )
        return run_of([1.0]).model_copy(update={"steps": (step,), "started": started})

    return make


def physical(run: Run) -> Run:
    """Return a run with a step that read 8 KiB blocks from vda, 4 at a time."""
    reads = Reads(per_second=30_000.0, block_bytes=8192, depth=4, access="random", device="vda")
    step = run.steps[0].model_copy(update={"reads": reads})
    return run.model_copy(update={"steps": (step,)})


def test_physical_sessions_stand_beside_the_newest_like_probe(
    run_of: RunOf, probed: Callable[..., Run]
) -> None:
    """The newest probe of the same device, block and depth is the ceiling."""
    run = physical(run_of([30_000.0]))
    found = ceiling.add_ceilings(
        run, [probed(50_000.0), probed(40_000.0, started="2026-11-20T09:30:00+00:00")]
    )

    told = found.steps[0].facts["ceiling"]
    assert told == "RIOPS 30,000 = 75 % of 8 KiB random reads at depth 4"


@pytest.mark.parametrize("others", [{"device": "vdb"}, {"depth": 16}, {"rate": 100.0}])
def test_unlike_probe_is_no_ceiling(
    run_of: RunOf, probed: Callable[..., Run], others: dict[str, Any]
) -> None:
    """Another device or depth shows nothing about this one, and a paced one shows its pace."""
    run = physical(run_of([30_000.0]))

    assert ceiling.add_ceilings(run, [probed(50_000.0, **others)]) is run


def test_step_that_read_no_device_has_no_ceiling(run_of: RunOf, probed: Callable[..., Run]) -> None:
    """What came from memory is not held against a device."""
    run = run_of([1.0])

    assert ceiling.add_ceilings(run, [probed(50_000.0)]) is run


LEDGER: dict[str, Any] = {"verdict": "physical", "device": "vda"}
OLD: dict[str, Any] = {
    "step": "sessions",
    "measurements": [{"metric": "sessions.riops", "value": 900.0}],
    "facts": {"block_size_bytes": 8192, "sessions.steady": "never steady", "pgio.line": "DBNAME:"},
    "spec": {"num_schemas": 4, "num_threads": 2, "update_pct": 0},
    "ledger": LEDGER,
}
WALK: dict[str, Any] = {
    **OLD,
    "step": "walk",
    "measurements": [{"metric": "walk.iops", "value": 900.0}],
    "spec": {"threads": 50},
    "ledger": None,
}


@pytest.mark.parametrize(
    ("step", "reads"),
    [
        (OLD, {"per_second": 900.0, "depth": 8, "access": "random"}),
        ({**OLD, "ledger": {**LEDGER, "verdict": "cached"}}, None),
        (
            {**WALK, "cold": {"got": "cold"}},
            {"per_second": 900.0, "depth": 50, "access": "sequential"},
        ),
        ({**WALK, "cold": {"got": "lukewarm"}}, None),
    ],
)
def test_old_results_are_held_against_a_device_as_before(
    step: dict[str, Any], reads: dict[str, str | float] | None
) -> None:
    """Format 1 says it with names of steps: physical sessions and cold walks, no others."""
    keys = {"host": {"device.name": "vda"}, "steps": [step], "advice": ["a: b"]}

    new = upgrades.from_1(keys)

    (upgraded,) = new["steps"]
    assert upgraded["reads"] == (reads and {**reads, "block_bytes": 8192, "device": "vda"})
    assert upgraded["steady"] == {"settled": False, "words": "never steady"}
    assert upgraded["printed"] == {"pgio": ["DBNAME:"]}
    assert upgraded["facts"] == {"block_size_bytes": 8192}
    assert new["advice"] == [{"found": "a: b", "todo": ""}]
