"""Profile of all processors by perf: who executed what, server and clients, kernel and programs.

`perf record -a` samples every processor 99 times a second with its call chain, by the processor's
cycles, or by the clock where a virtual machine has no counter of them.  It is started when the step
begins and samples from the first edge of a window on; afterwards it is cut to the window, by the
samples' own timestamps, and folded into stacks.
"""

from replayer.collectors import CollectorContext
from replayer.collectors.profile.recording import PerfRecording


def begin(scene: CollectorContext) -> PerfRecording:
    """Start perf; raise Skip with the reason where there is none or it may not watch."""
    return PerfRecording(scene)
