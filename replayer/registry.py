"""Find plug-ins: a file in a plug-in package is a plug-in, and its name is its name."""

import importlib
import pkgutil
from types import ModuleType

from replayer.errors import NotFound, nearest

KINDS = ("collectors", "commands", "probes", "steps")


def names(kind: str) -> list[str]:
    """Return the sorted names of all plug-ins of a kind, without importing any of them."""
    package = importlib.import_module(f"replayer.{kind}")
    return sorted(
        found.name for found in pkgutil.iter_modules(package.__path__) if found.name[0] != "_"
    )


def load(kind: str, name: str) -> ModuleType:
    """Import the plug-in of that name.

    Raises NotFound, with the nearest name that exists, when there is no such file.
    """
    known = names(kind)
    if name not in known:
        raise NotFound(f"there is no {kind[:-1]} {name!r}{nearest(name, known)}")
    return importlib.import_module(f"replayer.{kind}.{name}")
