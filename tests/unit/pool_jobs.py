"""What the tests let worker processes do, in a module of its own: they find it by its name."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from replayer.errors import Skip
from replayer.watch.workers import Barrier, Counter

Report = Callable[[Any], None]


def share_out(
    job: tuple[Counter, int], barrier: Barrier, report: Report
) -> tuple[list[int], int, int, int]:
    """Take numbers from the counter until it has passed a limit; return them and the start."""
    counter, limit = job
    opened_ns = barrier.wait()
    mine = []
    while (number := counter.take()) < limit:
        mine.append(number)
    return mine, opened_ns, os.getpid(), threading.get_ident()


def square(job: int, barrier: Barrier, report: Report) -> int:
    """Return a number's square, having said the number before and after the barrier."""
    report(("before", job))
    barrier.wait()
    report(("after", job))
    return job * job


def burn_before_and_after(
    job: tuple[float, float], barrier: Barrier, report: Report
) -> tuple[float, float]:
    """Use CPU time before the barrier and, less of it, after; return how much it was."""
    before, after = map(burn, (job[0], 0.0))
    barrier.wait()
    return before, after + burn(job[1])


def burn(seconds: float) -> float:
    """Use CPU time of this thread, and return how much."""
    begin = time.thread_time()
    while (used := time.thread_time() - begin) < seconds:
        pass
    return used


def wait_for_ever(job: Any, barrier: Barrier, report: Report) -> None:
    """Never be done."""
    barrier.wait()
    threading.Event().wait()


def never_ready(job: Any, barrier: Barrier, report: Report) -> None:
    """Never come to the barrier."""
    threading.Event().wait()


def one_dies(job: int, barrier: Barrier, report: Report) -> None:
    """Have one process killed, while the others never get done."""
    barrier.wait()
    if job == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def one_raises(job: str, barrier: Barrier, report: Report) -> None:
    """Raise what the job says, if it says something, while the others never get done."""
    barrier.wait()
    if job == "value":
        raise ValueError("seven")
    if job == "skip":
        raise Skip("not on this machine")
    threading.Event().wait()


def return_a_lock(job: Any, barrier: Barrier, report: Report) -> Any:
    """Return what cannot be sent."""
    barrier.wait()
    return threading.Lock()


def tell_pid_then_square(job: tuple[int, str], barrier: Barrier, report: Report) -> int:
    """Say which process this is, wait for a file to appear, return the number's square."""
    number, path = job
    barrier.wait()
    report(os.getpid())
    while not os.path.exists(path):  # noqa: PTH110 - nothing else is needed here
        time.sleep(0.01)
    return number * number
