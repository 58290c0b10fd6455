"""What the tests let worker processes do, in a module of its own: they find it by its name."""

import os
import signal
import threading
import time
from typing import Any

from replayer.errors import Skip
from replayer.watch.workers import Barrier, Report


def share_out(job: Any, barrier: Barrier, report: Report) -> tuple[list[int], int, int, int]:
    """Take numbers from the counter until it has passed a limit; return them and the start."""
    counter, limit = job
    opened_ns = barrier.wait()
    mine = []
    while (number := counter.take()) < limit:
        mine.append(number)
    return mine, opened_ns, os.getpid(), threading.get_ident()


def square(job: Any, barrier: Barrier, report: Report) -> int:
    """Return a number's square, having said the number before and after the barrier."""
    report(("before", job))
    barrier.wait()
    report(("after", job))
    number: int = job
    return number * number


def burn_before_and_after(job: Any, barrier: Barrier, report: Report) -> None:
    """Use CPU time before the barrier and, less of it, after."""
    before, after = job
    burn(before)
    barrier.wait()
    burn(after)


def burn(seconds: float) -> None:
    """Use CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def wait_for_ever(job: Any, barrier: Barrier, report: Report) -> None:
    """Never be done."""
    barrier.wait()
    threading.Event().wait()


def never_ready(job: Any, barrier: Barrier, report: Report) -> None:
    """Never come to the barrier."""
    threading.Event().wait()


def one_dies(job: Any, barrier: Barrier, report: Report) -> None:
    """Have one process killed, while the others never get done."""
    barrier.wait()
    if job == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def one_raises(job: Any, barrier: Barrier, report: Report) -> None:
    """Raise what the job says, if it says something, while the others never get done."""
    barrier.wait()
    if job == "value":
        raise ValueError("seven")
    if job == "skip":
        raise Skip("not on this machine")
    threading.Event().wait()


def return_a_lock(job: Any, barrier: Barrier, report: Report) -> object:
    """Return what cannot be sent."""
    barrier.wait()
    return threading.Lock()


def tell_pid_then_square(job: Any, barrier: Barrier, report: Report) -> int:
    """Say which process this is, wait for a file to appear, return the number's square."""
    number: int
    number, path = job
    barrier.wait()
    report(os.getpid())
    while not os.path.exists(path):  # noqa: PTH110 - nothing else is needed here
        time.sleep(0.01)
    return number * number
