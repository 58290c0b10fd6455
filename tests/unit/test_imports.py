"""Other tools' results become runs, from files as they write them, and nothing is guessed."""

import json
import re
import shutil
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from replayer import registry
from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Status
from replayer.results import imported, iostat, store
from tests.command import Replayer
from tests.known import known
from tests.performed import values

FILES = Path(__file__).parents[1] / "fixtures" / "imports"


def read(tool: str, path: Path, label: str = "") -> ImportResult:
    """Return what an import makes of a file."""
    sheaf: ImportResult = registry.load("imports", tool).read(imported.opened(path), label)
    return sheaf


def test_every_dbname_line_of_pgio_is_a_repeat() -> None:
    """Three readable DBNAME lines, one with a file name before it, are three repeats of one run."""
    sheaf = read("pgio", FILES / "pgio" / "runit.out", "uek")
    (run,) = sheaf.runs

    assert [values(step)["sessions.riops"] for step in run.steps] == [393232, 392001, 391500]
    assert [step.elapsed for step in run.steps] == [300, 301, 300]
    assert (run.label, run.steps[0].started) == ("uek", "2018-10-10T16:30:36+00:00")
    assert run.host == {
        "host.name": "db1.example.org",
        "kernel.release": "4.14.35-1818.3.3.el7uek.x86_64",
        "kernel.version": "#2 SMP Mon Sep 24 14:45:01 PDT 2018",
        "os.name": "Oracle Linux Server 7.5",
    }
    assert run.steps[0].spec["scale"] == "1G"
    assert run.steps[0].facts["shared_buffers"] == "500MB"


def test_json_of_iostat_that_was_cut_off_is_imported_up_to_there(tmp_path: Path) -> None:
    """Ctrl-C ends iostat in the middle of its JSON; its reports of before are whole."""
    text = (FILES / "iostat" / "iostat.json").read_text(encoding="utf-8")
    path = tmp_path / "iostat.json"
    path.write_text(text[: text.rindex('"disk"')])

    whole, cut = read("iostat", FILES / "iostat" / "iostat.json"), read("iostat", path)

    assert [list(values(s)) for run in cut.runs for s in run.steps] == [
        list(values(s)) for run in whole.runs for s in run.steps
    ]
    assert any("cut off" in words for words in cut.unread)


@pytest.mark.parametrize(
    ("name", "rate"), [("extended.txt", " 1000.00 "), ("iostat.json", " 200.00,")]
)
def test_a_rate_below_zero_is_not_imported(name: str, rate: str, tmp_path: Path) -> None:
    """No device does fewer than no reads: what says so is named and left out."""
    path = tmp_path / name
    text = (FILES / "iostat" / name).read_text(encoding="utf-8")
    path.write_text(text.replace(rate, rate.replace(rate.strip(" ,"), "-5.00")))

    found = read("iostat", path)

    assert found.unread
    assert min(v for run in found.runs for s in run.steps for v in values(s).values()) >= 0


def test_each_column_of_iostat_has_a_metric() -> None:
    """Columns of every version of sysstat measure what an import has a unit for."""
    quantities = {column.quantity for column in iostat.COLUMNS.values()}

    assert quantities == set(registry.load("imports", "iostat").METRICS)


def test_an_unreadable_dbname_line_is_named_with_its_number() -> None:
    """The line whose RIOPS are missing is not a repeat: it is named, with its number."""
    (words,) = read("pgio", FILES / "pgio" / "runit.out").unread

    assert "line 20" in words
    assert "RIOPS" not in words or "DBNAME" in words


def test_an_imported_pgio_run_warns_of_its_window() -> None:
    """The README's 1 TB run: the warning, and what its own rows give over the same seconds."""
    (run,) = read("pgio", FILES / "pgio" / "README-1TB.txt").runs
    (step,) = run.steps

    assert values(step)["sessions.riops"] == 390969
    assert values(step)["sessions.riops_same_window"] == 132475
    assert values(step)["sessions.cache_hits_same_window"] == 2820
    assert any("clock after" in words for words in map(str, run.advice))
    assert any("2.95 times" in note for note in step.notes)
    assert any("288 s" in note for note in step.notes)


def test_files_beside_pgio_belong_to_the_last_run() -> None:
    """Session detail, iostat and vmstat are read; the first lines, since boot, are not."""
    (run,) = read("pgio", FILES / "pgio" / "runit.out").runs
    last = run.steps[-1]

    assert [row["sql_selects"] for row in last.tables["session_detail"]] == [115301, 115002]
    assert known(last.series).columns["diskstats.r/s"] == (3.0, 5.0)
    assert known(last.series).columns["vmstat.us"] == (60.0, 61.0)
    assert known(last.series).seconds == (3.0, 6.0)
    assert run.steps[0].series is None


