"""Sleep states of idle processors: 0 allows them all, 1 forbids all but the lightest."""

from replayer.factors import FactorPlace, KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("sys/devices/system/cpu/cpu*/cpuidle/state[1-9]/disable")


def levels(_place: FactorPlace) -> tuple[str, ...]:
    """Return the levels "0" (sleep states allowed) and "1" (forbidden), as in the kernel's file."""
    return "0", "1"
