"""A requirement becomes a plan, and what a run found becomes a verdict: both without a machine."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.analysis.capacity.capacity_search import SearchTrial
from replayer.errors import Impossible
from replayer.model import Better, Measurement, Run, Status, StepResult, WorkloadFacts
from replayer.report.documents import sizing as report
from replayer.report.pages import sizing_sheet
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, markdown_writer, page_writer, terminal_writer
from replayer.results import store
from replayer.results.profile import ProfileSource, ResourceProfile, WorkingSet
from replayer.run.step_recorder import StepRecorder
from replayer.sizing import requirement, target, what_if
from replayer.sizing.findings import Loaded, Remedy, ResourceRow
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import Requirement
from replayer.sizing.sizing_plan import (
    CandidateMachine,
    Residence,
    SizingOptions,
    SizingPlan,
    planned,
)
from replayer.sizing.target import Fit
from replayer.sizing.verdict import judge, refutations
from replayer.steps.capacity import outcome
from replayer.steps.capacity.outcome import CapacityTrial
from tests.made import altered
from tests.unit.test_capacity_outcome import level_of

Row = dict[str, Any]
GIB = 1 << 30
MACHINE = CandidateMachine(8192, 16 * GIB, 200 * GIB, own_server=True, where="/data")


def profile(
    seconds: int = 300, working_set: int = 4 * GIB, **columns: float | None
) -> ResourceProfile:
    """Return a profile whose columns are the same in every second."""
    ends = 1_760_000_000 + np.arange(1, seconds + 1, dtype=float)
    given: dict[str, float | None] = {
             "commits": 100.0, "blocks_hit": 900.0, "blocks_read": 100.0, "tuples_fetched": 200.0,
             "tuples_inserted": 5.0, "tuples_updated": 10.0, "cpu_cores": 0.5,
             "sessions_active": 3.0, "database_bytes": 40.0 * GIB, **columns}  # fmt: skip
    return ResourceProfile(
        source=ProfileSource(kind="csv", place="prod.csv", averaged_seconds=1, block_bytes=8192),
        ends=ends,
        spans=np.ones(seconds),
        columns={name: np.full(seconds, v) for name, v in given.items() if v is not None},
        working_set=WorkingSet(bytes=working_set, method="told by the test"),
    )


def step_of(plan: SizingPlan, name: str) -> Any:
    """Return the step of that name."""
    return next(step for step in plan.workload.steps if step.name == name)


def sizing_of(wanted: Requirement, plan: SizingPlan, **more: Any) -> Sizing:
    """Return the record of a plan."""
    return Sizing(
        profile="prod.profile", source="prod", requirement=wanted, objective="p99=20ms",
        rate=plan.rate, unproven=plan.data.unproven, **more,
    )  # fmt: skip


def trial(
    multiple: float, rate: float, ended: str, p99: float | None = 0.01, **more: object
) -> Row:
    """Return a trial whose server uses a core at the required rate, as it is to do."""
    done = multiple * rate
    times = dict.fromkeys(("p50_s", "p95_s", "p99_s")) if p99 is None else {
        "p50_s": p99 / 5, "p95_s": p99 / 2, "p99_s": p99}  # fmt: skip
    return {
        "multiple": multiple, "asked_per_second": done, "offered_per_second": done,
        "throughput_per_second": done, "ended": ended, **times,
        "user_cores": multiple, "system_cores": 0.05, "steal_cores": 0.0,
        "server_cores": multiple, "client_cores": 0.05, "reads_per_second": done / 10,
        "writes_per_second": done / 20, "log_share": 0.1, "row_lock_share": 0.0,
        "seconds": 20.0, "reason": "", **more,
    }  # fmt: skip


def run_of(
    sizing: Sizing,
    *,
    multiple: float | None,
    low: float | None,
    high: float | None,
    held: str = "within",
    trials: tuple[Row, ...] | None = None,
    more: Sequence[StepResult] = (),
    **fields: object,
) -> Run:
    """Return a run whose search came to such an interval."""
    values = {"multiple": multiple, "low": low, "high": high}
    rate = sizing.rate
    measured = tuple(
        Measurement(metric=f"capacity.{name}", value=value, unit="times", better=Better.NEITHER)
        for name, value in values.items()
        if value is not None
    )
    bound = (high or 4.0) * 1.1 * rate
    resources = (
        {"resource": "CPU quota", "demand": 1 / 500, "unit": "cores / (1/s)",
         "bound_per_second": bound, "ceiling": "limit of the server's cgroup"},
        {"resource": "device reads", "demand": 0.1, "unit": "1/s / (1/s)",
         "bound_per_second": 5 * rate, "ceiling": "probe of 8 KiB random reads at depth 16"},
    )  # fmt: skip
    capacity = StepResult(
        step="capacity", name="capacity", repeat=1, status=Status.DONE, started="", elapsed=1.0,
        spec={}, measurements=measured,
        facts={"capacity.first": "CPU quota", "capacity.proof": "CPU quota 97 % busy",
               "capacity.held": held, "capacity.held_why": "p99 90 ms > 20 ms"},
        tables={"trials": trials or (trial(1.0, rate, "held"), trial(2.0, rate, "failed", 0.3)),
                "resources": resources, "hold": ({"seconds": 600.0},)},
    ).model_copy(update=fields)  # fmt: skip
    return Run(
        format=store.FORMAT, id="r", version="1", label="",
        started=datetime(2026, 1, 1, tzinfo=UTC).isoformat(), status=Status.DONE,
        host={"host.name": "there", "cpu.threads": 8}, engine=None,
        workload=WorkloadFacts(name="size", source="", digest="", repeat=1, settings={}, steps=()),
        steps=(*more, capacity), sizing=sizing.model_dump(mode="json"),
    )  # fmt: skip


def without_processors(run: Run) -> Run:
    """Return a run whose load did not see what processors the server may use."""
    step = run.steps[-1]
    rows = tuple(row for row in step.tables["resources"] if "CPU" not in str(row["resource"]))
    return altered(
        run, steps=(*run.steps[:-1], altered(step, tables={**step.tables, "resources": rows}))
    )


@pytest.fixture
def wanted() -> Requirement:
    """Return a requirement with growth and headroom."""
    return requirement.of(profile(), growth=1.5, headroom=0.3)


@pytest.fixture
def sizing(wanted: Requirement) -> Sizing:
    """Return the record of its plan on the machine."""
    return sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE))


@pytest.mark.parametrize(("got", "off"), [(117e-6, False), (193e-6, True)])
def test_the_verdict_has_the_cpu_that_was_wanted_and_what_was_got(
    sizing: Sizing, got: float, *, off: bool
) -> None:
    """Of a statement, and that they are apart where they are."""
    facts = {"load.cpu_wanted_seconds": 118e-6, "load.cpu_got_seconds": got}
    one = run_of(sizing, multiple=2.0, low=1.9, high=2.1, facts=facts)
    words = next(words for words in judge(sizing, one).unproven if "CPU of a statement" in words)

    assert "wanted 118 µs" in words
    assert f"got {got * 1e6:.0f} µs" in words
    assert ("off by as much" in words) is off


def test_the_plan_asks_for_the_profiles_rate_times_growth_times_headroom(
    wanted: Requirement,
) -> None:
    """What is put on the candidate is the mix of the busiest minute, factors included once."""
    plan = planned(wanted, SizingOptions(objective="p99=7ms", hold=30), MACHINE)
    capacity = step_of(plan, "capacity")
    plain = requirement.of(profile())
    own = capacity.rate * (1 - capacity.mix.shares.get("compute", 0.0))
    assert own == pytest.approx(1.5 * 1.3 * plain.rate(plan.data.rows))
    assert plan.rate == capacity.rate
    assert capacity.slo == "p99=7ms"
    assert capacity.hold == 30
    # The CPU is the source's, times the factors, however many statements burn it.
    assert capacity.mix.cpu * capacity.rate == pytest.approx(1.5 * 1.3 * 0.5)


def test_the_time_that_is_told_first_is_that_of_the_steps(wanted: Requirement) -> None:
    """A hold that is ten minutes longer makes the plan ten minutes longer, and nothing else."""
    short, long = (planned(wanted, SizingOptions(hold=hold), MACHINE) for hold in (60, 660))
    assert long.seconds - short.seconds == pytest.approx(600)
    assert short.seconds > step_of(short, "capacity").lasts()


@pytest.mark.parametrize(
    ("working_set", "memory", "residence"),
    [(GIB, 16 * GIB, Residence.MEMORY), (40 * GIB, 16 * GIB, Residence.BEYOND)],
)
def test_memory_decides_where_the_load_is_read_from(
    working_set: int, memory: int, residence: Residence
) -> None:
    """What fits into memory is read from it, and what does not from the device, as it would be."""
    known = requirement.of(profile(working_set=working_set))
    plan = planned(known, SizingOptions(), MACHINE._replace(memory_bytes=memory))
    capacity = step_of(plan, "capacity")
    assert plan.data.residence is residence
    assert plan.data.size(8192) == pytest.approx(working_set, rel=0.01)
    assert capacity.memory == ("cached" if residence is Residence.MEMORY else "direct")
    names = [step.name for step in plan.workload.steps]
    assert ("buffers" in names) == (residence is Residence.BEYOND)
    assert capacity.shared_buffers < memory


def test_a_small_limit_has_room_for_replayer_next_to_the_buffers(wanted: Requirement) -> None:
    """In 400 MiB with 256 MiB of buffers the kernel killed replayer, and there was no verdict."""
    small = MACHINE._replace(memory_bytes=400 << 20)
    buffers = step_of(planned(wanted, SizingOptions(), small), "capacity").shared_buffers
    assert buffers + (256 << 20) <= 400 << 20


def test_reads_of_a_profile_without_blocks_are_reads_of_the_device() -> None:
    """A profile of iostat knows reads of a device: the load makes as many there."""
    known = requirement.of(
        profile(commits=None, blocks_hit=None, blocks_read=None, tuples_fetched=None,
                tuples_inserted=None, tuples_updated=None, read_iops=700.0, write_iops=40.0)
    )  # fmt: skip
    plan = planned(known, SizingOptions(), MACHINE)
    capacity = step_of(plan, "capacity")
    assert plan.data.residence is Residence.DEVICE
    assert capacity.memory == "direct"
    assert capacity.mix.point * plan.rate / capacity.mix.total == pytest.approx(700.0)
    assert plan.data.size(8192) >= 32 * capacity.shared_buffers
    assert any("each read of its device" in words for words in plan.data.unproven)


def test_data_without_room_is_scaled_and_said(wanted: Requirement) -> None:
    """A disk too small gets as much as it holds, and a sentence on what is then not proven."""
    room = MACHINE._replace(free_bytes=3 * GIB)
    plan = planned(wanted, SizingOptions(), room)
    assert plan.data.size(8192) < 2 * GIB
    assert any("is not proven" in words and "/data" in words for words in plan.data.unproven)
    with pytest.raises(Impossible, match="has room for"):
        planned(wanted, SizingOptions(working_set=10 * GIB), room)
    with pytest.raises(Impossible, match="--data-dir"):
        planned(wanted, SizingOptions(), MACHINE._replace(free_bytes=GIB // 2))


def test_a_profile_that_no_load_can_be_made_of_is_refused() -> None:
    """A profile of CPU alone, and one of more than can be asked for, are a sentence each."""
    none: dict[str, Any] = dict.fromkeys(
        ("commits", "blocks_hit", "blocks_read", "tuples_fetched", "tuples_inserted",
         "tuples_updated"),
    )  # fmt: skip
    cpu = profile(**none)
    with pytest.raises(Impossible, match="no load can be made of it"):
        planned(requirement.of(cpu), SizingOptions(), MACHINE)
    huge = requirement.of(profile(commits=9e9, tuples_fetched=9e9, blocks_hit=9e10))
    with pytest.raises(Impossible, match="more than"):
        planned(huge, SizingOptions(), MACHINE)


@pytest.mark.parametrize("options", [SizingOptions(trial=0.1), SizingOptions(sessions=100_000),
                                     SizingOptions(hold=0.5)])  # fmt: skip
def test_a_wrong_option_is_one_sentence(wanted: Requirement, options: SizingOptions) -> None:
    """A value that a step refuses is told with the step and the key."""
    with pytest.raises(Impossible, match=r"capacity: (trial|sessions|hold|)"):
        planned(wanted, options, MACHINE)


def test_a_server_elsewhere_is_neither_probed_nor_configured(wanted: Requirement) -> None:
    """Of a URL's machine nothing is known: no probe runs here, no setting is changed there."""
    plan = planned(wanted, SizingOptions(), CandidateMachine(8192, None, None, own_server=False))
    assert [step.step for step in plan.workload.steps] == ["capacity"]
    assert step_of(plan, "capacity").shared_buffers is None


