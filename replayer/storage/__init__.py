"""The I/O engine: processes and threads that read and write files which replayer made.

`io_job` says what to do, `io_worker` does it in the workers, `io_result` adds up what they saw,
`files` makes and removes the files, `device` guards raw block devices, `reference_tools` runs the
tools that people compare with.
"""
