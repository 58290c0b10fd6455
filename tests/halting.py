"""Halt a server's processes and let them go on, whichever of them ended since they were listed."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path


def halt(pids: Sequence[int]) -> None:
    """Halt processes in this order, and wait until each of their threads has stopped."""
    _signal(pids, signal.SIGSTOP)
    for path in [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/stat")]:
        while _runs(path):
            time.sleep(0.01)


def go_on(pids: Iterable[int]) -> None:
    """Let processes go on that were halted."""
    _signal(pids, signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal those of them that are there: a server's helpers come and go."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _runs(path: Path) -> bool:
    """Tell whether a thread is there, neither stopped nor ended."""
    try:
        return path.read_text().rpartition(")")[2].split()[0] not in "TtZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
