"""Reclaim of memory on a process's own NUMA node before another node's is used: 0 is off."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/vm/zone_reclaim_mode", needs=", as it has no NUMA")