def test_a_host_told_after_the_line_is_taken_only_if_it_is_the_only_one(tmp_path: Path) -> None:
    """One uname after the DBNAME line is its host; two of different kernels would be a guess."""
    line = (FILES / "pgio" / "README-1TB.txt").read_text().splitlines()[-1]
    uname = "Linux h 5.{}.0-1 #1 SMP Mon Sep 24 14:45:01 PDT 2018 x86_64 GNU/Linux"
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(f"{line}\n{uname.format(4)}\n")
    two.write_text(f"{line}\n{uname.format(4)}\n{line}\n{uname.format(10)}\n")

    assert read("pgio", one).runs[0].host["kernel.release"] == "5.4.0-1"
    sheaf = read("pgio", two)
    assert all("kernel.release" not in run.host for run in sheaf.runs)
    assert any("several kernels" in words for words in sheaf.unread)


def test_two_kernels_in_one_file_are_two_runs(tmp_path: Path) -> None:
    """Where each DBNAME line has its uname before it, each kernel has a run of its own."""
    line = (FILES / "pgio" / "README-1TB.txt").read_text().splitlines()[-1]
    uname = "Linux h 5.{}.0-1 #1 SMP Mon Sep 24 14:45:01 PDT 2018 x86_64 GNU/Linux"
    path = tmp_path / "out"
    path.write_text("".join(f"{uname.format(n)}\n{line}\n" for n in (4, 4, 10)))
    runs = read("pgio", path).runs

    assert [run.host["kernel.release"] for run in runs] == ["5.4.0-1", "5.10.0-1"]
    assert [len(run.steps) for run in runs] == [2, 1]


def test_fio_jobs_are_steps_with_reads_and_writes_apart() -> None:
    """Every value is what fio wrote, in replayer's units; jobs under one name are told apart."""
    path = FILES / "fio" / "randrw.json"
    job = json.loads(path.read_text())["jobs"][0]
    (run,) = read("fio", path, "x").runs

    assert [step.name for step in run.steps] == ["randread", "randread-2"]
    found = values(run.steps[0])
    assert found["fio.read.iops"] == job["read"]["iops"]
    assert found["fio.write.throughput"] == job["write"]["bw_bytes"]
    p999 = job["read"]["clat_ns"]["percentile"]["99.900000"]
    assert found["fio.read.latency.p999"] == pytest.approx(p999 / 1e9)
    assert run.steps[0].spec["bs"] == "8k"
    assert run.status is Status.DONE


def test_fios_bins_become_a_histogram() -> None:
    """json+ has every latency: the histogram's median is fio's own, to its three digits."""
    (run,) = read("fio", FILES / "fio" / "json-plus.json").runs
    latency = run.steps[0].latency["read"]
    median = HdrHistogram.decode(latency.payload).get_value_at_percentile(50) / 1e9

    assert latency.operations == 32
    assert median == pytest.approx(values(run.steps[0])["fio.read.latency.p50"], rel=0.02)


def test_warnings_before_fios_json_are_passed_over(tmp_path: Path) -> None:
    """A terminal's capture begins with fio's warnings."""
    path = tmp_path / "out.json"
    path.write_text("fio: a warning\n" + (FILES / "fio" / "randrw.json").read_text())

    assert len(read("fio", path).runs[0].steps) == 2


def test_a_failed_fio_job_is_a_failed_run(tmp_path: Path) -> None:
    """An error number of fio makes the step and the run failed."""
    keys = json.loads((FILES / "fio" / "randrw.json").read_text())
    keys["jobs"][1]["error"] = 5
    path = tmp_path / "out.json"
    path.write_text(json.dumps(keys))
    (run,) = read("fio", path).runs

    assert run.status is Status.FAILED
    assert "error 5" in run.error


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "cpu",
            {
                "sysbench.events_per_second": 4829.58,
                "sysbench.latency.p95": 0.00021,
                "sysbench.elapsed": 1.0019,
                "sysbench.events": 4843,
            },
        ),
        ("memory", {"sysbench.operations": 7877581.47, "sysbench.throughput": 7692.95 * (1 << 20)}),
        (
            "fileio",
            {
                "sysbench.reads": 68840.66,
                "sysbench.fsyncs": 4591.37,
                "sysbench.read_throughput": 1075.64 * (1 << 20),
                "sysbench.latency.p99": 0.0002,
            },
        ),
    ],
)
def test_sysbench_reports_are_read_whole(name: str, expected: dict[str, float]) -> None:
    """Every number of sysbench 1.0.20's own output is taken, and no line is left over."""
    sheaf = read("sysbench", FILES / "sysbench" / f"{name}.txt")
    (run,) = sheaf.runs
    found = values(run.steps[0])

    assert sheaf.unread == ()
    assert run.workload.name == f"sysbench-{name}"
    assert {metric: found[metric] for metric in expected} == pytest.approx(expected)


def test_sysbenchs_lines_of_each_second_are_a_series() -> None:
    """--report-interval makes a series."""
    (run,) = read("sysbench", FILES / "sysbench" / "fileio.txt").runs

    assert known(run.steps[0].series).columns["sysbench.reads"] == (1077.15,)


