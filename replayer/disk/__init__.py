"""The I/O engine: processes and threads that read and write files which replayer made.

`load` says what to do, `drive` does it in the workers, `tally` adds up what they saw, `workspace`
makes and removes the files, `device` guards raw block devices, `peers` runs the tools that people
compare with.
"""

from replayer.custody import Note


def recover(note: Note) -> str:
    """Remove the files that a killed replayer left behind, and say so."""
    # Workers import this package: they need nothing of what makes and removes files.
    from replayer.disk import workspace

    return workspace.recover(note)
