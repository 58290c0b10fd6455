"""The probes: their keys, their lines as the tools print them, and the ceiling they give."""

import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from replayer import registry
from replayer.analysis.capacity.ceiling import ProbeCeiling, ceiling, share
from replayer.errors import Impossible, NotFound
from replayer.model import Better, Measurement, Reads, Run, Series, Status, StepResult
from replayer.probes import bonnie, cpu, orion
from replayer.report.documents import run_details, summary
from replayer.report.terminal.console import text
from replayer.report.writers import terminal_writer
from replayer.run import probe_context
from replayer.run.plan import workload
from replayer.run.probe_context import ProbeSpec, label
from replayer.run.step_recorder import StepRecorder
from replayer.steps.probe import briefs
from replayer.storage import io_run, io_worker, reference_tools
from replayer.storage.io_job import IoJob, IoTarget, IoThread
from replayer.storage.io_result import IoResult
from replayer.storage.spin_worker import _cpu, _memory
from replayer.watch.histogram import Latencies, bin_of
from tests.benchmarks import grid
from tests.fixture_types import RunOf
from tests.known import known


def result_of(
    iops: int, latency_us: int = 100, block_size: int = 8192, threads: int = 1
) -> IoResult:
    """Return a result of one second with so many reads of the same latency."""
    ns = latency_us * 1000
    bins = {int(bin_of(np.array([ns]))[0]): iops}
    seen = Latencies(bins, iops, iops * ns, float(iops) * ns * ns, ns // 2, ns * 3)
    job = IoJob(name="x", threads=threads, block_size=block_size, seconds=1.0)
    return IoResult(job, 1.0, seen, Latencies({}), iops, 0, (iops,), 0)


def orion_points() -> list[orion._Point]:
    """Return two small points and one large one."""
    return [
        orion._Point(1, 0, result_of(8000, 124), None),
        orion._Point(17, 0, result_of(9899, 1711), None),
        orion._Point(0, 2, None, result_of(120, 900, 1 << 20)),
    ]


@pytest.mark.parametrize("name", registry.names("probes"))
def test_probe_keeps_its_contract(name: str) -> None:
    """A probe has a Spec over ProbeSpec whose keys have defaults, and run()."""
    module = registry.load("probes", name)

    assert issubclass(module.Spec, ProbeSpec)
    assert callable(module.run)
    assert module.Spec(step="probe", probe=name).clients == 1


def test_orion_prints_its_own_lines() -> None:
    """The summary has ORION's words, so that whoever greps for them finds them."""
    at = "std dev=0 us @"

    lines = orion._summary(orion_points())

    assert lines == [
        "Maximum Large MBPS=120.00 @ Small=0 and Large=2",
        "Maximum Small IOPS=9899 @ Small=17 and Large=0",
        f"Small Read Latency: avg=1711 us, min=856 us, max=5133 us, {at} Small=17 and Large=0",
        "Minimum Small Latency=124.00 usecs @ Small=1 and Large=0",
        "Small Read Latency: avg=124 us, min=62 us, max=372 us, std dev=0 us @ Small=1 and Large=0",
    ]


def test_orion_normal_is_the_whole_matrix() -> None:
    """Every combination once, both kinds alone included, never nothing at all."""
    spec = orion.Spec(step="probe", probe="orion", run="normal", small=(1, 4), large=(1, 2))

    planned = orion._plan(spec)

    assert len(planned) == len(set(planned)) == 3 * 3 - 1
    assert (0, 0) not in planned
    assert {(4, 2), (0, 1), (1, 0)} <= set(planned)


def test_orion_matrix_is_csv_with_a_head_line() -> None:
    """Rows are large, columns small; what was not under way is empty, not 0."""
    spec = orion.Spec(step="probe", probe="orion", run="normal", small=(1, 17), large=(2,))
    findings = StepRecorder()

    orion._matrices(spec, findings, orion_points())

    assert findings.printed["iops.csv"] == ("Large/Small, 0, 1, 17", "0, , 8000, 9899", "2, , , ")
    assert findings.printed["mbps.csv"][2] == "2, 120.00, , "


def bonnie_line(**values: float) -> bonnie._Line:
    """Return a table line of bonnie with every phase, or with those given."""
    seen = Latencies({}, 1, 4_815_000, 0.0, 1, 4_815_000)
    every = (*bonnie._PHASES, *(f"{o}_{v}" for o in ("seq", "ran") for v in bonnie._VERBS))
    chosen = values or dict.fromkeys(every, 358_000.0)
    return bonnie._Line(512 << 20, {name: (rate, 99.0, seen) for name, rate in chosen.items()})


@pytest.mark.parametrize("line", [bonnie_line(), bonnie_line(rewrite=10.0), bonnie._Line(1 << 40)])
def test_bonnie_lines_have_bonnies_columns(line: bonnie._Line) -> None:
    """The table's columns stay under their headings, and the CSV has a value for every field."""
    spec = bonnie.Spec(step="probe", probe="bonnie")

    rows, csv = bonnie._table(spec, "vm", line), bonnie._csv(spec, "vm", line)

    assert {len(row) for row in (rows[2], rows[3])} == {len(rows[2])}
    assert all(len(row) <= 80 for row in rows)
    assert csv.count(",") == len(reference_tools.BONNIE_FIELDS) - 1


def test_bonnie_csv_names_agree_with_the_fields() -> None:
    """Each value stands in the field that bonnie++ has for it."""
    spec = bonnie.Spec(step="probe", probe="bonnie")
    line = bonnie_line(put_block=366508.4, seeks=12791.0, ran_delete=7.0)

    fields = dict(
        zip(reference_tools.BONNIE_FIELDS, bonnie._csv(spec, "vm", line).split(","), strict=True)
    )

    assert (fields["put_block"], fields["put_block_cpu"]) == ("366508", "99")
    assert (fields["seeks"], fields["ran_del"], fields["rewrite"]) == ("12791", "7", "")
    assert (fields["ran_del_latency"], fields["file_size"]) == ("4815us", "512M")


def test_an_event_of_the_cpu_probe_finds_the_primes() -> None:
    """The divisions are not left out by anybody: there are 1,227 primes from 5 to 9,999, and 3."""
    event, _ = _cpu(10_000)

    assert event() == 1_228


def test_cpu_counts_grow_to_all_cores() -> None:
    """1, 2, 4 and so on, the number of cores last and once."""
    assert cpu.steps(1) == (1,)
    assert cpu.steps(2) == (1, 2)
    assert cpu.steps(6) == (1, 2, 4, 6)
    assert cpu.steps(8) == (1, 2, 4, 8)


def test_memory_events_touch_every_word() -> None:
    """A write event changes the whole block, a read event depends on every word of it."""
    for kind in ("write", "read"):
        event, times = _memory(kind, 1 << 10)
        result = event()
        assert times == 4096
        if kind == "read":
            assert len(result) == times


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"probe": "io", "duration": None}, "it needs a duration or an amount"),
        ({"probe": "io", "depth": 0}, "greater than or equal to 1"),
        ({"probe": "io", "block_size": "8x"}, "size such as 8k"),
        ({"probe": "dd_dsync", "size": "4G", "writes": 1}, "one write can be at most 1 GiB"),
        ({"probe": "orion", "small": [4, 1]}, "growing numbers"),
        ({"probe": "sysbench_fileio", "modes": []}, "at least 1 item"),
        ({"probe": "sysbench_fileio", "threads": [0]}, "greater than or equal to 1"),
        ({"probe": "cpu", "threads": [0]}, "greater than or equal to 1"),
        ({"probe": "memory", "threads": [-3]}, "greater than or equal to 1"),
        ({"probe": "memory", "block_sizes": [71]}, "multiple of 8"),
        ({"probe": "memory", "block_sizes": [0]}, "greater than or equal to 64"),
        ({"probe": "memory", "operations": []}, "at least 1 item"),
        ({"probe": "pg_fsync", "methods": []}, "at least 1 item"),
    ],
)
def test_impossible_keys_are_refused(keys: dict[str, Any], told: str) -> None:
    """What cannot be measured is refused with the reason before anything is written."""
    with pytest.raises(ValidationError, match=re.escape(told)):
        registry.load("probes", keys["probe"]).Spec(step="probe", **keys)


