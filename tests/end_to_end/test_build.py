"""Building the table on the real server: its rows, its files, interruptions and refusals."""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.run.context import Context, Progress, Task
from replayer.run.step_recorder import StepRecorder
from replayer.servers.open import open_server
from replayer.steps.build import doubling
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec
from replayer.steps.flush import step as flush
from replayer.tables import persons, relations
from tests.burner import burners
from tests.command import Replayer
from tests.expected_rows import expected_rows
from tests.fixture_types import Surroundings
from tests.known import known
from tests.performed import performed, values
from tests.ready_made import copy, ready_data
from tests.slow_case import slow
from tests.waiting import wait_until

DOUBLINGS = 8
ROWS = 6 << DOUBLINGS
SEGMENT_ROWS = ROWS // 4
METRICS = {
    "build.rows": "rows", "build.elapsed": "s", "build.last_doubling": "s",
    "build.rows_per_second": "rows/s", "build.table_bytes": "bytes", "build.wal_bytes": "bytes",
}  # fmt: skip


def spec_of(**keys: object) -> Spec:
    """Return a small spec; every key can be set."""
    small = {"rows": ROWS, "segment_rows": SEGMENT_ROWS, "sessions": 2}
    return Spec.model_validate({"step": "build", "name": "build", **small, **keys})


def stored(database: Database) -> list[tuple[int, str]]:
    """Return the ids and last names that the table gives."""
    rows = database.query("SELECT id, lastname FROM persons1")
    return [(row["id"], row["lastname"]) for row in rows]


# Rows


