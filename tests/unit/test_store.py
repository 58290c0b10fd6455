"""store: result files are whole, found again, and refused in one sentence if they are not ours."""

import errno
import json
import math
import os
import re
import threading
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.model import Better, Measurement, Run, Status, StepResult
from replayer.results import editing, store

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"


@pytest.fixture
def run() -> Run:
    """Return the run of the newest format's fixture."""
    return store.load(FIXTURES / f"format-{store.FORMAT}.json")


def renamed(run: Run, number: int, **changes: object) -> Run:
    """Return a copy of a run with another id."""
    return run.model_copy(update={"id": f"20261120-{number:06d}-demo-3f2a", **changes})


def edited(run: Run, path: Path, **changes: object) -> Path:
    """Write a run's JSON with some top-level keys changed, and return the path."""
    path.write_text(json.dumps({**json.loads(store.text(run)), **changes}), encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    """Return the sentence with which a file is refused."""
    with pytest.raises(Impossible) as refused:
        store.load(path)
    text = str(refused.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_a_changed_run_is_read_by_those_who_read_it_before(run: Run, tmp_path: Path) -> None:
    """A new label does not open a private file to all, and root's change leaves it to its owner."""
    path = tmp_path / f"{run.id}.json"
    store.save(path, run)
    path.chmod(0o600)
    owner = (1234, 1234) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)

    editing.change(path, lambda stored: stored.model_copy(update={"label": "b", "writer": ""}))

    about = path.stat()
    assert (about.st_mode & 0o777, about.st_uid, about.st_gid) == (0o600, *owner)
    assert store.load(path).label == "b"


def test_every_format_has_a_fixture_that_loads() -> None:
    """Each format from the first to today's has a file that still loads, and nothing else has."""
    expected = {f"format-{number}.json" for number in range(1, store.FORMAT + 1)}

    assert {path.name for path in FIXTURES.glob("*.json")} == expected
    for name in expected:
        assert store.load(FIXTURES / name).steps


def test_the_history_names_every_format() -> None:
    """The docstring's history has a line for each format, so that it is never forgotten."""
    numbers = [line.split()[0] for line in store.__doc__.splitlines() if line[:1].isdigit()]

    assert numbers == [str(number) for number in range(store.FORMAT, 0, -1)]


def test_there_is_an_upgrade_from_every_older_format() -> None:
    """The chain of upgrades has no gap."""
    assert set(store._UPGRADES) == set(range(1, store.FORMAT))


def test_an_older_format_is_upgraded_step_by_step(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is two formats old goes through both upgrades, in order."""
    monkeypatch.setattr(store, "FORMAT", 3)
    monkeypatch.setattr(
        store,
        "_UPGRADES",
        {
            1: lambda keys: {**keys, "format": 2, "label": keys["label"] + " one"},
            2: lambda keys: {**keys, "format": 3, "label": keys["label"] + " two"},
        },
    )

    loaded = store.load(edited(run, tmp_path / "old.json", format=1))

    assert (loaded.format, loaded.label) == (3, f"{run.label} one two")


def test_a_run_survives_saving_and_loading(run: Run, tmp_path: Path) -> None:
    """What was saved is loaded as it was, series, histograms and all."""
    path = store.reserve(tmp_path, run)
    store.save(path, run)

    assert store.load(path) == run


def test_the_file_exists_before_anything_is_measured(run: Run, tmp_path: Path) -> None:
    """Reserving leaves a file that says `running`, with the run's id as its name."""
    started = renamed(run, 1, status=Status.RUNNING, finished=None, steps=())

    path = store.reserve(tmp_path / "results", started)

    assert path == tmp_path / "results" / f"{started.id}.json"
    assert store.load(path) == started


def test_a_folder_that_cannot_be_made_is_told_at_once(run: Run, tmp_path: Path) -> None:
    """A results folder below nothing, in a file, or with the same id in it is refused at once."""
    (tmp_path / "file").write_text("")
    store.reserve(tmp_path / "there", run)

    for where, said in (
        (tmp_path / "no" / "such", "No such file"),
        (tmp_path / "file", "is a file, not a folder"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / "there", "already there"),
    ):
        with pytest.raises(Impossible, match=said):
            store.reserve(where, run)
    assert not (tmp_path / "no").exists()


def test_an_unwritable_folder_is_refused(run: Run, tmp_path: Path) -> None:
    """A folder without write permission is a sentence with what to do, and leaves nothing."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(Impossible, match="--results"):
            store.reserve(tmp_path, run)
    finally:
        tmp_path.chmod(0o700)


def test_saving_replaces_the_file_whole(run: Run, tmp_path: Path) -> None:
    """A reader beside a writer sees a whole run at every moment, and no draft is left."""
    path = store.reserve(tmp_path, run)
    versions = [run.model_copy(update={"label": "x" * 5000 * n}) for n in range(5)]
    stop, broken = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            try:
                store.load(path)
            except ReplayerError as error:
                broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(4):
        for version in versions:
            store.save(path, version)
    stop.set()
    reader.join()

    assert broken == []
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_keeps_the_old_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the run saved before is still there, the error says why, no draft stays."""
    path = store.reserve(tmp_path, run)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReplayerError, match="No space left on device"):
        store.save(path, renamed(run, 2))
    monkeypatch.undo()

    assert store.load(path) == run
    assert list(tmp_path.iterdir()) == [path]


def test_a_deleted_folder_is_an_error_in_one_sentence(run: Run, tmp_path: Path) -> None:
    """Saving where the folder went away raises ReplayerError."""
    with pytest.raises(ReplayerError, match="No such file"):
        store.save(tmp_path / "gone" / "run.json", run)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_no_file_can_hold_is_left_out_and_told(
    run: Run, tmp_path: Path, value: float
) -> None:
    """A step that measured NaN does not spoil the file: the metric is named in a note."""
    bad = Measurement(metric="flush.odd", value=value, unit="s", better=Better.LESS)
    step = run.steps[1].model_copy(update={"measurements": (*run.steps[1].measurements, bad)})
    path = store.reserve(tmp_path, run.model_copy(update={"steps": (step,)}))

    loaded = store.load(path).steps[0]

    assert loaded.measurements == run.steps[1].measurements
    assert any("flush.odd" in note for note in loaded.notes)


def test_a_label_that_is_no_text_is_stored(run: Run, tmp_path: Path) -> None:
    """Bytes of a command line that are not UTF-8 become question marks, not an error."""
    found = run.model_copy(update={"label": os.fsdecode(b"k\xff"), "host": {"host.name": "\ud800"}})

    loaded = store.load(store.reserve(tmp_path, found))

    assert (loaded.label, loaded.host["host.name"]) == ("k?", "?")


def test_a_file_is_readable_by_eye_and_by_diff(run: Run) -> None:
    """One measurement a line, a column of a series on one line, and still plain JSON."""
    text = store.text(run)

    assert json.loads(text)["id"] == run.id
    assert any(line.strip().startswith('{"metric": "walk.files"') for line in text.splitlines())
    assert any(line.strip().startswith('"vmstat.us": [') for line in text.splitlines())


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_told_as_such(run: Run, tmp_path: Path, share: float) -> None:
    """A file that ends early is called cut off, wherever it ends."""
    path = tmp_path / "cut.json"
    text = store.text(run).rstrip()
    path.write_text(text[: int(len(text) * share)], encoding="utf-8")

    assert "cut off" in refusal(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"DBNAME:  pgio. 4 schemas", "not JSON"),
        (b"\x1f\x8b\x08\x00\x00", "not JSON"),
        (b"[1, 2]", "not a run of replayer"),
        (b"3", "not a run of replayer"),
        (b'{"fio version": "fio-3.33", "jobs": []}', "not a run of replayer"),
        (b'{"format": 1}', "not a run of replayer"),
        (b'{"format": true, "id": "", "host": {}, "workload": {}}', "not a run of replayer"),
        (b'{"format": 0, "id": "", "host": {}, "workload": {}}', "not a run of replayer"),
        (b'{"a": ' * 5000, "not JSON"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    """Anything that is not a run is refused with what it is instead."""
    path = tmp_path / "foreign.json"
    path.write_bytes(text)

    assert said in refusal(path)


def test_a_newer_format_asks_for_an_upgrade(run: Run, tmp_path: Path) -> None:
    """A file of a later replayer is refused with both formats and what to do."""
    said = refusal(edited(run, tmp_path / "new.json", format=store.FORMAT + 1))

    assert f"format {store.FORMAT + 1}" in said
    assert "upgrade replayer" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"label": 3}, "label should be a valid string"),
        ({"status": "great"}, "status should be"),
        ({"started": None}, "started should be"),
        ({"workload": {}}, "workload.name is missing"),
        ({"surplus": 1}, "the key surplus is unknown"),
        ({"steps": [{}]}, "steps.0"),
        ({"steps": "none"}, "steps should be"),
        ({"host": {"a": {"b": 1}}}, "host.a"),
    ],
)
def test_a_field_that_is_wrong_is_named(
    run: Run, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """A file edited by hand is refused with the key that is wrong."""
    assert said in refusal(edited(run, tmp_path / "edited.json", **changes))


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "1e999", '"12"', "null"])
def test_a_value_that_is_no_finite_number_is_refused(
    run: Run, tmp_path: Path, written: str
) -> None:
    """A measurement must be a number on loading too, and the sentence says where it is not."""
    path = tmp_path / "odd.json"
    path.write_text(store.text(run).replace('"value": 393232.4', f'"value": {written}'))

    said = refusal(path)

    assert "finite" in said or "steps.4.measurements.0.value" in said