@pytest.mark.parametrize(
    ("table", "error", "told"),
    [
        ('probe = "orino"', NotFound, "there is no probe 'orino' - did you mean orion?"),
        ("threads = 4", NotFound, 'needs a line such as probe = "orion"'),
        ('probe = "orion"\nsmal = [1]', Impossible, "unknown key 'smal' - did you mean small?"),
    ],
)
def test_a_wrong_probe_table_names_the_nearest_right_one(
    tmp_path: Path, table: str, error: type[Exception], told: str
) -> None:
    """A workload file's mistakes are told with the file, the step and the right word."""
    path = tmp_path / "wrong.toml"
    path.write_text(f'[[step]]\nstep = "probe"\n{table}\n')

    with pytest.raises(error, match=re.escape(told)) as raised:
        workload.load(str(path))

    assert str(raised.value).startswith("wrong.toml: step 1 (probe): ")


def test_label_says_what_was_done() -> None:
    """A job is named as people say it."""
    job = IoJob(name="x", threads=4, block_size=8192, seconds=1.0)

    assert label(job) == "8 KiB random reads at depth 4"


def probed(
    run: Run, rows: Sequence[dict[str, Any]], *, device: str = "vda", status: Status = Status.DONE
) -> Run:
    """Return a run with a probe step that has these rows of the io table."""
    step = StepResult(
        step="probe",
        name="random",
        repeat=1,
        status=status,
        started="2026-11-20T10:00:00+00:00",
        elapsed=1.0,
        spec={},
        facts={"storage.device": device},
        tables={"io": tuple(rows)},
    )
    return run.model_copy(update={"steps": (step,)})


