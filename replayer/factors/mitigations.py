"""Mitigations of processor flaws on the kernel's command line, such as auto or off."""

from replayer.factors import FactorPlace, Scope, word_on_line

SCOPE: Scope = "boot"
NEEDS_ROOT = True


def current(place: FactorPlace) -> str | None:
    """Return the value of `mitigations=` on this boot's kernel command line, else `auto`."""
    return word_on_line(place, "mitigations", "auto")


def boot_words(level: str) -> tuple[str, ...]:
    """Return the word `mitigations=LEVEL` for the kernel's command line, as a tuple of one."""
    return (f"mitigations={level}",)
