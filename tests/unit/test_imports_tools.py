"""What each importer makes of its tool's own formats, value by value; nothing is left over."""

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer import registry
from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.results import imported
from tests.command import Replayer
from tests.known import known
from tests.performed import values

FILES = Path(__file__).parents[1] / "fixtures" / "imports"
MIB = 1 << 20


def read(tool: str, path: Path, label: str = "") -> ImportResult:
    """Return what an import makes of a file."""
    sheaf: ImportResult = registry.load("imports", tool).read(imported.opened(Path(path)), label)
    return sheaf


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dd/gnu.txt", [{"dd.elapsed": 4, "dd.throughput": (1 << 30) / 4}, {"dd.elapsed": 2}]),
        ("dd/others.txt", [{"dd.throughput": 1 << 27}, {"dd.throughput": 1 << 27}]),
        (
            "iostat/extended.txt",
            [
                {
                    "iostat.sda.reads": 2000,
                    "iostat.sda.read_throughput": 16000 * 1024,
                    "iostat.sda.read_wait": 0.00125,  # 1000 of 0.5 ms, 3000 of 1.5 ms
                    "iostat.sda.queue": 2.505,
                    "iostat.sda.utilisation": 70,
                    "iostat.cpu.iowait": 20,
                }
            ],
        ),
        ("iostat/old.txt", [{"iostat.sda.read_throughput": 1608 * 512, "iostat.sda.wait": 0.01}]),
        ("iostat/plain.txt", [{"iostat.nvme0n1.read_throughput": 1.5 * MIB}]),
        ("iostat/iostat.json", [{"iostat.vda.reads": 200, "iostat.vda.utilisation": 12.5}]),
        (
            "ioping/ioping.txt",
            [
                {
                    "ioping.iops": 2000,
                    "ioping.throughput": 7.81 * MIB,
                    "ioping.latency.avg": 0.0005,
                    "ioping.latency.max": 0.001,
                }
            ],
        ),
        ("ioping/old.txt", [{"ioping.iops": 2500, "ioping.latency.max": 0.0006}]),
        (
            "ioping/raw.txt",
            [
                {"ioping.iops": 5000, "ioping.latency.avg": 0.0002},
                {"ioping.iops": 4000, "ioping.latency.avg": 0.00025},
            ],
        ),
        ("ioping/ioping.json", [{"ioping.iops": 5000, "ioping.latency.avg": 0.0002}]),
        (
            "orion/summary.txt",
            [
                {
                    "orion.max_large_throughput": 155.5 * MIB,
                    "orion.max_small_iops": 9500,
                    "orion.min_small_latency": 0.00041025,
                    "orion.max_small_iops.read_latency.avg": 0.00125,
                    "orion.min_small_latency.read_latency.avg": 0.0004,
                }
            ],
        ),
        ("orion/test_20261120_iops.csv", [{"orion.max_small_iops": 250}]),
        (
            "bonnie/table.txt",
            [{"bonnie.putc": 47392 * 1024, "bonnie.seeks": 146.9, "bonnie.ran_delete": 112}],
        ),
        (
            "bonnie/both.txt",
            [
                {
                    "bonnie.put_block": 120832 * 1024,
                    "bonnie.get_block.latency.max": 0.061146,
                    "bonnie.ran_create": 30644,
                }
            ],
        ),
        ("bonnie/old.csv", [{"bonnie.seeks": 146.9}, {"bonnie.seeks": 140}, {"bonnie.seeks": 240}]),
        (
            "pgbench/report.txt",
            [{"pgbench.tps": 891.373681, "pgbench.latency.mean": 0.00449, "pgbench.failed": 0}],
        ),
        ("pgbench/scripts.txt", [{"pgbench.tps": 268.205445, "pgbench.failed": 0}]),
        ("pgbench/old.txt", [{"pgbench.tps": 1000.25, "pgbench.tps_with_connecting": 999.5}]),
        (
            "pgbench/pgbench_log.1",
            [
                {
                    "pgbench.tps": 2.5,
                    "pgbench.latency.max": 1.6,
                    "pgbench.failed": 0,
                    "pgbench.skipped": 1,
                }
            ],
        ),
        ("pgbench/aggregate_log.1", [{"pgbench.tps": 300, "pgbench.latency.max": 0.046111}]),
        (
            "hammerdb/tprocc.log",
            [
                {
                    "hammerdb.nopm": 42332,
                    "hammerdb.tpm": 97427,
                    "hammerdb.neword.latency.mean": 0.00425,
                    "hammerdb.neword.latency.p99": 0.0125,
                }
            ],
        ),
        ("hammerdb/old.log", [{"hammerdb.nopm": 13207}, {"hammerdb.tpm": 61000}]),
        ("hammerdb/tproch.log", [{"hammerdb.query_set.elapsed": 123}]),
        (
            "slob/awr_info.txt",
            [
                {"slob.reads": 71553, "slob.latency.db_file_sequential_read": 0.000759},
                {"slob.read_throughput": 659 * MIB},
            ],
        ),
        (
            "slob/awr.txt",
            [
                {
                    "slob.reads": 71553.3,
                    "slob.read_throughput": 586221848.4,
                    "slob.logical_reads": 119749.6,
                    "slob.latency.db_file_sequential_read": 0.0005,
                    "slob.latency.log_file_parallel_write": 0.002,
                }
            ],
        ),
        (
            "measure_reads/walk.txt",
            [{"walk.list.system": 0.73, "walk.read.real": 1.012345}, {"walk.read.real": 0.25}],
        ),
        ("sysbench/old-cpu.txt", [{"sysbench.latency.p95": 0.00377, "sysbench.elapsed": 26.47}]),
        (
            "sysbench/old-fileio.txt",
            [{"sysbench.throughput": 20 * MIB, "sysbench.requests": 1280.5}],
        ),
        (
            "sysbench/old-memory.txt",
            [{"sysbench.throughput": 2000.25 * MIB, "sysbench.operations": 2000000.5}],
        ),
        (
            "sysbench/fileio-1.1.txt",
            [
                {
                    "sysbench.reads": 2130.22,
                    "sysbench.writes": 1420.15,
                    "sysbench.fsyncs": 4549.41,
                    "sysbench.read_throughput": 33.28 * MIB,
                    "sysbench.write_throughput": 22.19 * MIB,
                }
            ],
        ),
        ("sysbench/threads-1.1.txt", [{"sysbench.events_per_second": 1420.15}]),
        (
            "sysbench/oltp-0.5.txt",
            [{"sysbench.transactions": 100.2, "sysbench.latency.p95": 0.223}],
        ),
    ],
)
def test_every_value_is_taken_and_no_line_is_left(
    name: str, expected: list[dict[str, float]]
) -> None:
    """The numbers of a tool's own output, in replayer's units; every line is understood."""
    sheaf = read(name.partition("/")[0], FILES / name)
    steps = [step for run in sheaf.runs for step in run.steps]

    assert sheaf.unread == ()
    assert len(steps) == len(expected)
    for step, wanted in zip(steps, expected, strict=True):
        assert {key: values(step).get(key) for key in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("cpu", "cpu"),
        ("old-cpu", "cpu"),
        ("fileio", "fileio"),
        ("fileio-1.1", "fileio"),
        ("threads-1.1", "sysbench"),
    ],
)
def test_a_report_of_sysbench_has_the_name_of_its_test(name: str, test: str) -> None:
    """Also those of 1.1, which prints a rate of events for every test."""
    (run,) = read("sysbench", FILES / "sysbench" / f"{name}.txt").runs
    assert run.steps[0].name == test