def test_alike_machines_get_the_same_work(wanted: Requirement) -> None:
    """A few MB of memory more or less do not make two sizings incomparable."""
    plans = [
        planned(
            wanted, SizingOptions(), MACHINE._replace(memory_bytes=16 * GIB - less, free_bytes=free)
        )
        for less, free in ((50 << 20, 100 * GIB), (90 << 20, 90 * GIB))
    ]
    first, second = (step_of(plan, "capacity").model_dump() for plan in plans)
    assert first == second


@pytest.mark.parametrize(
    ("multiple", "low", "high", "fit"),
    [
        (1.6, 1.5, 1.7, Fit.FITS),
        (0.7, 0.6, 0.8, Fit.DOES_NOT_FIT),
        (1.02, 0.95, 1.1, Fit.UNCLEAR),
        (0.98, 0.9, 1.05, Fit.UNCLEAR),
        (16.0, 15.0, None, Fit.FITS),
    ],
)
def test_the_interval_of_the_multiple_decides(
    sizing: Sizing, multiple: float, low: float, high: float | None, fit: Fit
) -> None:
    """Above 1 it fits, below it does not, and one that holds 1 is unclear."""
    verdict = judge(sizing, run_of(sizing, multiple=multiple, low=low, high=high))
    assert verdict.fit is fit
    assert (verdict.multiple, verdict.low, verdict.high) == (multiple, low, high)
    assert verdict.first == "CPU quota"


