"""`replayer history`: changes of a metric over stored runs, and what changed at the same time."""

import csv
import io
import json
import os
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replayer.model import Run
from replayer.results import metrics_cache, store
from tests.command import Replayer

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"
Nightly = Callable[..., Path]


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    """Return a function that stores a run a night with these values, and returns their folder."""
    found = next(Path(__file__).parents[1].rglob(f"format-{store.FORMAT}.json"))
    plain = json.loads(found.read_text())
    for key in ("sizing", "notes", "tags", "headline", "leading", "writer"):
        del plain[key]
    folder = tmp_path / "results"
    folder.mkdir()

    def put(values: list[float], *, kernel: str = "6.12.0", **changed: Any) -> Path:
        first = len(list(folder.iterdir()))
        for night, value in enumerate(values, start=first):
            started = datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=night)
            run_id = store.identify(started, "demo")
            metric = {"metric": "walk.throughput", "unit": "bytes/s", "better": "more"}
            host = {**plain["host"], "kernel.release": kernel, "boot.id": f"boot-{night}"}
            workload = {**plain["workload"], "steps": [{"step": "walk", "name": "walk"}]}
            fields = {
                "id": run_id,
                "started": started.isoformat(),
                "status": "done",
                "host": host,
                "workload": workload,
                "headline": "walk: it was done.",
                "leading": [{**metric, "value": value}],
            }
            run = Run.model_validate({**plain, **fields, **changed})
            store.save(folder / f"{run_id}.json", run)
        return folder

    return put


def noisy(level: float, count: int, seed: int) -> list[float]:
    """Return values with one percent of noise."""
    drawn = random.Random(seed)
    return [level * drawn.gauss(1, 0.01) for _ in range(count)]


def measuring(folder: Path, *steps: str) -> dict[str, Any]:
    """Return what `nightly` changes so that a run has one metric of each of these steps."""
    workload = json.loads(next(folder.iterdir()).read_text())["workload"]
    metric = {"unit": "bytes/s", "better": "more", "value": 2e8}
    return {
        "workload": {**workload, "steps": [{"step": name, "name": name} for name in steps]},
        "leading": [{**metric, "metric": f"{name}.throughput"} for name in steps],
    }


def test_a_change_is_dated_and_what_changed_with_it_is_named(
    replayer: Replayer, nightly: Nightly
) -> None:
    """The kernel that came that night stands next to it, with the levels before and after."""
    nightly(noisy(2e8, 20, 1))
    folder = nightly(noisy(1.6e8, 20, 2), kernel="7.0.0")

    done = replayer("history", "--results", folder)
    first = " ".join(done.out.split())

    assert "newest change: walk.throughput -" in first
    assert "since 2026-01-21 02:00, which is worse" in first
    assert "with it changed host.kernel.release 6.12.0 -> 7.0.0" in first
    (one,) = json.loads(replayer("history", "--results", folder, "--json").out)["series"]
    (change,) = one["changes"]
    assert change["at"] == 20
    assert change["low"] <= -0.2 <= change["high"]
    assert (change["before"]["boots"], change["after"]["boots"]) == (20, 20)


def test_only_a_newest_change_for_the_worse_fails_a_nightly_job(
    replayer: Replayer, nightly: Nightly
) -> None:
    """Exit 3 names the metric; a smaller one than asked for, and one that was mended, do not."""
    nightly(noisy(2e8, 20, 1))
    folder = nightly(noisy(1.6e8, 20, 2), kernel="7.0.0")
    failed = replayer("history", "--results", folder, "--fail-if-worse", status=3)

    assert "walk.throughput by 2" in failed.err
    replayer("history", "--results", folder, "--fail-if-worse", "30")
    replayer("history", "--results", folder, "--last", "20", "--fail-if-worse")
    nightly(noisy(2e8, 10, 3), kernel="7.0.1")
    replayer("history", "--results", folder, "--fail-if-worse")


def test_runs_without_a_change_show_none(replayer: Replayer, nightly: Nightly) -> None:
    """Nor do those of an experiment, whose settings were changed on purpose, make one."""
    nightly(noisy(2e8, 20, 1))
    folder = nightly(noisy(1e8, 20, 2), tags={"variant": "slow"})
    done = replayer("history", "--results", folder)

    assert done.out.endswith("no level changed that 20 runs can show\n")
    assert "20 runs of experiments are left out" in done.err


def test_runs_without_a_kernel_have_a_history(replayer: Replayer, nightly: Nightly) -> None:
    """Imported ones, such as those of fio; only a fact that was asked for must be there."""
    nightly(noisy(2e8, 20, 1), host={})
    folder = nightly(noisy(1.6e8, 20, 2), host={})

    assert "walk.throughput -" in replayer("history", "--results", folder).out
    asked = ("--by", "host.kernel.release")
    assert "no run has the fact" in replayer("history", "--results", folder, *asked, status=2).err


