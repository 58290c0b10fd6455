"""The I/O engine: processes and threads that read and write files made by replayer.

`io_job` defines the work, `io_worker` does it in the workers, `io_result` adds up the results,
`files` makes and removes the files, `device` guards raw block devices, `reference_tools` runs
well-known tools for comparison.
"""