def test_an_awr_report_without_a_known_value_is_no_step(tmp_path: Path) -> None:
    """It is left out wherever it is in the file, and not only at its end."""
    report, empty = (FILES / "slob" / "awr.txt").read_text(), "WORKLOAD REPOSITORY report for\n"
    path = tmp_path / "awr.txt"
    path.write_text(empty + report + empty)
    (run,) = read("slob", path).runs

    assert len(run.steps) == 1


@pytest.mark.parametrize(
    ("columns", "latency"),
    [
        ("1,200  0  0  310.51us  1.0  .1", 310.51e-6),
        ("1,200     2  .95ms     1.0  .1", 0.95e-3),
        ("12      0  14,400  1,200.00s  1.0  .1", 1200),
        ("1,200  0  3  2  1.0  .1", 2.5e-3),
        ("1,200  0  0  0  1.0  .1", None),
        ("1,200  0  0  0.00us  1.0  .1", None),
    ],
)
def test_a_wait_in_an_awr_report_that_rounds_to_0_is_no_latency_of_0(
    tmp_path: Path, columns: str, latency: float | None
) -> None:
    """The mean with its unit is taken; without it, a total of 0 s is not divided."""
    path = tmp_path / "awr.txt"
    path.write_text(
        (FILES / "slob" / "awr.txt")
        .read_text()
        .replace("log file parallel write ", f"db file parallel write  {columns}\nlog file ")
    )
    (run,) = read("slob", path).runs

    assert values(run.steps[0]).get("slob.latency.db_file_parallel_write") == (
        latency if latency is None else pytest.approx(latency)
    )


