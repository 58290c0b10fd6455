"""The I/O engine: processes and threads that read and write files made by replayer.

`io_job` defines the work, `io_worker` does it in worker processes, `io_result` adds up the results,
`files` makes and removes the files, `device` protects raw block devices from mistakes, and
`reference_tools` runs well-known tools for comparison.
"""
