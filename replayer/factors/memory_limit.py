"""Memory that a cgroup leaves to the run, its server and their page cache, such as 2GiB."""

from replayer import units
from replayer.conditions import own_group
from replayer.errors import Impossible, ReplayerError
from replayer.factors import FactorPlace, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
_NONE = "none"
_LEAST, _MOST = 256 << 20, 1 << 50


def current(place: FactorPlace) -> str | None:
    """Return the lowest memory limit of this process's cgroups, in bytes; "none" without one."""
    limit = place.host.memory_limit_bytes()
    return _NONE if limit is None else str(limit)


def unavailable(place: FactorPlace) -> str:
    """Return why no cgroup with a memory limit can be made on this machine; "" if one can."""
    return own_group.refusal(place.host, "memory")


def check_level(level: str) -> None:
    """Raise Impossible for a text that is neither "none" nor a size from 256MiB to 1024TiB."""
    _limit(level)


def set_level(place: FactorPlace, level: str) -> None:
    """Move replayer into a cgroup with a memory limit, and check that the limit is in force.

    `level` is the limit, such as 2GiB.  Raises ReplayerError if the kernel keeps another limit, and
    Impossible for "none" if a cgroup has a limit.
    """
    if level == current(place):
        return
    limit = _limit(level)
    if limit is None:
        raise Impossible(f"memory_limit={level}: a cgroup above leaves {current(place)} bytes only")
    own_group.confine(
        place.host,
        "memory",
        {1: {"memory.limit_in_bytes": str(limit)}, 2: {"memory.max": str(limit)}},
    )
    kept = place.host.memory_limit_bytes() or 0
    if abs(kept - limit) > 1 << 20:
        raise ReplayerError(f"memory_limit={level}: the kernel leaves {kept:,} bytes")


def _limit(level: str) -> int | None:
    limit = None if level == _NONE else units.size(level)
    if limit is not None and not _LEAST <= limit <= _MOST:
        raise Impossible(f"memory_limit={level}: it must be from 256MiB to 1024TiB")
    return limit
