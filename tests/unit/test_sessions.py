"""The keys of a sessions step, its histogram, and pgio's line, without a server."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from replayer.engines.connection import Cells
from replayer.errors import ReplayerError, Skip
from replayer.load.server_clock import ClockReading, step_between
from replayer.load.spec import LoadSpec
from replayer.model import ReadOrigin, Steadiness
from replayer.steps.sessions import feasibility, preparation
from replayer.steps.sessions import outcome as sessions_outcome
from replayer.steps.sessions import window as sessions_window
from replayer.steps.sessions.feasibility import larger_tables, refuse_large
from replayer.steps.sessions.spec import Spec
from replayer.steps.sessions.window import SessionsWindow
from replayer.tables import pgio
from replayer.tables.pgio import ConnectionLost, SessionResult, TableSet
from replayer.watch.histogram import Latencies
from replayer.watch.ledger import ServerCounters
from tests.made import ledger

BLOCK = 8192
MIB = 1 << 20


def spec_of(**keys: Any) -> Spec:
    """Return a spec with these keys."""
    return Spec(step="sessions", name="sessions", **keys)


def window_of(rates: Sequence[int]) -> SessionsWindow:
    """Return a window of one session that read so many blocks in each second."""
    result = SessionResult(1, "pgio1", 255, 8)
    for second, rate in enumerate(rates):
        result.add(slice_of(began=100.0 + second, ended=101.0 + second, reads=rate))
    last = 100.0 + len(rates) + 0.001
    return sessions_window.SessionsWindow(
        ServerCounters(100.0, 0, 50),
        ServerCounters(last, 0, 50 + sum(rates)),
        7,
        7,
        results=[result],
    )


def slice_of(**own: object) -> dict[str, object]:
    """Return what the server says of a slice."""
    return {
        "selects": 3, "updates": 2, "deadlocks": 1, "began": 100.0, "ended": 100.5, "reads": 10,
        "hits": 1, "select_max": 0.1, "update_max": 0.2, "select_histogram": "5 2 9 1",
        "update_histogram": None, **own,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scale", "rows"),
    [
        ("1G", 131_072), ("8M", 1024), (131_072, 131_072), ("2048", 2048), ("1T", 134_217_728),
        ("131,072", 131_072), ("131_072", 131_072), (" 2048 ", 2048), ("2,048.0", 2048),
        ("16,384b", 2), ("1,024M", 131_072),
    ],
)  # fmt: skip
def test_scale_is_bytes_with_a_unit_and_blocks_without(scale: int | str, rows: int) -> None:
    """Pgio's rule: a suffix means bytes, a bare number blocks, however its thousands look."""
    assert spec_of(scale=scale).rows(BLOCK) == rows
    load = LoadSpec.model_validate({"step": "ramp", "scale": scale})
    assert load.tables(BLOCK).rows == rows


@pytest.mark.parametrize(
    "keys",
    [
        {"scale": "0"},
        {"scale": "-1G"},
        {"scale": "1X"},
        {"update_pct": 101},
        {"num_schemas": 0},
        {"run_time": "0s"},
        {"memory": "warm"},
        {"operations": 0},
        {"workunit": 255},
        {"access": "bitmap"},
    ],
)
def test_impossible_keys_are_refused(keys: dict[str, int] | dict[str, str]) -> None:
    """What pgio would take silently, or not at all, is an error here."""
    with pytest.raises(ValidationError):
        spec_of(**keys)


def test_defaults_are_those_of_pgio() -> None:
    """A step without keys is what pgio's shipped pgio.conf runs."""
    spec = spec_of()

    assert (spec.num_schemas, spec.num_threads, spec.work_unit, spec.update_work_unit) == (
        4,
        2,
        255,
        8,
    )
    assert (spec.update_pct, spec.scale, spec.run_time) == (0, "1G", 120)
    assert spec.asked == ReadOrigin.PHYSICAL
    assert spec_of(memory="cached").asked == ReadOrigin.CACHED


def test_buffers_are_small_against_the_tables_but_enough_for_all_sessions() -> None:
    """Blocks must be missed in the server's own cache, and every session needs some of its own."""
    assert spec_of(scale="1G").buffers(BLOCK) == 16 * MIB
    assert spec_of(scale="8M", num_schemas=2, num_threads=1).buffers(BLOCK) == MIB
    assert spec_of(scale="1G", num_threads=256).buffers(BLOCK) == 1024 * 8 * BLOCK
    assert spec_of(scale="1G", shared_buffers="1G").buffers(BLOCK) == 1 << 30


