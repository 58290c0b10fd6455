"""Mitigations of processor flaws on the kernel's command line, such as auto or off."""

from replayer.factors import FactorPlace, Scope, word_on_line

SCOPE: Scope = "boot"
NEEDS_ROOT = True


def current(place: FactorPlace) -> str | None:
    """Return the value on the command line of this boot, else the kernel's default."""
    return word_on_line(place, "mitigations", "auto")


def boot_words(level: str) -> tuple[str, ...]:
    """Return the word that sets the level on the kernel's command line, as a tuple."""
    return (f"mitigations={level}",)
