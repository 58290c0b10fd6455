"""`replayer runs` as a user types it: what is stored is listed, renamed, annotated and deleted."""

import functools
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pydantic_core import from_json

from replayer import journal
from replayer.cli import program
from replayer.model import Run
from replayer.report.sanitize import sanitize
from replayer.report.terminal import run_list
from replayer.results import store
from tests.command import Ended, Replayer

TESTS = Path(__file__).parents[1]
FIXTURES = TESTS / "fixtures" / "runs"
ESCAPES = "\x1b[31mred\x1b]0;title\x07<script>alert(1)</script>\u202e"


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that stores the fixture's run, changed, and returns its path."""
    plain = json.loads((FIXTURES / f"format-{store.FORMAT}.json").read_text())
    for key in ("sizing", "notes", "tags", "headline", "leading", "writer"):
        del plain[key]

    def put(number: int, **changed: object) -> Path:
        started = f"2026-11-20T{15 + number // 60:02d}:{number % 60:02d}:00+00:00"
        run_id = f"20261120-{15 + number // 60:02d}{number % 60:02d}00-demo-3f2a"
        run = Run.model_validate({**plain, "id": run_id, "started": started, **changed})
        folder = tmp_path / "results"
        folder.mkdir(exist_ok=True)
        path = folder / f"{run_id}.json"
        store.save(path, run)
        return path

    return put


@pytest.fixture
def runs(replayer: Replayer) -> Callable[..., Ended]:
    """Return a function that calls `replayer runs` in a folder of its own."""
    return functools.partial(replayer, "runs")


def listed(done: Ended) -> list[str]:
    """Return the lines of a list below its heading."""
    return done.out.splitlines()[1:]


def leading(value: float) -> list[dict[str, object]]:
    """Return the leading metrics of one number."""
    return [{"metric": "walk.seconds", "value": value, "unit": "s", "better": "less"}]


def test_a_run_is_told_in_one_line(runs: Callable[..., Ended], stored: Callable[..., Path]) -> None:
    """Date, workload, engine, kernel, label, status and what its steps are run for stand in it."""
    stored(0, label="stock", leading=leading(1.5))
    (line,) = listed(runs("list"))
    said = "Read 1.00 GiB from a cold disk at 700 MB/s."
    stored(0, label="stock", leading=leading(1.5), headline=said)
    (in_words,) = listed(runs("list"))
    (by_metric,) = listed(runs("list", "--sort", "walk.seconds"))

    for words in ("2026-11-20 15:00", "demo", "postgres 18.6", "6.12.0", "stock", "done"):
        assert words in line
    assert "walk seconds 1.50 s" in line
    assert in_words.endswith(said)
    assert "walk" not in in_words
    assert by_metric.endswith(f"walk.seconds 1.50 s; {said}")


def test_runs_are_filtered_and_sorted(
    runs: Callable[..., Ended], stored: Callable[..., Path]
) -> None:
    """Each condition leaves those that meet it; numbers sort as numbers, and those without last."""
    for number, seconds in enumerate((9.0, 10.0, 1.0)):
        tags = {"disk": "nvme" if number else "sata"}
        stored(number, label=f"l{number}", tags=tags, leading=leading(seconds))
    stored(3, label="other")

    def labels(*arguments: object) -> list[str]:
        return [run["label"] for run in json.loads(runs("list", "--json", *arguments).out)["runs"]]

    assert labels() == ["l0", "l1", "l2", "other"]
    assert labels("--where", "tag.disk=nvme") == ["l1", "l2"]
    assert labels("--where", "label=l*", "--where", "date=*15:02*") == ["l2"]
    assert labels("--where", "tag.disk=*") == ["l0", "l1", "l2"]
    assert labels("--where", "tag.disk=") == ["other"]
    assert labels("--where", "note=*") == []
    assert labels("--sort", "walk.seconds") == ["l2", "l0", "l1", "other"]
    assert labels("--sort", "walk.seconds", "--reverse") == ["l1", "l0", "l2", "other"]
    assert labels("--last", 2) == ["l2", "other"]
    assert "did you mean" in runs("list", "--sort", "lable", status=2).err
    assert "not a condition" in runs("list", "--where", "stock", status=2).err


def test_what_stands_in_a_file_steers_no_terminal(
    runs: Callable[..., Ended], stored: Callable[..., Path]
) -> None:
    """Escapes are written out, and ten thousand characters take no more than a line's part."""
    stored(0, label=ESCAPES, notes=[ESCAPES])
    stored(1, label="x" * 10_000, notes=["y" * 50_000])
    lines = listed(runs("list"))
    shown = "".join(lines)

    assert all(character.isprintable() for character in shown)
    assert max(map(len, lines)) < 250
    assert len(json.loads(runs("list", "--json").out)["runs"]) == 2
    assert "\x1b" not in runs("show", "latest").out
    assert "\x1b" not in runs("note", "20261120-150000", "more").err
    whole = runs("show", "20261120-150000", "--json").out
    assert all(character.isprintable() for character in whole.replace("\n", ""))
    assert json.loads(whole)["label"] == ESCAPES


