"""Read-ahead of the data's file system, or of the device that it is on, in KiB."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("{read_ahead}/read_ahead_kb")