@pytest.mark.parametrize(
    ("sessions", "keys"),
    [
        (1, {"layout": "columnstore"}),
        (4, {"layout": "columnstore"}),
        slow(4, {"layout": "columnstore", "compression": "none"}),
        (1, {"layout": "rowstore"}),
        (4, {"layout": "rowstore"}),
    ],
    ids=["1-pglz", "4-pglz", "4-none", "1-rowstore", "4-rowstore"],
)
def test_rows_are_those_of_plain_python(
    context: Context, database: Database, sessions: int, keys: dict[str, str]
) -> None:
    """For 1 and 4 sessions and each layout the rows are the same, each doubling with its time."""
    performed(build, spec_of(sessions=sessions, segment_rows=ROWS // 8, **keys), context)

    assert sorted(stored(database)) == sorted(expected_rows(DOUBLINGS))
    times = database.query('SELECT "time", count(*) AS n FROM persons1 GROUP BY 1 ORDER BY 1')
    assert [row["n"] for row in times] == [6] + [6 << number for number in range(DOUBLINGS)]


def test_columns_have_the_types_of_the_table(context: Context, database: Database) -> None:
    """persons1 is (id bigint, lastname varchar(255), time timestamp) in both layouts."""
    for layout in ("columnstore", "rowstore"):
        performed(build, spec_of(layout=layout, segment_rows=ROWS), context)
        found = database.query(
            "SELECT column_name AS name, data_type AS type, character_maximum_length AS length "
            "FROM information_schema.columns "
            "WHERE table_schema = 'replayer' AND table_name = 'persons1' ORDER BY ordinal_position"
        )

        assert [tuple(row.values()) for row in found] == [
            ("id", "bigint", None),
            ("lastname", "character varying", 255),
            ("time", "timestamp without time zone", None),
        ]


@pytest.mark.parametrize("rows", [1, 6, 7, 500])
def test_any_number_is_reached_by_doubling(context: Context, database: Database, rows: int) -> None:
    """The table has at least as many rows as wanted, and is one segment while it is small."""
    outcome = performed(build, spec_of(rows=rows), context)
    built = database.query("SELECT count(*) AS n FROM persons1")[0]["n"]

    assert built == values(outcome)["build.rows"] == max(6, 6 << ((rows - 1) // 6).bit_length())
    assert sorted(stored(database)) == sorted(expected_rows((built // 6).bit_length() - 1))


# What is reported


def test_outcome_tells_of_every_doubling(context: Context, database: Database) -> None:
    """Metrics have their names and units; the last doubling stands by itself with its CPU time."""
    outcome = performed(build, spec_of(), context)

    assert {one.metric: one.unit for one in outcome.measurements} == METRICS
    rows = outcome.tables["doublings"]
    assert [row["doubling"] for row in rows] == list(range(DOUBLINGS + 1))
    assert [row["rows"] for row in rows] == [6 << number for number in range(DOUBLINGS + 1)]
    assert all(row["seconds"] > 0 and row["wal_bytes"] > 0 for row in rows)
    assert values(outcome)["build.last_doubling"] == rows[-1]["seconds"]
    assert values(outcome)["build.wal_bytes"] == sum(row["wal_bytes"] for row in rows)
    assert values(outcome)["build.elapsed"] >= sum(row["seconds"] for row in rows)
    assert outcome.facts["segments"] == ROWS // SEGMENT_ROWS
    user = outcome.facts["last_doubling.server_user"]
    assert isinstance(user, float)
    assert user >= 0


@pytest.mark.slow
def test_build_and_flush_notice_the_work_of_other_programs(context: Context) -> None:
    """Their share of the processors is known for each time that is long enough to count ticks."""
    with burners():
        built = performed(build, spec_of(rows=6 << 18, segment_rows=6 << 16), context)
        flushed = performed(flush, flush.Spec(step="flush", name="flush"), context)

    for outcome, metric in ((built, "build.elapsed"), (flushed, "flush.elapsed")):
        share = outcome.foreign.cpu_share if outcome.foreign else None
        assert values(outcome)[metric] < 1.1 or (share or 0.0) > 0.05


def test_columnstore_keeps_the_order_and_knows_each_segment(
    context: Context, database: Database
) -> None:
    """The view follows the numbers of the rows; the catalogue has each segment's rows and span.

    The span is the smallest and the largest value of every column.
    """
    performed(build, spec_of(rebuild=False), context)
    rows = expected_rows(DOUBLINGS)
    found = database.query("SELECT * FROM persons1_segments ORDER BY segment")

    assert stored(database) == rows
    assert len(found) == ROWS // SEGMENT_ROWS
    for row in found:
        part = rows[row["first_row"] : row["first_row"] + row["rows"]]
        assert len(part) == SEGMENT_ROWS
        assert (row["id_min"], row["id_max"]) == (min(part)[0], max(part)[0])
        names = [name for _, name in part]
        assert (row["lastname_min"], row["lastname_max"]) == (min(names), max(names))


def test_table_bytes_are_those_on_disk(context: Context, database: Database) -> None:
    """The bytes reported are those of the files, but for the catalogue beside the segments.

    Each column of each segment is a table of its own, with its TOAST table and index.
    """
    outcome = performed(build, spec_of(rebuild=False), context)
    database.query("CHECKPOINT")
    files = relations.files(database, context.data_directory())
    catalogue = database.query(
        "SELECT sum(pg_total_relation_size(oid))::bigint AS n FROM pg_class "
        "WHERE relname IN ('persons1_build', 'persons1_doublings', 'persons1_segments')"
    )[0]["n"]

    size = sum(path.stat().st_size for path in files)
    assert size == values(outcome)["build.table_bytes"] + catalogue
    assert len(files) >= 3 * 3 * ROWS // SEGMENT_ROWS


# Again


def test_whole_table_is_reused_only_if_it_is_the_same(context: Context, no_table: None) -> None:
    """With rebuild = false a whole table of the same shape is taken, and nothing is measured."""
    performed(build, spec_of(), context)

    again = performed(build, spec_of(rebuild=False), context)
    other = performed(build, spec_of(rebuild=False, segment_rows=2 * SEGMENT_ROWS), context)

    assert again.facts["reused"] is True
    assert set(values(again)) == {"build.rows", "build.table_bytes"}
    assert "reused" in again.notes[0]
    assert "reused" not in other.facts
    assert set(values(other)) == set(METRICS)


@pytest.mark.slow
def test_whole_table_is_built_again(context: Context, database: Database) -> None:
    """By default an earlier table goes, with every relation that belonged to it."""
    performed(build, spec_of(), context)
    performed(build, spec_of(layout="rowstore"), context)
    left = database.query(
        "SELECT relname FROM pg_class WHERE relname ~ '^persons1_s[0-9]+_' AND relkind = 'r'"
    )

    assert left == []
    assert sorted(stored(database)) == sorted(expected_rows(DOUBLINGS))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["columnstore", "rowstore"])
def test_killed_build_goes_on_from_the_last_whole_doubling(
    context: Context, database: Database, no_table: None, replayer: Replayer, layout: str
) -> None:
    """After kill -9 in the middle of a doubling nothing of it counts, and the rest is built."""
    doublings, segment_rows = 14, 192
    keys = {"rows": 6 << doublings, "segment_rows": segment_rows, "layout": layout}
    child = _build_beside(context, replayer, keys)
    half_made = _wait_for_half_a_doubling(database, child, segment_rows)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    _wait_until_alone(database)
    state = known(persons.state(database))

    assert half_made
    assert not state.whole
    assert state.doubling is not None
    assert any(one.doubling > state.doubling for one in persons.segments(database))
    assert sorted(stored(database)) == sorted(expected_rows(state.doubling))
    outcome = performed(build, spec_of(**keys), context)
    assert "went on after doubling" in outcome.notes[0]
    assert set(values(outcome)) == {"build.rows", "build.table_bytes", "build.last_doubling"}
    assert len(outcome.tables["doublings"]) == doublings + 1
    assert sorted(stored(database)) == sorted(expected_rows(doublings))


@pytest.mark.slow
def test_interrupted_build_tells_what_it_did(
    context: Context, database: Database, no_table: None, tmp_path: Path, replayer: Replayer
) -> None:
    """Ctrl-C in the middle ends with status 130, and the doublings done are in the result file."""
    child = _build_beside(context, replayer, {"rows": 6 << 14, "segment_rows": 192})
    _wait_for_half_a_doubling(database, child, 192)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=300)[1]
    (path,) = tmp_path.glob("*.json")
    run = json.loads(path.read_text())

    assert child.returncode == 130
    assert "Traceback" not in said
    assert run["status"] == "interrupted"
    (step,) = run["steps"]
    assert step["status"] == "interrupted"
    done = step["tables"]["doublings"]
    assert [row["doubling"] for row in done] == list(range(len(done)))
    assert (known(persons.state(database)).doubling or 0) >= done[-1]["doubling"] > 4


def _build_beside(
    context: Context, replayer: Replayer, keys: dict[str, object]
) -> "subprocess.Popen[str]":
    """Start `replayer run` on the shared server, in a process of its own."""
    workload = replayer.folder / "w.toml"
    lines = "\n".join(f'{key} = "{value}"' for key, value in keys.items())
    workload.write_text(f'# x\ndescription = "x"\n[[step]]\nstep = "build"\n{lines}\n')
    url = context.server.start().render_as_string()
    words = ["run", workload, "--results", replayer.folder, "--engine", url]
    return replayer.start(*words, popen={"stdout": subprocess.DEVNULL})


def _wait_for_half_a_doubling(
    database: Database, child: "subprocess.Popen[str]", segment_rows: int
) -> bool:
    """Wait until some segments of a later doubling are there, and not all; tell whether it was."""
    counts = (
        "SELECT count(*) AS made, (SELECT max(rows) FROM persons1_doublings) AS rows "
        "FROM persons1_segments WHERE doubling > "
        "(SELECT max(doubling) FROM persons1_doublings WHERE rows IS NOT NULL)"
    )
    while child.poll() is None:
        with contextlib.suppress(ReplayerError):  # the catalogue is not there yet
            found = database.query(counts)[0]
            if found["made"] > 4 and found["rows"] // segment_rows >= 16:
                return True
        time.sleep(0.002)
    raise AssertionError(f"the build ended before it could be killed: {child.communicate()[1]}")


def _wait_until_alone(database: Database) -> None:
    """Wait until the sessions of a killed client are gone."""
    # In another database is the session by which this process's own watchdog asks the server: it
    # stays for as long as the server runs once a test has waited for some seconds.
    others = (
        "SELECT count(*) AS n FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    wait_until(lambda: not database.query(others)[0]["n"])


@pytest.mark.slow
def test_removal_that_was_cut_short_is_finished(
    context: Context, database: Database, no_table: None
) -> None:
    """A table whose removal was interrupted does not count, and the next build starts anew."""
    performed(build, spec_of(), context)
    database.execute(VerbName("table/forget"))
    database.execute(VerbName("columnstore/unpublish"))
    database.execute(VerbName("columnstore/discard"), {"segment": 1})

    outcome = performed(build, spec_of(rebuild=False), context)

    assert set(values(outcome)) == set(METRICS)
    assert stored(database) == expected_rows(DOUBLINGS)


@pytest.mark.slow
def test_server_that_dies_leaves_the_whole_doublings(
    surroundings: Surroundings, server_home: Path
) -> None:
    """After kill -9 of the server one sentence says what is kept, and the next build goes on."""
    folder = copy(ready_data("postgres"), server_home / "dies")
    with open_server(engines.load("postgres"), data_dir=folder) as server:
        server.start()
        context = surroundings(server)
        spec = spec_of(rows=6 << 13, segment_rows=192)
        cut_short = _at_doubling(context, 12, lambda: os.kill(server.pids()[0], 9))
        with pytest.raises(ReplayerError) as failed:
            build.run(spec, cut_short)

        assert failed.value.status == 1
        assert re.search(r"rows \(\d+ doublings\) are kept", str(failed.value))
        assert "\n" not in str(failed.value)
        assert len(cut_short.findings.outcome().tables["doublings"]) >= 12
        server.stop()
        outcome = performed(build, spec, context)
        assert values(outcome)["build.rows"] == 6 << 13
        with context.database() as database:
            assert sorted(stored(database)) == sorted(expected_rows(13))


def _at_doubling(context: Context, number: int, action: Callable[[], object]) -> Context:
    """Return the context with a progress display that acts once a doubling has begun."""
    shown = context.progress
    acted: list[object] = []

    class Watching:
        def __init__(self, inner: Task) -> None:
            self.advance, self._inner = inner.advance, inner

        def update(
            self, *, done: float | None = None, total: float | None = None, note: str | None = None
        ) -> None:
            found = re.match(r"doubling (\d+)", note or "")
            if found and int(found[1]) >= number and not acted:
                acted.append(action())
            self._inner.update(done=done, total=total, note=note)

    class Display:
        say = shown.say
        tell = shown.tell

        @contextlib.contextmanager
        def task(self, title: str, total: float | None = None) -> Iterator[Task]:
            with shown.task(title, total) as inner:
                yield Watching(inner)

    display: Progress = Display()
    return dataclasses.replace(context, progress=display, findings=StepRecorder())


# Refusals


def test_a_run_ends_if_the_sessions_of_a_build_are_refused(replayer: Replayer) -> None:
    """A server with one connection to spare: one sentence, and no worker process is left."""
    few = {"max_connections": 2, "superuser_reserved_connections": 0, "max_wal_senders": 0}
    words = [part for name, value in few.items() for part in ("--pg-set", f"{name}={value}")]
    ended = replayer.process(
        "run", "smoke", "--without", "all", *words, "--pg-set", "reserved_connections=0", status=1
    )

    assert "too many clients already" in ended.err


def test_foreign_table_is_refused_and_untouched(
    context: Context, database: Database, no_table: None
) -> None:
    """A table of that name that replayer did not make stays, with its rows."""
    database.query("CREATE TABLE persons1 (precious text)")
    try:
        database.query("INSERT INTO persons1 VALUES ('mine')")
        with pytest.raises(Impossible, match="persons1 is there and was not made by replayer"):
            performed(build, spec_of(), context)

        assert database.query("SELECT precious FROM persons1") == [{"precious": "mine"}]
    finally:
        database.query("DROP TABLE persons1")


def test_tables_outside_of_our_schema_are_not_met(
    context: Context, database: Database, no_table: None
) -> None:
    """A user's own persons1 stays as it is while ours is built, used and removed."""
    database.query("CREATE TABLE public.persons1 (precious text)")
    try:
        performed(build, spec_of(segment_rows=ROWS), context)
        performed(build, spec_of(segment_rows=ROWS, layout="rowstore"), context)

        assert database.query("SELECT count(*) AS n FROM public.persons1") == [{"n": 0}]
    finally:
        database.query("DROP TABLE public.persons1")


def test_too_little_space_is_refused_with_both_numbers(
    context: Context, database: Database, no_table: None
) -> None:
    """Before anything is written, what is needed and what is free are told."""
    with pytest.raises(Impossible) as refused:
        performed(build, spec_of(rows=6 << 36, segment_rows=None), context)

    assert re.search(r"needs about [\d,.]+ TiB .* has [\d,.]+ [KMGT]iB free", str(refused.value))
    assert persons.state(database) is None


@pytest.mark.slow
def test_estimate_is_at_least_what_is_taken(context: Context, database: Database) -> None:
    """The space that is asked for is enough, and not absurd: at most three times what is used."""
    for keys in ({"compression": "pglz"}, {"compression": "none"}, {"layout": "rowstore"}):
        rows, segment_rows = 6 << 16, 6 << 14
        outcome = performed(build, spec_of(rows=rows, segment_rows=segment_rows, **keys), context)
        (row,) = database.execute(
            VerbName(f"{outcome.facts['layout']}/estimate"),
            rows=rows,
            lastname_bytes=doubling.average_name(16),
            compression=keys.get("compression", ""),
            segments=4,
        )

        used = values(outcome)["build.table_bytes"]
        assert used <= row["table_bytes"] <= 3 * used


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"layout": "columstore"}, "did you mean columnstore"),
        ({"segment_rows": 100}, "6 times a power of 2"),
        ({"segment_rows": 6 << 20}, "at most 1572864"),
        ({"rows": 6 << 40, "segment_rows": None}, "longer than 255 characters"),
    ],
)
def test_impossible_tables_are_refused_before_the_first_step(
    context: Context, keys: dict[str, Any], told: str
) -> None:
    """What no server could build is refused by the check, in one sentence."""
    with pytest.raises(Impossible, match=told):
        build.check(spec_of(**keys), context)


def test_too_many_segments_are_refused_with_what_to_set(context: Context, no_table: None) -> None:
    """A query that could not lock all segments is foreseen, and the setting to raise is named."""
    with pytest.raises(Impossible, match=r"set max_locks_per_transaction to [0-9]+ or more"):
        performed(build, spec_of(rows=6 << 30, segment_rows=6), context)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"compression": "zstd"}, "is not in this server .*it has (lz4 and )?pglz and none"),
        ({"compression": "pglz", "layout": "rowstore"}, "has no compression"),
    ],
)
def test_unknown_compression_is_refused(
    context: Context, no_table: None, keys: dict[str, str], told: str
) -> None:
    """A compression that the server or the layout does not have is named, with those it has."""
    with pytest.raises(Impossible, match=told):
        performed(build, spec_of(**keys), context)


