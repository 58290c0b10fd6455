"""Servers that already run, described by environment variables (docker-compose.yml sets them).

For an engine NAME, in capitals and with _ for -:

    REPLAYER_URL_NAME    the URL of its server, which `--engine NAME` uses instead of starting one
    REPLAYER_FILES_NAME  where the server's data directory, or a folder above it, is mounted here
    REPLAYER_LIMITS      limits of the servers' containers, as `cpus=4 memory=8g`; 0 is no limit
"""

import os
from collections.abc import Iterator
from pathlib import Path

from replayer.model import Fact


def url(engine: str) -> str | None:
    """Return the URL of that engine's server, None if the environment has none."""
    address = os.environ.get(_variable("URL", engine))
    # The engine's name as the scheme makes clear which engine is meant.
    return f"{engine}://{address.partition('://')[2]}" if address else None


def folders(engine: str, directory: Path) -> Iterator[Path]:
    """Yield possible paths of a server's data directory on this machine.

    `directory` is its path on the server.  That path is yielded first, then paths in the folder of
    REPLAYER_FILES_NAME.  The caller must prove which one is right: the directory of another server
    may have the same path.
    """
    yield directory
    mounted = os.environ.get(_variable("FILES", engine))
    if mounted:
        parts = [part for part in directory.parts if part != directory.anchor]
        for skipped in range(len(parts) + 1):
            yield Path(mounted, *parts[skipped:])


def limits() -> dict[str, Fact]:
    """Return facts on the limits of the server's container, from the variable REPLAYER_LIMITS.

    The result is name of a fact -> limit as text; None for a limit that is 0 or empty.
    """
    words = (word.partition("=") for word in os.environ.get("REPLAYER_LIMITS", "").split())
    return {
        f"server.container.{name}": None if value in {"", "0", "0.0"} else value
        for name, _, value in words
    }


def _variable(kind: str, engine: str) -> str:
    return f"REPLAYER_{kind}_{engine.upper().replace('-', '_')}"