@pytest.mark.parametrize(("name", "old"), [("awr.txt", "119,749.6"), ("awr_info.txt", "71553")])
def test_a_number_too_large_for_slob_is_one_line_that_is_not_read(
    tmp_path: Path, name: str, old: str
) -> None:
    """The other values of the file are imported, and the line is named."""
    text = (FILES / "slob" / name).read_text()
    assert text.count(old) == 1
    path = tmp_path / name
    path.write_text(text.replace(old, "9" * 20))
    sheaf = read("slob", path)

    assert sheaf.runs
    assert ["9" * 20 in sentence for sentence in sheaf.unread] == [True]


@pytest.mark.parametrize(
    ("line", "average"),
    [
        ("1 250 4000 16384000 250 250 250 0", 250e-6),
        ("1 250000 4000 16384000 250000 250000 250000 0 1 250000", 250e-6),
        ("3 177973 16856 69044181 57254 59324 61952 1958 4 296850", 59324e-9),
        ("2 3000000 0 2730 1000000 1500000 2000000 500000", 1.5),
        ("2 3000000000 0 2730 1000000000 1500000000 2000000000 500000000 2 3000000000", 1.5),
        ("0 0 0 0 0 0 0 0 1 90624", 0),
    ],
)
def test_the_unit_of_a_raw_line_of_ioping_is_known_of_any_number_of_requests(
    tmp_path: Path, line: str, average: float
) -> None:
    """Microseconds before 1.0 and nanoseconds since then, also of one request and of slow ones."""
    path = tmp_path / "raw"
    path.write_text(f"{line}\n")
    (run,) = read("ioping", path).runs

    assert values(run.steps[0])["ioping.latency.avg"] == pytest.approx(average)


HEADER = (
    "Contains the average latency sustained by small I/Os in {}.\nEach value corresponds to a\n"
)


@pytest.mark.parametrize(("unit", "latency"), [("microseconds", 410e-6), ("milliseconds", 0.41)])
def test_latencies_of_orion_have_the_unit_of_their_header(
    tmp_path: Path, unit: str, latency: float
) -> None:
    """It changed after 11.1."""
    path = tmp_path / "test_lat.csv"
    path.write_text(HEADER.format(unit) + "Large/Small, 1, 2\n0, 410, 520\n")
    sheaf = read("orion", path)

    assert values(sheaf.runs[0].steps[0]) == {"orion.min_small_latency": pytest.approx(latency)}
    assert sheaf.unread == ()


def test_latencies_of_orion_without_a_unit_are_refused(tmp_path: Path) -> None:
    """They may be milliseconds or microseconds: the sentence has both."""
    path = tmp_path / "test_lat.csv"
    path.write_text("Large/Small, 1, 2\n0, 410, 520\n")
    with pytest.raises(Impossible, match=r"milliseconds up to .* microseconds later: give"):
        read("orion", path)


def test_progress_of_dd_is_no_copy() -> None:
    """Of status=progress only the last line counts, and as many bytes are repeats."""
    (run,) = read("dd", FILES / "dd" / "gnu.txt").runs

    assert [step.repeat for step in run.steps] == [1, 2]
    assert run.steps[0].spec["block_size"] == MIB
    assert "taken as repeats" in run.advice[0].found


@pytest.mark.parametrize(
    "line",
    [
        "10485760 Bytes (10 MB, 10 MiB) kopiert, 0,00467 s, 2,2 GB/s",
        "10485760 octets (10 MB, 10 MiB) copiés, 0,00467 s, 2,2 GB/s",
        "10485760 バイト (10 MB, 10 MiB) コピーされました、 0.00467 秒、 2.2 GB/秒",
        "512 Bytes kopiert, 0,0001 s, 5,1 MB/s",
    ],
)
def test_a_dd_of_another_language_is_refused_as_that(line: str, tmp_path: Path) -> None:
    """The file has the line with the bytes, in words that are not known."""
    path = tmp_path / "dd.txt"
    path.write_text(f"10+0 Datensätze ein\n10+0 Datensätze aus\n{line}\n", encoding="utf-8")
    with pytest.raises(Impossible, match=r"another language than English, .*: record it with LC_A"):
        read("dd", path)


def test_iostats_first_report_is_passed_over_and_stamps_make_a_series() -> None:
    """Since the boot is not an interval; without -t there is no series, and it is said."""
    (run,) = read("iostat", FILES / "iostat" / "extended.txt").runs
    (without,) = read("iostat", FILES / "iostat" / "old.txt").runs

    assert known(run.steps[0].series).seconds == (2, 4)
    assert known(run.steps[0].series).columns["diskstats.r/s"] == (1000, 3000)
    assert run.host["kernel.release"] == "5.4.17-2136.el7uek.x86_64"
    assert without.steps[0].series is None
    assert any("without -t" in note for note in without.steps[0].notes)


