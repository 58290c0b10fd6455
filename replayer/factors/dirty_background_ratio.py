"""Percent of memory that may be dirty before the kernel begins to write it."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/vm/dirty_background_ratio", unless="proc/sys/vm/dirty_background_bytes")
