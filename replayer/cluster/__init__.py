"""Work on several hosts: start agents, compare clocks, start together and collect the results.

The connections to other hosts use the library `distributed` of Dask. Only dask_backend,
dask_plugin, launch, registration, agent_worker and tls import it, and these modules are imported
only if the user asks for several hosts.
"""

import importlib.util

from replayer.errors import Impossible


def require_libraries() -> None:
    """Raise Impossible, with what to install, if a library for several hosts is missing."""
    missing = [name for name in ("distributed", "cryptography") if not _there(name)]
    if missing:
        raise Impossible(
            f"several hosts were asked for, and Python has no {' and no '.join(missing)} here: "
            f"pip install 'replayer[cluster]'"
        )


def _there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
