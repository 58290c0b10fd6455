"""Processor time that a cgroup leaves to the run and its server, in processors, such as 1.5."""

from replayer.conditions import own_group
from replayer.errors import Impossible, ReplayerError
from replayer.factors import FactorPlace, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
_PERIOD = 100_000
_NONE = "none"


def current(place: FactorPlace) -> str | None:
    """Return the lowest processor quota of this process's cgroups, as text; "none" without one.

    The quota is a number of processors, such as 1.5.
    """
    cores = place.host.cpu_limit()
    return _NONE if cores is None else f"{cores:g}"


def unavailable(place: FactorPlace) -> str:
    """Return why no cgroup with a limit on CPU time can be made on this machine; "" if one can."""
    return own_group.refusal(place.host, "cpu")


def check_level(level: str) -> None:
    """Raise Impossible for a text that is neither a number of processors nor "none"."""
    if level != _NONE:
        _quota(level)


def set_level(place: FactorPlace, level: str) -> None:
    """Move replayer into a cgroup with a quota of CPU time, and check that the quota is in force.

    `level` is the quota: a number of processors, such as 1.5.  Nothing is done if it is in force
    already.  Raises ReplayerError if a cgroup above allows less, and also for "none" if a cgroup
    has a quota.
    """
    before = current(place)
    if level == before:
        return
    if level == _NONE:
        raise ReplayerError(f"cpu_quota=none: a cgroup above leaves {before} only")
    quota = _quota(level)
    own_group.confine(
        place.host,
        "cpu",
        {
            1: {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)},
            2: {"cpu.max": f"{quota} {_PERIOD}"},
        },
    )
    if current(place) != f"{quota / _PERIOD:g}":
        raise ReplayerError(f"cpu_quota={level}: a cgroup above leaves {current(place)} only")


def _quota(level: str) -> int:
    try:
        quota = round(float(level) * _PERIOD)
    except (ValueError, OverflowError):
        quota = 0
    if not 1000 <= quota <= 1024 * _PERIOD:
        raise Impossible(f"cpu_quota={level}: it must be a number of processors, such as 1.5")
    return quota
