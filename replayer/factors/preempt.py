"""Preemption model of the kernel, switched while a kernel with PREEMPT_DYNAMIC runs."""

from replayer.factors import KernelFile, Scope

SCOPE: Scope = "machine"
NEEDS_ROOT = True
FILE = KernelFile(
    "sys/kernel/debug/sched/preempt",
    needs=" (PREEMPT_DYNAMIC and `mount -t debugfs none /sys/kernel/debug`)",
)