def test_line_is_the_one_that_pgio_prints() -> None:
    """Programs look for this line, byte for byte, with numbers cut as awk's %ld cuts them."""
    spec = spec_of(num_schemas=4, num_threads=1)

    assert sessions_outcome.pgio_line("pgio", spec, 300.97, 393_232.99, 15_711.5) == (
        "DBNAME:  pgio. 4 schemas, 1 threads(each). Run time: 300 seconds. "
        "RIOPS >393232< CACHE_HITS/s >15711<"
    )


@pytest.mark.parametrize("seconds", [1e-6, 5e-6, 37e-6, 0.00123, 0.5, 1.0, 63.0])
def test_bucket_stands_for_its_latency_within_two_percent(seconds: float) -> None:
    """The server's buckets lose at most 1 percent each way, and 1 us below 50 us."""
    bucket = math.floor(50 * math.log(1 + seconds * 1e6))

    assert sessions_outcome._middle(bucket, 100.0) / 1e9 == pytest.approx(
        seconds, rel=0.011, abs=1e-6
    )


def test_percentiles_come_from_all_sessions_and_never_exceed_the_longest() -> None:
    """Histograms of sessions are added, selects and updates apart and together."""
    short, long = (math.floor(50 * math.log(1 + us)) for us in (1000, 9000))
    one = SessionResult(1, "pgio1", 255, 8, selects=90, select_max=0.001, select={short: 90})
    two = SessionResult(2, "pgio1", 255, 8, updates=10, update_max=0.009, update={long: 10})
    latencies = sessions_outcome._latencies([one, two])
    together = Latencies.of(latencies.values())

    assert {kind: seen.operations for kind, seen in latencies.items()} == {
        "select": 90,
        "update": 10,
    }
    assert together.operations == 100
    assert together.percentile_ns(50) == pytest.approx(1e6, rel=0.02)
    assert together.percentile_ns(99) == pytest.approx(9e6, rel=0.02)
    assert together.percentile_ns(100) <= together.most_ns == 9e6


def test_slices_are_added_up() -> None:
    """A session's totals are the sums of its slices, from the first's begin to the last's end."""
    result = SessionResult(1, "pgio1", 255, 8)
    row = slice_of()
    result.add(row)
    result.add({**row, "began": 100.5, "ended": 101.0, "select_max": 0.05})

    assert (result.selects, result.updates, result.deadlocks) == (6, 4, 2)
    assert (result.began, result.ended, result.select_max) == (100.0, 101.0, 0.1)
    assert result.select == {5: 4, 9: 2}
    assert [tuple(done) for done in result.slices] == [(100.0, 100.5, 10, 1), (100.5, 101.0, 10, 1)]
    assert (result.select_blocks, result.update_blocks) == (6 * 255, 4 * 8)


def test_steadiness_is_told() -> None:
    """A run that is steady, still warms up, never settles or is too short says which."""
    assert sessions_outcome._steadiness(window_of([100] * 10)) == Steadiness(
        settled=True, words="steady"
    )
    short = sessions_outcome._steadiness(window_of([100] * 3))
    assert (short.settled, short.words) == (None, "too short to judge: 3 seconds")
    warming = sessions_outcome._steadiness(
        window_of([10 * second for second in range(1, 15)] + [150] * 6)
    )
    assert warming.settled is False
    assert "drifting by +" in warming.words
    assert warming.rule
    noisy = sessions_outcome._steadiness(
        window_of([95, 110, 92, 104, 87, 99, 112, 90, 105, 84, 108, 96])
    )
    assert noisy.settled is None
    assert noisy.words == "too noisy to tell in 12 seconds: a change of 20% may hide"
    never = sessions_outcome._steadiness(window_of([100, 10] * 6))
    assert (never.settled, never.words) == (False, "never steady")


@pytest.mark.parametrize("verdict", list(ReadOrigin))
def test_only_physical_sessions_are_held_against_a_device(verdict: ReadOrigin) -> None:
    """What came from memory, all of it or some, is not the device's."""
    spec = spec_of(num_schemas=4, num_threads=2)
    context: Any = SimpleNamespace(engine=SimpleNamespace(block_size=8192))

    found = sessions_outcome._physical_reads(spec, context, ledger(verdict))

    assert (found is not None) == (verdict is ReadOrigin.PHYSICAL)
    if found is not None:
        assert (found.depth, found.block_bytes, found.device) == (8, 8192, "vda")


