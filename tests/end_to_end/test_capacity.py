"""The search for the highest rate against the real server, free and limited."""

import contextlib
import os
from dataclasses import replace
from statistics import median

import pytest

from replayer.analysis.capacity.capacity_search import SearchTrial
from replayer.engines import connection
from replayer.engines.connection import Database
from replayer.load import cpu_burn, dataset
from replayer.load.level import LevelRequest, measure_level
from replayer.load.mix import WeightedMix
from replayer.load.spec import ready
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.steps.capacity import step as capacity
from replayer.steps.capacity.spec import Spec
from replayer.tables.pgio import TableSet
from tests.beside import beside
from tests.hooked import hooked
from tests.limited import limited
from tests.performed import performed


def spec_of(**keys: object) -> Spec:
    """Return a small search; every key can be set."""
    small = {
        "num_schemas": 1,
        "scale": "16M",
        "sessions": 4,
        "rate": 100,
        "slo": "p99=500ms",
        "trial": "1s",
        "resolution": 0.5,
        "most": 2.5,
        "hold": "2s",
        "mix": WeightedMix(point=1),
    }
    return Spec.model_validate({"step": "capacity", "name": "capacity", **small, **keys})


def value(outcome: Outcome, metric: str) -> float | None:
    """Return a metric's value, None if it was not measured."""
    return next((m.value for m in outcome.measurements if m.metric == metric), None)


@pytest.mark.slow
def test_rate_that_is_easy_holds_up_to_the_most(context: Context) -> None:
    """20 reads a second and 2.25 times that, twice: no end was found, and the hold is kept."""
    # Nothing but a standstill keeps a read from being answered in a minute.
    outcome = performed(capacity, spec_of(rate=20, sessions=16, slo="p99=60s"), context)
    trials = outcome.tables["trials"]

    assert [row["ended"] for row in trials] == ["held"] * len(trials)
    assert [row["multiple"] for row in trials] == [1.0, 2.25, 2.25]
    assert value(outcome, "capacity.multiple") == pytest.approx(2.25)
    assert value(outcome, "capacity.rate") == pytest.approx(45)
    assert value(outcome, "capacity.high") is None
    assert outcome.facts["capacity.held"] == "within"
    held = value(outcome, "capacity.hold.response.p99")
    assert held is not None
    assert held <= 60
    assert any("set most higher" in note for note in outcome.notes)


@pytest.mark.quiet
def test_objective_that_nothing_keeps_is_out_of_reach(context: Context) -> None:
    """A tenth of a microsecond is kept at no rate: nothing is accepted, and nothing is held."""
    outcome = performed(capacity, spec_of(slo="p50=100ns", least=0.5), context)

    assert "failed" in {row["ended"] for row in outcome.tables["trials"]} <= {"failed", "void"}
    assert all("p50" in row["reason"] for row in outcome.tables["trials"])
    assert value(outcome, "capacity.multiple") is None
    assert value(outcome, "capacity.refused") == pytest.approx(1 / 1.5)
    assert str(outcome.facts["capacity.held"]).startswith("not held")
    assert "capacity.proof" in outcome.facts


@pytest.mark.quiet
def test_search_beside_others_is_given_up_after_two_void_trials(context: Context) -> None:
    """Loops on every processor: two trials fail beside them, and who it was is said."""
    with beside("while :; do :; done", many=os.cpu_count() or 1):
        outcome = performed(capacity, spec_of(slo="p50=100ns", least=1), context)
    endings = [row["ended"] for row in outcome.tables["trials"]]

    assert endings == ["void", "void"]
    assert "others used" in str(outcome.facts["capacity.gave_up"])


@pytest.mark.quiet
def test_search_beside_others_waits_for_as_long_as_it_is_told(context: Context) -> None:
    """Two void trials, and what is left of the five seconds until the machine would be quiet."""
    with beside("while :; do :; done", many=os.cpu_count() or 1):
        outcome = performed(capacity, spec_of(slo="p50=100ns", least=1, wait="5s"), context)
    endings = [row["ended"] for row in outcome.tables["trials"]]
    words = str(outcome.facts["capacity.gave_up"])

    assert endings == ["void", "void"]
    # Two trials of a second each; a loop of the search is counted with them.
    assert 2 < float(words.rpartition("did not end within ")[2].removesuffix(" s")) <= 3


