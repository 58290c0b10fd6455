"""The I/O engine: processes and threads that read and write files which replayer made.

`load` says what to do, `drive` does it in the workers, `tally` adds up what they saw, `workspace`
makes and removes the files, `device` guards raw block devices, `peers` runs the tools that people
compare with.
"""

from replayer.disk.workspace import recover

__all__ = ["recover"]
