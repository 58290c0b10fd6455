"""What a device could do, beside what a database got of it."""

import pytest

from replayer.analysis import ceiling
from replayer.model import Cold, Status, StepResult, Temperature, Verdict
from tests.made import ledger


@pytest.fixture
def probed(run_of):
    """Return a function that makes a run with a probe of 8 KiB random reads at depth 4."""

    def make(iops, device="vda", depth=4, started="2026-11-20T09:00:00+00:00"):
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
            spec={},
            facts={"storage.device": device},
            tables={"io": (row,)},
        )
        return run_of([1.0]).model_copy(update={"steps": (step,), "started": started})

    return make


def physical(run, verdict=Verdict.PHYSICAL):
    """Return a run whose sessions read 8 KiB blocks from vda."""
    more = {
        "ledger": ledger(verdict),
        "facts": {"block_size_bytes": 8192},
        "spec": {"num_schemas": 4, "num_threads": 1},
    }
    return run.model_copy(update={"steps": (run.steps[0].model_copy(update=more),)})


def test_physical_sessions_stand_beside_the_newest_like_probe(run_of, probed):
    """The newest probe of the same device, block and depth is the ceiling."""
    run = physical(run_of([30_000.0]))
    found = ceiling.beside(
        run, [probed(50_000.0), probed(40_000.0, started="2026-11-20T09:30:00+00:00")]
    )

    told = found.steps[0].facts["ceiling"]
    assert told == "RIOPS 30,000 = 75 % of 8 KiB random reads at depth 4"


@pytest.mark.parametrize("others", [{"device": "vdb"}, {"depth": 16}])
def test_unlike_probe_is_no_ceiling(run_of, probed, others):
    """Another device or depth says nothing about this one."""
    run = physical(run_of([30_000.0]))

    assert ceiling.beside(run, [probed(50_000.0, **others)]) is run


def test_cached_sessions_have_no_ceiling(run_of, probed):
    """What came from memory is not held against a device."""
    run = physical(run_of([30_000.0]), Verdict.CACHED)

    assert ceiling.beside(run, [probed(50_000.0)]) is run


def test_walk_that_was_not_cold_has_no_ceiling(run_of, probed):
    """A lukewarm walk read memory as well."""
    run = run_of([1.0])
    cold = Cold(
        asked=Temperature.COLD, got=Temperature.LUKEWARM, method="", proof="", why="it was read"
    )
    step = run.steps[0].model_copy(update={"cold": cold, "facts": {"block_size_bytes": 8192}})
    run = run.model_copy(update={"steps": (step,)})

    assert ceiling.beside(run, [probed(50_000.0)]) is run
