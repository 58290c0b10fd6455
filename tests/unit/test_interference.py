"""The CPU time of other programs, by program."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from replayer.machine import processes
from replayer.machine.host import Host
from replayer.machine.processes import Process
from replayer.model import Foreign
from replayer.watch import interference
from replayer.watch.interference import AccountMark

TICK = os.sysconf("SC_CLK_TCK")
Used = Mapping[tuple[int, str], float]
"""(process id, program) -> CPU seconds."""


def mark(clock: float, busy: float, others: Used) -> AccountMark:
    """Return a reading of a machine with two processors, without a server."""
    return AccountMark(clock=clock, busy=busy, known=0.0, processors=2, others=others)


def named(busy: float, first: Used, last: Used) -> tuple[str, ...]:
    """Return the programs of ten seconds in which the processors were busy for `busy` seconds."""
    return interference.between(mark(0, 0, first), mark(10, busy, last), None).programs


def test_programs_are_named_that_used_most() -> None:
    """One below a tenth of all is not, and the processes of a program are added up."""
    first = {(1, "make"): 5.0, (2, "cc1"): 0.0}
    last = {(1, "make"): 5.4, (2, "cc1"): 3.0, (3, "cc1"): 3.0}
    assert named(6.4, first, last) == ("cc1 30%",)
    assert named(6.4, first, {**last, (1, "make"): 6.0}) == ("cc1 30%", "make 5%")


def test_no_program_is_said_to_have_used_more_than_all() -> None:
    """The processors' time is counted in ticks, a process's in nanoseconds."""
    assert named(4.0, {}, {(1, "cp"): 4.6}) == ("cp 20%",)


def test_programs_that_have_ended_are_named_if_they_used_most() -> None:
    """No living program gets their time, and one that used nearly nothing is no cause."""
    idle = {(1, "cron"): 1.0}
    assert named(2.6, idle, {(1, "cron"): 1.01}) == ("programs that have ended 13%",)
    assert named(2.0, {}, {(1, "cc1"): 0.9}) == ("cc1 4%", "programs that have ended 6%")
    assert named(2.0, {}, {(1, "cc1"): 1.1}) == ("cc1 6%",)


def test_a_process_that_runs_another_program_has_only_its_time_in_the_window() -> None:
    """Its time before is not that of the new program; a process number may be given again."""
    assert named(2.0, {(1, "sh"): 50.0}, {(1, "cc1"): 52.0}) == ("cc1 10%",)
    assert named(2.0, {(1, "sh"): 50.0}, {(1, "cc1"): 2.0}) == ("cc1 10%",)


def test_none_is_named_where_nothing_is_known() -> None:
    """Not even one that used time."""
    before, after = mark(0, 0, {}), mark(10, 0, {(1, "cc1"): 1.0})
    assert interference.between(before, after, None).programs == ()


KERNEL = (Process(2, "kthreadd", 0, 0.0, 0.0, 0.0, 0.0), Process(9, "kworker/0:1", 2, 90, 0, 0, 0))
"""The parent of the kernel's threads, and one of them, which worked for 90 seconds."""


@pytest.fixture
def window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., interference.AccountMark]:
    """Return a function that reads a machine of eight processors, where replayer alone runs.

    Its parameters are the seconds of replayer and of all programs, each in user mode and in the
    kernel, and the processes that are visible in addition.
    """
    (tmp_path / "proc").mkdir()

    def point(
        own: tuple[int, int], busy: tuple[int, int], *more: Process
    ) -> interference.AccountMark:
        numbers = f"{busy[0] * TICK} 0 {busy[1] * TICK} 0 0 0 0 0 0 0"
        lines = [f"cpu{n} {numbers}" for n in ("", *range(8))]
        (tmp_path / "proc/stat").write_text("\n".join(lines))
        replayer = Process(os.getpid(), "replayer", 0, sum(own), 0, own[0], 0)
        monkeypatch.setattr(processes, "table", lambda: iter([replayer, *more]))
        return replace(interference.point(Host(tmp_path), []), clock=float(sum(own)))

    return point


