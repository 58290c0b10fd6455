"""CLOCK_BOOTTIME, which goes on while the machine is suspended, unlike CLOCK_MONOTONIC.

It is bpftrace's `nsecs` if the kernel has the helper bpf_ktime_get_boot_ns.
"""

import time


def asleep_ns() -> int:
    """Return the nanoseconds that this machine was suspended since its start."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
