"""replayer profile: what a source did is what the profile says, and the source does not notice."""

import itertools
import math
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sqlalchemy.engine import URL

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible
from replayer.machine.host import Host
from replayer.report.document import Facts
from replayer.report.documents import profile as report
from replayer.results import profile
from replayer.results.profile import ResourceProfile
from replayer.servers.open import Server, open_server
from replayer.shortlist import demands
from replayer.sizing import session, source
from tests import servers
from tests.command import Replayer
from tests.conftest import missing
from tests.halting import go_on, halt
from tests.told import line_with
from tests.waiting import wait_until

PGBENCH = Path("/usr/lib/postgresql/15/bin/pgbench")
BLOCK = 8192
SECRET = "hunter2-hunter2"
"""A password in the URL, which no server here asks for."""


class Profiler(NamedTuple):
    """A `replayer profile` that runs, the file that it writes and the first line that it said."""

    process: subprocess.Popen[str]
    out: Path
    first: str


Start = Callable[..., Profiler]
Execute = Callable[[str], Sequence[Mapping[str, Any]]]


@pytest.fixture
def shop(server: Server) -> Iterator[URL]:
    """Return the owner's URL of a database, with a role `monitor` that has pg_monitor."""
    own = server.start()
    there = own.set(database="shop")
    with closing(Database(server.engine, own, first=())) as database:
        database.query("CREATE DATABASE shop")
        database.query("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
        database.query("CREATE ROLE nobody_special LOGIN")
    yield there
    with closing(Database(server.engine, server.start(), first=())) as database:
        database.query("DROP DATABASE shop WITH (FORCE)")
        database.query("DROP ROLE monitor")
        database.query("DROP ROLE nobody_special")


@pytest.fixture
def owner(server: Server, shop: URL) -> Execute:
    """Return a function that executes a statement in the shop as the server's owner."""

    def execute(statement: str) -> Sequence[Mapping[str, Any]]:
        with closing(Database(server.engine, shop, first=())) as database:
            return database.query(statement)

    return execute


def typed(url: URL, user: str = "") -> str:
    """Return a URL as it is typed, of a user with a password if one is named."""
    named = url.set(username=user, password=SECRET) if user else url
    return named.set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def profiler(shop: URL, replayer: Replayer) -> Start:
    """Return a function that starts `replayer profile` as a user and returns it once it watches."""
    numbers = itertools.count()

    def start(*words: str, patch: str = "") -> Profiler:
        out = replayer.folder / f"{next(numbers)}.jsonl"
        code = f"import sys; {patch}\nfrom replayer.__main__ import main; sys.exit(main())"
        process = replayer.start(
            *("profile", typed(shop, "monitor"), "--out", out, *words),
            command=(sys.executable, "-c", code),
        )
        assert process.stderr
        first = line_with(process.stderr, re.compile("^profiling postgresql://"))
        return Profiler(process, out, first)

    return start


def ended(profiler: Profiler) -> tuple[ResourceProfile, str]:
    """Wait for a profiler's end; return its profile and all that it printed."""
    out, err = profiler.process.communicate(timeout=600)
    assert profiler.process.returncode == 0, out + err
    return checked(profiler.out, out + profiler.first + err)


def rows_until(profiler: Profiler, moment: float) -> None:
    """Wait until the rows that a profiler has saved reach beyond a second since 1970."""

    def reach() -> bool:
        try:
            return bool(profile.load(profiler.out).ends[-1] > moment)
        except Impossible:
            return False

    wait_until(reach)


class Clock:
    """A clock on which nothing takes time but to rest."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """Return the seconds that were rested."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Rest, which takes a moment."""
        self._now += seconds
        time.sleep(0.02)


@pytest.fixture
def profiled(
    replayer: Replayer, shop: URL, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[ResourceProfile, str]]:
    """Return a function that profiles the shop as a user for five rows.

    It returns the profile and all that was printed.
    """
    monkeypatch.setattr(source, "time", Clock())

    def profiled(user: str) -> tuple[ResourceProfile, str]:
        words = ("profile", typed(shop, user), "--for", "5s", "--out", "a.jsonl")
        return checked(replayer.folder / "a.jsonl", "".join(replayer(*words)))

    return profiled


def checked(file: Path, printed: str) -> tuple[ResourceProfile, str]:
    """Return a profile and what was printed, once neither has a password or what cannot be."""
    assert "Traceback" not in printed
    assert SECRET not in printed
    assert SECRET not in file.read_text(encoding="utf-8")
    loaded = profile.load(file)
    for name, values in loaded.columns.items():
        assert not (values < 0).any(), name
    return loaded, printed


def total(loaded: ResourceProfile, column: str) -> float:
    """Return what a column adds up to; a row in which it is not known is an error."""
    values = loaded.column(column)
    assert not np.isnan(values).any(), column
    return float((values * loaded.spans).sum())


def pgbench(shop: URL, *words: str) -> int:
    """Run pgbench on the shop; return how many transactions it made."""
    if not PGBENCH.is_file():
        missing("postgresql-15", f"{PGBENCH} is not there")
    command = [str(PGBENCH), *words, typed(shop)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    count = re.search(r"transactions actually processed: (\d+)", done.stdout)
    return int(count[1]) if count else 0


def wal_position(owner: Execute) -> float:
    """Return the bytes of log that the server has written since it was made."""
    return float(owner("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS n")[0]["n"])


@pytest.mark.slow
def test_known_rates_are_found_again(
    server: Server, shop: URL, owner: Execute, profiler: Start, tmp_path: Path
) -> None:
    """Commits, WAL bytes, statements' rows and block reads of `pgbench -R`, within 2 percent."""
    script = tmp_path / "one_block.sql"
    with server.settings({"shared_buffers": "4MB", "checkpoint_timeout": "1h"}):
        pgbench(shop, "-i", "-q", "-s", "20")
        owner("VACUUM")
        pages = "SELECT relpages AS n FROM pg_class WHERE relname = 'pgbench_accounts'"
        blocks = owner(pages)[0]["n"]
        script.write_text(
            f"\\set block random(0, {blocks - 1})\n"
            "SELECT abalance FROM pgbench_accounts WHERE ctid = ('(' || :block || ',1)')::tid;\n"
        )
        owner("CHECKPOINT")
        running = profiler()
        time.sleep(1.5)
        before = wal_position(owner)
        writes = pgbench(shop, "-n", "-N", "-R", "200", "-T", "4", "-c", "2")
        bytes_of_log = wal_position(owner) - before
        # A session tells what it has done once a second, and when it ends.
        time.sleep(2.5)
        changed = time.time() - 1
        reads = pgbench(shop, "-n", "-R", "1000", "-T", "4", "-c", "2", "-f", str(script))
        time.sleep(2.5)
        running.process.send_signal(signal.SIGINT)
        loaded, text = ended(running)

    assert total(loaded, "commits") == pytest.approx(writes + reads, rel=0.02)
    assert total(loaded, "wal_mbps") * 1e6 == pytest.approx(bytes_of_log, rel=0.02)
    assert total(loaded, "tuples_inserted") == pytest.approx(writes, rel=0.02)
    assert total(loaded, "tuples_updated") == pytest.approx(writes, rel=0.02)
    # Of the blocks a share of 512 / `blocks`, 1.6 percent, is found in the buffers.
    later = loaded.ends > changed
    for column, unit in (("blocks_read", 1), ("io_read_client_mbps", BLOCK / 1e6)):
        read = (loaded.column(column) * loaded.spans)[later].sum() / unit
        assert read == pytest.approx(reads * (1 - 512 / blocks), rel=0.02), column
    assert loaded.gaps == ()
    assert "of a core" in text


def no_spike(loaded: ResourceProfile, column: str = "commits", most: float = 2000) -> None:
    """Hold that no row says more than the load can have been."""
    assert np.nanmax(loaded.column(column)) < most


def load_of(shop: URL, seconds: float, rate: float = 200) -> subprocess.Popen[bytes]:
    """Start pgbench with a load of reads that takes some seconds, and return its process."""
    words = ("-n", "-S", "-R", str(rate), "-T", str(seconds), "-c", "2")
    return subprocess.Popen([PGBENCH, *words, typed(shop)], stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_resets_and_lost_connections_are_gaps(
    server: Server, shop: URL, owner: Execute, profiler: Start
) -> None:
    """A reset, a killed session, a crash and a restart: a gap each, and the rows go on after it."""
    pgbench(shop, "-i", "-q")
    before = owner("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS x")[0]["x"]
    with load_of(shop, 9):
        running = profiler()
        time.sleep(3)
        owner("SELECT pg_stat_reset()")
        time.sleep(3)
        mine = owner(
            "SELECT pg_terminate_backend(pid) AS done, usename, state, application_name "
            "FROM pg_stat_activity WHERE usename = 'monitor'"
        )
        time.sleep(4)
    server.stop()
    server.start()
    time.sleep(4)
    after = owner("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS x")[0]["x"]
    running.process.send_signal(signal.SIGINT)
    loaded, text = ended(running)

    assert [row["application_name"] for row in mine] == ["replayer profile"]
    assert mine[0]["state"] == "idle"
    assert before == after, "the profiler's own session took a transaction id"
    reasons = [gap.reason for gap in loaded.gaps]
    assert len(reasons) == 3, reasons
    assert "statistics were reset" in reasons[0]
    assert "terminating connection due to administrator command" in reasons[1]
    assert all("\n" not in reason for reason in reasons)
    assert 0.5 < loaded.gaps[0].end - loaded.gaps[0].begin < 3
    no_spike(loaded)
    for gap in loaded.gaps:
        begins = loaded.ends - loaded.spans
        assert not ((loaded.ends > gap.begin + 0.01) & (begins < gap.end - 0.01)).any()
        assert (begins > gap.end - 0.01).sum() >= 1, "no row after a gap"
    assert loaded.seconds + sum(gap.end - gap.begin for gap in loaded.gaps) == (
        pytest.approx(loaded.whole_seconds, abs=0.1)
    )
    assert "3 gaps" in text


def test_a_clock_that_is_set_is_a_gap_and_times_never_come_twice(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Set back a minute and forward an hour: two gaps, times that rise, and rates as before."""
    offset = [timedelta(0)]

    class Wall(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + offset[0]

    monkeypatch.setattr(session, "datetime", Wall)
    # It says after each reading that it should be saved, and does not rest.
    monkeypatch.setattr(source, "SAVED_SECONDS", 0.0)
    monkeypatch.setattr(source, "MOST_COST", math.inf)
    begin = time.monotonic()
    url = typed(server.start())
    with closing(
        source.Watch(source.ProfileRequest(engines.of_url(url), url, 600.0, 0.1))
    ) as watch:
        for reading, _ in enumerate(watch.run(), start=1):
            if reading == 9:
                break
            seconds = {3: -60, 6: 3600}.get(reading)
            offset[0] = offset[0] if seconds is None else timedelta(seconds=seconds)
        made = watch.unsaved()
    profile.save(tmp_path / "a.profile", made)
    loaded = profile.load(tmp_path / "a.profile")
    elapsed = time.monotonic() - begin

    back, forward = loaded.gaps
    assert "clock was set back 60.0 s" in back.reason
    assert "clock was set forward 3660.0 s" in forward.reason
    assert back.end - back.begin < elapsed
    assert 3660 < forward.end - forward.begin < 3660 + elapsed
    # Of nine readings there are eight spans, and two of them are gaps.
    assert loaded.ends.size == 6
    assert (np.diff(loaded.ends) > 0).all()
    assert 0.1 < loaded.seconds < elapsed


@pytest.mark.slow
def test_a_server_that_stands_still_for_seconds_is_one_long_row(
    server: Server, shop: URL, profiler: Start
) -> None:
    """Stopped for 3 s it has no gap and no spike: the row is as long as it took."""
    pgbench(shop, "-i", "-q")
    with load_of(shop, 9):
        running = profiler("--for", "9s")
        time.sleep(3)
        halted(server, 3)
        loaded, _ = ended(running)

    assert loaded.gaps == ()
    # An answer's time is the middle of its wait, which is of 2 to 3 s.
    assert 1.8 < loaded.spans.max() < 6
    no_spike(loaded)
    assert loaded.whole_seconds == pytest.approx(loaded.seconds, abs=0.01)


def halted(server: Server, seconds: float) -> None:
    """Halt all processes of the server for some seconds."""
    pids = server.pids()
    halt(pids)
    try:
        time.sleep(seconds)
    finally:
        go_on(pids)


@pytest.mark.slow
def test_a_silent_server_is_a_gap_and_ctrl_c_ends_it_with_what_there_is(
    server: Server, shop: URL, profiler: Start
) -> None:
    """Halted for longer than anybody waits it is a gap, and Ctrl-C ends the wait."""
    running, other = profiler(), profiler()
    time.sleep(3)
    stopper = threading.Timer(4.0, other.process.send_signal, (signal.SIGINT,))
    stopper.start()
    halted(server, 32)
    time.sleep(6)
    running.process.send_signal(signal.SIGINT)
    loaded, _ = ended(running)
    early, text = ended(other)

    assert len(loaded.gaps) == 1
    assert "went silent" in loaded.gaps[0].reason
    assert loaded.gaps[0].end - loaded.gaps[0].begin > 25
    assert loaded.ends[-1] > loaded.gaps[0].end
    assert early.ends.size >= 2
    assert text.startswith("stopped: ")


@pytest.mark.slow
def test_a_kill_loses_what_was_not_saved_and_no_more(shop: URL, profiler: Start) -> None:
    """After a kill -9 the file holds every lot that was saved; SIGTERM ends as Ctrl-C does."""
    patch = "import replayer.sizing.source as s; s.SAVED_SECONDS = 3.0; s.MOST_COST = 1.0"
    killed, stopped = profiler(patch=patch), profiler(patch=patch)
    time.sleep(9)
    at = time.time()
    killed.process.kill()
    stopped.process.send_signal(signal.SIGTERM)
    full, text = ended(stopped)
    killed.process.wait()
    part = profile.load(killed.out)

    # Saved every 3 s; a busy machine is given as long again.
    assert at - part.ends[-1] < 3 + 3
    assert at - full.ends[-1] < 1 + 2
    assert "stopped: " in text


def test_a_role_without_rights_is_told_what_it_cannot_see(
    owner: Execute, profiled: Callable[[str], tuple[ResourceProfile, str]]
) -> None:
    """What is hidden is unknown and not 0; a view that is refused is a note."""
    owner("REVOKE SELECT ON pg_stat_wal FROM PUBLIC")
    try:
        loaded, text = profiled("nobody_special")
    finally:
        owner("GRANT SELECT ON pg_stat_wal TO PUBLIC")

    assert loaded.ends.size == 5
    assert np.isnan(loaded.column("sessions")).all()
    assert "wal_mbps" not in loaded.columns
    assert not np.isnan(loaded.column("commits")).any()
    notes = "\n".join(loaded.notes)
    assert "what other users' sessions do cannot be seen: GRANT pg_monitor TO nobody_sp" in notes
    assert len(re.findall("^the log is not read: .*permission denied", notes, re.MULTILINE)) == 1
    assert text.count("the log is not read") == 1


def test_profiles_of_two_databases_are_of_one_server(
    shop: URL, profiled: Callable[[str], tuple[ResourceProfile, str]]
) -> None:
    """Each says that it is of all databases, and they are not added up."""
    made, text = profiled("monitor")
    there = typed(shop.set(database="postgres"), "monitor")
    with closing(
        source.Watch(source.ProfileRequest(engines.of_url(there), there, 600.0, 1.0))
    ) as watch:
        other = replace(made, source=watch.source)

    assert "with all databases of that server" in text
    facts = next(p for p in report.document(report.summary(made)).parts if isinstance(p, Facts))
    assert ("databases", "all of the server") in facts.pairs
    assert made.source.place != other.source.place
    with pytest.raises(Impossible, match="are of one server"):
        demands.gather({"shop": made, "other": other}, demands.DemandOptions(window=2.0))


def test_the_disks_of_the_log_and_of_tablespaces_count(
    shop: URL, owner: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests of all disks are added up, with a note; what is not seen has one, too."""
    (directory,) = (row["data_directory"] for row in owner("SHOW data_directory"))
    places = [f"{directory}/{name}" for name in ("far_disk", "hidden_disk")]
    real = Host.block_device

    def block_device(host: Host, path: Path) -> str | None:
        named = {"pg_wal": "loop0", "far_disk": "loop1", "hidden_disk": None}
        return named.get(path.name, real(host, path))

    monkeypatch.setattr(Host, "block_device", block_device)
    there = typed(shop, "monitor")
    order = source.ProfileRequest(engines.of_url(there), there, 600.0, 1.0)
    for place in places:
        owner(f"COPY (SELECT 1) TO PROGRAM 'mkdir {place}'")
        owner(f"CREATE TABLESPACE {Path(place).name} LOCATION '{place}'")
    try:
        with closing(source.Watch(order)) as watch:
            made, notes = watch.source, watch.unsaved().notes
    finally:
        for place in places:
            owner(f"DROP TABLESPACE {Path(place).name}")
            owner(f"COPY (SELECT 1) TO PROGRAM 'rmdir {place}'")

    data = real(Host(), directory)
    assert made.device == f"{data}+loop0+loop1"
    for what, device in (("the log", "loop0"), ("tablespace far_disk", "loop1")):
        assert sum(f"{what} is on {device}, and the data on {data}" in note for note in notes) == 1
    (hidden,) = (note for note in notes if "hidden_disk" in note)
    assert "its reads and writes may not be in the profile" in hidden


def test_what_cannot_be_profiled_is_one_sentence(shop: URL, replayer: Replayer) -> None:
    """No server, a time without a row, a file that is there: status 2 and one line."""
    here = typed(shop.set(username="monitor"))
    there = replayer.folder / "there"
    there.write_text("mine", encoding="utf-8")
    for words, reason in (
        (["postgresql://localhost:1/x"], "refused a connection"),
        (["mysql-server"], "URL"),
        ([here, "--every", "1ms"], "--every"),
        ([here, "--out", there], "already there"),
        ([here, "--out", "/proc/none"], "cannot be written"),
        (["singlestore://root@localhost:1/x"], "refused a connection"),
    ):
        assert reason in replayer("profile", *words, status=2).err
    assert there.read_text(encoding="utf-8") == "mine"


def test_tables_that_are_locked_do_not_hold_it_up(
    server: Server,
    shop: URL,
    owner: Execute,
    profiled: Callable[[str], tuple[ResourceProfile, str]],
) -> None:
    """An exclusive lock on a table and a blocked session: the profile goes on and counts both."""
    owner("CREATE TABLE accounts AS SELECT 1 AS balance")
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
    with (
        closing(Database(server.engine, shop, first=())) as holder,
        closing(Database(server.engine, shop, first=())) as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.query("BEGIN")
        holder.query("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        blocked = pool.submit(waiter.query, "SELECT count(*) FROM accounts")
        wait_until(lambda: owner(waits))
        # It ends while the lock is held.
        loaded, _ = profiled("monitor")
        assert not blocked.done()
        holder.query("COMMIT")

    assert loaded.gaps == ()
    assert loaded.ends.size == 5
    for column in ("lock_waits", "sessions_waiting_lock", "sessions_waiting", "sessions_active"):
        assert loaded.column(column)[-1] == 1, column
    assert loaded.column("sessions_idle_in_transaction")[-1] == 1
    assert loaded.column("sessions")[-1] >= 2


@pytest.mark.slow
def test_statements_are_counted_where_their_extension_is(
    server: Server, shop: URL, owner: Execute, profiler: Start
) -> None:
    """pg_stat_statements: as many as pgbench made, without the profiler's own, and their mix."""
    with server.settings({"shared_preload_libraries": "pg_stat_statements"}):
        owner("CREATE EXTENSION pg_stat_statements")
        pgbench(shop, "-i", "-q")
        # What was done before the first row, or after the last whole one, is in none.
        patch = (
            "import math; from replayer.sizing import source; source.SAVED_SECONDS = 0.5; "
            "source.MOST_COST = math.inf"
        )
        running = profiler("--every", "200ms", patch=patch)
        rows_until(running, time.time())
        done = pgbench(shop, "-n", "-N", "-R", "100", "-T", "9", "-c", "2")
        rows_until(running, time.time())
        running.process.send_signal(signal.SIGINT)
        loaded, _ = ended(running)

    # BEGIN, UPDATE, SELECT, INSERT and END of each transaction.
    assert total(loaded, "statements") == pytest.approx(5 * done, rel=0.02)
    mix = {use.kind: use for use in loaded.statements}
    assert mix["update"].calls == done
    assert mix["insert"].calls == done
    assert mix["other"].calls >= 2 * done
    assert mix["select"].calls >= done
    assert sum(use.share for use in loaded.statements) == pytest.approx(1)
    written = mix["update"].wal_bytes
    assert written is not None
    assert written > 100 * done
    (accounts,) = [use for use in loaded.tables if use.name == "public.pgbench_accounts"]
    assert accounts.tuples_written == done
    assert accounts.blocks_hit + accounts.blocks_read > 4 * done
    # Each transaction touches one of 100,000 rows, at random, through the index.
    assert loaded.working_set is not None
    assert loaded.working_set.bytes is not None
    assert loaded.source.database_bytes is not None
    assert 0 < loaded.working_set.bytes < loaded.source.database_bytes


DONE = {
    "postgres": (
        ("blocks_hit", "tuples_returned", "wal_mbps", "sessions", "blocks_written_by_backends"),
        {14: ("wal_syncs", "wal_records"), 16: ("io_extend_mbps",), 0: ("commits", "checkpoints")},
    ),
    "mysql": (("blocks_hit", "commits", "selects", "wal_syncs", "tuples_returned"), {}),
    "mariadb": (("blocks_hit", "selects", "io_fsyncs", "tuples_returned"), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*servers.SERVERS, "postgresql-15", "mariadb-10"])
def test_every_version_is_profiled(
    name: str,
    other_server: Callable[[str], Path],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    own_home: Path,
) -> None:
    """The views of each version say what 300 statements did, and every column is known."""
    # A reading a second, whatever it costs, and an answer after each.
    monkeypatch.setattr(source, "SAVED_SECONDS", 1.0)
    monkeypatch.setattr(source, "MOST_COST", 1.0)
    kind, version = name.split("-")
    engine = {"postgresql": "postgres"}.get(kind, kind)
    own = {"postgresql-15": "postgres15", "mariadb-10": "mariadbd"}.get(name)
    folder = request.getfixturevalue(own) if own else other_server(name)
    folder = folder.parent if folder.is_file() else folder
    with open_server(engines.load(engine), bindir=folder) as server:
        there = server.start()
        scheme = "postgresql" if engine == "postgres" else "mysql"
        url = there.set(drivername=scheme).render_as_string(hide_password=False)
        watch = source.Watch(source.ProfileRequest(engines.of_url(url), url, 600.0, 1.0))
        begun, over = threading.Event(), threading.Event()

        def read() -> None:
            """Watch from before the first statement until two readings after the last one."""
            left = 2
            for _ in watch.run():
                begun.set()
                left -= over.is_set()
                if not left:
                    return

        with closing(watch):
            rows = threading.Thread(target=read)
            rows.start()
            assert begun.wait(300)
            # A session of PostgreSQL tells at its end, or once a second, what it has done.
            with closing(Database(server.engine, there)) as database:
                database.query("CREATE TABLE things (id int PRIMARY KEY, v int)")
                for number in range(100):
                    database.query(f"INSERT INTO things VALUES ({number}, 1)")
                    database.query(f"UPDATE things SET v = 2 WHERE id = {number}")
                    database.query(f"SELECT v FROM things WHERE id = {number}")
            over.set()
            rows.join()
            watch.finish()
            made = watch.unsaved()
        with closing(Database(server.engine, there)) as database:
            database.query("DROP TABLE things")

    assert made.source.version.startswith(version)
    assert made.gaps == ()
    always, since = DONE[engine]
    for column in (
        *always,
        *(c for first, more in since.items() if int(version) >= first for c in more),
    ):
        assert not np.isnan(made.column(column)).any(), column
    for column in ("tuples_inserted", "tuples_updated"):
        assert total(made, column) == pytest.approx(100, abs=30), column
    if "commits" in made.columns:
        assert total(made, "commits") == pytest.approx(300, abs=25)
    assert total(made, "wal_mbps") > 0.01
    assert made.source.database_bytes is not None
    assert made.source.database_bytes > 1e6
    assert made.source.device is not None
    assert made.source.facts["server.id"]
    assert not [note for note in made.notes if "the disk of" in note or "and the data on" in note]
    assert np.nanmax(made.column("server_cpu_cores")) > 0
    # In MariaDB and MySQL a session is a thread of the one process.
    assert made.source.facts["profiler.session_seen"] is (engine == "postgres")
    refusals = [note for note in made.notes if "is not read" in note or "no longer" in note]
    assert refusals == []
