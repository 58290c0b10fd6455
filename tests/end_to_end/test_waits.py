"""What sessions of a real server wait for, when it is known what they do."""

import contextlib
import os
import shutil
import threading
import time

import pytest

from replayer.analysis.account import account
from replayer.engines import driver
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.machine import threads
from replayer.machine.host import Host
from replayer.model import Spent
from replayer.run import watching
from replayer.run.findings import Window
from replayer.servers.open import open_server
from replayer.watch.workers import WorkerPool
from tests.conftest import missing

SECONDS = 3.0
VERSIONS = ["postgresql-13", "postgresql-14", "postgresql-16", "postgresql-17"]
IDLE, BUSY, LOCKED = "idle", "busy", "locked"
SAYS = {
    "postgres": {
        BUSY: "SELECT sum(sqrt(i)) FROM generate_series(1, 1000000000) AS i",
        LOCKED: "UPDATE replayer.hot SET b = b + 1",
        "make": "CREATE TABLE replayer.hot AS SELECT 1 AS a, 1 AS b",
        "drop": "DROP TABLE replayer.hot",
        "stop": "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'replayer session %'",
    },
    "mariadb": {
        BUSY: "SELECT BENCHMARK(1000000000, SQRT(2))",
        LOCKED: "UPDATE hot SET b = b + 1",
        "make": "CREATE TABLE hot (a int PRIMARY KEY, b int) AS SELECT 1 AS a, 1 AS b",
        "drop": "DROP TABLE hot",
        "stop": None,
    },
}
SAYS["mysql"] = SAYS["mariadb"]


class Sessions:
    """Sessions of a server, each of which does one thing until all end."""

    def __init__(self, server):
        self.server = server
        self.says = SAYS[server.engine.name]
        self.database = Database(server.engine, server.start())
        self.connections, self.threads = [], []
        if self.server.engine.name == "postgres":
            self.database.query("DROP TABLE IF EXISTS replayer.hot")
        self.database.query(self.says["make"])

    def __enter__(self):
        self.begin(BUSY)
        self.begin(IDLE)
        self.begin(IDLE)
        holder = self.connect()
        cursor = holder.cursor()
        cursor.execute("BEGIN")
        cursor.execute(self.says[LOCKED])
        self.begin(LOCKED)
        time.sleep(0.3)
        return self

    def connect(self):
        """Return a connection as a session of a step has it."""
        number = len(self.connections) + 1
        name = [f"SET application_name = 'replayer session {number}'"]
        first = name if self.server.engine.name == "postgres" else []
        self.connections.append(driver.connect(self.database.connector(), *first))
        return self.connections[-1]

    def begin(self, does):
        """Have a session do one thing, in a thread of its own."""
        connection = self.connect()
        if does == IDLE:
            return

        def do():
            with contextlib.suppress(Exception):
                connection.cursor().execute(self.says[does])

        self.threads.append(threading.Thread(target=do))
        self.threads[-1].start()

    def __exit__(self, *_):
        # Whoever holds the row lets it go first.
        self.connections[3].close()
        if self.says["stop"]:
            self.database.query(self.says["stop"])
        for row in () if self.says["stop"] else self.database.query("SHOW PROCESSLIST"):
            if row["Info"] and "BENCHMARK" in row["Info"]:
                self.database.query(f"KILL {row['Id']}")
        for thread in self.threads:
            thread.join(20)
        for connection in self.connections:
            with contextlib.suppress(Exception):
                connection.close()
        self.database.query(self.says["drop"])
        self.database.close()


def watched(server, seconds=SECONDS, names=("waits",), meanwhile=lambda: None):
    """Return what was seen beside a window in which nothing is done but to wait."""
    with watching.recordings(names, Host(), None, server) as recordings:
        marks = []
        for _ in range(2):
            marks.append(time.monotonic_ns())
            recordings.mark(marks[-1])
            if len(marks) == 1:
                meanwhile()
                time.sleep(seconds)
        recordings.end()
        seen = recordings.seen(*marks)
    assert recordings.failures == {}
    return seen, Window(*marks, operations=1.0, operation="look", sessions=5, whose="server")


def five_sessions(server):
    """Return the account of a busy session, one that waits for a row, and three that are idle."""
    with Sessions(server):
        seen, window = watched(server)
    return seen["waits"].waits, account(window, seen["waits"].waits, {})


def check_five(waits, made):
    """Each session is in the part that it must be in, and the account closes."""
    whole = made.sessions * made.seconds / made.operations
    share = {part: 5 * seconds / whole for part, seconds in made.session.items()}
    on_processor = sum(share.get(p, 0) for p in (Spent.SERVER, Spent.KERNEL, Spent.RUN_QUEUE))

    assert made.sessions == pytest.approx(5, abs=0.1)
    assert share[Spent.CLIENT] == pytest.approx(3, abs=0.1)
    assert share[Spent.LOCK] == pytest.approx(1, abs=0.1)
    assert on_processor == pytest.approx(1, abs=0.15)
    assert abs(made.residue_share) < 0.05
    assert waits.threads == 5


def test_every_session_is_in_its_part(server):
    """Of five sessions one computes, one waits for a row that another holds, and three are idle."""
    waits, made = five_sessions(server)

    check_five(waits, made)
    assert set(made.waits) == {"Client:ClientRead", "Lock:transactionid"}


@pytest.mark.slow
def test_mariadbs_threads_are_told_apart(mariadbd):
    """Its sessions are threads of one process, and it names a wait for a row in another view."""
    with open_server(engines.load("mariadb"), bindir=mariadbd.parent) as server:
        server.start()
        waits, made = five_sessions(server)

    check_five(waits, made)
    assert {"Sleep", "row lock"} <= set(made.waits)