class Terminal(io.StringIO):
    """A terminal that keeps what is printed."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize("words", [["watch"], ["runs", "delete", "--yes"]])
def test_the_path_of_a_run_does_not_steer_a_terminal(
    stored: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[str],
) -> None:
    """A folder whose name has escapes is printed with them written out."""
    odd = stored(0).parent.rename(tmp_path / "odd\x1b[31m")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())

    assert program.run([*words, "latest", "--results", str(odd)]) == 0
    assert "odd\\x1b[31m" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_files_that_are_no_runs_are_told_and_hide_none(
    runs: Callable[..., Ended], stored: Callable[..., Path]
) -> None:
    """Newer and older formats, empty and cut files, pipes and folders: each has its sentence."""
    path = stored(0, label="stock")
    folder = path.parent
    newer = json.loads(path.read_text()) | {"format": 99}
    (folder / "newer.json").write_text(json.dumps(newer))
    (folder / "older.json").write_text((FIXTURES / "format-1.json").read_text())
    (folder / "empty.json").write_text("")
    (folder / "cut.json").write_text(path.read_text()[:3000])
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    done = runs("list")

    assert len(listed(done)) == 2
    for words in ("format 99", "it is empty", "cut off", "folder.json", "pipe.json"):
        assert words in done.err


def test_a_run_gets_another_label_notes_and_tags(
    runs: Callable[..., Ended], stored: Callable[..., Path]
) -> None:
    """The file keeps its name and its numbers; comparing finds the run by what it is called now."""
    path = stored(0, label="stock")
    before = store.load(path)
    runs("rename", before.id, "uek")
    runs("note", "uek", "new firmware", "--tag", "disk=nvme", "--tag", "rack=7")
    runs("note", "uek", "<b>again</b>", "--tag", "rack=")
    after = store.load(path)

    assert (after.label, after.notes) == ("uek", ("new firmware", "<b>again</b>"))
    assert after.tags == {"disk": "nvme"}
    assert after.steps == before.steps
    assert "new firmware" in runs("show", "uek").out
    runs("note", "uek", "--clear")
    assert store.load(path).notes == ()
    assert "NAME=VALUE" in runs("note", "uek", "--tag", "=x", status=2).err


def test_a_run_of_the_first_format_takes_notes(runs: Callable[..., Ended], tmp_path: Path) -> None:
    """It is written in the newest format, and nothing that it held is lost."""
    run_id = json.loads((FIXTURES / "format-1.json").read_text())["id"]
    path = tmp_path / "results" / f"{run_id}.json"
    path.parent.mkdir()
    path.write_text((FIXTURES / "format-1.json").read_text())
    before = store.load(path)
    runs("note", run_id, "old")

    assert store.load(path) == before.model_copy(update={"notes": ("old",)})


def test_nothing_is_deleted_without_a_yes(
    runs: Callable[..., Ended], stored: Callable[..., Path]
) -> None:
    """Where nobody sits at a terminal --yes is asked for, and then the files are gone."""
    paths = [stored(0), stored(1), stored(2)]
    assert "--yes" in runs("delete", "latest", status=2, typed="yes\n").err
    assert all(path.exists() for path in paths)
    runs("delete", paths[0].stem, paths[1], "--yes")

    assert [path.exists() for path in paths] == [False, False, True]


def make_link(path: Path, elsewhere: Path) -> None:
    """Put a link to a run elsewhere in the place of a run."""
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def make_pipe(path: Path, _elsewhere: Path) -> None:
    """Put a pipe in the place of a run."""
    path.unlink()
    os.mkfifo(path)


def make_foreign(path: Path, _elsewhere: Path) -> None:
    """Put another program's JSON in the place of a run."""
    path.write_text('{"id": "mine"}')


def make_renamed(path: Path, _elsewhere: Path) -> None:
    """Give a run's file the content of another one."""
    path.write_text(path.read_text().replace('"id": "2026', '"id": "2025'))


def make_running(path: Path, _elsewhere: Path) -> None:
    """Have this process write the run."""
    run = store.load(path)
    store.save(path, run.model_copy(update={"writer": journal.identity(os.getpid())}))


@pytest.mark.parametrize(
    "made",
    [make_link, make_pipe, make_foreign, make_renamed, make_running],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    "action", [["delete", "--yes"], ["rename", "--", "x"], ["note", "--clear"]]
)
def test_only_what_replayer_wrote_there_is_touched(
    runs: Callable[..., Ended],
    stored: Callable[..., Path],
    tmp_path: Path,
    made: Callable[[Path, Path], None],
    action: list[str],
) -> None:
    """Links, pipes, others' files and a run under way stay, and so do the rest of those named."""
    other, path = stored(0), stored(1)
    elsewhere = tmp_path / "elsewhere.json"
    made(path, elsewhere)
    before = os.lstat(path), elsewhere.read_text() if elsewhere.exists() else ""
    words = [*action[:1], path.stem, *action[1:]]
    if action[0] == "rename":
        words = ["rename", path.stem, "x"]
    if action[0] == "delete":
        words = ["delete", other.stem, path.stem, "--yes"]
    done = runs(*words, status=2)

    after = os.lstat(path), elsewhere.read_text() if elsewhere.exists() else ""
    assert (after[0].st_ino, after[0].st_mtime_ns, after[1]) == (
        before[0].st_ino,
        before[0].st_mtime_ns,
        before[1],
    )
    assert other.exists()
    assert done.err.startswith("replayer: error: ")