IOSTAT_COLUMNS = {"x": "r/s w/s r_await w_await", "old": "r/s w/s await", "s": "tps await"}


@pytest.mark.parametrize(
    ("columns", "busy", "quiet", "expected"),
    [
        ("x", "1000 10 2.00 4.00", "0 0 0.00 0.00", {"read_wait": 0.002, "write_wait": 0.004}),
        ("x", "30 0 1.00 0.00", "10 0 5.00 0.00", {"read_wait": 0.002, "write_wait": None}),
        ("old", "25 5 1.00", "4 6 5.00", {"wait": 0.002}),
        ("s", "30 1.00", "10 5.00", {"wait": 0.002}),
        ("s", "0 0.00", "0 0.00", {"wait": None}),
    ],
)
def test_a_wait_of_iostat_is_the_mean_of_its_requests(
    columns: str, busy: str, quiet: str, expected: dict[str, float | None], tmp_path: Path
) -> None:
    """An interval without a request has no wait, and one with more of them counts more."""
    reports = ["1 1 1 1"[: len(busy.split()) * 2 - 1], busy, quiet]
    path = tmp_path / "iostat"
    path.write_text(
        "Linux 6.1.0 (db1) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n"
        + "".join(
            f"Device {IOSTAT_COLUMNS[columns]} %util\nsda {report} 1\n\n" for report in reports
        )
    )
    (run,) = read("iostat", path).runs
    found = values(run.steps[0])

    for quantity, value in expected.items():
        assert found.get(f"iostat.sda.{quantity}") == (value and pytest.approx(value))


def busy_reports(tmp_path: Path, rates: Sequence[Mapping[str, int]], cpu: str) -> ImportResult:
    """Return what an import makes of a report of iostat for each mapping of device -> r/s."""
    path = tmp_path / "iostat"
    text = "Linux 6.1.0 (db1) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n"
    for second, devices in enumerate(rates):
        text += f"11/20/2026 10:00:{second:02}\n{cpu}Device r/s w/s r_await aqu-sz %util\n"
        for name, rate in devices.items():
            text += f"{name} {rate} 0 {2.0 if rate else 0.0} {rate / 100} {rate / 10}\n"
        text += "\n"
    path.write_text(text)
    return read("iostat", path)


@pytest.mark.parametrize("cpu", ["", "avg-cpu: %user %idle\n 1.00 99.00\n\n"])
def test_idle_time_counts_though_iostat_omits_idle_devices(cpu: str, tmp_path: Path) -> None:
    """With -z and without it, the same hour has the same numbers."""
    busy = [{"sda": 5, "sdb": 0}, {"sda": 1000, "sdb": 10}, *[{"sda": 0, "sdb": 0}] * 4]
    busy.append({"sda": 0, "sdb": 20})
    omitted = [{name: rate for name, rate in one.items() if rate} for one in busy]
    (whole,), (short,) = (busy_reports(tmp_path, one, cpu).runs for one in (busy, omitted))
    columns = [known(run.steps[0].series).columns for run in (whole, short)]

    assert values(short.steps[0]) == pytest.approx(values(whole.steps[0]))
    assert columns[1]["iostat.sda.r/s"] == columns[0]["iostat.sda.r/s"]
    assert [any("omit devices" in n for n in run.steps[0].notes) for run in (whole, short)] == [
        False, True
    ]  # fmt: skip


def test_a_disk_that_was_connected_late_was_not_idle_before(tmp_path: Path) -> None:
    """Its means are over the reports that list it; a list that is cut off shows nothing."""
    rates = [*[{"sda": 1}] * 3, *[{"sda": 1, "sdb": 100}] * 2, {"sda": 1}]
    (run,) = busy_reports(tmp_path, rates, "").runs

    assert values(run.steps[0])["iostat.sdb.reads"] == 100
    assert not any("omit devices" in note for note in run.steps[0].notes)


def test_machines_of_one_file_are_runs_of_their_own(tmp_path: Path) -> None:
    """Two machines' iostat, bonnie++ and sysbench in one file are two runs, not repeats of one."""
    both = tmp_path / "both"
    both.write_text("".join((FILES / "iostat" / n).read_text() for n in ("old.txt", "plain.txt")))
    bonnie = read("bonnie", FILES / "bonnie" / "old.csv").runs
    uname = "Linux {} 5.4.0-1 #1 SMP Mon Sep 24 14:45:01 PDT 2018 x86_64 GNU/Linux\n"
    cpu = (FILES / "sysbench" / "cpu.txt").read_text()
    sysbench = tmp_path / "sysbench"
    sysbench.write_text("".join(uname.format(host) + cpu for host in ("one", "two", "two")))

    assert [run.host["host.name"] for run in read("iostat", both).runs] == ["old", "user"]
    assert [(run.host["host.name"], len(run.steps)) for run in bonnie] == [
        ("alpha", 2),
        ("gamma", 1),
    ]
    assert [(run.host["host.name"], len(run.steps)) for run in read("sysbench", sysbench).runs] == [
        ("one", 1),
        ("two", 2),
    ]


