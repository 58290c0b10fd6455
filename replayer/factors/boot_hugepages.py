"""Huge pages that the kernel's command line reserves at boot (hugepages=)."""

from replayer.factors import FactorPlace, Scope

SCOPE: Scope = "boot"
NEEDS_ROOT = True
_KEY = "hugepages="


def current(place: FactorPlace) -> str | None:
    """Return the value on the command line of this boot, else the kernel's default."""
    words = place.host.read("proc/cmdline").split()
    given = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    return given[-1] if given else "0"
