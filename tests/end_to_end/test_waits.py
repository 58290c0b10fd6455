"""What sessions of a real server wait for, when it is known what they do."""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

import pytest

from replayer.analysis.attribution.account import account
from replayer.collectors import WaitSamples
from replayer.collectors.statistics import Statistics
from replayer.collectors.waits.collector import Waits
from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.machine import threads
from replayer.machine.host import Host
from replayer.model import Account, Spent
from replayer.run import step_collectors
from replayer.run.step_recorder import MeasuredWindow
from replayer.servers.open import Server, open_server
from replayer.watch.active_collectors import Recordings
from replayer.watch.workers import Barrier, Report, WorkerPool
from tests.conftest import missing
from tests.known import known
from tests.repeated import repeat_until
from tests.server_pool import ServerPool
from tests.waiting import wait_until

LOOKS = 3
VERSIONS = ["postgresql-13", "postgresql-14", "postgresql-16", "postgresql-17"]


@dataclass(frozen=True)
class Says:
    """What makes sessions of an engine busy and locked, and what ends that."""

    busy: str
    locked: str
    make: str
    drop: str
    blocked: str
    """Statement that has a row when a session waits for the row of another."""


SAYS = {
    "postgres": Says(
        busy="DO $$ BEGIN LOOP END LOOP; END $$",
        locked="UPDATE replayer.hot SET b = b + 1",
        make="CREATE TABLE replayer.hot AS SELECT 1 AS a, 1 AS b",
        drop="DROP TABLE IF EXISTS replayer.hot",
        blocked="SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND application_name LIKE 'replayer session %'",
    ),
    "mariadb": Says(
        busy="SELECT BENCHMARK(1000000000000, SQRT(2))",
        locked="UPDATE hot SET b = b + 1",
        make="CREATE TABLE hot (a int PRIMARY KEY, b int) AS SELECT 1 AS a, 1 AS b",
        drop="DROP TABLE IF EXISTS hot",
        blocked="SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    ),
}
SAYS["mysql"] = SAYS["mariadb"]


class Sessions:
    """Five sessions: one computes, one waits for a row that another holds, and three are idle."""

    def __init__(self, server: Server) -> None:
        self._postgres = server.engine.name == "postgres"
        self._says = SAYS[server.engine.name]
        self._database = Database(server.engine, server.start())
        self._connections: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._database.query(self._says.drop)
        self._database.query(self._says.make)

    def __enter__(self) -> Self:
        self._begin(self._says.busy)
        for _ in range(2):
            self._connect()
        cursor = self._connect().cursor()
        cursor.execute("BEGIN")
        cursor.execute(self._says.locked)
        self._begin(self._says.locked)
        wait_until(self._is_blocked)
        return self

    def _is_blocked(self) -> bool:
        """Return whether a session waits for the row of another."""
        # MariaDB makes this list anew only if it was not read for 0.1 s.
        time.sleep(0.2)
        return bool(self._database.query(self._says.blocked))

    def _connect(self) -> Any:
        """Return a connection as a session of a step has it."""
        number = len(self._connections) + 1
        name = [f"SET application_name = 'replayer session {number}'"]
        connector = self._database.connector()
        self._connections.append(driver.connect(connector, *(name if self._postgres else [])))
        return self._connections[-1]

    def _begin(self, statement: str) -> None:
        """Have a session execute a statement, in a thread of its own."""
        connection = self._connect()

        def do() -> None:
            with contextlib.suppress(Exception):
                connection.cursor().execute(statement)

        self._threads.append(threading.Thread(target=do))
        self._threads[-1].start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Whoever holds the row lets it go first.
        self._connections[3].close()
        if self._postgres:
            self._database.query(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'replayer session %'"
            )
        else:
            for row in self._database.query("SHOW PROCESSLIST"):
                if row["Info"] and "BENCHMARK" in row["Info"]:
                    self._database.query(f"KILL {row['Id']}")
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            with contextlib.suppress(Exception):
                connection.close()
        self._database.query(self._says.drop)
        self._database.close()


@contextlib.contextmanager
def recording(server: Server, *names: str) -> Iterator[Recordings]:
    """Yield recordings beside a window in which nothing is done but to wait."""
    with step_collectors.recordings(names or ("waits",), Host(), None, server) as recordings:
        yield recordings


def waits_of(recordings: Recordings) -> Waits:
    """Return the recording that looks at sessions."""
    return cast("Waits", recordings._under_way["waits"])


def looks_of(waits: Waits) -> int:
    """Return how many intervals between two looks were kept."""
    return sum(one.moments for one in waits._sums.values())


def begin(recordings: Recordings) -> int:
    """Mark an edge."""
    recordings.mark(now := time.monotonic_ns())
    return now


def watched(
    server: Server | None,
    meanwhile: Callable[[], object] = lambda: None,
    whose: Literal["server", "replayer"] = "server",
    sessions: int = 5,
) -> tuple[WaitSamples, Account]:
    """Return what was seen in a window of some looks, and the account of it."""
    with step_collectors.recordings(("waits",), Host(), None, server) as recordings:
        waits = waits_of(recordings)
        marks = [begin(recordings)]
        wait_for_looks(waits)
        meanwhile()
        wait_for_looks(waits)
        marks.append(begin(recordings))
        recordings.end()
        seen = recordings.seen(*marks)["waits"].waits
    assert recordings.failures == {}
    assert seen is not None
    window = MeasuredWindow(marks[0], marks[1], 1.0, "look", sessions, whose)
    made = account(window, seen, {})
    assert made is not None
    return seen, made


def wait_for_looks(waits: Waits) -> None:
    """Wait until the sessions were looked at some times more."""
    enough = looks_of(waits) + LOOKS
    while looks_of(waits) < enough:
        assert waits._failure is None
        time.sleep(0.02)


def parts_of(made: Account) -> dict[Spent, float]:
    """Return how many sessions were in each part, on average."""
    whole = made.seconds / made.operations
    return {part: seconds / whole for part, seconds in made.session.items()}


def check_asked(waits: WaitSamples) -> None:
    """Hold what the server said against what they do, which is the same at each look."""
    parts: dict[str, float] = {}
    for (_, part), many in waits.asked.items():
        parts[part] = parts.get(part, 0.0) + many
    assert waits.sessions == pytest.approx(5)
    assert parts == {"client": pytest.approx(3), "lock": pytest.approx(1), "": pytest.approx(1)}


def letters_of(waits: WaitSamples) -> dict[str, float]:
    """Return the share of the sessions' time in each of the kernel's states."""
    letters: dict[str, float] = {}
    for one in waits.observed:
        letters[one.letter] = letters.get(one.letter, 0.0) + one.seconds
    return {letter: seconds / known(waits.times).span for letter, seconds in letters.items()}


def watched_asleep(server: Server) -> tuple[WaitSamples, Account]:
    """Return what was seen in a window in which no session that waits woke up.

    A server lets it wake for a moment, to look for a deadlock or to count what it did.
    """
    return repeat_until(
        lambda: watched(server),
        lambda both: letters_of(both[0]).get("S") == pytest.approx(4 / 5),
    )


def check_five(waits: WaitSamples, made: Account) -> None:
    """Each session is in the part that it must be in, whatever else the machine does."""
    share = parts_of(made)
    letters = letters_of(waits)

    check_asked(waits)
    assert waits.threads == 5
    # Those who wait sleep, and who computes runs or waits for a processor: at each look.
    assert letters["S"] == pytest.approx(4 / 5)
    assert letters["R"] == pytest.approx(1 / 5)
    assert share[Spent.CLIENT] == pytest.approx(3 * share[Spent.LOCK])
    assert {Spent.CLIENT, Spent.LOCK} < share.keys()
    assert share.keys() <= {
        Spent.CLIENT, Spent.LOCK, Spent.SERVER, Spent.KERNEL, Spent.RUN_QUEUE
    }  # fmt: skip


@pytest.fixture(scope="class")
def five(server_pool: ServerPool) -> Iterator[Server]:
    """Return a server that has five sessions which do the same for as long as a class's tests."""
    server: Server = server_pool()
    with Sessions(server):
        yield server


class TestFive:
    """One session computes, one waits for a row that another holds, and three are idle."""

    def test_every_session_is_in_its_part(self, five: Server) -> None:
        """The server says so of each, and the kernel that those who wait sleep."""
        waits, made = watched_asleep(five)

        check_five(waits, made)
        assert set(made.waits) == {"Client:ClientRead", "Lock:transactionid"}

    @pytest.mark.quiet
    def test_the_account_closes(self, five: Server) -> None:
        """What the kernel counts of them and what they were seen at is the time that there was."""
        _, made = watched(five, lambda: time.sleep(3))

        share = parts_of(made)
        on_processor = sum(share.get(p, 0) for p in (Spent.SERVER, Spent.KERNEL, Spent.RUN_QUEUE))
        assert share[Spent.CLIENT] == pytest.approx(3, abs=0.1)
        assert share[Spent.LOCK] == pytest.approx(1, abs=0.1)
        assert on_processor == pytest.approx(1, abs=0.15)
        assert abs(made.residue_share) < 0.05

    def test_of_a_server_elsewhere_there_are_its_words_alone(
        self, five: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whose processes are not known here is not looked for among those of this host."""
        monkeypatch.setattr(five, "pids", list)

        waits, made = watched(five)

        check_asked(waits)
        assert waits.times is None
        assert parts_of(made)[Spent.CLIENT] == pytest.approx(3)
        assert parts_of(made)[Spent.LOCK] == pytest.approx(1)
        assert "(the server's processes are not known on this host)" in made.notes[0]

    def test_on_a_kernel_that_counts_no_queues_the_states_remain(
        self, five: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without schedstat a busy session is still on a processor or in its queue."""
        monkeypatch.setattr(threads, "counts_queues", lambda: False)
        monkeypatch.setattr(threads.Thread, "_account", lambda _self: [b"0", b"0", b"0"])

        waits, made = watched_asleep(five)

        check_five(waits, made)
        assert not waits.counted
        assert "does not count how long a thread waits" in made.notes[0]

    @pytest.mark.parametrize("harm", ["killed", "cut", "whole"])
    def test_traces_that_are_cut_harm_nothing(self, five: Server, harm: str) -> None:
        """Perf is killed, or its file is cut: the looks are left, and why is known."""
        if os.geteuid() or shutil.which("perf") is None:
            missing("linux-perf", "without perf and root there are no traces")
        with recording(five) as recordings:
            waits = waits_of(recordings)
            switches = waits._switches
            assert switches is not None
            first = begin(recordings)
            wait_for_looks(waits)
            wait_until(lambda: switches._traces)
            perf = switches._perf.background.process
            # A second thread would hold up its end for a second.
            assert len(list(Path(f"/proc/{perf.pid}/task").iterdir())) == 1
            if harm == "killed":
                perf.kill()
                wait_for_looks(waits)
            last = begin(recordings)
            recordings.end()
            if harm == "cut":
                os.truncate(switches._perf.data, 200)
            samples = recordings.seen(first, last)["waits"].waits

        assert recordings.failures == {}
        assert samples is not None
        check_asked(samples)
        assert (samples.traced is None) == (samples.untraced != "")
        assert samples.traced is not None if harm == "whole" else "\n" not in samples.untraced


@pytest.mark.slow
def test_mariadbs_threads_are_told_apart(server_pool: ServerPool, mariadbd: Path) -> None:
    """Its sessions are threads of one process, and it names a wait for a row in another view."""
    server = server_pool("mariadb", bindir=mariadbd.parent)
    with Sessions(server):
        waits, made = watched_asleep(server)

    check_five(waits, made)
    assert {"Sleep", "row lock"} <= set(made.waits)


def test_sessions_that_end_before_the_window_are_counted_while_they_last(server: Server) -> None:
    """Two of four sessions go in the middle of a window: those are counted that were there."""
    with contextlib.closing(Database(server.engine, server.start())) as database:
        names = [f"SET application_name = 'replayer session {number}'" for number in range(4)]
        connections = [driver.connect(database.connector(), name) for name in names]
        gone = "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name LIKE '{}'"

        def leave() -> None:
            for connection in connections[:2]:
                connection.close()
            wait_until(lambda: database.query(gone.format("replayer session %"))[0]["n"] == 2)

        waits, made = watched(server, leave)
        for connection in connections[2:]:
            connection.close()

    # At some looks there were four, and at some two.
    assert 2 < made.sessions < 4
    assert waits.sessions == made.sessions
    assert waits.threads == 4
    assert parts_of(made).keys() == {Spent.CLIENT}
    assert "of 5 sessions were seen at work" in made.notes[0]


@pytest.mark.slow
def test_a_server_that_is_stopped_in_the_window_ends_no_step(made_home: Path) -> None:
    """Each collector says in one sentence why it has seen nothing, and raises nothing."""
    with open_server(engines.load("postgres")) as other:
        other.start()
        with recording(other, "waits", "statistics") as recordings:
            first = begin(recordings)
            other.stop()
            # It asks again, in vain.
            wait_until(lambda: waits_of(recordings)._server.missing)
            last = begin(recordings)
            recordings.end()
            recordings.seen(first, last)

    assert recordings.failures.keys() == {"waits", "statistics"}
    assert all("\n" not in reason for reason in recordings.failures.values())


def test_those_who_only_watch_are_no_sessions(server: Server) -> None:
    """A collector's connection that is made, or asks at the same moment, is none of the step's."""
    with recording(server, "waits", "statistics") as recordings:
        statistics = recordings._under_way["statistics"]
        assert isinstance(statistics, Statistics)
        marks = [begin(recordings)]
        wait_until(lambda: statistics._said.get(marks[0]))
        for _ in range(10):
            # What it read is counted when it ends.
            with contextlib.closing(Database(server.engine, server.start())) as other:
                other.query("SELECT count(*) FROM pg_class")
            marks.append(begin(recordings))
        recordings.end()
        seen = recordings.seen(marks[0], marks[-1])

    assert recordings.failures.keys() <= {"statistics.statements"}
    assert seen["waits"].waits is None
    assert seen["statistics"].tables


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VERSIONS, "mysql-9"])
def test_other_versions_say_the_same(
    other_server: Callable[[str], Path], server_pool: ServerPool, name: str
) -> None:
    """The names of columns and waits differ from version to version, the parts do not."""
    engine = "mysql" if name.startswith("mysql") else "postgres"
    server = server_pool(engine, bindir=other_server(name))
    with Sessions(server):
        check_five(*watched_asleep(server))


def test_a_server_without_sessions_leaves_replayers_own_threads(server: Server) -> None:
    """Two threads compute and one reads what never comes: that is what is seen of them."""
    with WorkerPool(work_or_wait, [True, True, False], processes=2) as pool:
        pool.open()
        waits, made = watched(server, whose="replayer", sessions=3)

    assert waits.whose == "replayer"
    assert waits.sessions == pytest.approx(3)
    assert made.waits.keys() == {"sleep"}
    assert 0 < made.waits["sleep"] < 1


def work_or_wait(works: bool, barrier: Barrier, report: Report) -> None:  # noqa: FBT001
    """Be a job that computes in C code, or waits, until its process is killed."""
    barrier.wait()
    if works:
        sum(range(10**12))
    ours, _ = os.pipe()
    os.read(ours, 1)
