"""Preemption model on the kernel's command line (preempt=): for kernels with PREEMPT_DYNAMIC."""

from replayer.factors import FactorPlace, Scope, word_on_line

SCOPE: Scope = "boot"
NEEDS_ROOT = True


def current(place: FactorPlace) -> str | None:
    """Return the value of `preempt=` on this boot's kernel command line; None if not there."""
    return word_on_line(place, "preempt", "") or None


def boot_words(level: str) -> tuple[str, ...]:
    """Return the word `preempt=LEVEL` for the kernel's command line, as a tuple of one."""
    return (f"preempt={level}",)