def test_permutation_keeps_every_spot() -> None:
    """Each round of the order of keys can be undone, so no key is lost or met twice."""
    for rows in (2, 3, 1000, 4096, 5000):
        found = pgio._permutation(TableSet(1, rows, 9), "pgio1")
        spots = []
        for start in range(found["mask"] + 1):
            spot = start
            for n in (1, 2, 3):
                spot = (spot * found[f"factor{n}"] + found[f"addend{n}"]) & found["mask"]
                spot ^= spot >> found["shift"]
            spots.append(spot)

        assert sorted(spots) == list(range(found["mask"] + 1))
        assert found["mask"] + 1 >= rows


def test_sessions_draw_unlike_numbers() -> None:
    """Every session has a sequence of its own that the seed alone decides."""
    drawn = [sessions_window._random_seed(1, number) for number in range(1000)]

    assert len(set(drawn)) == 1000
    assert all(-1 <= value <= 1 for value in drawn)
    assert drawn[5] == sessions_window._random_seed(1, 5)
    assert drawn[5] != sessions_window._random_seed(2, 5)


@pytest.mark.parametrize(
    ("moved", "step"),
    [(10.0, 0.0), (10.4, 0.0), (9.9, 0.0), (13.0, 2.5), (7.0, -2.0), (-3590.0, -3599.0)],
)
def test_a_clock_that_was_set_is_seen_and_one_that_was_read_slowly_is_not(
    moved: float, step: float
) -> None:
    """Between the readings 9 to 10.5 s passed, as a busy server answered late."""
    second = 10**9
    first = ClockReading(1e9, 0, second // 2)
    last = ClockReading(1e9 + moved, int(9.5 * second), int(10.5 * second))

    assert step_between(first, last) == pytest.approx(step)


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        ([True, True], "the server refused a statement of 2 of 8 sessions (no 1)"),
        ([False], "1 of 8 sessions lost the server (no 1); the server's log says: PANIC: x"),
        (
            [True, False, True],
            "1 of 8 sessions lost the server (no 2); the server's log says: PANIC: x",
        ),
    ],
)
def test_only_sessions_without_a_connection_have_lost_the_server(
    refused: list[bool], sentence: str
) -> None:
    """If the server answers all of them, it refused their statements; else those count it lost."""
    lost = [
        ConnectionLost(number, f"no {number}", refused=one)
        for number, one in enumerate(refused, start=1)
    ]
    context: Any = SimpleNamespace(server=SimpleNamespace(read_last_words=lambda: "PANIC: x"))
    with pytest.raises(ReplayerError) as caught:
        sessions_window._refuse_lost(lost, 8, context)

    assert str(caught.value) == sentence


def place_of(memory: int, *, own: bool = True) -> Any:
    """Return the part of a context that says how much memory there is, and whose the server is."""
    return SimpleNamespace(
        host=SimpleNamespace(usable_memory_bytes=lambda: memory),
        server=SimpleNamespace(can_stop=own),
    )


def marked(*marks: str) -> Any:
    """Return a database whose tables pgio1, pgio2, ... have these marks of their loads."""
    rows = [{"name": f"pgio{n}", "made_as": mark} for n, mark in enumerate(marks, start=1)]
    return SimpleNamespace(execute=lambda _: rows)


@pytest.mark.parametrize("memory", ["cached", "direct", "cgroup"])
def test_tables_that_an_earlier_run_loaded_larger_must_fit_into_the_page_cache(
    tmp_path: Path, memory: str
) -> None:
    """Their files count, whatever scale is, and only for sessions from the page cache."""
    spec = spec_of(memory=memory, scale="1M", num_schemas=1)
    wanted = spec.tables(8192)
    file = tmp_path / "pgio1"
    file.write_bytes(bytes(4 << 20))
    larger = larger_tables(marked("512 rows, seed 0"), wanted)

    assert "loaded the tables with 512 rows each" in larger[0]
    assert "use the 128 of scale" in larger[0]
    refuse_large(spec, [file], larger, place_of(8 << 20))
    refuse_large(spec, [file], larger, place_of(2 << 20, own=False))
    if memory == "cached":
        with pytest.raises(Skip, match=r"4\.00 MiB, more than fits .* 512 rows .*--data-dir"):
            refuse_large(spec, [file], larger, place_of(2 << 20))
    else:
        refuse_large(spec, [file], larger, place_of(2 << 20))