def test_an_interval_below_1_is_printed_as_such_in_each_form(sizing: Sizing) -> None:
    """That it does not fit, at 1.00 times or with an interval that holds 1, contradicts itself."""
    one = run_of(sizing, multiple=0.9997, low=0.9996, high=0.9998)
    made = report.document(report.SizingSummary(sizing, one, judge(sizing, one)))

    assert "from 0.9996 to 0.9998" in sizing_sheet.sheet(one)
    assert "0.9997 (0.9996 to 0.9998)" in markdown_writer.page(made)


def test_what_is_not_held_for_long_does_not_fit(sizing: Sizing) -> None:
    """Burst credits hide the truth for minutes: the hold has the last word."""
    verdict = judge(sizing, run_of(sizing, multiple=1.6, low=1.5, high=1.7, held="exceeded"))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert "could not be held" in verdict.reasons[0]


def test_nothing_is_said_for_a_run_that_was_cut_short(sizing: Sizing) -> None:
    """A search that ended well and a hold that was interrupted are no `fits`."""
    cut = run_of(sizing, multiple=1.6, low=1.5, high=1.7, status=Status.INTERRUPTED,
                 reason="interrupted")  # fmt: skip
    assert judge(sizing, cut).fit is Fit.UNCLEAR
    # What is below 1 is known all the same.
    cut = run_of(sizing, multiple=0.6, low=0.5, high=0.7, status=Status.INTERRUPTED, reason="x")
    assert judge(sizing, cut).fit is Fit.DOES_NOT_FIT
    skipped = run_of(sizing, multiple=None, low=None, high=None, status=Status.SKIPPED, reason="y")
    assert judge(sizing, skipped).fit is Fit.UNCLEAR
    assert judge(sizing, altered(skipped, steps=())).fit is Fit.UNCLEAR


def test_a_rate_that_the_clients_could_not_send_is_unclear_and_said(sizing: Sizing) -> None:
    """Where replayer itself has no time left, nothing is said against the server."""
    trials = (trial(1.0, sizing.rate, "not offered", None),)
    verdict = judge(sizing, run_of(sizing, multiple=None, low=None, high=None, trials=trials))
    assert verdict.fit is Fit.UNCLEAR
    assert "could not be sent" in verdict.not_offered


def test_not_even_the_smallest_rate_within_the_objective_does_not_fit(sizing: Sizing) -> None:
    """Where every trial failed, down to the smallest, it does not fit."""
    trials = tuple(trial(m, sizing.rate, "failed", 0.5) for m in (1.0, 0.25, 0.0625))
    verdict = judge(sizing, run_of(sizing, multiple=None, low=None, high=None, trials=trials))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert "not even 6.2% of what is required" in verdict.reasons[0]


def test_others_on_the_machine_make_it_unclear(sizing: Sizing) -> None:
    """A machine whose processors others used is not told to be too small for it."""
    busy = tuple(trial(m, sizing.rate, "failed", 0.5, user_cores=7.0) for m in (1.0, 0.5))
    run = run_of(sizing, multiple=0.3, low=0.2, high=0.4, trials=busy)
    steps = run.steps[0]
    alone = altered(steps, facts={**steps.facts, "capacity.first": "unclear"})
    verdict = judge(sizing, altered(run, steps=(alone,)))
    assert verdict.fit is Fit.UNCLEAR
    assert "others used" in verdict.reasons[0]
    # A quota of the server's own is not used up by others.
    assert judge(sizing, run).fit is Fit.DOES_NOT_FIT


@pytest.mark.parametrize(
    ("processors", "fit"),
    [(2, Fit.UNCLEAR), (6, Fit.UNCLEAR), (8, Fit.DOES_NOT_FIT), (None, Fit.DOES_NOT_FIT)],
)
def test_others_are_compared_with_the_processors_that_the_load_may_use(
    sizing: Sizing, processors: int | None, fit: Fit
) -> None:
    """Others use 1.4 processors: that is a part of those that a cpuset allows, of 8 in all.

    Runs of older versions measured all processors of the machine, and have no number of them.
    """
    used: Row = {"user_cores": 1.6, "system_cores": 0.2, "server_cores": 0.35}
    used |= {} if processors is None else {"processors": processors}
    busy = tuple(trial(m, sizing.rate, "failed", 0.5, **used) for m in (1.0, 0.5))
    run = run_of(sizing, multiple=0.3, low=0.2, high=0.4, trials=busy)
    facts = {**run.steps[0].facts, "capacity.first": "CPU of the machine"}
    verdict = judge(sizing, altered(run, steps=(altered(run.steps[0], facts=facts),)))

    assert verdict.fit is fit
    words = f"but others used 1.40 of the {processors} processors meanwhile"
    assert (words in verdict.reasons[0]) is (fit is Fit.UNCLEAR)


@pytest.mark.parametrize(("multiple", "fit"), [(0.71, Fit.UNCLEAR), (0.4, Fit.DOES_NOT_FIT)])
def test_processors_that_replayers_own_clients_took_are_not_the_databases(
    sizing: Sizing, multiple: float, fit: Fit
) -> None:
    """A machine of 0.3 cores did 1.4 times what was required, and the load 0.71 of it.

    Its clients were inside the limit and used half of it.  A machine that is too small for the
    server alone stays so.
    """
    used = {"server_cores": 0.15, "client_cores": 0.15}
    done = multiple * sizing.rate
    shared = 2 * (trial(1.0, sizing.rate, "failed", 0.5, throughput_per_second=done, **used),)
    known = altered(sizing, cores=0.3)
    run = run_of(known, multiple=multiple, low=0.9 * multiple, high=1.1 * multiple, trials=shared)
    step = altered(run.steps[0], tables={**run.steps[0].tables, "hold": ()})
    known = altered(known, requirement=altered(known.requirement, needs=()))
    verdict = judge(known, altered(run, steps=(step,)))
    assert verdict.fit is fit
    assert ("own clients used 0.150 of the 0.300 processors" in verdict.reasons[0]) is (
        fit is Fit.UNCLEAR
    )
    # By its URL, the clients are outside of the server's limit.
    elsewhere = judge(altered(known, cores=None), altered(run, steps=(step,)))
    assert elsewhere.fit is Fit.DOES_NOT_FIT


