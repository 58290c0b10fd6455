"""What the tests of several hosts let agents do; `python -m` this is an agent that knows it."""

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from replayer.cluster import packing
from replayer.cluster.worker_process import ReportLink
from replayer.errors import ReplayerError
from replayer.watch.workers import Barrier, distributable

packing.PACKAGES.add("tests")

Report = Callable[[Any], None]

ROOT = Path(__file__).resolve().parents[1]
AGENT = f"exec env PYTHONPATH={ROOT} {sys.executable} -m tests.cluster_jobs"
"""For $REPLAYER_AGENT."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What a job has drawn from its seed, and when."""

    number: int
    draws: npt.NDArray[np.int64]
    at_ns: int

    def moved(self, by_ns: int) -> "Drawn":
        """Return it by another clock."""
        return dataclasses.replace(self, at_ns=self.at_ns + by_ns)


@distributable
def draw(job: tuple[int, int], barrier: Barrier, report: Report) -> Drawn:
    """Draw from the seed of the job, having said so."""
    number, seed = job
    barrier.wait()
    report(Drawn(number, np.zeros(0, np.int64), time.monotonic_ns()))
    return Drawn(number, np.random.default_rng(seed).integers(0, 1 << 60, 100), time.monotonic_ns())


@distributable
def wait_for_ever(job: Any, barrier: Barrier, report: Report) -> NoReturn:
    """Never be done, and say so now and then."""
    barrier.wait()
    while True:
        report((job, os.getpid()))
        threading.Event().wait(0.5)


@distributable
def say_and_wait(order: str, link: ReportLink) -> None:
    """Say what was ordered, and wait until somebody stops it."""
    try:
        link.say(order)
        threading.Event().wait()
    finally:
        link.say("gave back what was taken")


@distributable
def say_and_return(order: list[Any], link: ReportLink) -> int:
    """Say each of the order's values, and return how many there were."""
    for value in order:
        link.say(value)
    if "fail" in order:
        raise ReplayerError("this was to fail")
    return len(order)


@distributable
def one_raises(job: int, barrier: Barrier, report: Report) -> None:
    """Fail where the job says so."""
    barrier.wait()
    if job == 1:
        raise ReplayerError("this job was to fail")
    threading.Event().wait()


def not_marked(job: int, barrier: Barrier, report: Report) -> None:
    """Not be for other hosts."""


if __name__ == "__main__":
    from replayer.__main__ import main

    sys.exit(main(["agent"]))
