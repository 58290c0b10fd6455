"""Worker processes: one start for all, every result, and nobody left behind, whatever happens."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

from replayer.errors import ReplayerError, Skip
from replayer.journal import alive, identity
from replayer.watch.workers import Counter, WorkerPool

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def jobs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of jobs, which worker processes can import too."""
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module("pool_jobs")


def gone(owners: list[str], *, seconds: float = 120) -> bool:
    """Tell whether all processes are gone, at the latest after some seconds."""
    deadline = time.monotonic() + seconds
    while any(alive(owner) for owner in owners) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(alive(owner) for owner in owners)


def test_everybody_starts_at_one_instant_and_numbers_are_given_out_once(jobs: ModuleType) -> None:
    """The barrier's instant is the same in all processes, and no number is drawn twice or lost."""
    counter, limit = Counter(), 20_000
    with WorkerPool(jobs.share_out, [(counter, limit)] * 16, processes=2) as pool:
        pool.ready()
        opened_ns = pool.open()
        results = pool.results()

    assert sorted(number for mine, *_ in results for number in mine) == list(range(limit))
    assert {opened for _, opened, _, _ in results} == {opened_ns}
    assert len({pid for _, _, pid, _ in results}) == 2
    assert len({(pid, thread) for _, _, pid, thread in results}) == 16
    assert pool.first_done_ns is not None
    assert pool.last_done_ns is not None
    assert opened_ns <= pool.first_done_ns <= pool.last_done_ns <= time.monotonic_ns()


def test_counter_gives_ranges() -> None:
    """Taking several at once leaves the next number behind them."""
    counter = Counter()

    assert [counter.take(5), counter.take(), counter.take()] == [0, 5, 6]
    assert counter.value() == 7


def test_results_come_in_the_order_of_the_jobs_and_every_report_arrives(jobs: ModuleType) -> None:
    """Round robin dealing does not show in the results; reports from before the barrier count."""
    numbers = list(range(11))
    with WorkerPool(jobs.square, numbers, processes=3) as pool:
        pool.open()
        said = [one for one in pool.reports() if one is not None]

        assert pool.results() == [n * n for n in numbers]
    assert sorted(said) == sorted((when, n) for n in numbers for when in ("before", "after"))


def test_256_threads_fit_one_process(jobs: ModuleType) -> None:
    """So many sessions need no process each."""
    with WorkerPool(jobs.square, range(256), processes=1) as pool:
        pool.open()

        assert pool.results() == [n * n for n in range(256)]
        assert len(pool.pids) == 1


def test_no_more_processes_than_jobs_and_none_for_no_jobs(jobs: ModuleType) -> None:
    """Idle processes are not started."""
    with WorkerPool(jobs.square, [3], processes=8) as pool:
        assert len(pool.pids) == 1
    with WorkerPool(jobs.square, [], processes=8) as pool:
        pool.open()

        assert pool.pids == []
        assert pool.results() == []
        assert pool.last_done_ns is None


def test_silence_is_told_as_none(jobs: ModuleType, tmp_path: Path) -> None:
    """Who iterates over the reports can draw and look at the clock when nobody says anything."""
    path = tmp_path / "go"
    with WorkerPool(jobs.tell_pid_then_square, [(3, str(path))], processes=1) as pool:
        pool.open()
        said = []
        for one in pool.reports(timeout=0.05):
            said.append(one)
            if one is None:
                path.touch()

        assert pool.pids[0] in said
        assert None in said
        assert pool.results() == [9]


def test_usage_counts_work_and_not_preparation(jobs: ModuleType) -> None:
    """CPU seconds are those of the processes from the barrier to the last job's end."""
    with WorkerPool(jobs.burn_before_and_after, [(0.2, 0.05), (0.2, 0.05)], processes=2) as pool:
        pool.open()
        before, after = map(sum, zip(*pool.results(), strict=True))

    assert after <= sum(pool.usage) < before


