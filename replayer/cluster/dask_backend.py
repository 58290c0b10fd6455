"""Everything that needs Dask's distributed, in one module, which only `hosts` imports.

Call `dask_settings.configured()` first: some modules of distributed read their settings at import.
"""

from typing import Any

from distributed.core import rpc

from replayer.cluster import tls
from replayer.cluster.dask_plugin import borrowed
from replayer.cluster.dask_settings import Secret
from replayer.cluster.launch import launch_agents, refuse_odd
from replayer.cluster.tls import new_roles, without_pickles

__all__ = [
    "borrowed",
    "connection_to",
    "launch_agents",
    "new_roles",
    "refuse_odd",
    "without_pickles",
]


def connection_to(address: str, secret: Secret | None, timeout: float) -> Any:
    """Return Dask's connection to an agent; to connect takes at most `timeout` seconds.

    `secret` is the certificate to use; None connects without encryption.
    """
    arguments = tls.security(secret).get_connection_args("client")
    return rpc(address, connection_args=arguments, timeout=timeout)
