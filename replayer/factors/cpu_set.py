"""Processors that the run and its server may use, such as 0-3 or 0,2."""

import os

from replayer.conditions import own_group
from replayer.errors import Impossible
from replayer.factors import FactorPlace, Scope

SCOPE: Scope = "machine"
_MANY = 1 << 13
"""The most processors that a machine can have (NR_CPUS)."""


def current(_place: FactorPlace) -> str | None:
    """Return the numbers of the processors that this process may use, such as 0,1,2."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def check_level(level: str) -> None:
    """Raise Impossible for a text that is not a list of processors, such as 0-3 or 0,2."""
    _numbers(level)


def set_level(_place: FactorPlace, level: str) -> None:
    """Let this process, and all that it starts, run only on the processors in `level`.

    `level` is a list such as 0-3 or 0,2.  Raises Impossible for processors that do not exist or are
    not allowed.
    """
    own_group.choose_processors(_numbers(level))


def _numbers(level: str) -> set[int]:
    numbers: set[int] = set()
    for part in level.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 9:
            raise Impossible(f"cpu_set={level}: it must be such as 0-3 or 0,2")
        numbers.update(range(int(first), min(int(last or first), int(first) + _MANY) + 1))
    return numbers
