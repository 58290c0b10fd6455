"""profile: what was measured is read again as it was, and anything else refused in a sentence."""

import json
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.results import profile
from replayer.results.profile import (
    COLUMNS,
    Gap,
    ProfileSource,
    ProfileWriter,
    ResourceProfile,
    StatementUse,
    TableUse,
    WorkingSet,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "profiles"
START = 1_795_000_000.0
SOURCE = ProfileSource(kind="live", engine="postgres", version="18.6", averaged_seconds=1.0)


def made(seconds: int = 10, *, start: float = START, **columns: ArrayLike) -> ResourceProfile:
    """Return a profile of seconds in a row; without columns, of commits that grow by 1."""
    ends = start + 1.0 + np.arange(seconds, dtype=np.float64)
    columns = columns or {"commits": np.arange(seconds, dtype=np.float64)}
    return ResourceProfile(
        SOURCE,
        ends=ends,
        spans=np.ones(seconds),
        columns={name: np.asarray(values, dtype=np.float64) for name, values in columns.items()},
    )


def same(one: ResourceProfile, other: ResourceProfile) -> bool:
    """Tell whether two profiles hold the same rows."""
    return (
        np.array_equal(one.ends, other.ends)
        and np.array_equal(one.spans, other.spans)
        and dict(one.columns).keys() == dict(other.columns).keys()
        and all(
            np.array_equal(values, other.columns[name], equal_nan=True)
            for name, values in one.columns.items()
        )
    )


def saved(path: Path, one: ResourceProfile | None = None) -> list[bytes]:
    """Save a profile and return the lines of its file."""
    profile.save(path, one or made())
    return path.read_bytes().splitlines(keepends=True)


def refusal(path: Path, kind: type[ReplayerError] = Impossible) -> str:
    """Return the one sentence with which a file is refused."""
    with pytest.raises(kind) as refused:
        profile.load(path)
    text = str(refused.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Rows, values that are not known, gaps, tables, statements and notes survive the file."""
    whole = replace(
        made(1500, commits=[*range(1499), np.nan], wal_mbps=[0.0] * 1500, sessions=[7] * 1500),
        gaps=(Gap(begin=START - 9, end=START, reason="the connection was lost"),),
        tables=(TableUse(name="public.orders", bytes=1 << 33, blocks_read=12.5),),
        statements=(StatementUse(kind="select", calls=9, share=0.9),),
        working_set=WorkingSet(bytes=1 << 30, method="counted"),
        notes=("pg_stat_statements is not there",),
    )
    saved(tmp_path / "a.jsonl", whole)

    loaded = profile.load(tmp_path / "a.jsonl")

    assert same(loaded, whole)
    for name in ("source", "gaps", "tables", "statements", "working_set", "notes"):
        assert getattr(loaded, name) == getattr(whole, name)


def test_what_is_added_minute_by_minute_is_one_profile(tmp_path: Path) -> None:
    """Each lot follows the one before, a newer table list replaces the old, gaps add up."""
    with ProfileWriter(tmp_path / "a.jsonl", SOURCE) as writer:
        writer.append(replace(made(60), tables=(TableUse(name="old", bytes=1),)))
        gap = Gap(begin=START + 60, end=START + 100, reason="a restart")
        writer.append(ResourceProfile(SOURCE, gaps=(gap,)))
        later = made(60, start=START + 100, sessions=np.full(60, 3.0))
        writer.append(replace(later, tables=(TableUse(name="new", bytes=2),)))
        writer.describe(SOURCE.model_copy(update={"cores": 4.0}))

    loaded = profile.load(tmp_path / "a.jsonl")

    assert loaded.ends.size == 120
    assert loaded.seconds == 120
    assert loaded.whole_seconds == 160
    assert np.isnan(loaded.column("sessions")[:60]).all()
    assert loaded.coverage("sessions") == pytest.approx(60 / 160)
    assert loaded.mean("sessions") == 3
    assert loaded.gaps == (gap,)
    assert [table.name for table in loaded.tables] == ["new"]
    assert loaded.source.cores == 4


def test_every_cut_loses_the_torn_line_and_no_more(tmp_path: Path) -> None:
    """Wherever a kill tears the file, the minutes before it are read; in the head nothing is."""
    path = tmp_path / "a.jsonl"
    with ProfileWriter(path, SOURCE) as writer:
        head = path.stat().st_size
        writer.append(made(60))
        first = path.stat().st_size
        writer.append(made(60, start=START + 60))
    data = path.read_bytes()

    for length in range(head + 1, len(data), 97):
        path.write_bytes(data[:length])
        if length < first:
            assert "no measured second" in refusal(path)
            continue
        loaded = profile.load(path)
        assert loaded.ends.size == (120 if length == len(data) else 60)
        assert bool(loaded.notes) is (length not in {first, len(data)})
    for length in range(20, head, 7):
        path.write_bytes(data[:length])
        assert "cut off" in refusal(path)


def test_a_refused_write_leaves_the_file_whole(tmp_path: Path) -> None:
    """Where only a part of a minute fits, the part is taken back and the error told."""
    path = tmp_path / "a.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ProfileWriter(path, SOURCE) as writer:
        writer.append(made(60))
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, hard))
        try:
            with pytest.raises(ReplayerError, match="cannot be written: File too large"):
                writer.append(made(60, start=START + 60))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == before
        writer.append(made(60, start=START + 60))

    assert profile.load(path).ends.size == 120


def test_a_file_that_is_there_is_not_touched(tmp_path: Path) -> None:
    """A profile never takes the place of another file."""
    (tmp_path / "a.jsonl").write_text("mine", encoding="utf-8")

    with pytest.raises(Impossible, match="already there"):
        profile.save(tmp_path / "a.jsonl", made())

    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8") == "mine"


def minute(**changed: object) -> str:
    """Return the line of a minute of two rows, changed."""
    plain = {"ends": [START, START + 1], "spans": 1.0, "columns": {"commits": [1.0, 2.0]}}
    return json.dumps({"minute": {**plain, **changed}})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (minute(columns={"commits": [1.0]}), "the column commits has 1 values for 2 rows"),
        (minute(columns={"comits": [1.0, 2.0]}), "no column 'comits' - did you mean commits?"),
        (minute(columns={"commits": [-1.0, 2.0]}), "commits is -1 in row 1"),
        (minute(columns={"commits": "1e999"}), "minute.columns.commits"),
        (minute().replace("2.0", "1e999"), "finite"),
        (minute().replace("2.0", "NaN"), "finite"),
        (minute().replace("2.0", "9" * 5000), "line 2"),
        (minute(ends=[START + 1, START]), "row 2 begins before"),
        (minute(ends=[START, START]), "row 2 begins before"),
        (minute(spans=0.0), "row 1 spans no time"),
        (minute(spans=[1.0, 5.0]), "row 2 begins before"),
        (minute(spans=[1.0]), "the column spans has 1 values"),
        (minute(more=1), "minute.more is unknown to format 1"),
        (minute(ends=None), "minute.ends"),
        ('{"wrong": 1}', "the key wrong is unknown"),
        ('{"gap": {"begin": 1}}', "the key gap.end is missing"),
        ("[" * 100_000, "it is not JSON"),
        ('{"minute":' * 100_000, "it is not JSON"),
        ("[1, 2]", "line 2"),
        ("not JSON", "it is not JSON"),
        ("\xff\xfe", "it is not JSON"),
        ("", "it is not JSON"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    """Each thing that a line can have wrong is one sentence with the file and what is wrong."""
    head = saved(tmp_path / "a.jsonl")[0]
    (tmp_path / "a.jsonl").write_bytes(head + line.encode("latin-1") + b"\n")

    assert reason in refusal(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a profile of replayer"),
        (b"\n", "not a profile of replayer"),
        (b"{}\n", "not a profile of replayer"),
        (b'{"profile": true, "source": {}}\n', "not a profile of replayer"),
        (b'{"profile": 0, "source": {}}\n', "not a profile of replayer"),
        (b'{"profile": 99, "source": {}, "new": 1}\n', "has format 99"),
        (b'{"profile": 1, "replayer": "1", "source": {}}\n', "line 1: the key source.kind"),
        (b"Linux 6.18 (host)\n\navg-cpu:  %user\n", "not a profile of replayer"),
        (b"\x00" * 10_000_000, "too large"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    """Empty, foreign and newer files are one sentence with what to do."""
    (tmp_path / "a.jsonl").write_bytes(data)

    assert reason in refusal(tmp_path / "a.jsonl")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe that nobody writes into are told at once."""
    os.mkfifo(tmp_path / "pipe")

    assert "is not there" in refusal(tmp_path / "none", NotFound)
    assert "directory" in refusal(tmp_path).lower()
    assert "not a file" in refusal(tmp_path / "pipe")


def test_more_rows_than_any_profile_are_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on rows holds while the file is read, not after it."""
    monkeypatch.setattr(profile, "MOST_ROWS", 100)
    head = saved(tmp_path / "a.jsonl", made(90))[0]
    assert profile.load(tmp_path / "a.jsonl").ends.size == 90
    (tmp_path / "a.jsonl").write_bytes(head + f"{minute()}\n".encode() * 51 + b"not JSON\n")

    assert "more rows" in refusal(tmp_path / "a.jsonl")


@pytest.mark.slow
def test_a_day_of_seconds_is_small_and_read_in_seconds(tmp_path: Path) -> None:
    """24 hours of 1 s in all columns are written minute by minute and loaded in few seconds."""
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {column.name: random.random(86_400) * 1e4 for column in COLUMNS[:25]}
    columns |= {column.name: np.zeros(86_400) for column in COLUMNS[25:]}

    profile.save(tmp_path / "a.jsonl", made(86_400, **columns))
    began = time.process_time()
    loaded = profile.load(tmp_path / "a.jsonl")
    took = time.process_time() - began

    assert loaded.ends.size == 86_400
    assert (tmp_path / "a.jsonl").stat().st_size < 30e6
    assert took < 10  # some 0.6 s here


def test_the_table_of_columns_can_be_a_header() -> None:
    """Names are unique and fit for CSV and Python; each has a unit, a kind and a meaning."""
    names = [column.name for column in COLUMNS]

    assert len(set(names)) == len(names)
    for column in COLUMNS:
        assert column.name.isidentifier()
        assert column.name.islower()
        assert column.unit
        assert column.meaning
        assert column.kind in {"rate", "gauge"}


def test_every_format_has_a_fixture_that_loads_with_all_that_it_holds() -> None:
    """Each format from the first to today's has a file that still loads, whole."""
    names = [path.name for path in sorted(FIXTURES.glob("format-*.profile"))]

    assert names == [f"format-{number}.profile" for number in range(1, profile.FORMAT + 1)]
    for name in names:
        loaded = profile.load(FIXTURES / name)
        assert loaded.ends.size == 12
        assert loaded.mean("cpu_cores") > 0
        assert loaded.source.probes
        assert loaded.gaps[0].reason
        assert loaded.tables[0].blocks_read == 2
        assert loaded.statements[0].calls == 10
        assert loaded.working_set is not None
        assert loaded.working_set.bytes == 1 << 20
        assert len(loaded.notes) == 1


def test_the_history_names_every_format() -> None:
    """The docstring's history has a line for each format, so that it is never forgotten."""
    numbers = [line.split()[0] for line in profile.__doc__.splitlines() if line[:1].isdigit()]

    assert numbers == [str(number) for number in range(profile.FORMAT, 0, -1)]
