"""Profile of all processors by perf: the code that server, clients and others executed.

It covers the kernel and all programs. `perf record -a` samples every processor 99 times per second
with its call chain. The samples are triggered by the processor's cycles, or by the clock if a
virtual machine has no counter of cycles. perf is started when the step begins, and samples from the
begin of the first window on. Afterwards its recording is cut to the window, by the samples' own
timestamps, and folded into stacks.
"""

from replayer.collectors import CollectorContext
from replayer.collectors.profile.recording import PerfRecording


def begin(scene: CollectorContext) -> PerfRecording:
    """Start perf, and return its recording; raise Skip if it is missing or may not record."""
    return PerfRecording(scene)
