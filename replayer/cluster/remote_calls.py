"""The operations that an agent does for its coordinator; arguments and answers are plain values.

`Hosts.ask(name, op, **arguments)` on the coordinating host makes the agent on the other host call
`answer(working, op, arguments)`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import socket
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer import __version__, assets
from replayer.errors import ReplayerError
from replayer.machine.host import Host

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from replayer.cluster.lease import Lease

BEAT_SECONDS = 0.9
"""An agent without news delays its answer to a heartbeat by this many seconds."""
PIECE = 8 << 20
"""The most bytes of results that are sent in one message."""
_CACHES = "/proc/sys/vm/drop_caches"


@dataclass(frozen=True, slots=True)
class HostDescription:
    """A host's description of itself: versions, processors, memory, user's rights, clocks."""

    version: str
    digest: str
    """The digest of the files of replayer, its engines and its workloads."""
    python: str
    kernel: str
    hostname: str
    boot_id: str
    machine: str
    """The boot id and the network namespace, as returned by `network()`.

    The boot id alone is not enough: containers on the same kernel may have separate networks.
    """
    cores: int
    memory_bytes: int
    free_bytes: int
    """The free space in the host's folder for temporary files."""
    uid: int
    may_drop_caches: bool
    may_make_cgroups: bool
    addresses: tuple[str, ...]
    realtime_ns: int
    monotonic_ns: int


def about() -> HostDescription:
    """Return the description of this host; this changes nothing on it."""
    host = Host()
    return HostDescription(
        version=__version__,
        digest=digest(),
        python=platform.python_version(),
        kernel=platform.release(),
        hostname=socket.gethostname(),
        boot_id=host.boot_id(),
        machine=network(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=host.memory_bytes(),
        free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        uid=os.geteuid(),
        may_drop_caches=os.access(_CACHES, os.W_OK),
        may_make_cgroups=os.access("/sys/fs/cgroup", os.W_OK),
        addresses=tuple(addresses()),
        realtime_ns=time.time_ns(),
        monotonic_ns=time.monotonic_ns(),
    )


def network() -> str:
    """Return a text that is equal in two processes if they reach each other by 127.0.0.1."""
    host = Host()
    return f"{host.boot_id()} {host.link('proc/self/ns/net')}"


def addresses() -> list[str]:
    """Return the addresses by which other hosts may reach this one, IPv4 first."""
    import psutil  # noqa: PLC0415 - distributed brings it along

    every = [one for interface in psutil.net_if_addrs().values() for one in interface]
    four = [one.address for one in every if one.family == socket.AF_INET]
    six = [one.address for one in every if one.family == socket.AF_INET6 and "%" not in one.address]
    return [one for one in [*four, *six] if not one.startswith("127.") and one != "::1"]


@functools.cache
def digest() -> str:
    """Return 16 hexadecimal digits that differ if any file of replayer or its workloads differs.

    These files are its Python modules, its schemas and its workloads.
    """
    package = Path(assets.__file__).parent
    files = [
        *((package, path) for path in package.rglob("*.py")),
        *(
            (assets.folder(kind).parent, path)
            for kind in ("schemas", "workloads")
            for path in assets.folder(kind).rglob("*")
            if path.is_file()
        ),
    ]
    total = hashlib.sha256()
    for folder, path in sorted(files, key=lambda pair: str(pair[1].relative_to(pair[0]))):
        total.update(f"{path.relative_to(folder)}\0".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


async def answer(working: Lease, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the operation `op` on an agent and return its answer as a dict.

    `working` is the agent's lease with its child process. The answer is {"error": sentence} if the
    operation failed or is not known.
    """
    if op == "ping":
        return {"ns": time.monotonic_ns()}
    operation = _OPERATIONS.get(op)
    if operation is None:
        return {"error": f"an agent knows no {op!r}"}
    try:
        return await operation(working, **arguments)
    except ReplayerError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - else Dask would answer with a pickle of it
        return {"error": f"{op} failed: {type(error).__name__}: {error}"}


async def _about(_: Lease) -> dict[str, Any]:
    return asdict(about())


async def _beat(
    working: Lease, *, child: int = 0, seen: str = "", taken: int = 0
) -> dict[str, Any]:
    working.beaten()
    if working.is_latest(child):
        await working.changed(seen, BEAT_SECONDS, taken)
    else:
        await working.begun(BEAT_SECONDS)
    return working.said(child, taken)


async def _begin(
    working: Lease, *, kind: str, work: str, packed: bytes, processes: int
) -> dict[str, Any]:
    return {"child": await working.begin(kind, work, packed, processes)}


async def _open(working: Lease, *, instant: int) -> dict[str, Any]:
    return {"opened": await working.open(instant)}


async def _collect(working: Lease, *, offset: int) -> dict[str, Any]:
    data = working.result
    return {"piece": data[offset : offset + PIECE], "bytes": len(data)}


async def _interrupt(working: Lease, *, number: int) -> dict[str, Any]:
    working.interrupt(number)
    return {}


async def _end(working: Lease, *, agent: bool = False) -> dict[str, Any]:
    await working.end()
    if agent:
        working.leave()
    return {}


_OPERATIONS: Mapping[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "about": _about,
    "beat": _beat,
    "begin": _begin,
    "open": _open,
    "collect": _collect,
    "interrupt": _interrupt,
    "end": _end,
}