def test_lz4_is_refused_where_the_server_lacks_it(context: Context, database: Database) -> None:
    """The wheel's server is built without lz4: asking for it says what there is."""
    names = [row["name"] for row in database.execute(VerbName("columnstore/compressions"))]
    if "lz4" in names:
        pytest.skip("this server has lz4")

    with pytest.raises(Impossible, match=r"'lz4' is not in this server .* pglz and none"):
        performed(build, spec_of(compression="lz4"), context)
    assert performed(build, spec_of(segment_rows=ROWS), context).facts["compression"] == "pglz"


def test_unknown_layout_names_the_nearest(context: Context) -> None:
    """A misspelt layout is answered with the right one."""
    with pytest.raises((Impossible, NotFound), match="columnstore"):
        performed(build, spec_of(layout="column-store"), context)


# Another server


@pytest.mark.slow
def test_debian_15_builds_with_lz4(
    surroundings: Surroundings, server_home: Path, postgres15: Path
) -> None:
    """PostgreSQL 15 from Debian has lz4, uses it by default, and gives the same rows."""
    data = copy(ready_data("postgres", postgres15), server_home / "fifteen")
    with open_server(engines.load("postgres"), bindir=postgres15, data_dir=data) as server:
        server.start()
        context = surroundings(server)
        large = {"rows": 6 << 15, "segment_rows": 6 << 14}
        default = performed(build, spec_of(**large), context)
        plain = performed(build, spec_of(**large, compression="none"), context)
        with contextlib.closing(Database(server.engine, server.start())) as database:
            assert stored(database) == expected_rows(15)

        assert default.facts["compression"] == "lz4"
        sizes = [values(one)["build.table_bytes"] for one in (default, plain)]
        assert sizes[0] < 0.8 * sizes[1]


