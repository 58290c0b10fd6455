"""Find plug-ins: a file in a plug-in package is a plug-in, and its name is its name.

So is a folder; its main module is called as one of its kind is: `steps/walk/step.py`.  Other
modules in it are its parts.  A name that Python keeps for itself has an underscore after it in the
file's name: `import_.py`.
"""

import ast
import functools
import inspect
import keyword
import pkgutil
import tokenize
from pathlib import Path
from types import ModuleType

from replayer import lazy_import
from replayer.errors import NotFound, nearest

_HERE = Path(__file__).parent
KINDS = (
    "boots.loaders",
    "capture.logs",
    "collectors",
    "commands",
    "imports",
    "probes",
    "profiles",
    "steps",
)


def names(kind: str) -> list[str]:
    """Return the sorted names of all plug-ins of a kind, without importing any of them.

    Not even their package: what its Protocol names may be slow to load.
    """
    folder = _folder(kind)
    return sorted(
        module.name.removesuffix("_")
        for module in pkgutil.iter_modules([str(folder)])
        if module.name[0] != "_"
    )


@functools.cache
def about(kind: str, name: str) -> str:
    """Return a plug-in's docstring, without importing it: what it needs may be slow to load."""
    path = _folder(kind) / f"{_module(name)}.py"
    path = path if path.is_file() else path.with_suffix("") / f"{_one(kind)}.py"
    return _docstring(path)


def _docstring(path: Path) -> str:
    """Return a module's docstring; nothing behind it is parsed, which would take far longer."""
    with path.open(encoding="utf-8") as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.STRING:
                return inspect.cleandoc(ast.literal_eval(token.string))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                break
    return ""


def load(kind: str, name: str) -> ModuleType:
    """Import the plug-in of that name.

    Raises NotFound, with the nearest name that exists, when there is no such file.
    """
    known = names(kind)
    if name not in known:
        raise NotFound(f"there is no {_one(kind)} {name!r}{nearest(name, known)}")
    module = part(kind, name, _one(kind))
    return module or lazy_import.load(f"replayer.{kind}.{_module(name)}")


def part(kind: str, name: str, module: str) -> ModuleType | None:
    """Import a part of a plug-in; None if it has none of that name, or is not there."""
    if name not in names(kind) or not (_folder(kind) / _module(name) / f"{module}.py").is_file():
        return None
    return lazy_import.load(f"replayer.{kind}.{_module(name)}.{module}")


def _folder(kind: str) -> Path:
    return _HERE.joinpath(*kind.split("."))


def _one(kind: str) -> str:
    """Return what one of a kind is called, as its main module is."""
    return _module(kind.rpartition(".")[2][:-1])


def _module(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name
