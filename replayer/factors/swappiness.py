"""Preference of the kernel for swapping before it drops cached files, from 0 to 200."""

from replayer.factors import FactorPlace, KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/vm/swappiness")
_FORCED = "proc/sys/vm/force_cgroup_v2_swappiness"
"""A file of Red Hat's kernels: with 1 all cgroups have the machine's value."""
_ONLY_ON_ROOT = "release_agent"
"""A file that only the root of a hierarchy of version 1 has, also as a container sees it."""


def unavailable(place: FactorPlace) -> str:
    """Return why the machine's value cannot be set or is not in force here; "" if it is.

    Each memory cgroup of version 1 has its value, which a server inherits from replayer.
    """
    group = next(place.host.cgroups("memory"), "")
    own = f"{group}/memory.swappiness"
    is_root = place.host.exists(f"{group}/{_ONLY_ON_ROOT}")
    if not place.host.exists(own) or is_root or place.host.read(_FORCED) == "1":
        return FILE.unavailable(place)
    return (
        f"{own} is in force in replayer's cgroup, not /{FILE.path}: move the shell of replayer "
        f"into the root of this hierarchy, or use cgroups of version 2"
    )
