"""Dask's configuration for a benchmark: what is on by default there, and wrong here, with why.

`configured()` is called before anything of distributed is imported: some of its modules read their
settings while they are imported.
"""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

CONNECT_SECONDS = 5.0
CALL_SECONDS = 4.0
"""A host that has not answered for so long is lost."""
LEASE_SECONDS = 8.0
"""An agent that was not beaten for so long ends itself, and what it started."""
START_SECONDS = 30.0

DASK: Mapping[str, Any] = {
    # Whatever a user's own ~/.config/dask preloads has no place in a measurement.
    "distributed.scheduler.preload": [],
    "distributed.worker.preload": [],
    # A job that failed is not done again in silence, nor by another host.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.comm.retry.count": 0,
    # Leases are replayer's own: seconds, where this would be minutes.
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.idle-timeout": None,
    "distributed.scheduler.active-memory-manager.start": False,
    # These sample stacks every 10 ms and the interpreter's lock every ms, in the measured window.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.host-cpu": False,
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.system-monitor.log-length": 1,
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.cycle": "1h",
    "distributed.admin.log-length": 100,
    "distributed.admin.low-level-log-length": 10,
    "distributed.diagnostics.nvml": False,
    # Pages over plain HTTP, for anybody who asks.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Memory is what the jobs need; nothing is to be spilled to a disk under test, paused or ended.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.use-file-locking": False,
    # Never compressed (results are small, and it takes CPU), never without TLS.
    "distributed.comm.compression": False,
    "distributed.comm.require-encryption": True,
    "distributed.comm.tls.min-version": 1.3,
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS} s",
    # Dask refuses less than 11 s; replayer's own time-outs are shorter.
    "distributed.comm.timeouts.tcp": "11s",
    "distributed.deploy.lost-worker-timeout": "1s",
}
LOGGING = {"distributed": "critical", "tornado": "critical", "asyncio": "critical"}
"""Losses are told in a sentence, by replayer."""


def configured() -> None:
    """Set all this for the process; what a user has set for Dask otherwise stays."""
    import dask.config  # noqa: PLC0415 - the core runs without Dask

    dask.config.set({**DASK, "logging": LOGGING})


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """Give the folder that a server of Dask wants for data that it spills, and take it away.

    It puts that first into the path in which Python looks for modules.
    """
    path = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="replayer-dask-", ignore_cleanup_errors=True) as folder:
        yield folder
    sys.path[:] = path


@dataclass(frozen=True, slots=True)
class Secret:
    """A certificate and its key, and the other end: one pair for each role in a run."""

    certificate: str = field(repr=False)
    key: str = field(repr=False)
    authority: str = field(default="", repr=False)
    """The certificates that the other end may have, or that have signed its own; "" is this one."""