def test_what_a_load_burns_is_told_by_the_hold_of_the_required_rate(sizing: Sizing) -> None:
    """Trials of a higher rate took 0.20 of 0.245 cores at the required rate, the hold 0.24."""
    fast = tuple(trial(m, sizing.rate, "held", server_cores=0.75 * m) for m in (1.4, 1.7, 1.7))
    run = without_processors(run_of(sizing, multiple=1.7, low=1.6, high=1.8, trials=fast))
    held = trial(1.0, sizing.rate, "held", server_cores=0.97)
    for rows, fit in (((), Fit.UNCLEAR), ((held,), Fit.FITS)):
        step = altered(run.steps[0], tables={**run.steps[0].tables, "hold": rows})
        assert judge(sizing, altered(run, steps=(step,))).fit is fit


def test_each_resource_has_a_multiple_no_smaller_than_what_was_sustained(sizing: Sizing) -> None:
    """What gives first has the load's own interval; another allows its bound over the rate."""
    verdict = judge(sizing, run_of(sizing, multiple=1.6, low=1.5, high=1.7))
    rows = {row.resource: row for row in verdict.rows}
    assert (rows["CPU quota"].multiple, rows["CPU quota"].low) == (1.6, 1.5)
    assert rows["device reads"].multiple == pytest.approx(5.0)
    assert rows["device reads"].low == pytest.approx(5.0, rel=0.01)
    assert rows["device reads"].required == pytest.approx(0.1 * sizing.rate)
    # The room on a disk that is not known is no need that was tested.
    assert {row.fit for row in rows.values()} == {Fit.FITS, Fit.NOT_TESTED}


def test_a_disk_without_room_for_the_data_decides(wanted: Requirement) -> None:
    """However fast it is, 40 GiB of data do not fit on 20 GiB."""
    small = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE), free_bytes=20 * GIB)
    verdict = judge(small, run_of(small, multiple=3.0, low=2.9, high=3.1))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert verdict.multiple == pytest.approx(0.5)
    assert verdict.first == "room for all data"


def test_a_limit_of_the_target_decides_beside_the_load(tmp_path: Path) -> None:
    """A volume's base rate below what is required does not fit, whatever was measured."""
    file = tmp_path / "gp2.toml"
    file.write_text('name = "gp2"\n[volume]\nbaseline_iops = 300\n')
    known = profile(read_iops=400.0, write_iops=200.0)
    wanted = requirement.of(known)
    limits = target.load(file)
    judged = target.judge(limits, wanted, known)
    sizing = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE), judgements=judged)
    verdict = judge(sizing, run_of(sizing, multiple=3.0, low=2.9, high=3.1))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert verdict.multiple == pytest.approx(0.5)
    file.write_text("[network]\nbaseline_mbps = 1\n")
    judged = target.judge(target.load(file), wanted, known)
    sizing = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE), judgements=judged)
    # What the profile does not know is told, and decides nothing.
    assert judge(sizing, run_of(sizing, multiple=3.0, low=2.9, high=3.1)).fit is Fit.FITS
    file.write_text("[volume]\nburst_iops = 3000\n")
    judged = target.judge(target.load(file), wanted, known)
    sizing = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE), judgements=judged)
    unclear = judge(sizing, run_of(sizing, multiple=3.0, low=2.9, high=3.1))
    assert (unclear.fit, "base rate" in " ".join(unclear.reasons)) == (Fit.UNCLEAR, True)


def test_what_would_fit_without_headroom_says_so(wanted: Requirement) -> None:
    """0.9 times a requirement with 30 % headroom is 1.17 times one without."""
    sizing = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE))
    verdict = judge(sizing, run_of(sizing, multiple=0.9, low=0.85, high=0.95))
    words = [change.words for change in verdict.changes]
    assert any("without the headroom of 30%" in text and "1.17" in text for text in words)


@pytest.mark.parametrize(
    ("objective", "p99s", "words"),
    [
        ("p99=20ms", (0.03, 0.05), [("the required rate was sustained with p99 50.0 ms: an "
                                     "objective above that would be kept to")]),
        ("p99=20ms p99.9=200ms", (0.01, 0.01), []),
        ("p95=5ms", (0.01, 0.01), []),
        ("p99=20ms", (0.03, None), []),
        ("p99=20ms", (0.01, 0.01), []),
    ],
)  # fmt: skip
def test_another_objective_is_a_remedy_only_where_the_p99_alone_failed(
    sizing: Sizing, objective: str, p99s: Sequence[float | None], words: list[str]
) -> None:
    """Other percentiles are not in the rows, and a trial that was not sustained has no times."""
    sizing = altered(sizing, objective=objective)
    trials = tuple(trial(1.0, sizing.rate, "failed", p99) for p99 in p99s)
    run = run_of(sizing, multiple=0.9, low=0.85, high=0.95, trials=trials)
    found = [one.words for one in judge(sizing, run).changes]
    assert [one for one in found if "objective" in one] == words


@pytest.mark.parametrize(("free", "helps"), [(200 * GIB, True), (20 * GIB, False)])
def test_margins_are_no_remedy_for_what_does_not_grow(free: int, *, helps: bool) -> None:
    """Data of 40 GiB needs its room with any headroom, without which only the load fits."""
    wanted = requirement.of(profile(), growth=1.0, headroom=0.3)
    sizing = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE), free_bytes=free)
    verdict = judge(sizing, run_of(sizing, multiple=0.9, low=0.85, high=0.95))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert any("it fits" in change.words for change in verdict.changes) == helps


@pytest.mark.parametrize(
    ("need", "multiple", "words"),
    [
        ("cpu", 0.7, []),
        ("cpu", 0.8, ["without the headroom of 30% it fits: 1.04 times what is then required"]),
        ("memory", 0.8, []),
    ],
)
def test_without_a_margin_every_deciding_resource_must_fit(
    need: str, multiple: float, words: list[str]
) -> None:
    """One that grows with the load may; of several the one with the least room has the number."""
    row = ResourceRow(
        resource=need, need=need, unit="", required=1.0, here=multiple, multiple=multiple, low=None,
        high=None, fit=Fit.DOES_NOT_FIT, proof="", kind="probe", decides=True,
    )  # fmt: skip
    load = Loaded(Fit.DOES_NOT_FIT, "", 0.9, 0.85, 0.95, "", "", "", "")
    assert [one.words for one in what_if.margins(1.0, 0.3, load, [row])] == words


