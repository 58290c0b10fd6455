"""Read-ahead of the device that the data's file system is on, in KiB."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("{upper}/queue/read_ahead_kb")
