"""Second threads of the processor's cores (Hyper-Threading): on or off."""

from replayer.factors import FactorPlace, KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("sys/devices/system/cpu/smt/control", refused=("notsupported", "notimplemented"))


def levels(_place: FactorPlace) -> tuple[str, ...]:
    """Return the two levels: "on" and "off"."""
    return "on", "off"
