"""The account of real steps: Little's law closes, by parts that know nothing of each other."""

import io
import os
import shutil
import sys

import pytest

from replayer.collectors.waits import collector
from replayer.engines import engine as engines
from replayer.errors import Impossible
from replayer.model import Spent, Workload
from replayer.report.progress import Lines
from replayer.run import runner
from replayer.steps.replay import spec as replay
from replayer.steps.sessions import step as sessions
from replayer.watch import calibration
from tests.beside import beside
from tests.captured import Capture
from tests.conftest import missing

pytestmark = pytest.mark.alone
WATCHING = ("waits", "processes", "statistics")


@pytest.fixture
def measured(monkeypatch):
    """Return a function that runs a sessions step under the collectors and returns its result."""
    monkeypatch.setattr(calibration, "measure", lambda when, before: {f"cpu.{when}": (1.0,)})

    def measure(engine="postgres", **keys):
        small = {"num_schemas": 2, "num_threads": 1, "scale": "16M", "run_time": "3s"}
        spec = sessions.Spec(step="sessions", name="sessions", **{**small, **keys})
        return performed(spec, engine)

    return measure


def performed(spec, engine="postgres"):
    """Run one step with its collectors and return its result."""
    workload = Workload(
        name="account", source="account.toml", description="", comment="", steps=(spec,)
    )
    order = runner.Order(workload, engines.load(engine), collectors=WATCHING)
    *_, run = runner.execute(order, Lines(io.StringIO()))
    return run.steps[-1]


def shares(account):
    """Return the parts of the sessions' time."""
    whole = account.sessions * account.seconds / account.operations
    return {part: seconds / whole for part, seconds in account.session.items()}


def on_processor(share):
    """Return the share of the time in which a session ran or waited for a processor."""
    waits = {Spent.DEVICE, Spent.LOG, Spent.LOCK, Spent.CLIENT, Spent.OTHER}
    return sum(amount for part, amount in share.items() if part not in waits)


def test_a_block_of_the_servers_own_buffers_is_not_one_that_it_missed(measured):
    """It takes a small part of the time, so that accounts of the two are not to be compared."""
    had = measured(memory="cached", shared_buffers="64M", scale="4M")
    missed = measured(memory="cached")

    assert had.account.operation == "buffered block"
    assert missed.account.operation == "block"
    for step, rate in (had, had.ledger.buffer_hits), (missed, missed.ledger.riops):
        assert step.account.operations == pytest.approx(rate * step.account.seconds, rel=0.02)


def test_cached_sessions_are_on_a_processor_or_in_its_queue(measured):
    """They read what is in memory: nearly all of their time is CPU and run queue."""
    step = measured(memory="cached")

    account = step.account
    assert account.operation == "block"
    assert account.sessions == pytest.approx(2, rel=0.1)
    assert on_processor(shares(account)) > 0.8
    assert abs(account.residue_share) < 0.15
    assert step.costs["waits"] < 0.03 * step.elapsed
    used = account.cpu["server"]
    rate = account.operations / account.seconds
    ran = rate * sum(used.values())
    counted = step.series.columns
    watched = sum(
        sum(counted[f"processes.server.{mode}"]) / len(step.series.seconds)
        for mode in ("user", "system")
    )
    assert ran == pytest.approx(watched, rel=0.2)
    assert any(row["backend_type"] == "client backend" for row in step.tables["statistics.io"])


@pytest.mark.slow
def test_updates_of_one_row_wait_for_its_lock(measured):
    """Eight sessions update the same few rows: most of their time is a wait for the others."""
    step = measured(
        memory="cached", num_schemas=1, num_threads=8, scale="8M", mix="update=100 hot=0.1%/99.9%"
    )

    share = shares(step.account)
    assert step.account.operation == "statement"
    assert share[Spent.LOCK] > 0.25
    assert abs(step.account.residue_share) < 0.2
    assert next(iter(step.account.waits)).startswith(("Lock:", "LWLock:"))


@pytest.mark.slow
def test_sessions_that_have_nothing_to_do_wait_for_their_client(measured):
    """50 statements a second for eight sessions: they are idle, and the account says whose wait."""
    step = measured(memory="cached", num_threads=4, rate=50, mix="point=100")

    assert shares(step.account)[Spent.CLIENT] > 0.85
    assert abs(step.account.residue_share) < 0.1