def test_missing_files_are_not_found(tmp_path: Path) -> None:
    """A path that is not there is NotFound, one that is a folder or unreadable Impossible."""
    with pytest.raises(NotFound, match="not there"):
        store.load(tmp_path / "no.json")
    with pytest.raises(Impossible, match="Is a directory"):
        store.load(tmp_path)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("stock", "20261120-154500-demo-stock-"),
        ("", "20261120-154500-demo-"),
        ("../../etc/passwd", "20261120-154500-demo-etc-passwd-"),
        ("a b\tc\n\x1b[31m", "20261120-154500-demo-a-b-c-31m-"),
        ("kernel 6.12.0-104", "20261120-154500-demo-kernel-6.12.0-104-"),
        ("ядро", "20261120-154500-demo-"),
        ("...", "20261120-154500-demo-"),
        ("x" * 500, "20261120-154500-demo-" + "x" * 40 + "-"),
    ],
)
def test_an_id_is_a_safe_file_name(label: str, expected: str) -> None:
    """Whatever the label, the id is a short ASCII file name in UTC that no shell needs to quote."""
    east = timezone(timedelta(hours=5, minutes=45))
    started = datetime(2026, 11, 20, 21, 30, 0, tzinfo=east)

    found = store.identify(started, "demo", label)

    assert found[:-4] == expected
    assert len(found[-4:]) == 4
    assert set(found[-4:]) <= set("0123456789abcdef")


