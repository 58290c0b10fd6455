"""Requests that the queue of the disk under test holds before writers wait."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("{disk}/queue/nr_requests", also=("{disk}/queue/iosched/async_depth",))
