"""Percent of memory that may be dirty before writers must write themselves."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("proc/sys/vm/dirty_ratio", unless="proc/sys/vm/dirty_bytes")