def row(iops: float, **keys: object) -> dict[str, Any]:
    """Return a row of the io table: 8 KiB random direct reads at depth 4."""
    plain = {
        "access": "random", "operation": "read", "client": "1", "block_bytes": 8192, "depth": 4,
        "direct": True, "iops": iops,
    }  # fmt: skip
    return {**plain, **keys}


def test_ceiling_is_the_newest_probe_of_the_same_device_size_and_depth(run_of: RunOf) -> None:
    """Other devices, sizes, depths, writes and buffered reads are no ceiling; newer beats older."""
    older, newer, failed = run_of([1]), run_of([1]), run_of([1])
    unlike = [
        row(1, access="sequential"), row(2, operation="write"), row(3, direct=False),
        row(4, block_bytes=4096), row(5, depth=16), row(6, client="2"),
    ]  # fmt: skip
    runs = [
        probed(older, [row(40_000)]),
        probed(newer, [*unlike, row(42_000), row(43_000), row(44_000)]),
        probed(failed, [row(50_000)], status=Status.FAILED),
    ]

    assert ceiling(runs, "vda", 8192, 4) == ProbeCeiling(43_000)
    assert ceiling(runs[::-1], "vda", 8192, 4) == ProbeCeiling(43_000)
    assert ceiling(runs, "vda", 8192, 16) == ProbeCeiling(5)
    assert ceiling(runs, "sda", 8192, 4) is None
    assert ceiling(runs, "vda", 8192, 4, host={"host.name": "elsewhere"}) is None
    reads = Reads(per_second=35_928, block_bytes=8192, depth=4, access="random", device="vda")
    assert (
        share(reads, ProbeCeiling(43_000)) == "RIOPS 35,928 = 84 % of 8 KiB random reads at depth 4"
    )


def test_a_ceiling_of_the_processors_says_so(run_of: RunOf) -> None:
    """Where a row's limit was the processors, so was the ceiling that it gives, and it is told."""
    most = known(ceiling([probed(run_of([1]), [row(43_000, limit="processors")])], "vda", 8192, 4))

    reads = Reads(per_second=35_928, block_bytes=8192, depth=4, access="random", device="vda")
    assert share(reads, most).endswith("at depth 4 (limited by processors and Python)")


def test_a_ceiling_is_of_the_compiled_loop_if_there_is_one(run_of: RunOf) -> None:
    """A median over both loops is what neither measured; Python is no limit of a compiled one."""
    python = row(43_000, limit="processors", loop="Python")
    compiled = row(60_000, limit="processors", loop="compiled")
    most = known(ceiling([probed(run_of([1]), [python, compiled])], "vda", 8192, 4))

    reads = Reads(per_second=30_000, block_bytes=8192, depth=4, access="random", device="vda")
    assert share(reads, most).endswith(
        "= 50 % of 8 KiB random reads at depth 4 (limited by the processors)"
    )