def test_repeats_without_a_host_are_said_to_be_taken_as_one_machines(tmp_path: Path) -> None:
    """Where a file does not say which machine it was, the run says what was assumed."""
    path = tmp_path / "twice"
    path.write_text((FILES / "sysbench" / "cpu.txt").read_text() * 2)
    (run,) = read("sysbench", path).runs

    assert len(run.steps) == 2
    assert "does not say which machine" in run.advice[0].found


def test_a_log_of_pgbench_has_every_latency() -> None:
    """-l has each transaction: a histogram, its percentiles, and transactions a second."""
    (run,) = read("pgbench", FILES / "pgbench" / "pgbench_log.1").runs
    (step,) = run.steps

    assert step.latency["transaction"].operations == 5
    assert values(step)["pgbench.latency.p50"] == pytest.approx(0.4, rel=0.002)
    assert known(step.series).columns["pgbench.tps"] == (3, 1, 1)


def test_a_log_of_two_threads_has_the_interval_of_each(tmp_path: Path) -> None:
    """The second begins where the first did; its sums are of five seconds as well."""
    path = tmp_path / "pgbench_log.1"
    lines = [f"{1_700_000_000 + at} 50 5000 500000 90 110" for at in (0, 5, 10)]
    path.write_text("\n".join(lines * 2))
    (run,) = read("pgbench", path).runs

    assert set(known(run.steps[0].series).columns["pgbench.tps"]) == {20}


def logged(start: float, *, every: int = 1, count: int = 40) -> str:
    """Return a log of pgbench -l of two clients, each with `count` transactions of 0.25 s.

    `start` is in seconds since 1970; of the transactions of a client, only each `every`th is
    logged.
    """
    ends = ((number, start + number / 4) for number in range(1, count + 1) if not number % every)
    return "".join(
        f"{client} {number} 250000 0 {int(end)} {round(end % 1 * 1e6)}\n"
        for number, end in ends
        for client in range(2)
    )


@pytest.mark.parametrize("starts", [(1_700_000_000, 1_700_001_000), (1_700_001_000, 1_700_000_000)])
def test_logs_of_two_runs_of_pgbench_are_repeats(tmp_path: Path, starts: tuple[int, int]) -> None:
    """The time between two runs does not lower their rates, whichever stands first in the file."""
    path = tmp_path / "pgbench_log"
    path.write_text("".join(map(logged, starts)))
    (run,) = read("pgbench", path).runs

    assert [values(step)["pgbench.tps"] for step in run.steps] == pytest.approx([8, 8])
    assert len({step.started for step in run.steps}) == 2


def test_one_log_of_pgbench_in_another_order_is_one_run(tmp_path: Path) -> None:
    """Lines that were sorted as text, and logs of two machines at one time, are not two runs."""
    path = tmp_path / "pgbench_log"
    log = logged(1_700_000_000)
    for text, tps in (("\n".join(sorted(log.splitlines())), 8), (log * 2, 16)):
        path.write_text(text)
        (run,) = read("pgbench", path).runs
        assert [values(step)["pgbench.tps"] for step in run.steps] == pytest.approx([tps])


def test_intervals_of_two_runs_of_pgbench_are_repeats(tmp_path: Path) -> None:
    """A gap between intervals is no interval of that length."""
    path = tmp_path / "pgbench_log"
    starts = (1_700_000_000, 1_700_001_000, 1_690_000_000)
    lines = [f"{start + at} 50 5000 500000 90 110" for start in starts for at in (0, 5, 10)]
    path.write_text("\n".join(lines))
    (run,) = read("pgbench", path).runs

    assert [values(step)["pgbench.tps"] for step in run.steps] == [10, 10, 10]


def test_a_sample_of_a_log_of_pgbench_has_no_rate(tmp_path: Path) -> None:
    """--sampling-rate leaves lines out: latencies are known, rates and counts are not."""
    path = tmp_path / "pgbench_log"
    path.write_text(logged(1_700_000_000, every=10, count=200))
    (run,) = read("pgbench", path).runs
    (step,) = run.steps

    assert {name.removeprefix("pgbench.").partition(".")[0] for name in values(step)} == {"latency"}
    assert step.series is None
    assert "--sampling-rate" in step.notes[0]