@pytest.mark.parametrize("held", ["exceeded", "disturbed", "not offered"])
def test_margins_are_no_remedy_for_a_failed_hold(wanted: Requirement, held: str) -> None:
    """A lower rate has not been held either: that it fits without headroom was not measured."""
    sizing = sizing_of(wanted, planned(wanted, SizingOptions(), MACHINE))
    verdict = judge(sizing, run_of(sizing, multiple=1.1, low=1.05, high=1.2, held=held))
    assert verdict.fit is not Fit.FITS
    assert not any("it fits" in change.words for change in verdict.changes)


@pytest.mark.parametrize(
    ("ended", "held", "fit"),
    [
        (SearchTrial.HELD, "within", Fit.FITS),
        (SearchTrial.FAILED, "exceeded", Fit.DOES_NOT_FIT),
        (SearchTrial.NOT_OFFERED, "not offered", Fit.UNCLEAR),
    ],
)
def test_a_hold_that_clients_could_not_send_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, sizing: Sizing, ended: SearchTrial, held: str, fit: Fit
) -> None:
    """It shows nothing about the server; one that was sent and exceeded its objective does."""
    monkeypatch.setattr(outcome, "_columns", lambda _: {"seconds": 600.0})
    level = level_of(95.0, 0)
    level.sustained = False
    point: Any = None
    findings = StepRecorder()
    outcome.record_hold(findings, CapacityTrial(1.0, level, point, ended, "late by 3.2 s"))
    run = run_of(sizing, multiple=1.1, low=1.02, high=1.2)
    step = altered(run.steps[-1], facts={**run.steps[-1].facts, **findings.facts})
    verdict = judge(sizing, altered(run, steps=(step,)))

    assert findings.facts["capacity.held"] == held
    assert verdict.fit is fit
    assert ("late by 3.2 s" in verdict.headline) == (fit is not Fit.FITS)


def test_more_memory_is_a_prediction_from_the_hits_of_smaller_buffers(sizing: Sizing) -> None:
    """Misses that halve with each doubling halve again; where all fits there are none."""
    curve = [(1.0, 0.4), (2.0, 0.2), (4.0, 0.1)]
    assert what_if.missed_at(curve, 8.0, None) == pytest.approx(0.05)
    assert what_if.missed_at(curve, 8.0, 7.0) == 0.0
    assert what_if.missed_at([(1.0, 0.3), (2.0, 0.3)], 4.0, None) == pytest.approx(0.3)
    rows = [
        {"buffers_bytes": size * GIB, "hit_share": 1 - missed, "full": True}
        for size, missed in curve
    ]
    memory = _more_memory(sizing, rows)
    assert len(memory) == 1
    assert memory[0].predicted
    assert "prediction" in report.changed(memory[0])


def _more_memory(sizing: Sizing, rows: Sequence[Row]) -> list[Remedy]:
    step = StepResult(step="buffers", name="buffers", repeat=1, status=Status.DONE, started="",
                      elapsed=1, spec={}, tables={"buffers": tuple(rows)})  # fmt: skip
    run = run_of(sizing, multiple=0.9, low=0.85, high=0.95, more=(step,))
    verdict = judge(sizing, run)
    assert report.document(report.SizingSummary(sizing, run, verdict)).parts
    return [one for one in verdict.changes if "times the memory" in one.words]


@pytest.mark.parametrize("last", [{"hit_share": 0.8, "full": False}, {"hit_share": None}])
def test_nothing_is_predicted_from_buffers_that_were_not_full(sizing: Sizing, last: Row) -> None:
    """They would have found more later; and without a block asked for nothing is known."""
    rows = [
        {"buffers_bytes": GIB, "hit_share": 0.6, "full": True},
        {"buffers_bytes": 2 * GIB, "full": False, **last},
    ]
    assert not _more_memory(sizing, rows)


def test_an_objective_below_a_flush_of_the_log_is_told(wanted: Requirement) -> None:
    """No rate keeps to 50 us where each commit takes a flush of 400 us."""
    table: dict[str, tuple[Row, ...]] = {"pg_fsync": ({"usecs_per_op": 400.0},)}
    probe = StepResult(step="probe", name="log", repeat=1, status=Status.DONE, started="",
                       elapsed=1, spec={}, tables=table)  # fmt: skip
    plan = planned(wanted, SizingOptions(), MACHINE)
    sizing = altered(sizing_of(wanted, plan), objective="p99=50us")
    run = run_of(sizing, multiple=None, low=None, high=None, more=(probe,),
                 trials=(trial(0.0625, plan.rate, "failed"),))  # fmt: skip
    words = [change.words for change in judge(sizing, run).changes]
    assert any("below what the device takes for one flush" in text for text in words)


def probe(name: str, operation: str, iops: float, size: int = 8192) -> StepResult:
    """Return a probe of the device that had so many requests a second."""
    row = {"operation": operation, "access": "random", "direct": True, "block_bytes": size,
           "depth": 32, "iops": iops, "MB/s": iops * size / 1e6}  # fmt: skip
    return StepResult(step="probe", name=name, repeat=1, status=Status.DONE, started="", elapsed=5,
                      spec={}, tables={"io": (row,)})  # fmt: skip


def device(**columns: float) -> Requirement:
    """Return what iostat's profile of a warehouse requires."""
    none: dict[str, float | None] = dict.fromkeys(
        ("commits", "blocks_hit", "blocks_read", "tuples_fetched", "tuples_inserted",
         "tuples_updated", "sessions_active", "database_bytes"),
    )  # fmt: skip
    return requirement.of(profile(300, 4 * GIB, **{**none, **columns}))


WAREHOUSE = {"read_iops": 6200.0, "read_mbps": 805.0, "write_iops": 0.0, "write_mbps": 0.0}


