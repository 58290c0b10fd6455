"""Find plug-ins: a file in a plug-in package is a plug-in, and its name is its name.

A name that Python keeps for itself has an underscore after it in the file's name: `import_.py`.
"""

import importlib
import keyword
import pkgutil
from pathlib import Path
from types import ModuleType

from replayer.errors import NotFound, nearest

KINDS = ("collectors", "commands", "imports", "probes", "steps")


def names(kind: str) -> list[str]:
    """Return the sorted names of all plug-ins of a kind, without importing any of them.

    Not even their package: what its Protocol names may be slow to load.
    """
    folder = Path(__file__).parent / kind
    return sorted(
        found.name.removesuffix("_")
        for found in pkgutil.iter_modules([str(folder)])
        if found.name[0] != "_"
    )


def load(kind: str, name: str) -> ModuleType:
    """Import the plug-in of that name.

    Raises NotFound, with the nearest name that exists, when there is no such file.
    """
    known = names(kind)
    if name not in known:
        raise NotFound(f"there is no {kind[:-1]} {name!r}{nearest(name, known)}")
    module = f"{name}_" if keyword.iskeyword(name) else name
    return importlib.import_module(f"replayer.{kind}.{module}")