def test_ids_of_one_second_differ() -> None:
    """Two runs started in the same second get different ids, but for a rare chance."""
    now = datetime.now(UTC)

    assert len({store.identify(now, "demo") for _ in range(20)}) > 15


@pytest.fixture
def results(run: Run, tmp_path: Path) -> Path:
    """Return a folder with three runs, started in another order than their names'."""
    where = tmp_path / "results"
    for number, label, hour in ((1, "uek", 3), (2, "stock", 1), (3, "uek", 2)):
        one = renamed(run, number, label=label, started=f"2026-11-20T0{hour}:00:00+00:00")
        store.save(store.reserve(where, one), one)
    return where


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("20261120-000002-demo-3f2a", 2),
        ("20261120-000003", 3),
        ("stock", 2),
        ("uek", 1),
        ("latest", 1),
    ],
)
def test_a_run_is_found_by_what_people_type(results: Path, wanted: str, expected: int) -> None:
    """An id, its start, a label (the newest run of it) and `latest` (by start) find a run."""
    assert store.find(wanted, results).stem == f"20261120-00000{expected}-demo-3f2a"


def test_a_run_is_found_by_its_path(results: Path) -> None:
    """A path needs no results folder."""
    path = next(results.glob("*.json"))

    assert store.find(str(path), "nowhere") == path


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("stok", "did you mean stock"),
        ("zzzzzz", "replayer list runs"),
        ("", "replayer list runs"),
        ("./no.json", "is not there"),
        ("/tmp", "is a folder; .* --results"),
    ],
)
def test_a_run_that_is_not_there_is_told_with_the_nearest(
    results: Path, wanted: str, said: str
) -> None:
    """What finds nothing is NotFound with the nearest name or how to see them all."""
    with pytest.raises(NotFound, match=said):
        store.find(wanted, results)


def test_a_folder_that_may_not_be_read_is_not_called_empty(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's results are refused with the reason: `there are none` would be wrong."""

    def refuse(_: object) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)

    for read in (store.names, store.runs, store.none_in, partial(store.find, "latest")):
        with pytest.raises(Impossible, match="cannot be read: Permission denied"):
            read(results)


def test_only_a_folder_that_is_not_there_has_no_runs(results: Path) -> None:
    """The default folder is made by the first run; a file in its place is a mistake."""
    assert store.names(results / "missing") == []
    (results / "file").write_text("")
    with pytest.raises(Impossible, match=r"file cannot be read: Not a directory"):
        store.names(results / "file")


