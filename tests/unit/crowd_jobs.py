"""What the tests let worker processes do, in a module of its own: they find it by its name."""

import os
import signal
import threading
import time

from replayer.errors import Skip


def share_out(job, gate, report):
    """Take numbers from the counter until it has passed a limit; return them and the start."""
    counter, limit = job
    opened_ns = gate.wait()
    mine = []
    while (number := counter.take()) < limit:
        mine.append(number)
    return mine, opened_ns, os.getpid(), threading.get_ident()


def square(job, gate, report):
    """Return a number's square, having said the number before and after the gate."""
    report(("before", job))
    gate.wait()
    report(("after", job))
    return job * job


def burn_before_and_after(job, gate, report):
    """Use CPU time before the gate and, less of it, after."""
    before, after = job
    burn(before)
    gate.wait()
    burn(after)


def burn(seconds):
    """Use CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def wait_for_ever(job, gate, report):
    """Never be done."""
    gate.wait()
    threading.Event().wait()


def never_ready(job, gate, report):
    """Never come to the gate."""
    threading.Event().wait()


def one_dies(job, gate, report):
    """Have one process killed, while the others never get done."""
    gate.wait()
    if job == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def one_raises(job, gate, report):
    """Raise what the job says, if it says something, while the others never get done."""
    gate.wait()
    if job == "value":
        raise ValueError("seven")
    if job == "skip":
        raise Skip("not on this machine")
    threading.Event().wait()


def return_a_lock(job, gate, report):
    """Return what cannot be sent."""
    gate.wait()
    return threading.Lock()


def tell_pid_then_square(job, gate, report):
    """Say which process this is, wait for a file to appear, return the number's square."""
    number, path = job
    gate.wait()
    report(os.getpid())
    while not os.path.exists(path):  # noqa: PTH110 - nothing else is needed here
        time.sleep(0.01)
    return number * number