def test_of_a_server_elsewhere_there_are_its_words_alone(server, monkeypatch):
    """Whose processes are not known here is not looked for among those of this host."""
    monkeypatch.setattr(server, "pids", list)

    waits, made = five_sessions(server)

    whole = made.sessions * made.seconds / made.operations
    assert waits.times is None
    assert made.sessions == pytest.approx(5, abs=0.1)
    assert 5 * made.session[Spent.CLIENT] / whole == pytest.approx(3, abs=0.1)
    assert 5 * made.session[Spent.LOCK] / whole == pytest.approx(1, abs=0.1)
    assert "(the server's processes are not known on this host)" in made.notes[0]


def test_on_a_kernel_that_counts_no_queues_the_states_remain(server, monkeypatch):
    """Without schedstat a busy session is still on a processor or in its queue, by its states."""
    monkeypatch.setattr(threads, "counts_queues", lambda: False)
    monkeypatch.setattr(threads.Thread, "_account", lambda _self: [b"0", b"0", b"0"])

    waits, made = five_sessions(server)

    check_five(waits, made)
    assert not waits.counted
    assert "does not count how long a thread waits" in made.notes[0]


def test_sessions_that_end_before_the_window_are_counted_while_they_last(server):
    """Two of four sessions go after half of the window: three were there on average."""
    with contextlib.closing(Database(server.engine, server.start())) as database:
        names = [f"SET application_name = 'replayer session {number}'" for number in range(4)]
        connections = [driver.connect(database.connector(), name) for name in names]
        gone = threading.Timer(1.0, lambda: [one.close() for one in connections[:2]])
        seen, window = watched(server, 2.0, meanwhile=gone.start)
        for connection in connections[2:]:
            connection.close()

    made = account(window, seen["waits"].waits, {})
    assert made.sessions == pytest.approx(3, abs=0.4)
    assert abs(made.residue_share) < 0.05
    assert "of 5 sessions were seen at work" in made.notes[0]


def test_a_server_that_is_stopped_in_the_window_ends_no_step(server, own_home):
    """Each collector says in one sentence why it has seen nothing, and raises nothing."""
    with open_server(engines.load("postgres")) as other:
        other.start()
        with watching.recordings(("waits", "statistics"), Host(), None, other) as recordings:
            recordings.mark(begin := time.monotonic_ns())
            time.sleep(0.5)
            other.stop()
            time.sleep(0.7)
            recordings.mark(end := time.monotonic_ns())
            recordings.end()
            recordings.seen(begin, end)

    assert recordings.failures.keys() == {"waits", "statistics"}
    assert all("\n" not in reason for reason in recordings.failures.values())


def test_those_who_only_watch_are_no_sessions(server):
    """A collector's connection that is made, or asks at the same moment, is none of the step's."""
    with (
        contextlib.closing(Database(server.engine, server.start())),
        watching.recordings(("waits", "statistics"), Host(), None, server) as recordings,
    ):
        marks = []
        for _ in range(15):
            marks.append(time.monotonic_ns())
            recordings.mark(marks[-1])
            time.sleep(0.1)
        recordings.end()
        seen = recordings.seen(marks[0], marks[-1])

    assert recordings.failures.keys() <= {"statistics.statements"}
    assert seen["waits"].waits is None
    assert seen["statistics"].tables


@pytest.mark.parametrize("harm", ["killed", "cut", "whole"])
def test_traces_that_are_cut_harm_nothing(server, harm):
    """Perf is killed in the middle, or its file is cut: the looks are left, and why is known."""
    if os.geteuid() or shutil.which("perf") is None:
        missing("linux-perf", "without perf and root there are no traces")
    with (
        Sessions(server),
        watching.recordings(("waits",), Host(), None, server) as recordings,
    ):
        waits = recordings._under_way["waits"]
        recordings.mark(begin := time.monotonic_ns())
        time.sleep(1.0)
        if harm == "killed":
            waits._switches._perf.background.process.kill()
        time.sleep(0.5)
        recordings.mark(end := time.monotonic_ns())
        recordings.end()
        if harm == "cut":
            os.truncate(waits._switches._perf.data, 200)
        samples = recordings.seen(begin, end)["waits"].waits

    made = account(Window(begin, end, 1.0, "look", 5, "server"), samples, {})
    assert recordings.failures == {}
    assert made.sessions == pytest.approx(5, abs=0.1)
    assert (samples.traced is None) == (samples.untraced != "")
    assert samples.traced is not None if harm == "whole" else "\n" not in samples.untraced


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VERSIONS, "mysql-9"])
def test_other_versions_say_the_same(other_server, name):
    """The names of columns and waits differ from version to version, the parts do not."""
    engine = "mysql" if name.startswith("mysql") else "postgres"
    with open_server(engines.load(engine), bindir=other_server(name)) as server:
        server.start()
        check_five(*five_sessions(server))


def test_a_server_without_sessions_leaves_replayers_own_threads(server):
    """Two threads compute and one reads what never comes: that is what is seen of them."""
    with WorkerPool(work_or_wait, [True, True, False], processes=2) as pool:
        pool.open()
        time.sleep(0.2)
        seen, window = watched(server)

    waits = seen["waits"].waits
    made = account(window, waits, {})
    assert waits.whose == "replayer"
    assert waits.sessions == pytest.approx(3)
    assert made.waits == {"sleep": pytest.approx(1 / 3, abs=0.25)}
    assert abs(made.residue_share) < 0.15


def work_or_wait(works, barrier, report):
    """Be a job that computes in C code, or waits, until its process is killed."""
    barrier.wait()
    if works:
        sum(range(10**12))
    ours, _ = os.pipe()
    os.read(ours, 1)