def of_threads(tmp_path: Path, *, aggregated: bool) -> list[Path]:
    """Return the logs of three threads of a run; each has two clients with 8 transactions/s."""
    paths = [tmp_path / f"agg.4711{thread}" for thread in ("", ".1", ".2")]
    for thread, path in enumerate(paths):
        lines = logged(1_700_000_000).splitlines()
        shifted = "\n".join(f"{int(one[0]) + 2 * thread}{one[1:]}" for one in lines)
        # Threads do not begin in the same second.
        seconds = range(1_700_000_000 + thread % 2, 1_700_000_010)
        sums = "\n".join(f"{second} 8 2000000 500000 250000 250000" for second in seconds)
        path.write_text(f"{sums if aggregated else shifted}\n")
    return paths


@pytest.mark.parametrize("aggregated", [False, True])
def test_the_logs_of_the_threads_of_pgbench_are_one_run(
    replayer: Replayer, tmp_path: Path, *, aggregated: bool
) -> None:
    """In any order; the logs of another run, with another PID, are another run."""
    paths = of_threads(tmp_path, aggregated=aggregated)
    other = tmp_path / "agg.5000"
    other.write_text(logged(1_700_001_000))
    (tmp_path / "out").mkdir()
    printed = replayer(
        "import", "pgbench", paths[2], other, paths[0], paths[1], "--json",
        "--results", tmp_path / "out",
    ).out  # fmt: skip
    rates = {
        run["workload"]["source"].rpartition(" ")[2]: [
            one["value"]
            for step in run["steps"]
            for one in step["measurements"]
            if one["metric"] == "pgbench.tps"
        ]
        for run in map(json.loads, printed.splitlines())
    }

    assert rates == {
        "agg.5000": [pytest.approx(8)],
        "agg.4711": [pytest.approx(8 * (29 / 10 if aggregated else 3))],
    }


@pytest.mark.parametrize("aggregated", [False, True])
@pytest.mark.parametrize("thread", [0, 1, 2])
def test_the_log_of_one_thread_of_pgbench_has_no_rate(
    thread: int, tmp_path: Path, *, aggregated: bool
) -> None:
    """Those of the others are in the same folder; their latencies are not known."""
    path = of_threads(tmp_path, aggregated=aggregated)[thread]
    (run,) = read("pgbench", path).runs
    (step,) = run.steps
    both = imported.joined([tmp_path / "agg.4711", tmp_path / "agg.4711.1"])
    (most,) = registry.load("imports", "pgbench").read(both, "").runs

    for one, missing in (
        (step, "agg.4711" if thread else "agg.4711.1"),
        (most.steps[0], "agg.4711.2"),
    ):
        assert {name.split(".")[1] for name in values(one)} == {"latency"}
        assert one.series is None
        assert f"a part of pgbench's threads, as there is {missing}, too" in one.notes[0]


def test_a_log_of_pgbench_without_its_first_client_has_no_rate(tmp_path: Path) -> None:
    """It was copied without the logs of the other threads, or under another name."""
    log = of_threads(tmp_path, aggregated=False)[1].rename(tmp_path / "log")
    (run,) = read("pgbench", log).runs

    assert "pgbench.tps" not in values(run.steps[0])
    assert "as it has no client 0" in run.steps[0].notes[0]


