"""The child process of an agent, as a program.

Its arguments are its end of the pipe, the agent's process id, whether the agent is replayer's own
(or a worker of the user's Dask cluster), and the packages that work may come from.
"""

import sys
from multiprocessing.connection import Connection

from replayer.cluster import packing, worker_process

OURS, SOMEBODYS = "ours", "somebodys"


def main(pipe: str, agent: str, whose: str, *packages: str) -> None:
    """Run as the child; it runs only work from these packages."""
    packing.PACKAGES.update(packages)
    worker_process.main(Connection(int(pipe)), int(agent), ours=whose == OURS)


if __name__ == "__main__":
    main(*sys.argv[1:])