def test_a_folder_that_was_named_must_be_there_to_be_read(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped --results is not called a folder without runs."""
    monkeypatch.setenv("REPLAYER_RESULTS", str(results / "missing"))
    assert store.folder_to_read(None) == results / "missing"
    assert store.folder_to_read(results) == results
    with pytest.raises(NotFound, match=r"missing is not there"):
        store.folder_to_read(results / "missing")


def test_an_ambiguous_start_is_refused(results: Path) -> None:
    """The start of several ids is refused with how many there are, never one of them chosen."""
    with pytest.raises(Impossible, match="start of 3 runs"):
        store.find("20261120", results)


def test_no_results_at_all_says_how_to_make_some(tmp_path: Path) -> None:
    """Without any runs the sentence says which command makes one."""
    for wanted in ("latest", "demo"):
        with pytest.raises(NotFound, match="replayer run"):
            store.find(wanted, tmp_path / "none")


def test_runs_that_cannot_be_read_are_not_called_none(run: Run, tmp_path: Path) -> None:
    """Where all runs are of a newer format or damaged, they are named, and what to do."""
    text = store.text(run)
    newer = text.replace(f'"format": {store.FORMAT}', '"format": 99')
    for number in range(5):
        (tmp_path / f"{number}.json").write_text(newer)

    for wanted in ("latest", "demo"):
        with pytest.raises(NotFound, match=r"no runs.*[(]0[.]json: .* upgrade replayer.* 2 more"):
            store.find(wanted, tmp_path)


@pytest.mark.parametrize("host", [None, [], "x"])
def test_what_cannot_be_loaded_for_its_host_is_not_listed_as_done(
    run: Run, tmp_path: Path, host: object
) -> None:
    """A run whose facts are damaged is unreadable in a list as it is in a report."""
    path = tmp_path / "20261120-000001-demo-3f2a.json"
    path.write_text(json.dumps(json.loads(store.text(run)) | {"host": host}))

    assert "host" in refusal(path)
    assert isinstance(store.summary(path), store.Unreadable)


def test_an_id_is_found_even_if_other_files_cannot_be_read(results: Path) -> None:
    """A broken file beside it does not keep a run from being found."""
    (results / "broken.json").write_text("{")

    assert store.find("latest", results).stem == "20261120-000001-demo-3f2a"


def test_runs_are_listed_by_start_and_the_unreadable_with_their_reason(
    results: Path, run: Run
) -> None:
    """Listing sorts by start, tells of what is not a run, and never fails because of it."""
    text = store.text(run)
    (results / "cut.json").write_text(text[: len(text) // 2])
    (results / "fio.json").write_text('{"jobs": []}')
    (results / "newer.json").write_text(text.replace(f'"format": {store.FORMAT}', '"format": 99'))
    (results / "folder.json").mkdir()

    listed = store.runs(results)

    unreadable = {one.path.name: one.reason for one in listed if isinstance(one, store.Unreadable)}
    assert {name: reason.split(":")[0] for name, reason in unreadable.items()} == {
        "cut.json": "it is cut off in the middle, so its end is lost",
        "fio.json": "it is not a run of replayer",
        "folder.json": "Is a directory",
        "newer.json": unreadable["newer.json"].split(":")[0],
    }
    assert "upgrade replayer" in unreadable["newer.json"]
    runs = [one for one in listed if isinstance(one, store.StoredRun)]
    assert [(one.started[11:13], one.label) for one in runs] == [
        ("01", "stock"),
        ("02", "uek"),
        ("03", "uek"),
    ]
    assert runs[0].kernel == run.host["kernel.release"]
    assert runs[0].engine == "postgres 18.6"


@pytest.mark.parametrize(
    ("number", "listed"),
    [('"repeat": 1,', 3), ('"value": 1.008,', 3), ('"os.odd": 1,', 4)],
)
def test_a_number_that_is_too_large_for_a_float_does_not_end_a_list(
    results: Path, run: Run, number: str, listed: int
) -> None:
    """A file with the number 1e999 is refused, and all other runs are listed."""
    odd = run.model_copy(update={"id": "huge", "host": {"os.odd": 1, **run.host}})
    path = store.reserve(results, odd)
    text = path.read_text()
    assert number in text
    path.write_text(text.replace(number, re.sub(r"[\d.]+", "1e999", number), 1))

    assert "a number that is not finite" in refusal(path)
    runs = [one for one in store.runs(results) if isinstance(one, store.StoredRun)]
    assert len(runs) == listed
    assert all(math.isfinite(value) for one in runs for _, value, _ in one.leading)


def test_only_the_head_of_a_long_file_is_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing reads no series: a whole file is never read where its head tells enough."""
    long = run.model_copy(update={"steps": run.steps * 20})
    path = store.reserve(tmp_path, long)
    assert path.stat().st_size > 10 * store._HEAD
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("the whole file was read"))

    assert [one.id for one in store.runs(tmp_path) if isinstance(one, store.StoredRun)] == [run.id]


