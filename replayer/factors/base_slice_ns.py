"""Time that the scheduler gives a thread before it considers another one, in nanoseconds."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile(
    "sys/kernel/debug/sched/base_slice_ns",
    needs=" (Linux 6.6 and `mount -t debugfs none /sys/kernel/debug`)",
)
