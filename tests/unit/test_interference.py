"""The CPU time of other programs, by program."""

from collections.abc import Mapping

from replayer.model import Foreign
from replayer.watch import interference
from replayer.watch.interference import AccountMark

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
