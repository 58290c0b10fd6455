"""The account of real steps: Little's law closes, by parts that know nothing of each other."""

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from replayer.collectors.waits import collector
from replayer.engines import engine as engines
from replayer.errors import Impossible
from replayer.machine.host import Host
from replayer.model import Account, Ledger, Spent, StepResult, StepSpec, Workload
from replayer.report.terminal.progress import Lines
from replayer.run import runner
from replayer.steps.replay.spec import Spec as Replay
from replayer.steps.sessions.spec import Spec as Sessions
from replayer.watch import calibration
from tests import limited
from tests.beside import beside
from tests.captured import Capture
from tests.conftest import missing
from tests.repeated import repeat_until

CPU = Path("/sys/fs/cgroup/cpu")
WATCHING = ("waits", "processes", "statistics")
WAITS = (Spent.DEVICE, Spent.LOG, Spent.LOCK, Spent.CLIENT, Spent.OTHER)


class Measure(Protocol):
    """Runs a step of sessions, of these keys, under the collectors."""

    def __call__(self, engine: str = ..., **keys: object) -> StepResult:
        """Return its result."""


@pytest.fixture(autouse=True)
def not_calibrated(monkeypatch: pytest.MonkeyPatch, made_home: Path) -> None:
    """Do not measure how fast a processor is, before each run and after it."""
    del made_home
    monkeypatch.setattr(calibration, "measure", lambda when, before: {f"cpu.{when}": (1.0,)})


@pytest.fixture
def measured() -> Measure:
    """Return a function that runs a sessions step under the collectors and returns its result."""

    def measure(engine: str = "postgres", **keys: object) -> StepResult:
        small = {"num_schemas": 2, "num_threads": 1, "scale": "8M", "run_time": "1s"}
        spec = Sessions.model_validate({"step": "sessions", "name": "sessions", **small, **keys})
        return performed(spec, engine)

    return measure


def performed(spec: StepSpec, engine: str = "postgres") -> StepResult:
    """Run one step with its collectors and return its result."""
    workload = Workload(
        name="account", source="account.toml", description="", comment="", steps=(spec,)
    )
    order = runner.RunRequest(workload, engines.load(engine), collectors=WATCHING)
    *_, run = runner.execute(order, Lines(io.StringIO()))
    return run.steps[-1]


def account_of(step: StepResult) -> Account:
    """Return the account of a step that has one."""
    assert step.account is not None
    return step.account


def shares(account: Account) -> dict[Spent, float]:
    """Return the parts of the sessions' time."""
    whole = account.sessions * account.seconds / account.operations
    return {part: seconds / whole for part, seconds in account.session.items()}


def on_processor(share: Mapping[Spent, float]) -> float:
    """Return the share of the time in which a session ran or waited for a processor."""
    return sum(amount for part, amount in share.items() if part not in WAITS)


def largest_wait(account: Account) -> Spent:
    """Return what sessions waited for most of all, but for a processor: that is the machine's."""
    share = shares(account)
    return max(WAITS, key=lambda part: share.get(part, 0.0))


def column(step: StepResult, name: str) -> float:
    """Return the mean of a column of a step's series."""
    assert step.series is not None
    values = [value or 0.0 for value in step.series.columns[name]]
    return sum(values) / len(values)


def blocks(step: StepResult) -> tuple[Account, Ledger]:
    """Return the account and the ledger of a step."""
    assert step.ledger is not None
    return account_of(step), step.ledger


@pytest.mark.slow
def test_a_block_of_the_servers_own_buffers_is_not_one_that_it_missed(measured: Measure) -> None:
    """It takes a small part of the time, so that accounts of the two are not to be compared."""
    account, ledger = blocks(measured(memory="cached", shared_buffers="64M", scale="2M"))

    assert account.operation == "buffered block"
    assert account.operations == pytest.approx(ledger.buffer_hits * ledger.window_seconds)


def test_a_block_of_a_cached_run_is_one_that_the_server_missed(measured: Measure) -> None:
    """Reads of what is in memory take the processor, or wait for it, for most of their time."""

    def on_it(step: StepResult) -> bool:
        share = shares(account_of(step))
        return on_processor(share) > max(share.get(part, 0.0) for part in WAITS)

    # On a busy machine the sampler may come too seldom: then the account does not close, or its
    # few samples are all of a session whose client waits for a processor.
    step = repeat_until(
        lambda: measured(memory="cached"), lambda step: account_of(step).closes and on_it(step)
    )
    account, ledger = blocks(step)

    assert account.operation == "block"
    assert account.operations == pytest.approx(ledger.riops * ledger.window_seconds)
    assert on_it(step)


