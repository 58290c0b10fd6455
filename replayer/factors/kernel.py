"""Kernel that the machine runs, by its release: another one needs a boot."""

from replayer.factors import FactorPlace, Scope

SCOPE: Scope = "boot"
NEEDS_ROOT = True


def current(place: FactorPlace) -> str | None:
    """Return the release of the kernel that runs, such as 6.12.0; None if it cannot be read."""
    return place.host.read("proc/sys/kernel/osrelease") or None