def test_tables_of_the_wanted_rows_have_no_note() -> None:
    """The largest of them counts, and equal is not larger."""
    wanted = spec_of(scale=128, num_schemas=2).tables(8192)

    assert larger_tables(marked("128 rows, seed 0", "128 rows, seed 0"), wanted) == []
    assert "512" in larger_tables(marked("128 rows, seed 0", "512 rows, seed 0"), wanted)[0]


def test_tables_that_did_not_stay_in_memory_have_their_size_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only tables that fit were dropped or displaced by others."""
    file = tmp_path / "pgio1"
    file.write_bytes(bytes(4 << 20))
    half = SimpleNamespace(share=0.5, file_bytes=4 << 20)
    for module in (preparation, feasibility):
        monkeypatch.setattr(module, "residency", lambda _: half)
    spec = spec_of(memory="cached")

    (large,) = preparation.displaced(spec, [file], place_of(2 << 20))
    (fits,) = preparation.displaced(spec, [file], place_of(8 << 20))
    assert "more than fits into the page cache of a machine with 2.00 MiB" in large
    assert "displaced" not in large
    assert "dropped or displaced the rest" in fits


def progress(
    end: float, reads: int, *slices: tuple[float, float, int]
) -> Sequence[tuple[int, float]]:
    """Return the series of a window from second 100 to `end`, in steps of a second.

    The server counted `reads`.  `slices` are (begin, end, reads) of one session's work.
    """
    result = SessionResult(1, "pgio1", 255, 8)
    for began, ended, read in slices:
        result.add(slice_of(began=began, ended=ended, reads=read))
    window = sessions_window.SessionsWindow(
        ServerCounters(100.0, 0, 1000), ServerCounters(end, 0, 1000 + reads), 7, 10**9,
        results=[result],
    )  # fmt: skip
    return sessions_outcome._progress(window, "reads", 1.0)


@pytest.mark.parametrize(
    ("before", "after", "share", "notes"),
    [
        ((100, 90), (300, 290), 1.0, []),
        ((100, 90), (300, 190), 0.5, ["only 50% of the updated rows stayed"]),
        ((100, 90), (100, 90), None, []),
        ((100, 90), (40, 36), None, ["counters of updated rows were reset meanwhile"]),
        ((100, 90), (300, 80), None, ["counters of updated rows were reset meanwhile"]),
        ((100, 0), (110, 50), None, ["counters of updated rows were reset meanwhile"]),
    ],
)
def test_no_share_of_updates_is_made_of_counters_that_were_reset(
    before: tuple[int, int], after: tuple[int, int], share: float | None, notes: Sequence[str]
) -> None:
    """A quotient of two negative numbers looks like a share, and is none."""
    first, last = (Cells(zip(("updated", "hot"), row, strict=True)) for row in (before, after))
    window = window_of([10])
    window.updates = sessions_window._updates_between(first, last)
    told = sessions_outcome._update_notes(spec_of(update_pct=50), window)

    assert sessions_outcome._hot_share(window) == share
    assert [begin in note for begin, note in zip(notes, told, strict=True)] == [True] * len(notes)


def test_series_spreads_a_slice_over_its_time_and_adds_up_to_the_counters() -> None:
    """Counters move when slices end; the series shows when the work was done, all of it."""
    points = progress(103.1, 500, (100.5, 102.5, 200), (102.5, 103.0, 50))

    assert [clock for clock, _ in points] == [10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9, 4_100_000_000]
    assert [total for _, total in points] == pytest.approx([0, 100, 300, 500, 500])


def test_a_slice_after_the_last_bin_counts_in_it() -> None:
    """So it is if the server's clock was set meanwhile."""
    points = progress(102.0, 400, (100.0, 101.0, 100), (109.0, 110.0, 300))

    assert [total for _, total in points] == pytest.approx([0, 100, 400])


def test_slice_without_counts_of_its_own_is_weighed_by_its_blocks() -> None:
    """An engine that cannot count a session's misses still has a series, scaled to the counters."""
    result = SessionResult(1, "pgio1", 10, 5)
    result.add(slice_of(reads=None, hits=None))

    assert [tuple(done) for done in result.slices] == [(100.0, 100.5, 40, 40)]
