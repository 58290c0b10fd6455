"""Execution of independent statements in several sessions at once.

The code that runs in worker processes is here, in a module that imports little.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replayer.engines import driver
from replayer.engines.driver import Connector
from replayer.engines.server_message import explain
from replayer.errors import ReplayerError
from replayer.watch.workers import Barrier, Counter, Report, WorkerPool

if TYPE_CHECKING:
    from replayer.engines.connection import Database

Chore = tuple[str, ...]
"""Statements without parameters that one session executes one after the other."""


@dataclass(frozen=True, slots=True)
class ParallelJob:
    """The job of one session: it takes one chore (a list of statements) after another."""

    connector: Connector
    chores: tuple[Chore, ...]
    queue: Counter


def execute(database: "Database", chores: Sequence[Chore], sessions: int) -> Iterator[int]:
    """Execute all chores; yield 1 for each chore that is done, and 0 after a second without one.

    Raises ReplayerError with the first line of the server's message when a statement fails.
    """
    job = ParallelJob(database.connector(), tuple(chores), Counter())
    jobs = [job] * min(sessions, len(chores))
    # Never on client hosts: the sessions take their statements from a counter in shared memory.
    with WorkerPool(do_chores, jobs, processes=1, awaited=database.waiting()) as pool:
        if chores:
            pool.open()
        for report in pool.reports(timeout=1.0):
            yield report or 0
        pool.results()


def do_chores(job: ParallelJob, barrier: Barrier, report: Report) -> None:
    """Execute chores (lists of statements) in one session, until none is left in the job's queue.

    The session waits for the `barrier` before the first chore, and reports 1 after each.  Raises
    ReplayerError if a statement fails.
    """
    with (
        contextlib.closing(driver.connect_worker(job.connector)) as connection,
        contextlib.closing(connection.cursor()) as cursor,
    ):
        barrier.wait()
        while (number := job.queue.take()) < len(job.chores):
            try:
                for statement in job.chores[number]:
                    cursor.execute(statement)
            except driver.driver_error(job.connector) as error:
                raise ReplayerError(f"the database reported: {explain(error)}") from error
            report(1)