def test_runs_of_an_older_replayer_are_points_of_the_same_history(
    replayer: Replayer, nightly: Nightly
) -> None:
    """In the format before, the leading metrics were the headline."""
    folder = nightly(noisy(2e8, 4, 1))
    for path in sorted(folder.iterdir())[:2]:
        text = path.read_text().replace('"format": 3', '"format": 2', 1)
        text = text.replace(' "headline": "walk: it was done.",\n', "", 1)
        path.write_text(text.replace(' "leading": [', ' "headline": [', 1))

    (one,) = json.loads(replayer("history", "--results", folder, "--json").out)["series"]
    assert [point["value"] for point in one["points"]] == noisy(2e8, 4, 1)


def test_files_that_count_for_nothing_are_counted(replayer: Replayer, nightly: Nightly) -> None:
    """What cannot be read is not silently missing, and a copy of a run is not a second run."""
    folder = nightly(noisy(100.0, 12, 1))
    first = next(folder.iterdir()).read_text()
    undated = re.sub(r'"started": "[^"]+"', '"started": ""', first, count=1)
    for name, text in (
        ("cut", first[:300]), ("empty", ""), ("one", first), ("two", first), ("undated", undated)
    ):  # fmt: skip
        (folder / f"20260101-{name}.json").write_text(text)

    out, err = replayer("history", "--results", folder)

    assert "12 runs" in out
    assert "2 files cannot be read as runs" in err
    assert "2 files are copies of other runs" in err
    assert "1 imported runs without the time of their start are left out" in err


def test_values_in_another_unit_are_left_out_and_counted(
    replayer: Replayer, nightly: Nightly
) -> None:
    """A metric that an older run has in another unit is not compared with the newer ones."""
    metric = {"metric": "walk.throughput", "unit": "MiB/s", "better": "more", "value": 200.0}
    nightly(noisy(1.0, 3, 1), leading=[metric])
    folder = nightly(noisy(2e8, 5, 2))

    done = replayer("history", "--results", folder, "--json")

    (one,) = json.loads(done.out)["series"]
    assert len(one["points"]) == 5
    assert "3 runs have walk.throughput in another unit than bytes/s" in done.err


def test_a_metric_that_is_no_longer_measured_has_no_level_now(
    replayer: Replayer, nightly: Nightly
) -> None:
    """Its last level is dated, the runs since are counted, and a nightly job hears of it."""
    both = measuring(nightly([2e8]), "walk", "scan")
    nightly([2e8] * 14, **both)
    folder = nightly([2e8] * 15)

    for form in ([], ["--metric", "scan.*"]):
        done = replayer("history", "--results", folder, "--fail-if-worse", *form)
        said = " ".join(done.out.split())
        assert "scan.throughput: 14 runs, last" in said
        assert "on 2026-01-15 02:00, no change; none of the 15 runs since has it" in said
        assert "; not in the newest run: 1 of " in said
        assert "scan.throughput: not in the newest run, so --fail-if-worse" in done.err
    nightly([2e8], **both)
    done = replayer("history", "--results", folder, "--fail-if-worse")
    assert "newest run" not in done.out + done.err


@pytest.mark.parametrize("runs", [3, 5, 6, 10, 12])
def test_the_runs_that_a_change_needs_stay_as_many(
    replayer: Replayer, nightly: Nightly, runs: int
) -> None:
    """Three metrics need 13 runs together, however few there are so far."""
    steps = "walk", "scan", "join"
    both = measuring(nightly([2e8]), *steps)
    folder = nightly([2e8] * runs, **both)

    series = json.loads(replayer("history", "--results", folder, "--json").out)["series"]
    assert {one["name"].partition(".")[0] for one in series} == {*steps}
    assert {one["needed"] for one in series} == {13}


@pytest.mark.parametrize("tags", [("ab",), ("bisect",), ("experiment", "block", "combination")])
def test_what_an_experiment_switched_is_no_change(
    replayer: Replayer, nightly: Nightly, tags: tuple[str, ...]
) -> None:
    """Its runs stand in the same folder as those of every night, and are left out."""
    nightly(noisy(100.0, 12, 1))
    folder = nightly(noisy(50.0, 12, 2), tags=dict.fromkeys(tags, "1"))

    out, err = replayer("history", "--results", folder)
    shown = replayer("history", "--results", folder, "--where", f"tag.{tags[0]}=*").out

    assert "12 runs" in out
    assert "no level changed" in out
    assert "12 runs of experiments are left out" in err
    assert f"--where 'tag.{tags[0]}=*' shows them" in err
    assert "12 runs" in shown


def test_other_settings_of_a_workload_are_another_history(
    replayer: Replayer, nightly: Nightly
) -> None:
    """A change that the user asked for is none."""
    folder = nightly(noisy(2e8, 10, 1))
    (one, *_) = folder.iterdir()
    workload = json.loads(one.read_text())["workload"]
    nightly(noisy(1e8, 10, 2), workload={**workload, "settings": {"walk.threads": "1"}})

    series = json.loads(replayer("history", "--results", folder, "--json").out)["series"]
    assert [(len(one["points"]), one["changes"]) for one in series] == [(10, []), (10, [])]


