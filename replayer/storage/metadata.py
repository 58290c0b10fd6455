"""Metadata operations: create, look up and delete many files, each call timed."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replayer.errors import ReplayerError
from replayer.watch.histogram import Latencies, Recorder
from replayer.watch.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replayer.watch.workers import Barrier, Report


@dataclass(frozen=True, slots=True)
class Entries:
    """The files of one client that are created, looked up and deleted: `many` of them in `folder`.

    If `shuffled`, their names and the order of the operations are random, drawn from `seed`.
    """

    folder: str
    many: int
    shuffled: bool
    seed: int


@dataclass(frozen=True, slots=True)
class _Task:
    entries: Entries
    verb: str


@dataclass(frozen=True, slots=True)
class Handled:
    """The result of `create`, `stat` or `delete` on all files of all clients together.

    `seconds` is from the common start to the end of the last client.  `cpu_percent` is the CPU time
    of the clients, in percent of `seconds`.  `latencies` are those of single calls.
    """

    operations: int
    seconds: float
    cpu_percent: float
    latencies: Latencies
    by_client: tuple[float, ...]
    """Files per second of each client."""


def handle(
    verb: str, clients: Sequence[Entries], opened: Callable[[], None] | None = None
) -> Handled:
    """Run the operation `verb` on each file of each client; return its times and latencies.

    `verb` is `create`, `stat` or `delete`. Each client is a process, and all work at the same time.
    `opened` is called just before they start.
    Raises ReplayerError with the first failure, such as a full disk or a file that is gone.
    """
    tasks = [_Task(entries, verb) for entries in clients]
    with WorkerPool(_work, tasks, processes=len(tasks)) as pool:
        pool.ready()
        if opened is not None:
            opened()
        begin = pool.open()
        parts: list[tuple[int, Latencies]] = pool.results()
        user, system = pool.usage
    seconds = max(end for end, _ in parts) - begin
    many = sum(entries.many for entries in clients)
    return Handled(
        operations=many,
        seconds=seconds / 1e9,
        cpu_percent=100 * (user + system) / (seconds / 1e9),
        latencies=Latencies.of(seen for _, seen in parts),
        by_client=tuple(
            entries.many * 1e9 / (end - begin)
            for entries, (end, _) in zip(clients, parts, strict=True)
        ),
    )


def _work(task: _Task, barrier: Barrier, report: Report) -> tuple[int, Latencies]:  # noqa: ARG001
    paths = _paths(task)
    calls: dict[str, Callable[[str], object]] = {
        "create": _create,
        "stat": os.stat,
        "delete": os.unlink,
    }
    call = calls[task.verb]
    ends = np.zeros(len(paths), dtype=np.int64)
    clock = time.monotonic_ns
    begin = barrier.wait()
    path = task.entries.folder
    try:
        for number, path in enumerate(paths):
            call(path)
            ends[number] = clock()
    except OSError as error:
        raise ReplayerError(
            f"{task.verb} of {path} failed: {error.strerror}"
            + ("; free some inodes or space" if error.errno == errno.ENOSPC else "")
        ) from error
    recorder = Recorder()
    recorder.add(np.diff(ends, prepend=begin))
    return int(ends[-1]), recorder.recorded()


def _paths(task: _Task) -> list[str]:
    """Return the paths of a client's files in the order in which its operation uses them.

    If the files are not shuffled, they are numbered, in order. If they are, names and order are
    random, and the order differs for each of the operations `create`, `stat` and `delete`.
    """
    entries = task.entries
    numbers = np.arange(entries.many)
    names = [f"{entries.folder}/{number:08d}" for number in numbers]
    if not entries.shuffled:
        return names
    tag = np.random.default_rng(entries.seed).integers(0, 1 << 62, entries.many)
    names = [f"{entries.folder}/{word:016x}{number:08d}" for number, word in enumerate(tag)]
    order = sum(task.verb.encode())
    np.random.default_rng([entries.seed, order]).shuffle(numbers)
    return [names[number] for number in numbers]


def _create(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
