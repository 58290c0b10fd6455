"""Lazy imports: a module that loads slowly and that few commands use is imported on first use.

For the type checker import the module under `if TYPE_CHECKING`; in the `else` branch write
`sqlalchemy = Later("sqlalchemy")`.
"""

import importlib
from types import ModuleType
from typing import Any

from replayer import signals


def load(name: str) -> ModuleType:
    """Import a module and return it; hold back signals until the import is complete."""
    # A signal raises an exception.  In the middle of an import, a library's C code may replace
    # that exception by its own error, or ignore it.
    with signals.shield():
        return importlib.import_module(name)  # noqa: TID251 - this is the one place


class Later:
    """A stand-in for a module, which is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # Inspectors ask every object for names such as __wrapped__: pytest loaded scipy.stats so.
        if name.startswith("_"):
            raise AttributeError(f"{self._name}.{name} is not of the module's public names")
        value = getattr(load(self._name), name)
        # From now on Python finds it as an ordinary attribute, without __getattr__.
        setattr(self, name, value)
        return value