def test_report_prints_a_tools_lines_as_they_are(run_of: RunOf) -> None:
    """Lines that programs look for are whole, however wide, and every row of a sweep is there."""
    csv = ",".join(map(str, range(60)))
    run = probed(run_of([1]), [row(10_000 + depth, depth=depth) for depth in range(1, 31)])
    step = run.steps[0].model_copy(update={"printed": {"csv": (csv, "a  - b   us:   1")}})

    lines = text(
        terminal_writer.render(run_details.document(run.model_copy(update={"steps": (step,)})))
    ).splitlines()

    assert {csv, "a  - b   us:   1"} <= {line.strip() for line in lines}
    assert all(any(f"10,{depth:03d}" in line for line in lines) for depth in range(1, 31))


def of_probe(run: Run, probe: str, **values: float) -> Run:
    """Return a run of a probe that has these measurements; `__` stands for a dot."""
    (done,) = probed(run, []).steps
    measured = tuple(
        Measurement(metric=name.replace("__", "."), value=value, unit="", better=Better.MORE)
        for name, value in values.items()
    )
    rows = tuple({"block_bytes": size, "processes": 2} for size in (1 << 10, 1 << 20))
    probe_step = done.model_copy(
        update={"spec": {"probe": probe}, "name": probe, "measurements": measured}
    )
    if probe == "memory":
        probe_step = probe_step.model_copy(update={"tables": {"memory": rows}})
    return run.model_copy(update={"steps": (probe_step,)})


def test_the_answer_of_a_processor_probe_has_its_finding_in_words(run_of: RunOf) -> None:
    """How the passes grow with the processes, and both operations in blocks of both sizes."""
    passes = {"cpu__events__processes_1": 623.0, "cpu__events__processes_2": 365.0}
    scaling = {"cpu__scaling__processes_1": 1.0, "cpu__scaling__processes_2": 0.29}
    answer = str(summary.summarise([of_probe(run_of([1]), "cpu", **passes, **scaling)]).headline)
    moved = {
        f"memory__{operation}__{size}__processes_2": rate
        for operation, rates in {"read": (4e10, 2e10), "write": (3e10, 1e10)}.items()
        for size, rate in zip(("1.00KiB", "1.00MiB"), rates, strict=True)
    }
    both = str(summary.summarise([of_probe(run_of([1]), "memory", **moved)]).headline)

    assert answer.startswith("cpu: 1 process 623 passes/s; 2 processes 365 passes/s, scaling 0.29.")
    assert both.startswith(
        "memory: 1 KiB blocks (first cache): read 40,000 MB/s, write 30,000 MB/s; "
        "1 MiB blocks (beyond the first cache): read 20,000 MB/s, write 10,000 MB/s."
    )


def test_every_probe_has_an_answer_in_words() -> None:
    """No probe falls back to the names of its first metrics."""
    assert set(briefs._OF) == set(registry.names("probes"))


def test_blocks_on_huge_pages_cross_none_that_they_fit() -> None:
    """Threads take their blocks from the same huge pages; each is one stretch, none overlap."""
    pages = io_worker._HugePages()
    places = []
    for size in (8192, 1, 65536, 3 << 20, 4096, *([262144] * 20)):
        piece = pages.take(size)
        assert len(piece) == size
        places.append((np.frombuffer(piece, dtype=np.uint8).ctypes.data, size, piece))

    for start, size, _ in places:
        assert start % 4096 == 0
        fits = size <= 2 << 20
        assert not fits or start // (2 << 20) == (start + size - 1) // (2 << 20)
    ordered = sorted((start, start + size) for start, size, _ in places)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ordered))


def test_what_is_written_changes_and_cannot_be_compressed() -> None:
    """No two pages in turn are alike, nor like those of the chunk before; zlib gains nothing."""
    job = IoJob(name="x", threads=1, block_size=131072, read_share=0.0, operations=1)
    worker = io_worker._IoWorker(IoThread(job, IoTarget(("x",), 1 << 30, direct=True), 0))
    worker._filling = np.random.default_rng(1)
    worker._buffers = worker._make_buffers(4)
    seen = set()
    for done in (0, 1000):
        turns = list(islice(worker._turns(done), 4))
        blocks = [bytes(buffers[0]) for buffers in turns]
        assert len(zlib.compress(b"".join(blocks))) > 0.99 * 4 * 131072
        for block in blocks:
            seen |= {block[at : at + 4096] for at in range(0, len(block), 4096)}
    assert len(seen) == 2 * 4 * 32