@pytest.mark.slow
def test_other_sessions_beside_a_search_are_named(context: Context) -> None:
    """Their blocks are in the trials' counters: from PostgreSQL 18 on that is reported, once."""
    with contextlib.ExitStack() as kept:

        def reads() -> None:
            other = kept.enter_context(context.database())
            connection._sessions.discard(other.session)  # it belongs to another user
            for _ in range(50):
                other.query("SELECT sum(scratch) FROM pgio1")
            other.query("SELECT pg_stat_force_next_flush()")

        watched = hooked(context, begin={"trial": reads})
        outcome = performed(capacity, spec_of(most=1, trials=2, hold="0s"), watched)
    named = [note for note in outcome.notes if note.startswith("other sessions of this database")]

    assert len(named) == 1
    assert "which are counted here, in" in named[0]


@pytest.mark.slow
def test_held_is_done(context: Context, database: Database) -> None:
    """A session is free for each statement, and a third of them can be done: that is not held.

    Whatever the machine: 15 statements a core and second of 0.2 s each, and no time is too long.
    """
    rate = 15 * (os.cpu_count() or 1)
    tables = TableSet(1, 2048, 1)
    dataset.provide_tables(tables, context)
    asked = LevelRequest(
        sessions=1, seconds=1.0, mix=WeightedMix(compute=1, cpu=0.2), tables=tables
    )
    burnt = cpu_burn.calibrate(asked, context, database).units
    wanted = replace(asked, rate=rate, sessions=rate, burn=burnt, patience=600.0)
    level = measure_level(wanted, context, database)
    ended, reason = capacity.outcome_of("p99=600s", level)

    assert level.completed < 0.9 * level.offered
    assert ended is SearchTrial.FAILED
    # No statement waited for a session, so that it was sustained but for clients that stood still.
    assert not level.sustained or reason.endswith(f"of {rate} statements were done within 1.00 s")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("buffers", "least", "most"), [("16M", 0, 40_000), ("128M", 100_000, 140_000)]
)
def test_scans_read_as_much_at_once_as_their_buffers_let_them(
    context: Context, buffers: str, least: int, most: int
) -> None:
    """PostgreSQL's own count: 8 KiB in 16 MiB with connections for all, 128 KiB in 128 MiB."""
    spec = spec_of(memory="direct", shared_buffers=buffers, scale="512M", mix=WeightedMix(scan=1))
    with ready(spec, 1, context) as (database, asked, _):
        counts = [bulk_reads(database)]
        measure_level(replace(asked, seconds=1.0), context, database)
        counts.append(bulk_reads(database))
    (reads, bytes_), (more_reads, more_bytes) = counts
    assert least < (more_bytes - bytes_) / (more_reads - reads) < most


def bulk_reads(database: Database) -> tuple[float, float]:
    """Return how often scans read so far, and how many bytes."""
    (row,) = database.query(
        "SELECT sum(reads) AS reads, sum(read_bytes) AS bytes FROM pg_stat_io "
        "WHERE context = 'bulkread'"
    )
    return float(row["reads"]), float(row["bytes"])


@pytest.mark.slow
def test_trial_without_a_statement_says_so(context: Context) -> None:
    """A statement each five seconds is none in one of one: that is the reason, and no other."""
    outcome = performed(capacity, spec_of(rate=0.2), context)
    (trial,) = outcome.tables["trials"]

    assert trial["ended"] == "not offered"
    assert trial["reason"].startswith("no statement was drawn: ")


@pytest.mark.quiet
def test_device_limit_is_the_capacity(context: Context, server: Server) -> None:
    """400 reads a second, some for each statement: the interval holds that, and reads are named."""
    keys = {
        "memory": "direct",
        "shared_buffers": "1M",
        "scale": "256M",
        "sessions": 16,
        "rate": 200,
        # Far above the time in the queue of a device that is nearly full.
        "slo": "p99=2s",
        "trial": "5s",
        "resolution": 0.1,
        "most": 8,
        "hold": "5s",
    }
    with limited(server, read_iops=400):
        outcome = performed(capacity, spec_of(**keys), context)
    # By the server's own count, each that it misses is one read.  The kernel lets pass a few more.
    trials = outcome.tables["trials"]
    misses = median(row["misses_per_second"] / row["throughput_per_second"] for row in trials)
    most = max(row["reads_per_second"] for row in trials)
    cap = most / misses / 200

    assert most == pytest.approx(400, rel=0.05)

    assert outcome.facts["capacity.first"] == "device reads", outcome.facts["capacity.proof"]
    low, high = value(outcome, "capacity.low"), value(outcome, "capacity.high")
    assert low is not None
    assert high is not None
    assert low <= cap <= high
    assert value(outcome, "capacity.multiple") == pytest.approx(cap, rel=0.2)
    assert outcome.facts["capacity.held"] == "within"
