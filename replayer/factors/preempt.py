"""Preemption model of the kernel, where it was built to switch it (PREEMPT_DYNAMIC)."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile(
    "sys/kernel/debug/sched/preempt",
    needs=" (PREEMPT_DYNAMIC and `mount -t debugfs none /sys/kernel/debug`)",
)
