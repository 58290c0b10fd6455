"""Effort to make a transparent huge page when one is wanted and none is free."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("sys/kernel/mm/transparent_hugepage/defrag")
