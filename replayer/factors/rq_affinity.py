"""Processor that completes a request of the disk under test: 0 any, 1 a near one, 2 the same."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("{disk}/queue/rq_affinity")
