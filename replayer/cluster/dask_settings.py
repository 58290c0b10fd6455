"""Dask's configuration for a benchmark: replacements of unsuitable defaults, with the reasons.

Call `configured()` before anything of distributed is imported: some of its modules read their
settings at import.
"""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

CONNECT_SECONDS = 5.0
CALL_SECONDS = 4.0
"""A host that has not answered for this long is lost."""
LEASE_SECONDS = 8.0
"""An agent that gets no heartbeat for this long ends itself and what it started."""
START_SECONDS = 30.0

DASK: Mapping[str, Any] = {
    # The preloads in a user's own ~/.config/dask must not influence a measurement.
    "distributed.scheduler.preload": [],
    "distributed.worker.preload": [],
    # A job that failed must not be repeated silently, nor by another host.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.comm.retry.count": 0,
    # Replayer has its own leases, in seconds; Dask's take minutes.
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.idle-timeout": None,
    "distributed.scheduler.active-memory-manager.start": False,
    # These sample stacks every 10 ms and the interpreter's lock every 1 ms, during the measurement.
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
    # These pages are served over plain HTTP, to any client.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # The jobs take the memory they need. Nothing may be spilled to a disk under test, paused or
    # ended.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.use-file-locking": False,
    # Never compress (results are small, and it takes CPU), never connect without TLS.
    "distributed.comm.compression": False,
    "distributed.comm.require-encryption": True,
    "distributed.comm.tls.min-version": 1.3,
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS} s",
    # Dask refuses less than 11 s; replayer's own timeouts are shorter.
    "distributed.comm.timeouts.tcp": "11s",
    "distributed.deploy.lost-worker-timeout": "1s",
}
LOGGING = {"distributed": "critical", "tornado": "critical", "asyncio": "critical"}
"""Dask's logs are off: replayer reports each loss in one sentence."""


def configured() -> None:
    """Set the constants DASK and LOGGING as Dask's configuration of this process.

    Other Dask settings of the user stay.
    """
    import dask.config  # noqa: PLC0415 - the core runs without Dask

    dask.config.set({**DASK, "logging": LOGGING})


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """Yield the folder that a Dask server needs for spilled data, and remove it afterwards.

    Dask also puts this folder first into Python's module search path; the old path is restored.
    """
    path = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="replayer-dask-", ignore_cleanup_errors=True) as folder:
        yield folder
    sys.path[:] = path


@dataclass(frozen=True, slots=True)
class Secret:
    """A certificate and its private key, with the certificates that their owner trusts."""

    certificate: str = field(repr=False)
    key: str = field(repr=False)
    authority: str = field(default="", repr=False)
    """The trusted certificates, as PEM: those of the other end, or those of its signers.

    "" means that only `certificate` itself is trusted.
    """
