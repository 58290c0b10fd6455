"""System calls by kind: how many the server and replayer's clients made, by bpftrace.

It is left out unless it is asked for (`--with syscalls`): every system call of the machine takes
its slow way while the kernel counts it, which costs some percent of a run that makes many.
"""

from replayer.collectors import CollectorContext
from replayer.collectors.syscalls.recording import CallRecording

BY_DEFAULT = False


def begin(scene: CollectorContext) -> CallRecording:
    """Start bpftrace; raise Skip with the reason where there is none or it may not count."""
    return CallRecording(scene)
