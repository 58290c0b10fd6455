"""I/O scheduler of the disk under test."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile(
    "{disk}/queue/scheduler",
    also=("{disk}/queue/nr_requests", "{disk}/queue/wbt_lat_usec", "{disk}/queue/iosched/*"),
)
