"""Latency above which writes to the disk under test are throttled, in microseconds; 0: never."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile("{disk}/queue/wbt_lat_usec")
