"""Warnings about a machine, from its facts: what makes its numbers hard to compare."""

from collections.abc import Mapping

from replayer.model import Advice, Fact
from replayer.units import show_size

_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")

Facts = Mapping[str, Fact]
"""Facts of a machine: the result of `read_facts`, and `host` of a result file."""


def governor(facts: Facts) -> Advice | None:
    """Warn of a CPU governor that changes the clock frequency with the load."""
    name = facts.get("cpu.governor")
    if not name or name == "performance":
        return None
    return Advice(
        found=f"the CPU governor is {name}, so that the clock follows the load",
        todo="`cpupower frequency-set -g performance` makes runs comparable",
    )


def virtualised(facts: Facts) -> Advice | None:
    """Warn of a hypervisor: it may have a cache that no guest can see."""
    hypervisor = facts.get("virtualisation")
    if not hypervisor or hypervisor == "none":
        return None
    name = "a hypervisor" if hypervisor == "yes" else str(hypervisor)
    return Advice(
        found=f"this is a virtual machine ({name})",
        todo="its host may cache the disk, unseen: compare a first cold read with a second",
    )


def emulated(facts: Facts) -> Advice | None:
    """Warn of a processor that is emulated by software."""
    if "QEMU TCG" not in str(facts.get("cpu.model", "")):
        return None
    return Advice(
        found="the processor is emulated by qemu without KVM",
        todo="these figures say nothing about hardware",
    )


def other_load(facts: Facts) -> Advice | None:
    """Warn of other work before the start.

    The load average is above 0.5, and above a tenth of the number of processors.
    """
    load = number_of(facts.get("host.load1"))
    threads = number_of(facts.get("cpu.threads")) or 1
    if load <= max(0.5, 0.1 * threads):
        return None
    return Advice(
        found=f"the load average was {load:.2f} before the start, so something else (or an "
        f"earlier run) was at work",
        todo="stop it, or wait a minute",
    )


def huge_pages_reserved(facts: Facts) -> Advice | None:
    """Warn of huge pages that are 5 % of the memory or more: the page cache cannot use them."""
    pages = number_of(facts.get("memory.huge_pages"))
    usual = pages * (number_of(facts.get("memory.huge_page_bytes")) or 2 << 20)
    size = number_of(facts.get("memory.huge_pages_bytes")) or usual
    if not size or size < 0.05 * number_of(facts.get("memory.bytes")):
        return None
    back = "write 0 into /sys/kernel/mm/hugepages/*/nr_hugepages, which"
    if size == usual:
        back = "`sysctl vm.nr_hugepages=0`"
    return Advice(
        found=f"{show_size(size)} of memory are reserved as huge pages, which the page cache "
        f"cannot use",
        todo=f"{back} gives them back, if nothing needs them",
    )


def transparent_huge_pages(facts: Facts) -> Advice | None:
    """Warn of transparent huge pages that are enabled for all memory."""
    if facts.get("memory.transparent_huge_pages") != "always":
        return None
    return Advice(
        found="transparent huge pages are `always`, so that compaction can stall the database",
        todo="set /sys/kernel/mm/transparent_hugepage/enabled to madvise, or to the same value on "
        "both machines",
    )


def slow_clock(facts: Facts) -> Advice | None:
    """Warn of a slow clock source: each reading of it takes about a microsecond."""
    source = facts.get("kernel.clocksource")
    if source not in _SLOW_CLOCKS:
        return None
    return Advice(
        found=f"the clock source is {source}, each reading of which is slow",
        todo="boot with tsc if the processor has a constant one, or latencies and I/O timing cost "
        "more than they should",
    )


def limited(facts: Facts) -> Advice | None:
    """Warn of limits on memory or CPU of the cgroup in which replayer runs."""
    memory = number_of(facts.get("cgroup.memory_limit_bytes"))
    cores = number_of(facts.get("cgroup.cpu_limit"))
    words = [f"{show_size(memory)} of memory"] if memory else []
    words += [f"{cores:g} CPUs"] if cores else []
    if not words:
        return None
    return Advice(
        found=f"a cgroup limits this process to {' and '.join(words)}, page cache included",
        todo="raise the limit, or compare with equal ones",
    )


def no_device(facts: Facts) -> Advice | None:
    """Warn of data that is not on one local disk, so that its device reads cannot be counted."""
    kind = facts.get("fs.type")
    if not kind or facts.get("device.name"):
        return None
    return Advice(
        found=f"the data is on {kind}, below which no single local disk is known, so that device "
        f"reads cannot be counted",
        todo="give --data-dir on one local disk",
    )


def number_of(value: Fact) -> float:
    """Return the value of a fact as a float if it is a number; 0 for a text, a bool or None."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else 0.0  # type: ignore[arg-type]