ROW = "update=100 hot=0.1%/99.9%"
# So many that some wait for the row even if their client waits for a processor.
UPDATES: dict[str, Any] = {"num_schemas": 1, "num_threads": 32, "mix": ROW}
IDLE: dict[str, Any] = {"num_threads": 8, "rate": 20, "mix": "point=100"}


@pytest.mark.slow
def test_sessions_wait_for_what_they_were_made_to_wait_for(measured: Measure) -> None:
    """Of all waits, those for a lock are more where one row is updated than where there is no work.

    There those for the client are more.  Which is the most depends on the machine: clients that
    wait for a processor have sessions wait for them as well.
    """

    def waits_of(keys: dict[str, Any]) -> dict[Spent, float]:
        step = measured(memory="cached", **keys)
        account = account_of(step)
        assert account.operation == "statement"
        whole = account.sessions * account.seconds / account.operations
        assert sum(account.session.values()) + account.residue == pytest.approx(whole)
        assert any(row["backend_type"] == "client backend" for row in step.tables["statistics.io"])
        share = shares(account)
        all_of_them = sum(share.get(part, 0.0) for part in WAITS)
        return {part: share.get(part, 0.0) / all_of_them for part in WAITS}

    # On a busy machine the sampler may come so seldom that it meets no wait for the row.
    updates = repeat_until(lambda: waits_of(UPDATES), lambda waits: waits[Spent.LOCK] > 0)
    idle = waits_of(IDLE)
    assert updates[Spent.LOCK] > idle[Spent.LOCK], (updates, idle)
    assert updates[Spent.CLIENT] < idle[Spent.CLIENT], (updates, idle)


@pytest.mark.quiet
def test_cached_sessions_are_on_a_processor_or_in_its_queue(measured: Measure) -> None:
    """They read what is in memory: nearly all of their time is CPU and run queue."""
    step = measured(memory="cached", run_time="3s")

    account = account_of(step)
    assert account.sessions == pytest.approx(2, rel=0.1)
    assert on_processor(shares(account)) > 0.8
    assert abs(account.residue_share) < 0.15
    assert step.costs["waits"] < 0.03 * step.elapsed
    rate = account.operations / account.seconds
    ran = rate * sum(account.cpu["server"].values())
    watched = sum(column(step, f"processes.server.{mode}") for mode in ("user", "system"))
    assert ran == pytest.approx(watched, rel=0.2)


@pytest.mark.quiet
def test_updates_of_one_row_wait_for_its_lock(measured: Measure) -> None:
    """Eight sessions update the same few rows: most of their time is a wait for the others."""
    account = account_of(measured(memory="cached", run_time="3s", **UPDATES))

    assert shares(account)[Spent.LOCK] > 0.25
    assert abs(account.residue_share) < 0.2
    assert next(iter(account.waits)).startswith(("Lock:", "LWLock:"))


@pytest.mark.quiet
def test_sessions_that_have_nothing_to_do_wait_for_their_client(measured: Measure) -> None:
    """50 statements a second for eight sessions: they are idle, and the account says whose wait."""
    step = measured(memory="cached", num_threads=4, rate=50, mix="point=100", run_time="3s")

    account = account_of(step)
    assert shares(account)[Spent.CLIENT] > 0.85
    assert abs(account.residue_share) < 0.1


@pytest.mark.slow
def test_the_sessions_of_a_replay_are_those_of_its_own_database(tmp_path: Path) -> None:
    """Two sessions that sleep for two seconds are seen, though no name of replayer is theirs."""
    capture = Capture()
    for number in (1, 2):
        capture.session(number).runs(number, 0.1, "SELECT pg_sleep(2)", lasts=2.0)
    path = capture.write(tmp_path / "a.replay")

    replay = {"step": "replay", "name": "replay", "file": str(path)}
    account = account_of(performed(Replay.model_validate(replay)))

    assert account.operation == "statement"
    assert next(iter(account.waits)) == "Timeout:PgSleep"
    assert largest_wait(account) == Spent.OTHER