def test_every_need_that_is_printed_has_a_row_that_decides(wanted: Requirement) -> None:
    """Cores, reads, writes, flushes, memory, room, network: measured, predicted or not tested."""
    known = requirement.of(profile(
        read_iops=50.0, write_iops=40.0, read_mbps=0.4, write_mbps=0.4, wal_syncs=14.0,
        wal_mbps=0.1, memory_bytes=8.0 * GIB, net_in_mbps=3.0, net_out_mbps=9.0,
    ))  # fmt: skip
    plan = planned(known, SizingOptions(), MACHINE)
    sizing = sizing_of(known, plan, cores=4.0, memory_bytes=16 * GIB, free_bytes=200 * GIB)
    more = (probe("reads-as-there", "read", 900), probe("writes-as-there", "write", 400))
    verdict = judge(sizing, run_of(sizing, multiple=1.6, low=1.5, high=1.7, more=more))
    rows = {row.need: row for row in verdict.rows if row.need}
    assert set(rows) == {need.name for need in known.needs}
    assert all(row.decides for row in rows.values())
    assert verdict.fit is Fit.FITS
    told = {name: row.known or row.fit.value for name, row in rows.items()}
    assert told["cpu"] == told["transactions"] == "measured"
    assert told["read_iops"] == told["write_mbps"] == told["database"] == "predicted"
    assert told["net_in"] == told["net_out"] == "not tested"
    assert "not tested: " in verdict.reasons[0]


@pytest.mark.parametrize("cores", [2.0, 31.0])
def test_cores_that_are_not_there_need_no_load(cores: float) -> None:
    """31 cores do not fit on 2, which is known before anything is run, and 2 do on 4."""
    known = requirement.of(profile(cpu_cores=cores))
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=4.0)
    why = refutations(sizing)
    assert bool(why) == (cores > 4)
    if not why:
        return
    assert why[0].startswith("13% of what is required, CPU of the host: 31 cores required")
    verdict = judge(sizing, altered(run_of(sizing, multiple=None, low=None, high=None), steps=()))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert verdict.multiple == pytest.approx(4 / 31)


@pytest.mark.parametrize(
    ("cores", "fit"), [(None, Fit.UNCLEAR), (64.0, Fit.UNCLEAR), (0.5, Fit.DOES_NOT_FIT)]
)
def test_short_statements_cost_less_where_they_are_many(cores: float | None, fit: Fit) -> None:
    """132 us at an idle source were 13 us under load: what those need is not arithmetic."""
    known = requirement.of(
        profile(cpu_cores=0.5, tuples_fetched=4000.0, commits=4000.0), growth=10.0
    ).model_copy(update={"cores": cores})
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=4.0)
    assert sizing.rate > 5 / 250e-6
    assert bool(refutations(sizing)) == (fit is Fit.DOES_NOT_FIT)
    verdict = judge(sizing, run_of(sizing, multiple=None, low=None, high=None)
                    .model_copy(update={"steps": ()}))  # fmt: skip
    row = next(row for row in verdict.rows if row.need == "cpu")
    assert row.multiple == pytest.approx(4 / 5)
    assert row.fit is fit


@pytest.mark.parametrize(("flushes", "fit"), [(0.0, Fit.DOES_NOT_FIT), (300.0, Fit.UNCLEAR)])
def test_flushes_that_commits_share_are_not_refuted_by_a_probe(flushes: float, fit: Fit) -> None:
    """Ten times the commits are not ten times the flushes: a load tells."""
    known = requirement.of(
        profile(commits=300.0, wal_syncs=flushes, write_iops=900.0, write_mbps=9.0), growth=10.0
    )
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=64.0)
    run = run_of(sizing, multiple=None, low=None, high=None)
    probed = run.model_copy(update={"steps": (probe("writes", "write", 2000.0, 8192),)})
    assert bool(refutations(sizing, probed)) == (fit is Fit.DOES_NOT_FIT)
    row = next(row for row in judge(sizing, probed).rows if row.need == "write_iops")
    assert row.fit is fit


@pytest.mark.parametrize(
    ("writes", "flushed", "fit"),
    [(900.0, 100.0, Fit.FITS), (900.0, 300.0, Fit.UNCLEAR), (9000.0, 100.0, Fit.DOES_NOT_FIT)],
)
def test_fewer_writes_of_as_many_commits_are_not_held_against_a_load(
    writes: float, flushed: float, fit: Fit
) -> None:
    """A disk of 250 writes/s held 1.4 times the load of a source that had 777, 324 of them flushes.

    Writes that no saved flush explains are still held against the probe.
    """
    known = requirement.of(
        profile(commits=300.0, tuples_inserted=300.0, wal_syncs=300.0, write_iops=writes)
    )
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=64.0)
    few = (trial(1.0, sizing.rate, "held", writes_per_second=250.0, flushes_per_second=flushed),)
    run = run_of(sizing, multiple=1.4, low=1.3, high=1.5, trials=few,
                 more=(probe("writes", "write", 250.0, 8192),))  # fmt: skip
    verdict = judge(sizing, run)
    assert verdict.fit is fit
    row = next(row for row in verdict.rows if row.need == "write_iops")
    assert row.fit is (Fit.NOT_TESTED if fit is Fit.FITS else fit)
    assert ("not tested: device writes" in verdict.reasons[0]) is (fit is Fit.FITS)


def test_a_probe_of_the_log_shows_nothing_of_writes_to_random_places() -> None:
    """250 MB/s in a row are enough for a log of 40, and no proof of 40 MB/s in blocks."""
    known = requirement.of(
        profile(tuples_inserted=300.0, wal_mbps=40.0, write_iops=5000.0, write_mbps=40.0)
    )
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=64.0)
    probes = (probe("writes", "write", 250.0, 8192), probe("log-writes", "write", 2000.0, 1 << 17))
    few = (trial(1.0, sizing.rate, "held", write_bytes_per_second=0.0),)
    run = run_of(sizing, multiple=1.4, low=1.3, high=1.5, trials=few, more=probes)
    rows = {row.need: row for row in judge(sizing, run).rows}
    assert rows["write_mbps"].fit is Fit.DOES_NOT_FIT
    assert rows["wal"].fit is Fit.FITS


def test_requests_and_bytes_of_one_probe_are_one_fact() -> None:
    """450 reads/s of 8 KiB are 68 % of 662, and 68 % of 5.4200 MB/s: reads are what is named."""
    known = device(**{**WAREHOUSE, "read_iops": 661.5, "read_mbps": 5.4200})
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=64.0)
    run = run_of(sizing, multiple=None, low=None, high=None, trials=(),
                 more=(probe("reads", "read", 450.0),))  # fmt: skip
    verdict = judge(sizing, run)
    rows = {row.need: row.multiple for row in verdict.rows if row.multiple is not None}
    assert rows["read_mbps"] < rows["read_iops"]
    assert verdict.first == "device reads"