def test_threads_share_an_interpreter_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread has a process to itself while there are few; never fewer processes than cores."""
    for cores, threads, processes in (
        (2, 1, 1), (2, 4, 4), (2, 100, 8), (64, 100, 64), (96, 400, 96), (1, 4096, 4),
    ):  # fmt: skip
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert io_run._processes(threads) == processes
        assert io_run._processes(threads, compiled=True) == min(threads, cores)


def watched(*intervals: tuple[float, float | None, float]) -> Any:
    """Return a sampler that saw intervals of (length, %idle, %iowait) of the processors."""
    ends = tuple(accumulate(length for length, _, _ in intervals))
    columns = {
        f"cpu.%{name}": tuple(interval[place] for interval in intervals)
        for place, name in ((1, "idle"), (2, "iowait"))
    }
    series = Series(started="", seconds=ends, columns=columns)
    return SimpleNamespace(series=lambda _begin, _end: series)


def test_processors_are_the_limit_when_hardly_any_time_is_left_of_them() -> None:
    """Waiting for I/O is idle; intervals count by their length; what nobody saw is not claimed."""
    assert probe_context._idle(watched((1.0, 10.0, 30.0), (3.0, 0.0, 0.0)), 0, 1) == 0.1
    assert probe_context._idle(watched((1.0, None, 1.0), (1.0, 2.0, 1.0)), 0, 1) == 0.03
    assert probe_context._idle(watched(), 0, 1) is None
    few = watched((1.0, 90.0, 5.0), (3.0, 90.0, 5.0))
    few.series(0, 1).columns["allowed_cpu.%idle"] = (8.0, 4.0)
    assert probe_context._idle(few, 0, 1) == 0.05
    run = io_run.IoRun(((result_of(100),),), 1.0, 3.0, 0, 1)
    assert [replace(run, idle=idle).processor_bound for idle in (None, 0.5, 0.04)] == [
        False, False, True,
    ]  # fmt: skip
    assert run.loop_share == 0.25


def test_time_in_python_is_of_the_warm_up_too() -> None:
    """The CPU time of a worker process includes it."""
    measured = result_of(100)
    result = replace(measured, job=replace(measured.job, warmup=3.0))
    assert io_run.IoRun(((result,),), 1.0, 3.0, 0, 1).loop_time == 0.25


@pytest.mark.parametrize(("rate", "limit"), [(None, "processors"), (100, ""), (200, "processors")])
def test_a_rate_that_is_kept_is_the_limit(rate: float | None, limit: str) -> None:
    """On a busy machine, a job that did not keep its rate may lack processor time."""
    measured = result_of(99)
    result = replace(measured, job=replace(measured.job, rate=rate))
    assert io_run.IoRun(((result,),), 0.5, 0.5, 0, 1, idle=0.0).limit == limit


def test_a_row_that_the_processors_limited_says_so_and_how_much_was_pythons() -> None:
    """The row has the CPU of an operation and its limit, and the note the interpreter's part."""
    context = object.__new__(probe_context.ProbeContext)
    context.findings = StepRecorder()
    run = io_run.IoRun(((result_of(100_000, threads=16),),), 0.5, 1.5, 0, 1, idle=0.01)
    context.io_rows(run, [run.of().job], [IoTarget(("x",), 1 << 30, direct=True)])
    context.io_rows(replace(run, idle=0.4), [run.of().job], [IoTarget(("x",), 1, direct=True)])
    alone = io_run.IoRun(((result_of(10_000, threads=1),),), 0.08, 0.1, 0, 1, idle=0.4)
    context.io_rows(alone, [alone.of().job], [IoTarget(("x",), 1, direct=True)])

    limits = [(row["limit"], row["cpu_us"]) for row in context.findings.tables["io"]]
    assert limits == [
        ("processors", pytest.approx(20)),
        ("", pytest.approx(20)),
        ("interpreter", pytest.approx(18)),
    ]
    many, one = context.findings.notes
    assert many.startswith("8 KiB random reads at depth 16: the processors were the limit")
    assert one.startswith(
        "8 KiB random reads at depth 1: for 8% of its time a thread was in Python"
    )
    assert "25% of what" in many
    assert many.endswith("pip install 'replayer[compiled]' makes the loop machine code")


