"""The child process of an agent, as a program.

Its arguments are the descriptor of its end of the pipe, the agent's process id, whose the agent is
(replayer's own, or a worker of the user's Dask cluster), and the packages whose functions may run.
"""

import sys
from multiprocessing.connection import Connection

from replayer.cluster import packing, worker_process

OURS, SOMEBODYS = "ours", "somebodys"


def main(pipe: str, agent: str, whose: str, *packages: str) -> None:
    """Run as the child process; `packages` are further packages whose functions it may run."""
    packing.PACKAGES.update(packages)
    worker_process.main(Connection(int(pipe)), int(agent), ours=whose == OURS)


if __name__ == "__main__":
    main(*sys.argv[1:])