@pytest.mark.parametrize(("multiple", "proof"), [(0.3, "measured"), (1.2, "predicted")])
def test_a_disk_is_not_blamed_for_a_load_that_something_else_limits(
    multiple: float, proof: str
) -> None:
    """Where the load had the reads and a probe has the writes, both together are the load's.

    Not so of a load that held: it did not have the writes, so that the two were never together.
    """
    known = requirement.of(profile(read_iops=9.0, write_iops=3.0, read_mbps=0.1, write_mbps=0.1))
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=64.0)
    ended = "held" if multiple > 1 else "failed"
    one = trial(1.0, sizing.rate, ended, reads_per_second=20.0, writes_per_second=1.0)
    low, high = multiple - 0.01, multiple + 0.01
    run = run_of(sizing, multiple=multiple, low=low, high=high, trials=(one,))
    probed = run.model_copy(update={"steps": (probe("writes", "write", 3.3, 8192), *run.steps)})
    rows = {row.need: row for row in judge(sizing, probed).rows}
    assert (rows["read_iops"].known, rows["write_iops"].known) == ("measured", "predicted")
    assert rows["iops"].known == proof
    assert rows["iops"].fit is (Fit.UNCLEAR if multiple > 1 else Fit.DOES_NOT_FIT)


@pytest.mark.parametrize(("gives", "fit"), [(500e6, "refuted"), (1000e6, "")])
def test_a_disk_that_gives_less_than_was_read_needs_no_load(gives: float, fit: str) -> None:
    """805 MB/s do not fit on a disk whose probe had 500, and no load is put on it."""
    known = device(**WAREHOUSE)
    plan = planned(known, SizingOptions(), MACHINE)
    size = step_of(plan, "reads-as-there").block_size
    # The requests of the source were of 130 kB.
    assert size == 128 << 10
    sizing = sizing_of(known, plan, cores=4.0)
    run = run_of(sizing, multiple=None, low=None, high=None)
    probed = altered(run, steps=(probe("reads-as-there", "read", gives / size, size),))
    assert refutations(sizing) == []
    assert bool(refutations(sizing, probed)) == bool(fit)
    rows = {row.need: row for row in judge(sizing, probed).rows}
    assert rows["read_mbps"].multiple == pytest.approx(gives / 805e6, rel=1e-3)
    assert rows["read_mbps"].known == "predicted"


@pytest.mark.parametrize(
    ("limit", "loop", "fit"),
    [
        ("", "Python", Fit.DOES_NOT_FIT),
        ("interpreter", "Python", Fit.UNCLEAR),
        ("processors", "Python", Fit.UNCLEAR),
        ("processors", "compiled", Fit.DOES_NOT_FIT),
    ],
)
def test_a_probe_that_python_limited_refutes_nothing(limit: str, loop: str, fit: Fit) -> None:
    """A database without an interpreter may get more from the same device."""
    known = device(**{**WAREHOUSE, "read_iops": 661.5, "read_mbps": 5.4200})
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=64.0)
    found = probe("reads", "read", 450.0)
    row = {**found.tables["io"][0], "limit": limit, "loop": loop}
    found = found.model_copy(update={"tables": {"io": (row,)}})
    run = run_of(sizing, multiple=None, low=None, high=None, trials=(), more=(found,))
    rows = {row.need: row.fit for row in judge(sizing, run).rows}
    assert rows["read_iops"] is fit


def test_scans_have_buffers_to_read_as_much_at_once_as_the_source() -> None:
    """In 16 MiB PostgreSQL's scans read 8 KiB at a time, where the source's requests had 130 kB."""
    for mbps, buffers in ((805.0, 128 << 20), (50.0, 16 << 20)):
        known = device(read_iops=6200.0, read_mbps=mbps, write_iops=0.0, write_mbps=0.0)
        plan = planned(known, SizingOptions(), MACHINE)
        assert plan.data.residence is Residence.DEVICE
        assert plan.data.buffers == buffers
        assert plan.data.size(8192) >= 16 * buffers


def test_a_load_that_burnt_less_than_is_required_has_not_measured_it(sizing: Sizing) -> None:
    """Where scans burnt nothing `CPU of the machine: 7.16 times` was false: arithmetic decides."""
    idle = tuple(
        trial(m, sizing.rate, "held", server_cores=0.1 * m, user_cores=0.1 * m) for m in (1.0, 8.0)
    )
    known = altered(sizing, cores=1.5)
    verdict = judge(known, run_of(known, multiple=7.16, low=7.0, high=7.3, trials=idle))
    row = next(row for row in verdict.rows if row.need == "cpu")
    assert row.known == "predicted"
    assert row.multiple == pytest.approx(1.5 / 0.975)
    assert verdict.multiple == row.multiple
    # Of a server at a URL the load saw the processors; where it did not, nothing is said.
    seen = run_of(sizing, multiple=7.16, low=7.0, high=7.3, trials=idle)
    row = next(row for row in judge(sizing, seen).rows if row.need == "cpu")
    assert (row.fit, row.known) == (Fit.FITS, "predicted")
    blind = judge(sizing, without_processors(seen))
    assert blind.fit is Fit.UNCLEAR
    assert "CPU of the host" in " ".join(blind.reasons)


def test_the_cpu_of_the_sources_host_is_not_required_of_the_database() -> None:
    """Where the server's own is known, clients that ran beside it are none of its needs."""
    known = requirement.of(profile(cpu_cores=6.0, server_cpu_cores=1.0))
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=2.0)
    assert refutations(sizing) == []
    verdict = judge(sizing, run_of(sizing, multiple=1.6, low=1.5, high=1.7))
    assert verdict.fit is Fit.FITS
    rows = {row.need: row for row in verdict.rows}
    assert "cpu" not in rows
    assert rows["server_cpu"].known == "measured"


def test_commits_that_share_flushes_have_tested_the_log() -> None:
    """A load with as many commits and fewer flushes shows more than a probe of single ones."""
    for syncs, told in ((14.0, "measured"), (400.0, "not tested")):
        known = requirement.of(profile(wal_syncs=syncs))
        sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=4.0)
        grouped = (trial(1.0, sizing.rate, "held", flushes_per_second=3.0),)
        run = run_of(sizing, multiple=1.6, low=1.5, high=1.7, trials=grouped)
        row = next(row for row in judge(sizing, run).rows if row.need == "wal_syncs")
        assert (row.known or row.fit.value) == told


def test_reads_of_others_here_are_not_the_loads() -> None:
    """Beside 600 reads/s of a backup a load that read 30 has not shown that 600 can be had."""
    known = device(read_iops=600.0, read_mbps=4.9, write_iops=0.0, write_mbps=0.0)
    sizing = sizing_of(known, planned(known, SizingOptions(), MACHINE), cores=4.0)
    for others, told in ((0.95, "not tested"), (0.0, "measured")):
        beside = (trial(1.0, sizing.rate, "held", reads_per_second=600.0,
                        others_read_share=others),)  # fmt: skip
        run = run_of(sizing, multiple=1.6, low=1.5, high=1.7, trials=beside)
        row = next(row for row in judge(sizing, run).rows if row.need == "read_iops")
        assert (row.known or row.fit.value) == told