def test_a_metric_that_leads_no_step_is_read_from_the_steps(
    replayer: Replayer, nightly: Nightly
) -> None:
    """Any metric of any step can be asked for, with a pattern."""
    folder = nightly(noisy(2e8, 10, 1))
    (one, *_) = folder.iterdir()
    *_, last = store.load(one).steps
    metric = last.measurements[-1].metric
    named = metric if last.name == metric.partition(".")[0] else f"{last.name}.{metric}"

    done = replayer("history", "--results", folder, "--metric", metric, "--json")
    assert named in {one["name"] for one in json.loads(done.out)["series"]}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--metric", "nothing.*"], "none of 3 runs has the metric nothing.*"),
        (["--last", "0"], "--last 0: it must be 1 or more"),
        (["--where", "workload=other"], "there are no runs with workload=other"),
        (["--where", "wokload=demo"], "did you mean workload?"),
        (["--by", "host.kernel.relase"], "no run has the fact 'host.kernel.relase'"),
        (["--by", "host.kernel"], "did you mean host.kernel.release?"),
        (["--threshold", "-1"], "--threshold -1: give a percentage of 0 or more"),
        (["--fail-if-worse", "nan"], "--fail-if-worse nan: give a percentage of 0 or more"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    replayer: Replayer, nightly: Nightly, words: list[str], sentence: str
) -> None:
    """It says what was found."""
    done = replayer("history", "--results", nightly([1.0, 2.0, 3.0]), *words, status=2)

    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_the_page_has_every_series_and_a_line_for_each_kernel(
    replayer: Replayer, nightly: Nightly, tmp_path: Path
) -> None:
    """It is one file, and says the same as the terminal."""
    nightly(noisy(2e8, 10, 1))
    folder = nightly(noisy(1.6e8, 10, 2), kernel="7.0.0")
    page = tmp_path / "history.html"
    done = replayer("history", "--results", folder, "--html", page, "--csv", "-")
    text = page.read_text()

    assert "host.kernel.release 6.12.0 -&gt; 7.0.0" in text
    assert 'id="history"' in text
    assert f"written: {page}" in done.err
    assert [row["verdict"] for row in csv.DictReader(io.StringIO(done.out))] == ["worse"]


@pytest.mark.slow
def test_ten_thousand_runs_are_read_by_their_heads(replayer: Replayer, nightly: Nightly) -> None:
    """Most of their bytes are not read, and every run is a point."""
    folder = nightly(noisy(2e8, 1, 1))
    (one,) = folder.iterdir()
    text = one.read_text()
    drawn = random.Random(4)
    for number in range(1, 10_000):
        when = datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(hours=number)
        run_id = f"{when:%Y%m%d-%H%M%S}-demo-0000"
        level = 2e8 if number < 7000 else 1.9e8
        made = text.replace(one.stem, run_id).replace("2026-01-01T02:00:00+00:00", when.isoformat())
        made = made.replace(
            f'"value": {noisy(2e8, 1, 1)[0]}', f'"value": {level * drawn.gauss(1, 0.01)}'
        )
        (folder / f"{run_id}.json").write_text(made)
    before = bytes_read()
    found = json.loads(replayer("history", "--results", folder, "--json").out)
    read = bytes_read() - before

    assert found["runs"] == 10_000
    (change,) = found["series"][0]["changes"]
    assert abs(change["at"] - 7000) <= 10
    assert read < 0.5 * sum(path.stat().st_size for path in folder.iterdir())


def bytes_read() -> int:
    """Return how many bytes this process has read."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


def test_a_changed_run_is_read_again(
    replayer: Replayer, nightly: Nightly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric that leads no step is read from each file once; a file that changed, once more."""
    monkeypatch.setattr(metrics_cache, "_FEWEST", 1)
    folder = nightly(noisy(100.0, 3, 1))
    paths = sorted(folder.glob("*.json"))
    for path in paths:
        os.utime(path, (1, 1))
    words = ("history", "--metric", "walk.*", "--metric", "cold*", "--json", "--results", folder)
    before = json.loads(replayer(*words).out)
    cached = json.loads(replayer(*words).out)

    assert (folder / metrics_cache.NAME).exists()
    assert cached == before
    text = paths[1].read_text()
    paths[1].write_text(text.replace('"done"', '"failed"'))
    assert json.loads(replayer(*words, status=None).out)["runs"] < before["runs"]
    paths[2].rename(folder / "gone")
    os.utime(paths[0], (2, 2))
    replayer(*words, status=None)
    kept = json.loads((folder / metrics_cache.NAME).read_text())
    assert not {path.name for path in (paths[2], folder / "gone")} & kept["runs"].keys()
    (folder / "gone").rename(paths[2])
    for entry in kept["runs"].values():
        entry[3] = ["no number"] * len(entry[3])
    for damaged in ("no cache", '{"format":1,"lists":[],"runs":[]}', json.dumps(kept)):
        (folder / metrics_cache.NAME).write_text(damaged)
        assert json.loads(replayer(*words, status=None).out)["runs"] < before["runs"]
