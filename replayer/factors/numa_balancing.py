"""Moving of memory to the NUMA node that uses it: 0 off, 1 on."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/kernel/numa_balancing", needs=", as it has no NUMA")
