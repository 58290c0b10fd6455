"""What the tests of several hosts let agents do; `python -m` this is an agent that knows it."""

import dataclasses
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from replayer.cluster import message
from replayer.errors import ReplayerError
from replayer.watch.workers import distributable

message.PACKAGES.add("tests")

ROOT = Path(__file__).resolve().parents[1]
AGENT = f"exec env PYTHONPATH={ROOT} {sys.executable} -m tests.cluster_jobs"
"""For $REPLAYER_AGENT."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What a job has drawn from its seed, and when."""

    number: int
    draws: np.ndarray
    at_ns: int

    def moved(self, by_ns):
        """Return it by another clock."""
        return dataclasses.replace(self, at_ns=self.at_ns + by_ns)


@distributable
def draw(job, barrier, report):
    """Draw from the seed of the job, having said so."""
    number, seed = job
    barrier.wait()
    report(Drawn(number, np.zeros(0), time.monotonic_ns()))
    return Drawn(number, np.random.default_rng(seed).integers(0, 1 << 60, 100), time.monotonic_ns())


@distributable
def wait_for_ever(job, barrier, report):
    """Never be done, and say so now and then."""
    barrier.wait()
    while True:
        report((job, os.getpid()))
        threading.Event().wait(0.5)


@distributable
def say_and_wait(order, elsewhere):
    """Say what was ordered, and wait until somebody stops it."""
    try:
        elsewhere.say(order)
        threading.Event().wait()
    finally:
        elsewhere.say("gave back what was taken")


@distributable
def say_and_return(order, elsewhere):
    """Say each of the order's values, and return how many there were."""
    for value in order:
        elsewhere.say(value)
    if "fail" in order:
        raise ReplayerError("this was to fail")
    return len(order)


@distributable
def one_raises(job, barrier, report):
    """Fail where the job says so."""
    barrier.wait()
    if job == 1:
        raise ReplayerError("this job was to fail")
    threading.Event().wait()


def not_marked(job, barrier, report):
    """Not be for other hosts."""


if __name__ == "__main__":
    from replayer.__main__ import main

    sys.exit(main(["agent"]))