def test_the_sessions_of_a_replay_are_those_of_its_own_database(tmp_path):
    """Two sessions that sleep for two seconds are seen, though no name of replayer is theirs."""
    capture = Capture()
    for number in (1, 2):
        capture.session(number).runs(number, 0.1, "SELECT pg_sleep(2)", lasts=2.0)
    path = capture.write(tmp_path / "a.replay")

    step = performed(replay.Spec(step="replay", name="replay", file=str(path)))

    assert step.account.operation == "statement"
    assert step.account.waits["Timeout:PgSleep"] > 0.7
    assert shares(step.account)[Spent.OTHER] > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_physical_sessions_wait_for_the_device_as_long_as_it_took(measured, engine):
    """The device's own queue is as long as sessions waited for it; the account closes.

    Looked at beside the disk's interrupts, nobody would be seen to wait.
    """
    if os.geteuid() or shutil.which("perf") is None:
        missing("linux-perf", "without perf's traces sleep is what looks happen to meet")
    step = measured(
        engine, memory="direct", num_threads=4, scale="64M", run_time="10s", shared_buffers="8M"
    )

    queue = [value for value in step.series.columns["diskstats.aqu-sz"] if value is not None]
    waiting = shares(step.account)[Spent.DEVICE] * step.account.sessions
    assert waiting == pytest.approx(sum(queue) / len(queue), rel=0.2)
    assert abs(step.account.residue_share) < 0.1


@pytest.mark.slow
def test_the_account_of_a_cached_run_closes(measured):
    """What is left of the time of four sessions in 20 s is at most 5 % of it."""
    step = measured(memory="cached", num_schemas=4, scale="32M", run_time="20s")

    assert abs(step.account.residue_share) <= 0.05
    assert not any("does not close" in note for note in step.account.notes)


READER = """
import mmap, os, random, sys
path = sys.argv[1]
with open(path, "wb") as file:
    file.write(os.urandom(32 << 20))
    os.fsync(file.fileno())
descriptor, page = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8192)
while True:
    os.preadv(descriptor, [page], random.randrange(4096) * 8192)
"""


@pytest.mark.slow
def test_reads_of_somebody_else_are_in_no_part(measured, tmp_path):
    """A program that waits for the same disk all the time adds nothing to cached sessions."""
    (tmp_path / "reader.py").write_text(READER)
    with beside(f"{sys.executable} {tmp_path}/reader.py {tmp_path}/data"):
        step = measured(memory="cached", run_time="5s")

    share = shares(step.account)
    reads = step.series.columns["diskstats.r/s"]
    assert sum(value or 0 for value in reads) / len(reads) > 100
    assert share.get(Spent.DEVICE, 0.0) < 0.1
    assert on_processor(share) > 0.8


@pytest.mark.slow
def test_beside_a_busy_neighbour_the_run_queue_is_longer(measured):
    """Four programs that only compute: physical sessions wait for processors, and it still closes.

    What they wait for the device is counted apart from that.
    """
    if os.geteuid() or shutil.which("perf") is None:
        missing("linux-perf", "without perf's traces sleep is what looks happen to meet")
    keys = {"memory": "direct", "num_threads": 2, "scale": "64M", "run_time": "6s"}
    alone = measured(**keys, shared_buffers="8M").account
    with beside("while :; do :; done", many=4):
        step = measured(**keys, shared_buffers="8M")

    account = step.account
    assert account.session[Spent.RUN_QUEUE] > 1.2 * alone.session[Spent.RUN_QUEUE]
    assert abs(account.residue_share) < 0.15


def test_without_traces_the_looks_remain(measured, monkeypatch):
    """Where perf cannot trace, how long sessions slept is as they were met asleep."""

    def refuse(_scene):
        raise Impossible("perf is not here")

    monkeypatch.setattr(collector, "Switches", refuse)
    step = measured(memory="cached")

    assert on_processor(shares(step.account)) > 0.8
    assert not any("perf" in note for note in step.account.notes if "close" not in note)