@pytest.mark.quiet
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_physical_sessions_wait_for_the_device_as_long_as_it_took(
    measured: Measure, engine: str
) -> None:
    """The device's own queue is as long as sessions waited for it; the account closes.

    Looked at beside the disk's interrupts, nobody would be seen to wait.
    """
    needs_perf()
    account = account_of(
        step := measured(
            engine, memory="direct", num_threads=4, scale="64M", run_time="10s", shared_buffers="8M"
        )
    )

    waiting = shares(account)[Spent.DEVICE] * account.sessions
    assert waiting == pytest.approx(column(step, "diskstats.aqu-sz"), rel=0.2)
    assert abs(account.residue_share) < 0.1


def needs_perf() -> None:
    """Skip where nothing can be traced."""
    if os.geteuid() or shutil.which("perf") is None:
        missing("linux-perf", "without perf's traces sleep is what looks happen to meet")


@pytest.mark.quiet
def test_the_account_of_a_cached_run_closes(measured: Measure) -> None:
    """What is left of the time of four sessions in 20 s is at most 5 % of it."""
    account = account_of(measured(memory="cached", num_schemas=4, scale="32M", run_time="20s"))

    assert abs(account.residue_share) <= 0.05
    assert not any("does not close" in note for note in account.notes)


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


@pytest.mark.quiet
def test_reads_of_somebody_else_are_in_no_part(measured: Measure, tmp_path: Path) -> None:
    """A program that waits for the same disk all the time adds nothing to cached sessions."""
    (tmp_path / "reader.py").write_text(READER)
    with beside(f"{sys.executable} {tmp_path}/reader.py {tmp_path}/data"):
        step = measured(memory="cached", run_time="5s")

    share = shares(account_of(step))
    assert column(step, "diskstats.r/s") > 100
    assert share.get(Spent.DEVICE, 0.0) < 0.1
    assert on_processor(share) > 0.8


@pytest.mark.quiet
def test_beside_a_busy_neighbour_the_run_queue_is_longer(measured: Measure) -> None:
    """Four programs that only compute: physical sessions wait for processors, and it still closes.

    What they wait for the device is counted apart from that.
    """
    needs_perf()
    keys: dict[str, Any] = {"memory": "direct", "num_threads": 2, "scale": "64M", "run_time": "6s"}
    alone = account_of(measured(**keys, shared_buffers="8M"))
    with beside("while :; do :; done", many=4):
        account = account_of(measured(**keys, shared_buffers="8M"))

    assert account.session[Spent.RUN_QUEUE] > 1.2 * alone.session[Spent.RUN_QUEUE]
    assert abs(account.residue_share) < 0.15


@contextlib.contextmanager
def within_quota(cores: float) -> Iterator[None]:
    """Put this process, and all that it starts, in a cgroup with a CPU quota."""
    group = CPU / f"replayer-test-{os.getpid()}"
    if os.geteuid() or not (CPU / "cpu.cfs_quota_us").parent.is_dir():
        pytest.skip("cgroups of version 1 cannot be made here")
    before = Path("/", next(iter(Host().cgroups("cpu"))))
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(round(cores * 100_000)))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        limited.dissolve(group)
        (before / "cgroup.procs").write_text(str(os.getpid()))


@pytest.mark.quiet
def test_time_that_a_cpu_quota_takes_is_a_part_of_its_own(measured: Measure) -> None:
    """Two sessions from memory with 0.4 of a core: most of it is the quota's, none the device's."""
    with within_quota(0.4):
        limited_ = account_of(measured(memory="cached", run_time="3s"))
    free = account_of(measured(memory="cached", run_time="1s"))

    share = shares(limited_)
    assert share[Spent.THROTTLED] > 0.2
    assert share[Spent.THROTTLED] > share.get(Spent.RUN_QUEUE, 0.0)
    assert share.get(Spent.DEVICE, 0.0) < 0.1
    assert Spent.THROTTLED not in shares(free)


@pytest.mark.slow
def test_without_traces_the_looks_remain(
    measured: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where perf cannot trace, how long sessions slept is as they were met asleep."""

    def refuse(_scene: Any) -> None:
        raise Impossible("perf is not here")

    monkeypatch.setattr(collector, "Switches", refuse)
    account = account_of(measured(memory="cached"))

    assert on_processor(shares(account)) > max(shares(account).get(part, 0.0) for part in WAITS)
    assert not any("perf" in note for note in account.notes if "close" not in note)
