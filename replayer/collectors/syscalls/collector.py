"""System calls by kind: how many the server and replayer's clients made, by bpftrace.

It is left out unless it is requested (`--with syscalls`). While the kernel counts system calls,
every system call of the machine takes a slower path; that costs some percent of a run that makes
many.
"""

from replayer.collectors import CollectorContext
from replayer.collectors.syscalls.recording import CallRecording

BY_DEFAULT = False


def begin(scene: CollectorContext) -> CallRecording:
    """Start bpftrace, and return its recording; raise Skip if it is missing or may not count."""
    return CallRecording(scene)
