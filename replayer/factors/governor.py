"""CPU frequency governor of all processors, such as performance or powersave."""

from replayer.factors import FactorPlace, KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("sys/devices/system/cpu/cpufreq/policy*/scaling_governor")


def levels(place: FactorPlace) -> tuple[str, ...]:
    """Return the names of the governors that the kernel's CPU frequency driver offers."""
    offered = "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors"
    return tuple(place.host.read(offered).split())
