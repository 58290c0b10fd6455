"""Servers, and a Python, of versions that this machine's packages lack, for `make test-slow`."""

import os
from pathlib import Path

SERVERS = ("postgresql-13", "postgresql-14", "postgresql-16", "postgresql-17", "mysql-9")
NAMES = (*SERVERS, "python-3.13")


def home() -> Path:
    """Return the folder that they lie in, outside of the repository."""
    cache = os.environ.get("XDG_CACHE_HOME") or "/var/cache"
    return Path(os.environ.get("REPLAYER_TEST_SERVERS") or Path(cache, "replayer-test-servers"))


def programs(name: str) -> Path:
    """Return the folder of a server's programs, which may not be there."""
    return home() / name / "bin"
