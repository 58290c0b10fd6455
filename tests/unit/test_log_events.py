"""What the server's log tells becomes marks on a series."""

import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from replayer.engines import engine
from replayer.engines.connection import Database
from replayer.model import Series
from replayer.servers import log_events
from replayer.servers.data_folder import DataFolder
from replayer.servers.open import Server

LOG = """\
2026-11-20 10:00:00.000 UTC [7] LOG:  starting PostgreSQL 18.1 on x86_64-pc-linux-gnu
2026-11-20 10:00:05.250 UTC [9] LOG:  checkpoint starting: time
2026-11-20 10:00:06.500 UTC [11] LOG:  automatic vacuum of table "a.b.c": index scans: 0
\tpages: 0 removed, 10 remain
2026-11-20 10:00:07.750 UTC [9] LOG:  checkpoint complete: wrote 3 buffers (0.0%)
2026-11-20 10:00:08.000 UTC [12] ERROR:  deadlock detected
2026-11-20 10:09:00.000 UTC [9] LOG:  checkpoint starting: time
no time 2026-11-20 10:00:08.000 UTC [12] checkpoint starting
"""


def test_events_are_found_with_their_second(tmp_path: Path) -> None:
    """Checkpoints, autovacuum and deadlocks have a kind, a second and words; no other line."""
    log = tmp_path / "server.log"
    log.write_text(LOG)
    keys = engine.load("postgres").spec.server.log_events
    assert keys is not None
    began = datetime(2026, 11, 20, 10, 0, 5, tzinfo=UTC)
    found = [(mark.at, mark.kind, mark.text) for mark in log_events.marks(log, keys, began)]

    assert found == [
        (0.25, "checkpoint", "checkpoint starting: time"),
        (1.5, "autovacuum", 'automatic vacuum of table "a.b.c": index scans: 0'),
        (2.75, "checkpoint", "checkpoint complete: wrote 3 buffers (0.0%)"),
        (3.0, "deadlock", "deadlock detected"),
        (535.0, "checkpoint", "checkpoint starting: time"),
    ]


def test_a_checkpoint_of_the_real_server_is_a_mark(database: Database, server: Server) -> None:
    """A CHECKPOINT while a series runs is a mark in it, and one before it is none."""
    database.query("CHECKPOINT")
    time.sleep(0.01)  # the log's clock has milliseconds
    began = datetime.now(UTC)
    database.query("CREATE TABLE replayer_events (a int)")
    database.query("DROP TABLE replayer_events")
    database.query("CHECKPOINT")
    long = (datetime.now(UTC) - began).total_seconds() + 1
    series = Series(started=began.isoformat(), seconds=(long,), columns={"x": (1.0,)})
    marks = log_events.marked(series, server).marks

    assert {mark.kind for mark in marks} == {"checkpoint"}
    assert [mark.text.split(":")[0] for mark in marks] == [
        "checkpoint starting",
        "checkpoint complete",
    ]
    assert all(0 <= mark.at <= long for mark in marks)


def test_what_the_real_server_does_is_heard_while_it_runs(
    database: Database, server: Server
) -> None:
    """A CHECKPOINT since the last look is heard once; what was before is not."""
    database.query("CHECKPOINT")
    tail = log_events.Tail(server)
    before = list(tail.fresh())
    database.query("CREATE TABLE replayer_tail (a int)")
    database.query("DROP TABLE replayer_tail")
    database.query("CHECKPOINT")
    heard = list(tail.fresh())

    assert before == []
    assert [event.text.split(":")[0] for event in heard] == [
        "checkpoint starting",
        "checkpoint complete",
    ]
    assert list(tail.fresh()) == []


def test_a_new_log_begins_without_the_rest_of_the_old_one(tmp_path: Path) -> None:
    """The old one may have ended in the middle of a line, as a server that was killed leaves it."""
    log = DataFolder(tmp_path).log
    log.write_text("")
    (tmp_path / "data").mkdir()
    private = SimpleNamespace(
        kind="private", engine=engine.load("postgres"), data_directory=lambda: tmp_path / "data"
    )
    tail = log_events.Tail(cast("Server", private))
    log.write_text("2026-11-20 10:00:05.250 UTC [9] LOG:  che")
    assert list(tail.fresh()) == []
    log.rename(tmp_path / "old")
    log.write_text("2026-11-20 10:00:06.000 UTC [9] LOG:  checkpoint starting: time\n")

    assert [event.text for event in tail.fresh()] == ["checkpoint starting: time"]


def test_no_log_no_marks(tmp_path: Path) -> None:
    """A log that is not there has no events."""
    keys = engine.load("postgres").spec.server.log_events
    assert keys is not None

    assert not list(log_events.marks(tmp_path / "none", keys, datetime.now(UTC)))