def test_a_prefix_with_a_number_is_no_log_of_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--log-prefix=run.5` gives each run a log whose name ends with its own PID."""
    names = ["run.5.1200", "run.5.1300", "run.5.1300.1", "run.5.1300.10", "run.5.1300.2"]
    monkeypatch.chdir(tmp_path)
    for name in names:
        Path(name).write_text(logged(1_700_000_000))

    assert registry.load("imports", "pgbench").group_files([names[4], *names[:4]]) == [
        ["run.5.1200"],
        ["run.5.1300", "run.5.1300.1", "run.5.1300.2", "run.5.1300.10"],
    ]


def test_reports_are_not_joined_by_their_names(tmp_path: Path) -> None:
    """A user may number them as pgbench numbers the logs of its threads."""
    names = [str(tmp_path / f"out.8{number}") for number in ("", ".1", ".2")]
    for name in names:
        Path(name).write_text("transaction type: <builtin: TPC-B (sort of)>\n")

    assert registry.load("imports", "pgbench").group_files(names) == [[name] for name in names]


@pytest.mark.parametrize(
    ("line", "tps", "skipped"),
    [
        ("1700000000 150 900000 9 5 9 70 9 1 9 50 0 0 0 0", 150, 50),
        ("1700000000 150 900000 9 5 9 70 9 1 9 50", 100, 50),  # of 14: they are counted in the 150
        ("1700000000 150 900000 9 5 9 70 9 1 9", 150, None),
    ],
)
def test_skipped_transactions_of_an_interval_are_taken(
    tmp_path: Path, line: str, tps: float, skipped: float | None
) -> None:
    """--latency-limit skips transactions, which are no part of the rate."""
    path = tmp_path / "pgbench_log"
    path.write_text(f"{line}\n")
    (run,) = read("pgbench", path).runs
    found = values(run.steps[0])

    assert (found["pgbench.tps"], found.get("pgbench.skipped")) == (tps, skipped)


def test_the_walk_of_measure_reads_is_a_walk() -> None:
    """Its metrics and facts have the names of replayer's own walk, so that both compare."""
    (run,) = read("measure_reads", FILES / "measure_reads" / "walk.txt").runs

    assert run.steps[0].step == "walk"
    assert run.steps[0].facts == {"threads": 50, "directory_entries": 10050}


HEADING = "                   user     system      total        real\n"
TIMES = "read files:    0.120000   0.690000   0.810000 (  1.012345)\n"


def test_counts_and_machines_are_those_of_their_own_call(tmp_path: Path) -> None:
    """Also where they stand before the times, and those of the next call after them."""
    path = tmp_path / "walks"
    path.write_text(f"{HEADING}threads: 4\n{TIMES}threads: 8\n{TIMES}{TIMES}")
    runs = read("measure_reads", path).runs
    assert [[step.facts["threads"] for step in run.steps] for run in runs] == [[4], [8, 8]]
    path.write_text(f"{HEADING}{TIMES}threads: 4\n{TIMES}threads: 8\n")
    runs = read("measure_reads", path).runs
    assert [run.steps[0].facts["threads"] for run in runs] == [4, 8]
    path.write_text(f"{HEADING}files: 9\n{TIMES}files: 9\n{TIMES}")
    (run,) = read("measure_reads", path).runs
    counted = [m.value for step in run.steps for m in step.measurements if m.metric == "walk.files"]
    assert counted == [9, 9]


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("1715836310 5178 26171317 177284491527 1136 44462 9 7 0 9 64 75 28 4148 10", [4158]),
        ("1715836310 5178 26171317 177284491527 1136 44462", []),
        ("0 199 2241 0 1175850568 995598\n0 200 failed 0 1175850568 998079", [1]),
    ],
)
def test_failures_are_those_that_pgbench_logs(tmp_path: Path, line: str, failed: list[int]) -> None:
    """Where a line does not have them, none is claimed."""
    path = tmp_path / "pgbench_log.1"
    path.write_text(f"{line}\n")
    (run,) = read("pgbench", path).runs
    found = [m.value for m in run.steps[0].measurements if m.metric == "pgbench.failed"]
    assert found == failed


def test_a_line_of_pgbench_with_a_number_too_large_is_left_out(tmp_path: Path) -> None:
    """A sum of squares, which is not needed, may have any size."""
    path = tmp_path / "pgbench_log.1"
    large = "9" * 20
    line = f"1715836310 5178 26171317 {large} 1136 44462 9 7 0 9 64 75 28 {{}} 10\n"
    path.write_text(line.format(7) + line.format(large))
    sheaf = read("pgbench", path)
    (run,) = sheaf.runs
    assert {m.metric: m.value for m in run.steps[0].measurements}["pgbench.failed"] == 17
    assert any("line 2" in sentence for sentence in sheaf.unread)


def fio(**changed: object) -> dict[str, Any]:
    """Return a report of fio with one job of 10 s, and keys of the report or job changed."""
    side = {"total_ios": 1000, "iops": 100.0, "bw": 800, "bw_bytes": 819200, "runtime": 10000}
    job: dict[str, Any] = {
        "jobname": "a",
        "error": 0,
        "elapsed": 10,
        "job_runtime": 10000,
        "read": side,
    }
    report: dict[str, Any] = {"fio version": "fio-3.33", "timestamp": 1000, "jobs": [job]}
    for key, value in changed.items():
        (report if key in report else job)[key] = value
    return copy.deepcopy(report)


def write(path: Path, *reports: Mapping[str, object]) -> Path:
    """Write reports one after another, as fio does, and return the path."""
    path.write_text("\n".join(json.dumps(report, indent=1) for report in reports))
    return path


def test_fio_2_is_read(tmp_path: Path) -> None:
    """Fio 2 writes KiB a second and microseconds, and has neither bw_bytes nor clat_ns."""
    side: dict[str, Any] = {"io_bytes": 8000, "bw": 800, "iops": 100.5, "runtime": 10000}
    side["clat"] = {"min": 1, "max": 5000, "percentile": {"99.000000": 2500}}
    (run,) = read("fio", write(tmp_path / "f", fio(read=side))).runs

    assert values(run.steps[0]) == pytest.approx(
        {
            "fio.read.iops": 100.5,
            "fio.read.throughput": 819200,
            "fio.read.latency.p99": 0.0025,
            "fio.read.latency.max": 0.005,
        }
    )


def test_unified_reporting_is_read(tmp_path: Path) -> None:
    """unified_rw_reporting=1 gives one side, `mixed`, in place of reads and writes."""
    report = fio()
    report["jobs"][0]["mixed"] = report["jobs"][0].pop("read")
    (run,) = read("fio", write(tmp_path / "f", report)).runs

    assert values(run.steps[0])["fio.mixed.iops"] == 100
    assert run.steps[0].elapsed == 10


def test_the_time_of_a_group_is_no_sum(tmp_path: Path) -> None:
    """With group_reporting job_runtime is the sum over the jobs: the time is the sides' own."""
    (run,) = read("fio", write(tmp_path / "f", fio(job_runtime=40000))).runs

    assert run.steps[0].elapsed == 10


def test_text_round_fios_json_is_passed_over(tmp_path: Path) -> None:
    """--output-format=normal,json writes both, in either order, and warnings before them."""
    path = write(tmp_path / "f", fio())
    path.write_text(f"fio: a warning\n{path.read_text()}\n\na: (groupid=0): err= 0\n  read: IOPS\n")

    assert len(read("fio", path).runs[0].steps) == 1


def test_interim_reports_are_one_run(tmp_path: Path) -> None:
    """--status-interval writes growing reports of one job: only the last is a result."""
    reports = []
    for second in (3, 6, 9):
        report = fio(timestamp=1000 + second, elapsed=second)
        report["jobs"][0]["read"] |= {"total_ios": 100 * second, "iops": 100 + second}
        reports.append(report)
    (run,) = read("fio", write(tmp_path / "f", *reports)).runs

    assert [values(step)["fio.read.iops"] for step in run.steps] == [109]
    assert "2 interim reports" in run.advice[0].found


def test_reports_one_after_another_are_repeats_and_beside_another_are_machines(
    tmp_path: Path,
) -> None:
    """What began before the other had ended ran elsewhere; what began after it is a repeat."""
    one, two, beside = (fio(timestamp=at) for at in (1000, 1020, 1025))
    runs = read("fio", write(tmp_path / "f", one, two, beside)).runs

    assert [len(run.steps) for run in runs] == [2, 1]
    assert [step.repeat for step in runs[0].steps] == [1, 2]


def test_clients_of_fio_are_machines(tmp_path: Path) -> None:
    """Two hosts with a job of one name are two runs, each with its host's name."""
    report = fio()
    job = report.pop("jobs")[0]
    report["client_stats"] = [
        {**job, "hostname": "one"},
        {**job, "hostname": "two"},
        {**job, "jobname": "All clients"},
    ]
    runs = read("fio", write(tmp_path / "f", report)).runs

    assert [run.host["host.name"] for run in runs] == ["one", "two"]
    assert [len(run.steps) for run in runs] == [1, 1]


def test_a_report_that_is_cut_off_leaves_those_before_it(tmp_path: Path) -> None:
    """A killed fio leaves half a report: the whole ones are read, and the half is named."""
    path = write(tmp_path / "f", fio())
    path.write_text(path.read_text() + "\n" + path.read_text()[:200])
    sheaf = read("fio", path)

    assert len(sheaf.runs[0].steps) == 1
    assert "cut off" in sheaf.unread[0]


def test_a_machine_that_has_only_a_table_is_not_lost_beside_anothers_csv(tmp_path: Path) -> None:
    """bonnie++ writes table and CSV of one run; another machine's table is a run of its own."""
    path = tmp_path / "f"
    folder = FILES / "bonnie"
    path.write_text((folder / "both.txt").read_text() + (folder / "table.txt").read_text())

    assert [run.host["host.name"] for run in read("bonnie", path).runs] == ["beta", "alpha"]


def test_an_odd_label_is_printed_as_json(replayer: Replayer, tmp_path: Path) -> None:
    """A label in another encoding is printed as JSON, one run a line."""
    words = ("import", "dd", FILES / "dd" / "gnu.txt", "--json", "--results", tmp_path)
    (line,) = replayer.process(*words, "--label", os.fsdecode(b"\xff")).out.splitlines()

    assert json.loads(line)["workload"]["name"] == "dd"
