"""Preference of the kernel for swapping before it drops cached files, from 0 to 200."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/vm/swappiness")
