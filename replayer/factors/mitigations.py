"""Mitigations of processor flaws on the kernel's command line, such as auto or off."""

from replayer.factors import FactorPlace, Scope

SCOPE: Scope = "boot"
NEEDS_ROOT = True
_KEY = "mitigations="


def current(place: FactorPlace) -> str | None:
    """Return the value on the command line of this boot, else the kernel's default."""
    words = place.host.read("proc/cmdline").split()
    given = [word.removeprefix(_KEY) for word in words if word.startswith(_KEY)]
    return given[-1] if given else "auto"
