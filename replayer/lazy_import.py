"""Import a module when it is needed: for what takes long to load, and is not used by every command.

if TYPE_CHECKING:
import sqlalchemy
else:
sqlalchemy = Later("sqlalchemy")
"""

import importlib
from types import ModuleType
from typing import Any

from replayer import signals


def load(name: str) -> ModuleType:
    """Import a module; a signal waits until it is there."""
    # What a signal raises in the middle of an import, a library's C code may turn into a fault of
    # its own, or ignore.
    with signals.shield():
        return importlib.import_module(name)


class Later:
    """Stands for a module, which is imported when the first of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(load(self._name), name)
        # From now on it is found as any attribute is.
        setattr(self, name, value)
        return value