def test_reports_of_one_test_in_one_file_are_repeats(tmp_path: Path) -> None:
    """Two reports of the same test are two repeats; one of another test is another run."""
    cpu, memory = ((FILES / "sysbench" / f"{n}.txt").read_text() for n in ("cpu", "memory"))
    path = tmp_path / "all.txt"
    path.write_text(cpu + memory + cpu)
    runs = read("sysbench", path).runs

    assert [(run.workload.name, len(run.steps)) for run in runs] == [
        ("sysbench-cpu", 2),
        ("sysbench-memory", 1),
    ]


def test_an_unknown_line_of_sysbench_is_named(tmp_path: Path) -> None:
    """A number that is none is named with its line, and is not a measurement."""
    text = (FILES / "sysbench" / "cpu.txt").read_text().replace("4829.58", "a lot")
    path = tmp_path / "cpu.txt"
    path.write_text(text)
    sheaf = read("sysbench", path)

    assert ["a lot" in words and "line 15" in words for words in sheaf.unread] == [True]


@pytest.mark.parametrize("tool", ["pgio", "fio", "sysbench"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello\n",
        b"\0\1\2",
        b"{}",
        b"[1, 2]",
        b'{"jobs": [1]}',
        b"DBNAME: \n",
        b"sysbench 1.0.20\n",
        None,
    ],
)
def test_foreign_files_are_refused_in_one_sentence(
    tool: str, content: bytes | None, tmp_path: Path
) -> None:
    """Empty, binary, foreign, cut-off and missing files: one sentence that names the file."""
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(Impossible, match=str(path)) as error:
        read(tool, path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("pgio", "pgio/runit.out"),
        ("fio", "fio/json-plus.json"),
        ("sysbench", "sysbench/fileio.txt"),
    ],
)
def test_an_import_is_stored_and_loaded_as_it_is(tool: str, name: str, tmp_path: Path) -> None:
    """An imported run survives its file, and importing the same bytes again gives the same id."""
    copy = shutil.copytree((FILES / name).parent, tmp_path / "in") / Path(name).name
    (run,) = read(tool, FILES / name).runs
    path = store.reserve(tmp_path, run)

    assert store.load(path) == run
    assert read(tool, copy).runs[0].id == run.id


OLTP = """\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 4
Report intermediate results every 1 second(s)

Threads started!

[ 1s ] thds: 4 tps: 92.80 qps: 1904.80 (r/w/o: 1334.20/377.80/192.80) lat (ms,95%): 57.87
SQL statistics:
    queries performed:
        read:                            140
        write:                           40
        other:                           20
        total:                           200
    transactions:                        10     (9.93 per sec.)
    queries:                             200    (198.66 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          1.0065s
    total number of events:              10

Latency (ms):
         min:                                   98.00
         avg:                                  100.57
         max:                                  104.01
         95th percentile:                      103.17
         sum:                                 1005.72

Threads fairness:
    events (avg/stddev):           2.5000/0.00
    execution time (avg/stddev):   0.2514/0.00
"""


def test_sysbenchs_database_tests_are_read_whole(tmp_path: Path) -> None:
    """Transactions, queries, errors and latencies of an oltp test, and its seconds."""
    path = tmp_path / "oltp.txt"
    path.write_text(OLTP)
    sheaf = read("sysbench", path)
    (run,) = sheaf.runs
    found = values(run.steps[0])

    assert sheaf.unread == ()
    assert (run.workload.name, run.steps[0].spec["threads"]) == ("sysbench-oltp", 4)
    assert found["sysbench.transactions"] == 9.93
    assert found["sysbench.queries"] == 198.66
    assert found["sysbench.errors"] == 0
    assert found["sysbench.latency.p95"] == pytest.approx(0.10317)
    assert known(run.steps[0].series).columns["sysbench.tps"] == (92.8,)


def test_fios_clients_are_steps_without_their_sum(tmp_path: Path) -> None:
    """From two hosts, fio's client_stats are steps; the sum over all clients is none."""
    keys = json.loads((FILES / "fio" / "randrw.json").read_text())
    keys["client_stats"] = [*keys.pop("jobs"), {"jobname": "All clients"}]
    path = tmp_path / "clients.json"
    path.write_text(json.dumps(keys))
    sheaf = read("fio", path)

    assert len(sheaf.runs[0].steps) == 2
    assert sheaf.unread == ()


def test_what_an_import_does_not_know_is_not_printed(replayer: Replayer, tmp_path: Path) -> None:
    """The report of an imported run says nothing of swap, memory, CPU or device."""
    (run,) = read("fio", FILES / "fio" / "randrw.json").runs
    path = store.reserve(tmp_path, run)
    shown = replayer("show", path).out

    assert not re.search(r"swap|\n *(memory|CPU|device|kernel|host) ", shown)