def test_a_compiled_loop_is_told_and_not_blamed_on_python() -> None:
    """The kernel's ticks give a loop that mostly sleeps much more user time than it takes."""
    context = object.__new__(probe_context.ProbeContext)
    context.findings = StepRecorder()
    result = replace(result_of(10_000, threads=1), compiled=True)
    run = io_run.IoRun(((result,),), 0.08, 0.1, 0, 1, idle=0.4)
    context.io_rows(run, [result.job], [IoTarget(("x",), 1, direct=True)])
    assert not context.findings.notes
    context.io_rows(replace(run, idle=0.0), [result.job], [IoTarget(("x",), 1, direct=True)])

    assert [(row["limit"], row["loop"]) for row in context.findings.tables["io"]] == [
        ("", "compiled"),
        ("processors", "compiled"),
    ]
    (note,) = context.findings.notes
    assert note.endswith("the processors were the limit, not the storage")


def test_no_package_is_advised_that_changes_nothing() -> None:
    """Beside a compiled loop, one of Python's is of a job that no package compiles."""
    context = object.__new__(probe_context.ProbeContext)
    context.findings = StepRecorder()
    compiled = replace(result_of(10_000, threads=1), compiled=True)
    python = replace(compiled, job=replace(compiled.job, rewrite=True), compiled=False)
    run = io_run.IoRun(((compiled, python),), 0.5, 1.5, 0, 1, idle=0.0)
    context.io_rows(run, [compiled.job, python.job], [IoTarget(("x",), 1, direct=True)])

    (note,) = context.findings.notes
    assert note.endswith("a program without an interpreter may get more")


def test_the_loops_of_all_clients_and_windows_are_a_fact_of_the_step() -> None:
    """Python's alone are none, as in older results; a host without numba is named."""
    context = object.__new__(probe_context.ProbeContext)
    context.findings, context._loops = StepRecorder(), set()
    context.clients = SimpleNamespace(names=("one", "two"))
    python, compiled = result_of(100), replace(result_of(100), compiled=True)
    refused = replace(python, refusal="ModuleNotFoundError: No module named 'numba'")
    facts = []
    for by_client in (
        ((python,), (python,)), ((compiled,), (compiled,)), ((compiled,), (refused,)),
    ):  # fmt: skip
        run = io_run.IoRun(by_client, 0.0, 0.1, 0, 1)
        context._loops = set()
        context.findings.facts.clear()
        context._record_loops(run)
        facts.append(context.findings.facts.get("storage.loop"))

    assert facts == [None, "compiled", "compiled and Python"]
    (note,) = context.findings.notes
    assert note.startswith("two: ")
    assert note.endswith("No module named 'numba'")


def test_the_benchmarks_grid_is_drawn_anew_and_again() -> None:
    """A seed gives the same points, another one others; every kind is there, all in their range."""
    points = grid.draw(7)

    assert points == grid.draw(7) != grid.draw(8)
    assert {point.kind for point in points} == set(grid.KINDS)
    assert {point.huge for point in points} == {True, False}
    assert all(4096 <= point.block <= 256 << 10 and 1 <= point.depth <= 128 for point in points)
    assert {point.reads for point in points if point.kind != "mixed"} == {0, 100}


def test_fios_reads_and_writes_add_up(tmp_path: Path) -> None:
    """In a mixed mode both sides count: 70 % reads are neither all nor nothing."""
    if reference_tools.installed("fio") is None:
        pytest.skip("fio is not installed")
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    keys: dict[str, Any] = {
        "block_size": 4096,
        "jobs": 1,
        "seconds": 0.2,
        "size": 1 << 20,
        "direct": False,
    }
    mixed = reference_tools.fio(str(path), mode="randrw", read_percent=70, **keys)

    assert mixed.throughput == pytest.approx(4096 * mixed.iops, rel=0.02)
    assert mixed.mean_ns > 0
