"""Replayer on other hosts: start agents there, agree on clocks and a start, gather what they did.

What talks to other hosts is Dask's distributed; only launch, settings, agent, hosts and plugin
import it, and they are imported when hosts are asked for.
"""

import importlib.util

from replayer.errors import Impossible


def needed() -> None:
    """Raise Impossible, with what to install, where the library for several hosts is missing."""
    missing = [name for name in ("distributed", "cryptography") if not _there(name)]
    if missing:
        raise Impossible(
            f"several hosts were asked for, and Python has no {' and no '.join(missing)} here: "
            f"pip install 'replayer[cluster]'"
        )


def _there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
