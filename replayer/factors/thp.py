"""Transparent huge pages of the kernel: always, if a program asks (madvise), or never."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("sys/kernel/mm/transparent_hugepage/enabled")
