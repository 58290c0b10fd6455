"""The child of an agent, as a program: its end of the pipe, the agent, whether that is ours."""

import sys
from multiprocessing.connection import Connection

from replayer.cluster import packing, worker_process

OURS, SOMEBODYS = "ours", "somebodys"


def main(pipe: str, agent: str, whose: str, *packages: str) -> None:
    """Be the child, in which work of these packages may be asked for."""
    packing.PACKAGES.update(packages)
    worker_process.main(Connection(int(pipe)), int(agent), ours=whose == OURS)


if __name__ == "__main__":
    main(*sys.argv[1:])