def test_the_order_of_keys_does_not_matter(run: Run, tmp_path: Path) -> None:
    """A file that another program wrote with its keys sorted, on one line, is listed and loaded."""
    path = tmp_path / "sorted.json"
    path.write_text(json.dumps(json.loads(store.text(run)), sort_keys=True))

    assert store.load(path) == run
    assert isinstance(store.runs(tmp_path)[0], store.StoredRun)


def test_a_run_without_a_host_or_an_engine_is_listed(run: Run, tmp_path: Path) -> None:
    """A run that failed before its engine started is a run all the same."""
    store.reserve(tmp_path, run.model_copy(update={"engine": None, "host": {}, "steps": ()}))

    (found,) = store.runs(tmp_path)

    assert isinstance(found, store.StoredRun)
    assert (found.kernel, found.engine) == ("", "")


def test_times_of_all_zones_are_sorted_as_moments(run: Run, tmp_path: Path) -> None:
    """Starts are compared as moments, with or without a zone; another text comes first."""
    starts = {
        1: "2026-11-20T10:00:00+05:00",
        2: "2026-11-20T06:00:00+00:00",
        3: "2026-11-20T05:30:00",
    }
    for number, started in {**starts, 4: "yesterday"}.items():
        store.reserve(tmp_path, renamed(run, number, started=started))

    listed = [one for one in store.runs(tmp_path) if isinstance(one, store.StoredRun)]
    assert [int(one.id[9:15]) for one in listed] == [4, 1, 3, 2]


def test_the_results_folder_is_chosen_asked_or_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """--results wins over $REPLAYER_RESULTS, which wins over ./results."""
    monkeypatch.delenv("REPLAYER_RESULTS", raising=False)
    assert store.folder() == Path("results")
    monkeypatch.setenv("REPLAYER_RESULTS", "/var/results")
    assert store.folder() == Path("/var/results")
    assert store.folder("mine") == Path("mine")


def test_the_fixture_has_every_field(run: Run) -> None:
    """The fixture of the newest format fills every field, so that each is kept loadable."""
    empty = {name for name in Run.model_fields if not getattr(run, name)} - {"error"}

    assert empty == set()
    fields = set(StepResult.model_fields) - {"step", "name", "repeat", "status", "started"}
    for name in fields - {"elapsed", "spec"}:
        assert any(getattr(step, name) for step in run.steps), name


def test_columns_that_are_not_wanted_are_left_out_and_nothing_else(
    stored: Run, tmp_path: Path
) -> None:
    """Loaded thin, a run lacks those columns and is the same otherwise."""
    path = tmp_path / "run.json"
    store.save(path, stored)
    names = {
        name for step in stored.steps if step.series is not None for name in step.series.columns
    }
    kept = min(names)
    thin = store.load(path, lambda name: name == kept)

    assert len(names) > 1
    for step, whole in zip(thin.steps, stored.steps, strict=True):
        columns = whole.series.columns if whole.series else {}
        assert (step.series.columns if step.series else {}) == {
            name: values for name, values in columns.items() if name == kept
        }
        assert step.model_copy(update={"series": None}) == whole.model_copy(update={"series": None})


def test_a_file_of_another_layout_is_loaded_whole(stored: Run, tmp_path: Path) -> None:
    """A run that another program wrote on one line has all of its columns."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(stored.model_dump(mode="json")))

    assert store.load(path, lambda _name: False) == stored


def test_passes_of_an_older_result_are_no_events(run: Run, tmp_path: Path) -> None:
    """The rates of the probe `cpu` had sysbench's unit in format 1; old and new ones compare."""
    keys = json.loads(edited(run, tmp_path / "now.json", format=1, advice=[]).read_text())
    rate = {"metric": "cpu.events.processes_1", "value": 1.0, "unit": "events/s", "better": "more"}
    for step in keys["steps"]:
        step["measurements"].append(rate)
    path = tmp_path / "old.json"
    path.write_text(json.dumps(keys))

    units = {m.unit for m in store.load(path).steps[0].measurements if m.metric == rate["metric"]}
    assert units == {"passes/s"}