# A disk that fills


def _fill(ballast: Path) -> None:
    """Write until the disk is full."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))


@pytest.mark.slow
@pytest.mark.root
def test_disk_that_fills_keeps_the_whole_doublings(
    surroundings: Surroundings, server_home: Path
) -> None:
    """When the disk is full one sentence says so and what is kept; with space the build goes on."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mount = server_home / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200m", "tmpfs", mount], check=True)
    try:
        with open_server(engines.load("postgres"), data_dir=mount / "data") as server:
            server.start()
            context = surroundings(server)
            spec = spec_of(rows=6 << 18, segment_rows=6 << 13, layout="rowstore")
            ballast, reserve = mount / "ballast", mount / "reserve"
            # However much the server had taken before the disk was full, it can recover.
            reserve.write_bytes(bytes(300 << 20))
            with pytest.raises(ReplayerError) as failed:
                performed(build, spec, _at_doubling(context, 16, lambda: _fill(ballast)))

            assert failed.value.status == 1
            assert re.search(r"rows \(\d+ doublings\) are kept", str(failed.value))
            assert re.search("No space left|closed the connection|gone", str(failed.value))
            for file in (ballast, reserve):
                file.unlink()
            server.stop()
            outcome = performed(build, spec, context)
            assert "went on after doubling" in outcome.notes[0]
            with context.database() as database:
                assert sorted(stored(database)) == sorted(expected_rows(18))
    finally:
        subprocess.run(["umount", mount], check=True)