def test_a_run_in_another_folder_is_not_deleted(
    runs: Callable[..., Ended], stored: Callable[..., Path], tmp_path: Path
) -> None:
    """Who means another folder names it: a path alone may be a slip."""
    path = stored(0)
    other = tmp_path / "other"
    other.mkdir()
    moved = path.rename(other / path.name)
    assert "--results" in runs("delete", moved, "--yes", status=2).err
    assert moved.exists()
    runs("delete", moved.stem, "--results", other, "--yes")

    assert not moved.exists()


def test_a_killed_run_is_told_from_one_under_way(
    runs: Callable[..., Ended], stored: Callable[..., Path]
) -> None:
    """Its process is gone: that is told; of a run from before it was written down nothing is."""
    boot, _, start = journal.identity(os.getpid()).split(":")
    stored(0, status="running", writer=f"{boot}:{os.getpid()}:{start}")
    stored(1, status="running", writer=f"{boot}:{os.getpid()}:1")
    stored(2, status="running", writer=f"other:{os.getpid()}:1")
    stored(3, status="running")
    listed = json.loads(runs("list", "--json").out)["runs"]

    assert [run["state"] for run in listed] == ["running", "killed", "running", "running"]


def cpu_seconds(replayer: Replayer, folder: Path) -> tuple[float, list[str]]:
    """Return what listing a folder of results costs, and the lines, best of three."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = replayer.process("runs", "list", "--results", folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(took), listed(done)


def test_a_long_label_costs_no_more_to_list_than_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is cut only the beginning is looked at, whatever characters stand in it."""
    path = tmp_path / "run.json"
    run = store.load(FIXTURES / f"format-{store.FORMAT}.json")
    entries = []
    looked_at: list[str] = []

    def watched(text: str) -> str:
        looked_at.append(text)
        return sanitize(text)

    for length in (300, 1_000_000):
        store.save(path, run.model_copy(update={"label": (ESCAPES * length)[:length]}))
        entry = store.summary(path)
        assert isinstance(entry, store.StoredRun)
        entries.append(entry)
    monkeypatch.setattr(run_list, "sanitize", watched)
    short, long = (list(run_list.rows([entry], None)) for entry in entries)

    assert short == long
    assert max(map(len, looked_at)) < 1000


def head_seconds(folder: Path) -> float:
    """Return what it costs to read and to parse what a folder's files begin with, best of three."""
    took = []
    for _ in range(3):
        begin = time.process_time()
        for path in folder.iterdir():
            with path.open("rb") as file:
                from_json(file.read(8192), allow_partial=True)
        took.append(time.process_time() - begin)
    return min(took)


def bytes_read() -> int:
    """Return how many bytes this process has read."""
    (line,) = (
        line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")
    )
    return int(line.split()[1])


@pytest.mark.slow
def test_ten_thousand_runs_are_listed_in_a_second(
    replayer: Replayer, stored: Callable[..., Path]
) -> None:
    """Only the heads of the files are read, and listing them costs little more than that.

    A machine with nothing else to do takes less than a second, the program's start included.
    """
    path = stored(0, label="stock", leading=leading(1.5))
    folder, source = path.parent, path.read_text()
    first = (FIXTURES / "format-1.json").read_text()
    label = json.dumps((ESCAPES * 400)[:10_000])
    for number in range(1, 10_000):
        run_id = f"20261121-{number:06d}-demo-3f2a"
        text = source.replace(path.stem, run_id)
        if number % 20 == 0:
            text = first.replace(json.loads(first)["id"], run_id)
        if number % 20 == 1:
            text = text.replace('"label": "stock"', f'"label": {label}')
        if number % 1000 == 2:
            text = text.replace(f'"format": {store.FORMAT}', '"format": 99')
        if number % 1000 == 3:
            text = text[:20_000]
        (folder / f"{run_id}.json").write_text(text)
    (folder.parent / "empty").mkdir()
    start, _ = cpu_seconds(replayer, folder.parent / "empty")
    whole, lines = cpu_seconds(replayer, folder)
    before = bytes_read()
    entries = store.runs(folder)
    read = bytes_read() - before

    assert len(lines) == 9980
    assert len(entries) == 10_000
    assert all(character.isprintable() for line in lines for character in line)
    assert read < 0.4 * sum(one.path.stat().st_size for one in entries)
    heads = head_seconds(folder)
    assert whole - start < 5 * heads, (whole, start, heads)
