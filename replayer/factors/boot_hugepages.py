"""Huge pages that the kernel's command line reserves at boot (hugepages=)."""

from replayer.factors import FactorPlace, Scope, word_on_line

SCOPE: Scope = "boot"
NEEDS_ROOT = True


def current(place: FactorPlace) -> str | None:
    """Return the number after `hugepages=` on this boot's kernel command line; "0" if not there."""
    return word_on_line(place, "hugepages", "0")


def boot_words(level: str) -> tuple[str, ...]:
    """Return the word `hugepages=LEVEL` for the kernel's command line, as a tuple of one."""
    return (f"hugepages={level}",)
