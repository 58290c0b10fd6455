"""`replayer size` against a real server: verdicts, known limits, and whatever goes wrong."""

import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer.machine import processes
from replayer.machine.host import Host
from replayer.results import profile
from replayer.sizing import candidate
from tests.command import Replayer
from tests.documents import ROOT
from tests.sizing_runs import caged, of_cpu, of_reads, save_profile, size
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_home")
SHORT = ("--trial", "1s", "--hold", "1s", "--slo", "p99=2s", "--sessions", "4")
"""An objective that a noisy machine keeps to until it is full."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that the server's user may enter."""
    with tempfile.TemporaryDirectory(prefix="replayer-test-size-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.slow
def test_a_small_profile_fits_and_its_result_is_like_any_other(
    folder: Path, made_home: Path, replayer: Replayer
) -> None:
    """The verdict comes with exit status 0, is shown again, and the run is reported as any is."""
    made = save_profile(folder / "small.profile", working_set=64 << 20, commits=5, blocks_hit=20,
                        blocks_read=1, tuples_fetched=5, cpu_cores=0)  # fmt: skip
    words = ("--label", "here", "--html", folder / "v.html")
    sized = size(made, folder, *SHORT, *words, data=None)

    assert (sized.status, sized.verdict["fit"]) == (0, "fits"), sized.said
    assert sized.verdict["low"] >= 1
    assert "what is required" in sized.said
    assert "hold the required rate" in sized.said
    assert "fits" in (folder / "v.html").read_text()
    results = folder / "results"
    again = replayer("size", "show", "here", "--results", results, "--json")
    assert json.loads(again.out) == sized.verdict
    stored = json.loads(replayer("show", "here", "--results", results, "--json").out)
    assert stored["headline"] == sized.verdict["headline"]
    shown = replayer("show", "here", "--full", "--results", results)
    assert "capacity · " in shown.out
    assert "fits: " in shown.out
    replayer("report", "latest", "--results", results, "--csv", "-")
    # The tables stay for the next time, and nothing serves them.
    assert not [pid for pid in processes.every() if str(made_home) in processes.arguments(pid)]


@pytest.mark.quiet
def test_half_of_what_the_machine_can_do_fits_and_three_times_does_not(folder: Path) -> None:
    """What it can do is searched first; half of that fits, three times of it does not."""
    made = of_cpu(folder / "x.profile", rate=200, cores=0.4)
    words = ("--trial", "2s", "--hold", "4s", "--slo", "p99=500ms")
    able = size(made, folder, *words).verdict["multiple"]
    for times, status, fit in ((0.5, 0, "fits"), (3.0, 3, "does not fit")):
        sized = size(made, folder, *words, "--growth", able * times)
        assert (sized.status, sized.verdict["fit"]) == (status, fit), sized.verdict
    # Without an interval, two trials of two failed at the required rate.
    assert (sized.verdict["high"] or sized.verdict["multiple"]) < 1


@pytest.mark.quiet
@pytest.mark.root
@pytest.mark.parametrize(("strength", "fit"), [(0.75, "does not fit"), (1.33, "fits")])
@pytest.mark.parametrize("limit", ["CPU quota", "device reads"])
def test_a_limit_decides(folder: Path, limit: str, strength: float, fit: str) -> None:
    """A limit 0.75 times as large as what is required does not suffice, one of 1.33 does."""
    if limit == "CPU quota":
        made, full = of_cpu(folder / "x.profile", rate=150, cores=0.5), {"cores": 0.5}
    else:
        made, full = of_reads(folder / "x.profile", rate=600), {"read_iops": 600.0}
    words = ("--trial", "3s", "--hold", "5s", "--slo", "p99=700ms")
    with caged(folder, **full) as cage:
        able = size(made, folder, *words, cage=cage).verdict["multiple"]
    with caged(folder, **{name: strength * most for name, most in full.items()}) as cage:
        sized = size(made, folder, *words, "--growth", able, cage=cage)
    assert sized.verdict["fit"] == fit, sized.verdict
    if fit == "does not fit":
        # The need of CPU may decide before there is a load, by the processors of the quota.
        by_need = limit == "CPU quota" and "0.375 cores here" in sized.verdict["reasons"][0]
        assert sized.verdict["first"] == limit or by_need, sized.verdict


@pytest.mark.root
def test_a_machine_four_times_too_small_is_told_without_a_load(folder: Path) -> None:
    """8 cores do not fit on a quota of 2, nor 1.2 on 0.3: arithmetic alone says so."""
    made = save_profile(folder / "scans.profile", read_iops=6200, write_iops=5, read_mbps=805,
                        write_mbps=0.05, cpu_cores=1.2)  # fmt: skip
    with caged(folder, cores=0.3) as cage:
        sized = size(made, folder, cage=cage)
    assert (sized.status, sized.verdict["fit"]) == (3, "does not fit"), sized.said
    assert sized.verdict["multiple"] == pytest.approx(0.25)
    assert "1.20 cores required, 0.300 cores here" in sized.verdict["reasons"][0]
    assert not (folder / "data").exists()


def test_a_profile_with_holes_is_sized_by_what_it_knows(folder: Path, replayer: Replayer) -> None:
    """Columns that are missing are told as not tested, and rows that are missing as a gap."""
    made = save_profile(folder / "holes.profile", commits=50, tuples_fetched=100, blocks_hit=400,
                        blocks_read=10)  # fmt: skip
    ended = replayer("size", made, "--dry-run")
    doubts, _, plan = ended.out.partition("what will be done · about ")
    assert "how much data is in use is not known" in " ".join(doubts.split())
    # What it comes to stands at the bottom: the steps and their time, with no doubt below them.
    assert re.search(r"hold the required rate.*\n*$", plan)
    assert "not known" not in plan
    assert ended.err.endswith("nothing was started, and nothing was written\n")


def awr(query: str) -> str:
    """Return what SQL*Plus prints of a query, with `set markup csv on`, in an hour of 16 cores."""
    database = sqlite3.connect(":memory:")
    database.create_function("to_char", 2, lambda value, _: value)
    database.execute("CREATE TABLE dba_hist_sysmetric_summary (begin_time, end_time, "
                     "instance_number, metric_name, average, maxval)")  # fmt: skip
    times = ("2026-03-02 10:00:00", "2026-03-02 11:00:00")
    for name in dict.fromkeys(re.findall(r"when '([^']+)'", query)):
        value = 8e6 if "Bytes" in name or "Redo" in name else 40.0
        database.execute("INSERT INTO dba_hist_sysmetric_summary VALUES (?, ?, 1, ?, ?, ?)",
                         (*times, name, value, 2 * value))  # fmt: skip
    rows = database.execute(query)
    text = io.StringIO("\n", newline="")
    text.seek(1)
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerows([[c[0] for c in rows.description],
                                                              *rows])  # fmt: skip
    return f"{text.getvalue()}\n1 row selected.\n"


def test_the_recipe_for_awr_makes_a_profile_that_can_be_sized_by(
    folder: Path, replayer: Replayer
) -> None:
    """The SQL as it is printed, and the empty line with which SQL*Plus begins."""
    text = (ROOT / "docs" / "administrator.md").read_text()
    query = text.partition("```sql\n")[2].partition("```")[0].strip().rstrip(";")
    (folder / "awr.csv").write_text(awr(query))
    made = folder / "awr.profile"
    replayer("profile", "--from", folder / "awr.csv", "--out", made)
    ended = replayer("size", made, "--dry-run")

    known = profile.load(made)
    assert known.columns["read_iops"].max() == 80.0
    assert known.columns["read_mbps"].max() == 16.0
    assert known.columns["cpu_cores"].max() == pytest.approx(0.8 * 16)
    assert "what will be done" in ended.out


def test_known_limits_are_judged_before_anything_is_run(folder: Path, replayer: Replayer) -> None:
    """Two files, of a disk and of an instance: each limit has its verdict in the dry run."""
    made = of_reads(folder / "io.profile", rate=600)
    disk, instance = folder / "disk.toml", folder / "instance.toml"
    disk.write_text('name = "gp2"\n[volume]\nbaseline_iops = 300\n')
    instance.write_text("[volume]\nbaseline_mbps = 100\n")
    words = ("size", made, "--dry-run", "--target", disk, "--target", instance)
    text = " ".join(replayer(*words, status=None).out.split())
    told = json.loads(replayer(*words, "--json", status=None).out)

    assert "device reads and writes of gp2: does not fit: 600/s of 300/s" in text
    assert "device reads and writes of instance.toml: fits" in text
    assert [one["fit"] for one in told["judgements"]] == ["does not fit", "fits"]
    assert told["requirement"]["needs"]


def test_a_dry_run_is_json_where_it_is_asked_for(folder: Path, replayer: Replayer) -> None:
    """What is required, and each stage with its seconds, is one document on stdout."""
    made = of_cpu(folder / "x.profile", rate=20, cores=0.01)
    ended = replayer("size", made, "--dry-run", "--json")
    told = json.loads(ended.out)

    assert told["rate"] == pytest.approx(20)
    assert sum(stage["seconds"] for stage in told["stages"]) == pytest.approx(told["seconds"])


def started(replayer: Replayer, made: Path, folder: Path, *words: object) -> subprocess.Popen[str]:
    """Start `replayer size` with lines of progress on stderr."""
    where = ("--data-dir", folder / "data", "--results", folder / "results")
    return replayer.start("size", made, *where, *words)


def stored(folder: Path) -> dict[str, Any]:
    """Return the one result."""
    (path,) = (folder / "results").glob("*.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def serving(folder: Path) -> list[int]:
    """Return the processes of the server whose data is in a folder."""
    every = ((pid, processes.arguments(pid)) for pid in processes.every())
    return [pid for pid, words in every if str(folder / "data") in words and "-D" in words]


@pytest.mark.slow
@pytest.mark.parametrize("wait", [4.0, 9.0])
def test_ctrl_c_leaves_nothing_and_keeps_what_there_is(
    folder: Path, wait: float, replayer: Replayer
) -> None:
    """At whatever moment, status is 130, the result is stored as interrupted, no server is left."""
    made = of_cpu(folder / "x.profile", rate=20, cores=0.01)
    run = started(
        replayer, made, folder, "--trial", "2s", "--hold", "1min", "--working-set", "300M"
    )
    wait_until(lambda: serving(folder))
    time.sleep(wait)
    run.send_signal(signal.SIGINT)
    out, said = run.communicate(timeout=600)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    assert stored(folder)["status"] == "interrupted"
    assert "unclear" in out
    assert not serving(folder)


@pytest.mark.quiet
def test_it_takes_no_longer_than_was_told(folder: Path) -> None:
    """Half as long again at the most, the server's start and the tables' load included."""
    made = of_cpu(folder / "x.profile", rate=100, cores=0.2)
    begin = time.monotonic()
    sized = size(made, folder, "--trial", "2s", "--hold", "5s", "--slo", "p99=500ms")
    took = time.monotonic() - begin
    told = re.search(r"what will be done · about (?:(\d+) min )?([\d.]+) s", sized.said)
    assert told is not None, sized.said
    assert took < 1.5 * (60 * float(told[1] or 0) + float(told[2]))


@pytest.mark.quiet
@pytest.mark.parametrize("wait", [3.0, 8.0, 15.0])
def test_ctrl_c_ends_it_within_five_seconds(folder: Path, wait: float, replayer: Replayer) -> None:
    """Whatever the server has still to write: its data are replayer's own, and recover."""
    made = save_profile(folder / "w.profile", working_set=2 << 30, commits=3000, blocks_hit=9000,
                        blocks_read=10, tuples_fetched=3000, tuples_inserted=0,
                        tuples_updated=3000, tuples_deleted=0)  # fmt: skip
    run = started(replayer, made, folder, "--trial", "5s", "--hold", "1min", "--slo", "p99=60s")
    wait_until(lambda: serving(folder))
    time.sleep(wait)
    begin = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=600)
    assert run.returncode == 130, said
    assert time.monotonic() - begin < 5
    assert not serving(folder)


@pytest.mark.slow
def test_a_server_that_is_killed_is_one_sentence(folder: Path, replayer: Replayer) -> None:
    """A server that dies under the load ends the run with status 1, and is told as lost."""
    made = of_cpu(folder / "x.profile", rate=20, cores=0.01)
    run = started(replayer, made, folder, "--trial", "5s", "--hold", "0s", "--working-set", "64M")
    wait_until(lambda: serving(folder))
    time.sleep(8)
    for pid in serving(folder):
        os.kill(pid, signal.SIGKILL)
    out, said = run.communicate(timeout=600)
    assert run.returncode == 1, said
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("replayer: error: ")
    assert stored(folder)["status"] == "failed"
    assert "unclear" in out


def test_data_larger_than_the_disk_is_scaled_and_said(folder: Path, replayer: Replayer) -> None:
    """A working set beyond the disk's room is loaded in part, and the plan says what that means."""
    made = save_profile(folder / "large.profile", working_set=1 << 50, commits=50,
                        tuples_fetched=100, blocks_hit=400, blocks_read=10)  # fmt: skip
    ended = replayer("size", made, "--dry-run", "--data-dir", folder / "data")
    words = " ".join(ended.out.split())
    assert "how the disk does over its whole size is not proven" in words


@pytest.mark.quiet
def test_an_objective_below_a_flush_is_told(folder: Path) -> None:
    """No rate keeps to a microsecond where commits wait for the device: the report says so."""
    made = save_profile(
        folder / "w.profile",
        working_set=64 << 20,
        commits=20,
        tuples_inserted=20,
        tuples_updated=0,
        tuples_deleted=0,
        blocks_hit=100,
        blocks_read=1,
    )
    sized = size(made, folder, "--trial", "1s", "--hold", "1s", "--slo", "p99=1us")
    assert (sized.status, sized.verdict["fit"]) == (3, "does not fit"), sized.verdict
    words = [change["words"] for change in sized.verdict["changes"]]
    assert any("below what the device takes for one flush" in text for text in words)


def test_the_machines_own_memory_is_what_decides() -> None:
    """What is known of this machine before anything is done is what the host says."""
    machine = candidate.seen(Host(), "")
    installed = Host().memory_bytes()
    assert machine.own_server
    assert machine.block_size == 8192
    assert installed is not None
    assert machine.memory_bytes is not None
    assert machine.free_bytes is not None
    assert 0 < machine.memory_bytes <= installed
    assert machine.free_bytes > 0


@pytest.mark.slow
def test_a_sizing_is_followed_and_limited_as_any_run_is(folder: Path, replayer: Replayer) -> None:
    """By a browser and by Prometheus; after --timeout what was measured is kept."""
    made = of_cpu(folder / "x.profile", rate=20, cores=0.01)
    words = ("--hold", "10min", "--timeout", "15s", "--live", "--metrics", "127.0.0.1:0")
    run = started(replayer, made, folder, *words)
    assert run.stderr is not None
    links: dict[str, str] = {}
    while len(links) < 2:
        line = run.stderr.readline()
        assert line, links
        links |= dict(re.findall(r"^(live|metrics): (http://\S+)", line))
    for link in links.values():
        with urllib.request.urlopen(link, timeout=30) as answer:
            assert answer.status == 200
    _, said = run.communicate(timeout=300)

    assert run.returncode == 130, said
    assert stored(folder)["status"] == "interrupted"
    assert not serving(folder)


def test_a_page_that_nobody_asked_for_has_no_token(folder: Path, replayer: Replayer) -> None:
    """Before anything is started, in one sentence."""
    made = of_cpu(folder / "x.profile", rate=20, cores=0.01)
    results = folder / "results"
    ended = replayer("size", made, "--live-for", "1s", "--results", results, status=2)

    assert "give that too" in ended.err.splitlines()[-1]
    assert not results.exists()
