"""Reclaim of memory on the own NUMA node before another one's is used."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/vm/zone_reclaim_mode", needs=", as it has no NUMA")
