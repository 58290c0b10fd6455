"""Preemption model on the kernel's command line (preempt=): for kernels with PREEMPT_DYNAMIC."""

from replayer.factors import FactorPlace, Scope, word_on_line

SCOPE: Scope = "boot"
NEEDS_ROOT = True


def current(place: FactorPlace) -> str | None:
    """Return the value on the command line of this boot; None if the kernel chose it."""
    return word_on_line(place, "preempt", "") or None


def boot_words(level: str) -> tuple[str, ...]:
    """Return the word that sets the level on the kernel's command line, as a tuple."""
    return (f"preempt={level}",)