@pytest.mark.parametrize("mbps", [1.31, 0.08])
def test_cpu_is_burnt_in_statements_of_a_tenth_of_the_objective(mbps: float) -> None:
    """Ten statements a second of 1.28 s each are 6,400 of 2 ms, and as much CPU in all."""
    scans = mbps > 1
    few = device(read_iops=10.0, read_mbps=mbps, write_iops=0.0, write_mbps=0.0,
                 cpu_cores=12.8)  # fmt: skip
    plan = planned(few, SizingOptions(objective="p99=20ms"), MACHINE)
    capacity = step_of(plan, "capacity")
    assert capacity.mix.cpu == pytest.approx(0.002)
    assert capacity.mix.cpu * capacity.rate == pytest.approx(12.8)
    own = few.rate(plan.data.rows)
    assert plan.rate - plan.compute == pytest.approx(own)
    assert bool(capacity.mix.scan) == scans
    assert any("the objective is not for them" in text for text in plan.data.unproven) == scans


def test_an_objective_that_one_statement_alone_takes_is_told() -> None:
    """A statement of a millisecond of CPU within 3 ms: it is said before the run."""
    short = planned(requirement.of(profile()), SizingOptions(objective="p99=3ms"), MACHINE)
    assert step_of(short, "capacity").mix.cpu == pytest.approx(0.001)
    assert any("33% of the objective" in text for text in short.data.unproven)


def test_a_rate_that_failed_for_sure_has_its_numbers_in_the_first_line(sizing: Sizing) -> None:
    """What was done of what was asked is how many times the required rate there is."""
    did = 0.42 * sizing.rate
    trials = tuple(
        trial(1.0, sizing.rate, "failed", None, throughput_per_second=did,
              reason="the backlog only grew") for _ in range(2)
    )  # fmt: skip
    verdict = judge(sizing, run_of(sizing, multiple=None, low=None, high=None, trials=trials))
    assert verdict.fit is Fit.DOES_NOT_FIT
    assert verdict.multiple == pytest.approx(0.42)
    assert verdict.reasons[0].startswith("42% of what is required: ")
    assert "in 2 of 2 trials: the backlog only grew" in verdict.reasons[0]
    slow = tuple(trial(1.0, sizing.rate, "failed", 0.5, reason="p99 500 ms > 20 ms")
                 for _ in range(2))  # fmt: skip
    verdict = judge(sizing, run_of(sizing, multiple=None, low=None, high=None, trials=slow))
    assert (verdict.fit, verdict.multiple) == (Fit.DOES_NOT_FIT, None)
    assert "p99 500 ms > 20 ms" in verdict.reasons[0]


def test_a_search_that_was_given_up_says_who_was_in_the_way(sizing: Sizing) -> None:
    """Two void trials in a row are no verdict: who disturbed, and how to wait for it."""
    void = tuple(trial(1.0, sizing.rate, "void", 0.5) for _ in range(2))
    run = run_of(sizing, multiple=None, low=None, high=None, trials=void)
    facts = {"capacity.gave_up": "others used 60% of the processors in 2 trials in a row (cc 55%)"}
    step = altered(run.steps[0], facts=facts)
    verdict = judge(sizing, altered(run, steps=(step,)))
    assert verdict.fit is Fit.UNCLEAR
    assert "cc 55%" in verdict.reasons[0]
    assert "--wait" in verdict.reasons[0]


def test_a_trial_that_drew_no_statement_says_that_and_no_other_reason(sizing: Sizing) -> None:
    """0.2 statements/s for 2 s are none: the clients are not to blame."""
    none = trial(1.0, sizing.rate, "not offered", None, offered_per_second=0.0,
                 throughput_per_second=0.0, reason="no statement was drawn")  # fmt: skip
    verdict = judge(sizing, run_of(sizing, multiple=None, low=None, high=None, trials=(none,)))
    assert verdict.fit is Fit.UNCLEAR
    assert verdict.not_offered == "no statement was drawn"


def test_no_first_line_contradicts_its_verdict(sizing: Sizing) -> None:
    """Whatever decides: what does not fit never stands beside an interval that holds 1."""
    ends = (0.2, 0.7, 0.95, 1.05, 1.6)
    small = altered(sizing, free_bytes=20 * GIB, cores=0.5)
    for known in (sizing, small):
        for low in ends:
            for high in (*(end for end in ends if end > low), None):
                for held in ("within", "exceeded"):
                    run = run_of(known, multiple=low, low=low, high=high, held=held)
                    verdict = judge(known, run)
                    holds = low < 1 and (high is None or high >= 1)
                    assert ("contains what is required" in verdict.reasons[0]) == (
                        holds and verdict.fit is Fit.UNCLEAR
                    )
                    if known is small:
                        assert verdict.fit is Fit.DOES_NOT_FIT
                        assert not holds or verdict.first != "CPU quota"
                    assert any(character.isdigit() for character in verdict.reasons[0])


def test_the_record_travels_in_the_result(sizing: Sizing, tmp_path: Path) -> None:
    """A verdict that is read from a stored run is the one that was given."""
    run = run_of(sizing, multiple=1.6, low=1.5, high=1.7)
    path = store.reserve(tmp_path, run)
    store.save(path, run)
    loaded = store.load(path)
    assert judge(Sizing.of(loaded), loaded) == judge(sizing, run)
    with pytest.raises(Impossible, match="not one of `replayer size`"):
        Sizing.of(altered(run, sizing=None))
    with pytest.raises(Impossible, match="run `replayer size` again"):
        Sizing.of(altered(run, sizing={"what": 1}))


def test_every_form_has_the_verdict_and_nothing_steers_a_page(sizing: Sizing) -> None:
    """Terminal, page, CSV and Markdown say the same, and what a profile says is but text."""
    run = run_of(sizing, multiple=0.7, low=0.6, high=0.8)
    evil = altered(sizing, source="<script>alert(1)</script>|\x1b[31m")
    summary = report.SizingSummary(evil, run, judge(evil, run))
    document = report.document(summary)
    text = console.text(terminal_writer.render(document))
    assert "does not fit: 70% of what is required" in text.rpartition("\n\n")[2]
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    page = page_writer.page(document)
    assert "<script>alert(1)" not in page
    assert 'class="verdict">does not fit' in page
    table = csv_writer.page(document).splitlines()
    assert table[1].startswith("total,does not fit,")
    assert markdown_writer.page(document).startswith("**does not fit: 70% of")
