"""The child process of an agent, as a program.

It has these arguments: the descriptor of its end of the pipe, the agent's process id, the kind of
the agent (started by replayer, or a worker of the user's Dask cluster), and the packages whose
functions may run.
"""

import sys
from multiprocessing.connection import Connection

from replayer.cluster import packing, worker_process

OURS, SOMEBODYS = "ours", "somebodys"


def main(pipe: str, agent: str, whose: str, *packages: str) -> None:
    """Run as the child process of the agent with the process id `agent`.

    `pipe` is the descriptor of the pipe to the agent. `whose` is `ours` if replayer started the
    agent. `packages` are further packages whose functions may run.
    """
    packing.PACKAGES.update(packages)
    worker_process.main(Connection(int(pipe)), int(agent), ours=whose == OURS)


if __name__ == "__main__":
    main(*sys.argv[1:])
