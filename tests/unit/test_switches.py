"""How long threads slept, of what the scheduler's events tell, in both of the forms they have."""

from collections.abc import Mapping

import pytest

from replayer.collectors.waits.switches import RUNS, ThreadSwitch, ThreadTrace, joined, parsed
from tests.known import known

MS = 10**6
LOOKER, READER, LOCKED = 10, 20, 30
KERNEL = """\
  5.001000000: sched:sched_switch: prev_comm=a pid=7 prev_pid=20 prev_prio=120 prev_state=D ==> \
next_comm=swapper/0 next_pid=0 next_prio=120
  5.002000000: sched:sched_wakeup: comm=postgres pid=20 prio=120 target_cpu=001
  5.002500000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
next_comm=postgres: replayer next_pid=20 next_prio=120
  5.003000000: sched:sched_switch: prev_comm=postgres prev_pid=20 prev_prio=120 prev_state=R+ ==> \
next_comm=kworker/0:1 next_pid=99 next_prio=120
"""
LIBRARY = """\
  5.001000000: sched:sched_switch: a:20 [120] D ==> swapper/0:0 [120]
  5.002000000: sched:sched_wakeup: postgres:20 [120] CPU:001
  5.002500000: sched:sched_switch: swapper/0:0 [120] R ==> postgres: replayer:20 [120]
  5.003000000: sched:sched_switch: postgres:20 [120] R+ ==> kworker/0:1:99 [120]
"""


def slept(
    *steps: ThreadSwitch,
    letters: Mapping[int, str],
    looked: Mapping[str, float] | None = None,
    begin: int = 0,
    end: int = 4,
    watcher: int = LOOKER,
) -> dict[str, float]:
    """Return the shares of one trace of some milliseconds, in which the looker worked."""
    trace = ThreadTrace((begin - 1) * MS, begin * MS, end * MS, letters, watcher, "server")
    woke = ThreadSwitch(end * MS - 1, LOOKER, RUNS, woken=True)
    return known(joined([trace], sorted([*steps, woke]), looked or shares(letters)))


def shares(letters: Mapping[int, str]) -> dict[str, float]:
    """Return state -> share of threads."""
    states = list(letters.values())
    return {state: states.count(state) / len(states) for state in states}


def step(at: float, state: str, *, tid: int = READER, woken: bool = False) -> ThreadSwitch:
    """Return what happened to the reader after so many milliseconds."""
    return ThreadSwitch(round(at * MS), tid, state, woken=woken)


@pytest.mark.parametrize("text", [KERNEL, LIBRARY])
def test_both_forms_of_an_event_tell_the_same(text: str) -> None:
    """As the kernel prints it, and as perf does with a library; names may look like fields."""
    at = [5_001_000_000, 5_002_000_000, 5_002_500_000, 5_003_000_000]

    steps = list(parsed(text.splitlines(), {READER}))

    assert steps == [
        ThreadSwitch(at[0], READER, "D", woken=False),
        ThreadSwitch(at[1], READER, RUNS, woken=True),
        ThreadSwitch(at[2], READER, RUNS, woken=False),
        ThreadSwitch(at[3], READER, RUNS, woken=False),
    ]  # fmt: skip
    assert list(parsed(text.splitlines(), {1})) == []
    assert list(parsed(["", "perf: nonsense", "1.2: sched:sched_switch: x"], {READER})) == []


def test_a_sleep_is_from_the_switch_to_the_wake_up() -> None:
    """A reader that slept 3 of 4 ms, was woken, waited and ran: though it was seen awake."""
    steps = [
        step(0.5, "D"), step(3.5, RUNS, woken=True), step(3.7, RUNS), step(3.9, RUNS),
    ]  # fmt: skip

    assert slept(*steps, letters={READER: RUNS}, looked={RUNS: 1.0}) == {
        "D": pytest.approx(0.75), RUNS: pytest.approx(0.25),
    }  # fmt: skip


def test_whoever_did_nothing_is_as_it_was_seen() -> None:
    """One waits for a lock all the while, another was asleep until it was woken, as was seen."""
    letters = {LOCKED: "S", READER: "D"}

    parts = slept(step(1, RUNS, woken=True), letters=letters)

    assert parts == {
        "S": pytest.approx(0.5), "D": pytest.approx(1 / 8), RUNS: pytest.approx(3 / 8),
    }  # fmt: skip


def test_what_was_before_the_trace_tells_the_first_state() -> None:
    """Perf had begun by then: it fell asleep in that millisecond, and slept on."""
    assert slept(step(-0.5, "S"), letters={READER: RUNS}, looked={RUNS: 1.0})["S"] == 1.0
    # Before perf was told to begin is another trace's.
    assert slept(step(-1.5, "S"), letters={READER: RUNS})[RUNS] == 1.0


def test_the_dead_are_not_counted() -> None:
    """A session that ends in the middle has no time after that."""
    parts = slept(step(1, "S"), step(2, RUNS, woken=True), step(2, "X"), letters={READER: RUNS})

    assert parts[RUNS] == pytest.approx(0.5)


def test_a_trace_that_lacks_the_looker_is_none() -> None:
    """Where ids are others than the kernel's, or perf recorded nothing: no trace, no share."""
    trace = ThreadTrace(-MS, 0, 4 * MS, {READER: "D"}, LOOKER, "server")

    assert joined([trace], [], {"D": 1.0}) is None
    assert joined([], [], {}) is None


def traces(letters: str, seen: str) -> tuple[list[ThreadTrace], list[ThreadSwitch]]:
    """Return traces, 100 ms apart, of a reader that held or was seen in these states."""
    made, steps = [], []
    for number, (held, met) in enumerate(zip(letters, seen, strict=True)):
        begin = number * 100 * MS
        made.append(ThreadTrace(begin - MS, begin, begin + 4 * MS, {READER: met}, LOOKER, "server"))
        steps += [ThreadSwitch(begin - 1, READER, held, woken=False)]
        steps += [ThreadSwitch(begin + 1, LOOKER, RUNS, woken=True)]
    return made, sorted(steps)


def test_long_waits_are_as_all_looks_met_them() -> None:
    """Traces that happen to meet more sleep than the looks do are adjusted for just that."""
    made, steps = traces("SRSRSSRSSS", "SRSRSSRSSS")

    assert known(joined(made, steps, {"S": 0.5, RUNS: 0.5}))["S"] == pytest.approx(0.5)


def test_looks_that_come_too_late_adjust_nothing() -> None:
    """All were asleep in the traces that the looks before them met awake, now and then or not."""
    made, steps = traces("DDDDDDDDDD", "RRDRRRRRDR")

    parts = known(joined(made, steps, {"D": 0.3, RUNS: 0.7}))

    assert parts == {"D": pytest.approx(1.0), RUNS: pytest.approx(0.0)}
