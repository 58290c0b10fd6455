"""Second threads of the processor's cores (Hyper-Threading): on or off."""

from replayer.factors import FactorPlace, KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile(
    "sys/devices/system/cpu/smt/control",
    # With `on` the kernel also brings up the processors that were taken offline one by one.
    also=("sys/devices/system/cpu/cpu*/online",),
    refused=("notsupported", "notimplemented"),
)


def levels(_place: FactorPlace) -> tuple[str, ...]:
    """Return the two levels: "on" and "off"."""
    return "on", "off"


def unavailable(place: FactorPlace) -> str:
    """Return why this machine cannot switch its threads and give them back; "" if it can."""
    host, reason = place.host, FILE.unavailable(place)
    lost = [
        f"{folder}/{name}"
        for folder in host.cgroups("cpuset")
        if host.exists(f"{folder}/cpuset.effective_cpus")  # a file of version 1 only
        for name in host.entries(folder)
        if host.read(f"{folder}/{name}/cpuset.cpus")
    ]
    if reason or not lost:
        return reason
    return (
        f"the cpuset {lost[0]} would lose the processors for good, as it is of version 1 of "
        f"cgroups: remove it, or use version 2"
    )