def test_the_kernels_work_is_of_no_program_where_its_threads_are_hidden(
    window: Callable[..., interference.AccountMark],
) -> None:
    """In a container, or with hidepid: kernel threads use no time in user mode, and programs do."""
    begin = window((0, 0), (0, 0))
    own_writes = interference.between(begin, window((1, 9), (1, 99)), None)
    neighbour = interference.between(begin, window((1, 9), (41, 99)), None)
    child = Process(7, "dd", 1, 30.0, 0.0, 24.0, 0.0)
    visible = interference.between(begin, window((1, 9), (25, 99), child), None)
    shown = interference.between(
        window((0, 0), (0, 0), KERNEL[0]), window((1, 9), (1, 99), *KERNEL), None
    )

    assert (own_writes.cpu_share, own_writes.programs) == (0.0, ())
    assert (shown.cpu_share, shown.programs) == (0.0, ())
    assert (neighbour.cpu_share, neighbour.programs) == (0.5, (f"{interference.UNSEEN} 50%",))
    assert (visible.cpu_share, visible.programs) == (0.3, ("dd 30%",))


def test_only_processors_that_may_be_used_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 448, replayer may use four, and the server two others; others are busy next to them.

    A program that runs on other processors is not named.
    """

    def point(seconds: int, server: str, *more: Process) -> interference.AccountMark:
        busy = dict.fromkeys((6, 7, 400), seconds)
        lines = [f"cpu{n} {busy.get(n, 0) * TICK} 0 0 0 0 0 0 0 0 0" for n in range(448)]
        files = {
            "proc/stat": "\n".join([f"cpu {3 * seconds * TICK} 0 0 0 0 0 0 0 0 0", *lines]),
            "proc/self/status": "Name:\tx\nCpus_allowed_list:\t4-7\nMems_allowed:\t1\n",
            "proc/77/status": server,
        }
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        monkeypatch.setattr(processes, "table", lambda: iter(more))
        return replace(interference.point(Host(tmp_path), [77]), clock=float(seconds))

    pair = "Cpus_allowed_list:\t0,4-5\n"
    begin = point(0, pair, *KERNEL)
    near, far = (
        Process(n, name, 1, used, 0, used, 0, processor)
        for n, name, used, processor in ((91, "near", 12, 7), (92, "far", 6, 400))
    )
    after = point(6, pair, *KERNEL, near, far)
    disturbed = interference.between(begin, after, None)
    unknown = interference.between(point(0, "", *KERNEL), point(6, "", *KERNEL), None)

    assert (after.processors, after.allowed) == (5, frozenset({0, 4, 5, 6, 7}))
    assert disturbed.cpu_share == 0.4
    assert disturbed.programs == ("near 40%",)
    assert point(6, "").processors == 448
    assert unknown.cpu_share == pytest.approx(3 / 448)


def test_a_window_at_one_end_of_which_all_is_visible_has_no_share() -> None:
    """Its two counts are not of the same work."""
    ends = (mark(0, 0, {}), replace(mark(10, 9, {}), partial=True))
    assert interference.between(*ends, None).cpu_share is None


def test_the_window_that_was_disturbed_most_speaks_for_several() -> None:
    """Its share and programs are kept, and the limits of all; a window of ticks is not judged."""
    quiet = Foreign(cpu_share=0.01, held_back={"replayer": 0.3}, disk_limits={"server.reads": None})
    loud = Foreign(cpu_share=0.4, programs=("make 40%",), held_back={"replayer": 0.1})
    unknown = Foreign(cpu_share=None)
    worst = interference.busiest([unknown, loud, quiet])

    assert (worst.cpu_share, worst.programs) == (0.4, ("make 40%",))
    assert (worst.held_back, worst.disk_limits) == ({"replayer": 0.3}, {"server.reads": None})
    assert interference.judged(mark(0, 0, {}), mark(0.5, 0.03, {})) is None
    assert interference.judged(mark(0, 0, {}), mark(0.5, 1, {})) is not None
    judged = interference.judged(mark(0, 0, {}), mark(2, 1, {}))
    assert judged is not None
    assert judged.cpu_share == 0.25
