"""A user's own Dask cluster as client hosts: one worker on each of its hosts takes part.

The scheduler and the workers go on as before. For the length of a run, a plugin adds replayer's
only handler to these workers. Each of them also gets a task that runs until the run is over,
because a cluster that adapts to the load ends workers without a task. A worker has the same lease
as an agent: if the coordinator sends no heartbeat for too long, replayer's child process on the
worker is ended, but the worker goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import distributed
from distributed.comm.addressing import get_address_host
from distributed.security import Security

from replayer.cluster import remote_calls, tls
from replayer.cluster.dask_settings import CALL_SECONDS, CONNECT_SECONDS, START_SECONDS, Secret
from replayer.cluster.lease import Lease
from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_HANDLER = "replayer"


class DaskGuest(distributed.WorkerPlugin):  # type: ignore[misc]
    """A plugin of Dask that adds replayer's handler to a worker of a user's own Dask cluster.

    `name` is the name of the plugin in Dask.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.working: Lease | None = None

    def setup(self, worker: Any) -> None:
        """Add replayer's handler to the worker, unless another replayer has added one.

        Dask calls this in the worker's event loop.
        """
        self._worker, self._left = worker, threading.Event()
        if _HANDLER in worker.handlers:
            return
        self.working = Lease(self._leave, ours=False)
        worker.handlers[_HANDLER] = self.replayer

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - Dask's signature
        """Remove replayer's handler from the worker."""
        self._leave()

    async def replayer(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one call of the coordinator, the replayer that uses this worker.

        `call` is the name of an operation in remote_calls, and `arguments` are its arguments.
        """
        assert self.working is not None
        return await remote_calls.answer(self.working, call, arguments)

    def wait(self) -> None:
        """Wait until the run that uses this worker is over, or until its coordinator is gone."""
        self._left.wait()

    def _leave(self) -> None:
        if self.working is not None:
            self.working.stop()
            self.working = None
            self._worker.handlers.pop(_HANDLER, None)
        self._left.set()


def hold(name: str) -> None:
    """Run as a task on a worker until the run is over, so that the worker is not ended as idle.

    `name` is the name of the plugin on the worker.
    """
    distributed.get_worker().plugins[name].wait()


@contextlib.asynccontextmanager
async def borrowed(address: str) -> AsyncIterator[tuple[dict[str, str], Secret | None]]:
    """Yield name -> address of one worker on each host of a cluster, and the certificate for them.

    `address` is that of the cluster's scheduler. The certificate is None for a cluster on this host
    without TLS. Raises Impossible if the cluster has no workers, or if it is remote and not set up
    for TLS. Raises ReplayerError if the scheduler or a worker does not answer, if the workers
    cannot load replayer, or if another replayer uses one of them.
    """
    secret = _secret(address)
    guest = f"replayer-{secrets.token_hex(4)}"
    client = await _client(address)
    try:
        cluster = await client.scheduler.identity(n_workers=-1)
        workers = _one_of_each_host(cluster["workers"], address)
        for worker in workers.values():
            await _refuse_busy(worker, secret)
        await _received(client, guest)
        holding = [
            client.submit(
                hold,
                guest,
                pure=False,
                retries=0,
                workers=[worker],
                allow_other_workers=False,
                key=f"{guest}-{number}",
            )
            for number, worker in enumerate(workers.values())
        ]
        yield workers, secret
        del holding
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.unregister_worker_plugin(guest), CALL_SECONDS)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.close(), CALL_SECONDS)


async def _client(address: str) -> Any:
    client = distributed.Client(
        address,
        security=Security(require_encryption=not address.startswith("tcp://")),
        asynchronous=True,
        set_as_default=False,
        timeout=CONNECT_SECONDS,
    )
    try:
        return await client
    except (OSError, TimeoutError, ValueError) as error:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.close(), CALL_SECONDS)
        raise ReplayerError(f"the scheduler {address} does not answer: {error}") from error


async def _received(client: Any, guest: str) -> None:
    try:
        await asyncio.wait_for(client.register_plugin(DaskGuest(guest)), START_SECONDS)
    except Exception as error:
        raise ReplayerError(
            f"the workers of that cluster cannot take part ({error}): each needs this replayer "
            f"installed"
        ) from error


async def _refuse_busy(worker: str, secret: Secret | None) -> None:
    """Raise ReplayerError if another replayer uses this worker, or if it cannot be reached."""
    connection = tls.security(secret).get_connection_args("client")
    there = distributed.rpc(worker, connection_args=connection, timeout=CONNECT_SECONDS)
    try:
        answer = await asyncio.wait_for(there.replayer(call="ping", arguments={}), CALL_SECONDS)
    except (OSError, TimeoutError) as error:
        raise ReplayerError(f"the worker {worker} of that cluster cannot be reached") from error
    finally:
        await there.close_rpc()
    if answer is not None:
        raise ReplayerError(f"another replayer works on {worker}: wait until it has ended")


def _one_of_each_host(workers: dict[str, Any], address: str) -> dict[str, str]:
    """Return name -> address of the first worker on each host; `workers` has addresses as keys.

    Raises Impossible if the cluster has no workers, or if a remote worker is not set up for TLS.
    """
    first: dict[str, str] = {}
    for worker in sorted(workers):
        first.setdefault(get_address_host(worker), worker)
    if not first:
        raise Impossible(f"the cluster {address} has no workers")
    for worker in first.values():
        _secret(worker)
    return {_name(workers[worker], host): worker for host, worker in first.items()}


def _name(worker: dict[str, Any], host: str) -> str:
    """Return a worker's name, or its host if the name is an address, which Dask gives by default.

    Such a name is not used, because it contains a random port.
    """
    name = str(worker["name"])
    return host if "://" in name else name


def _secret(address: str) -> Secret | None:
    """Return the certificate in Dask's configuration here; None for tcp:// on this host.

    Raises Impossible if the address is not encrypted and not on this host, or if Dask has no
    certificate.
    """
    if address.startswith("tcp://"):
        host = get_address_host(address)
        if host == "localhost" or _is_loopback(host):
            return None
        raise Impossible(
            f"{address} is not encrypted and not on this host: let the cluster use tls://"
        )
    if not address.startswith("tls://"):
        raise Impossible(f"--cluster {address}: a scheduler's address begins with tls://")
    configured = Security(require_encryption=True)
    files = (configured.tls_ca_file, configured.tls_client_cert, configured.tls_client_key)
    if not all(files[:2]):
        raise Impossible(
            f"for {address} Dask has no certificate here: set distributed.comm.tls.ca-file, "
            f"client.cert and client.key in its configuration"
        )
    authority, certificate, key = (Path(file).read_text() if file else "" for file in files)
    return Secret(certificate, key or certificate, authority)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