def test_killed_worker_is_an_error_that_says_so(jobs: ModuleType) -> None:
    """A worker that the kernel kills ends the waiting at once, with one sentence."""
    with WorkerPool(jobs.one_dies, range(4), processes=2) as pool:
        pool.open()
        with pytest.raises(ReplayerError, match=r"killed with SIGKILL.*out-of-memory") as caught:
            pool.results()

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("job", "kind", "says"),
    [("value", ReplayerError, "ValueError: seven"), ("skip", Skip, "not on this machine")],
)
def test_exception_of_a_worker_reaches_the_parent(
    jobs: ModuleType, job: str, kind: type[Exception], says: str
) -> None:
    """Errors of replayer keep their class; others become one, and say which they were."""
    with WorkerPool(jobs.one_raises, ["", job, ""], processes=2) as pool:
        pool.open()
        with pytest.raises(kind, match=says):
            pool.results()


def test_result_that_cannot_be_sent_is_an_error(jobs: ModuleType) -> None:
    """It is not waited for until the end of time."""
    with WorkerPool(jobs.return_a_lock, [1], processes=1) as pool:
        pool.open()
        with pytest.raises(ReplayerError, match="cannot pickle"):
            pool.results()


def test_who_is_not_ready_in_time_is_counted(jobs: ModuleType) -> None:
    """The preparation of a job that hangs ends with a sentence."""
    with (
        WorkerPool(jobs.never_ready, [1, 2], processes=2) as pool,
        pytest.raises(ReplayerError, match="2 of 2 worker processes were not ready"),
    ):
        pool.ready(timeout=0.1)


def test_results_can_be_waited_for_only_so_long(jobs: ModuleType) -> None:
    """A limit is kept."""
    with WorkerPool(jobs.wait_for_ever, [1], processes=1) as pool:
        pool.open()
        with pytest.raises(ReplayerError, match="not done after"):
            pool.results(timeout=0.1)


@pytest.mark.parametrize("opened", [False, True])
def test_leaving_the_block_ends_every_process(jobs: ModuleType, *, opened: bool) -> None:
    """Whatever is raised, before or after the start, nobody is left and nobody is a zombie."""
    owners: list[str] = []

    def leave() -> NoReturn:
        with WorkerPool(jobs.wait_for_ever, [1, 2], processes=2) as pool:
            owners.extend(identity(pid) for pid in pool.pids)
            if opened:
                pool.open()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()

    assert len(owners) == 2
    assert not any(Path(f"/proc/{owner.split(':')[1]}").exists() for owner in owners)


def test_workers_leave_ctrl_c_to_their_parent(jobs: ModuleType, tmp_path: Path) -> None:
    """A terminal sends SIGINT to all: workers go on until the parent has decided."""
    path = tmp_path / "go"
    with WorkerPool(jobs.tell_pid_then_square, [(3, str(path))], processes=1) as pool:
        pool.open()
        next(one for one in pool.reports() if one is not None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pool.pids[0], number)
        path.touch()

        assert pool.results() == [9]


def test_a_process_ends_though_its_pool_is_open(jobs: ModuleType) -> None:
    """Python waits at its exit for processes that ignore its SIGTERM: that must not last."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import pool_jobs\n"
        "from replayer.watch.workers import WorkerPool\n"
        "def opened():\n"
        "    with WorkerPool(pool_jobs.wait_for_ever, [1, 2], processes=2) as pool:\n"
        "        pool.ready()\n"
        "        yield pool\n"
        "if __name__ == '__main__':\n"
        "    keeps = opened()\n"
        "    print(*next(keeps).pids, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, HERE], check=True, capture_output=True, timeout=600
    )

    pids = done.stdout.split()
    assert len(pids) == 2
    assert gone([identity(int(pid)) for pid in pids])


def test_workers_die_with_a_killed_parent(jobs: ModuleType) -> None:
    """SIGKILL gives the parent no time to end its workers: the kernel does it."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import pool_jobs\n"
        "from replayer.watch.workers import WorkerPool\n"
        "with WorkerPool(pool_jobs.wait_for_ever, [1, 2, 3], processes=2) as pool:\n"
        "    pool.open()\n"
        "    print(*pool.pids, flush=True)\n"
        "    pool.results()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, HERE], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        owners = [identity(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(owners) == 2
        assert all(owners)
        parent.kill()

    assert gone(owners)
