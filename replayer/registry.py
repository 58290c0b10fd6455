"""The registry of plug-ins: each file in a plug-in package is a plug-in, named as the file.

A folder is a plug-in, too.  Its main module has the name of the kind, in the singular:
`steps/walk/step.py`.  Its other modules are its parts.  If the name is a keyword of Python, the
file's name ends with an underscore: `import_.py`.  Of two kinds the user may add plug-ins in other
folders: wires (ways to reach a server) and guests (databases that are a library in a process).
Such a plug-in hides one of the same name that ships with replayer.
"""

import ast
import difflib
import functools
import inspect
import keyword
import pkgutil
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from replayer import lazy_import, own_plugins
from replayer.errors import Impossible, NotFound, nearest, one_line

_HERE = Path(__file__).parent
_ALIKE = {False: 0.8, True: 0.9}
"""The least similarity of two names, from 0 to 1, at which one is reported as a misspelt member.

The key is True for constants.  These may come from another module, so that their limit is higher:
FILE is not a misspelt FILES.
"""
_CHECKED = {
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
    "Mapping[str, str]": (Mapping, "a mapping of texts"),
}
"""Annotation of a constant in a `FACE` -> its type, and that in words; others are not checked."""
KINDS = (
    "boots.loaders",
    "capture.logs",
    "collectors",
    "commands",
    "engines.guests",
    "engines.wires",
    "factors",
    "imports",
    "probes",
    "profiles",
    "steps",
)


def names(kind: str) -> list[str]:
    """Return the sorted names of all plug-ins of a kind, without importing any of them.

    The package of the kind is not imported either: the types that its Protocol uses may be slow to
    load.
    """
    return sorted({*_shipped(kind), *_own_names(kind)})


@functools.cache
def _shipped(kind: str) -> tuple[str, ...]:
    """Return the sorted names of the plug-ins that ship with replayer; the list never changes."""
    modules = pkgutil.iter_modules([str(_HERE.joinpath(*kind.split(".")))])
    return tuple(sorted(_name(one.name) for one in modules if one.name[0] != "_"))


def _own_names(kind: str) -> Iterator[str]:
    """Yield the names of the user's plug-ins of a kind; a folder needs no `__init__.py`."""
    for folder in own_plugins.folders(kind):
        for path in (*folder.glob("*.py"), *folder.glob(f"*/{_one(kind)}.py")):
            module = path.stem if path.parent == folder else path.parent.name
            if path.is_file() and module[0] != "_" and "." not in module:
                yield _name(module)


@functools.cache
def about(kind: str, name: str) -> str:
    """Return a plug-in's docstring without importing it: its imports may be slow to load.

    Raises Impossible if the file, which may be the user's own, is not Python.
    """
    path = _file(kind, name)
    try:
        return _docstring(path)
    except (OSError, SyntaxError, UnicodeError, tokenize.TokenError) as error:
        raise Impossible(f"{path}: {own_plugins.explain(error, str(path))}") from error


def _docstring(path: Path) -> str:
    """Return a module's docstring; do not parse the rest, as that would take far longer."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.STRING:
                return ast.get_docstring(ast.parse(token.string)) or ""
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                break
    return ""


def load(kind: str, name: str) -> ModuleType:
    """Import the plug-in `name` of a kind, such as `steps`, and return its main module.

    Raises NotFound, with the nearest name that exists, when there is no such file.
    """
    known = names(kind)
    if name not in known:
        raise NotFound(f"there is no {_one(kind)} {name!r}{nearest(name, known)}")
    module = part(kind, name, _one(kind))
    return module or _imported(kind, name)


@functools.cache
def plugin(kind: str, name: str) -> Any:
    """Return a plug-in as an object: its own members, and defaults for those that it leaves out.

    The Protocol `FACE` of the kind's package lists the members.  A plug-in must have each member
    that is abstract there; for each other member `FACE` has a default.

    Raises NotFound if there is no such plug-in.  Raises Impossible if a member is missing or
    misspelt, or if its type or its parameters differ from those in `FACE`.
    """
    module = load(kind, name)
    face: type = sys.modules[f"replayer.{kind}"].FACE
    known = members(face)
    own = {member: value for member, value in vars(module).items() if member in known}
    one = _one(kind).rstrip("_")
    own_file = str(module.__file__) if _is_own(kind, name) else ""
    where = f"{own_file or 'replayer/' + kind.replace('.', '/')}: {one} {name}"
    missing = sorted(required(face) - set(own))
    for member, value in vars(module).items():
        if member not in known and _is_public(member, value, module):
            meant = difflib.get_close_matches(member, known, n=1, cutoff=_ALIKE[member.isupper()])
            if meant:
                raise Impossible(
                    f"{where} has {member}, which no {one} has - did you mean {meant[0]}?"
                )
    if missing:
        raise Impossible(f"{where} has no {' and no '.join(missing)}")
    for member, value in own.items():
        _check_type(f"{where}: {member}", value, face, member)
        expected = getattr(face, member, None)
        if inspect.isfunction(expected):
            _check_parameters(f"{where}: {member}", value, expected)
    namespace = {
        member: staticmethod(value) if inspect.isfunction(value) else value
        for member, value in own.items()
    }
    return type(name, (face,), namespace)()


def members(face: type) -> set[str]:
    """Return the names of all members that plug-ins with this Protocol, `face`, can have."""
    return {
        name
        for one in face.__mro__[:-1]
        if one.__name__ not in ("Protocol", "Generic")
        for name in (*vars(one), *vars(one).get("__annotations__", {}))
        if not name.startswith("_")
    }


def required(face: type) -> set[str]:
    """Return the names of the members that each plug-in with this Protocol, `face`, must have."""
    return {
        name
        for name in members(face)
        if getattr(getattr(face, name, None), "__isabstractmethod__", False)
        or not hasattr(face, name)
    }


def _is_public(member: str, value: object, module: ModuleType) -> bool:
    """Return whether a member of a module may be meant as a member of the plug-in.

    It may if it is a constant, or a public function that is defined in the module.
    """
    if member.startswith("_"):
        return False
    return member.isupper() or (inspect.isfunction(value) and value.__module__ == module.__name__)


def _check_type(where: str, value: object, face: type, member: str) -> None:
    hints = (inspect.get_annotations(one).get(member) for one in face.__mro__)
    hint = next(filter(None, hints), "")
    kind, words = _CHECKED.get(getattr(hint, "__name__", hint), (object, ""))
    if not isinstance(value, kind):
        raise Impossible(f"{where} = {one_line(repr(value), 40)}: it must be {words}")


def _check_parameters(where: str, value: object, expected: Callable[..., Any]) -> None:
    if not callable(value):
        raise Impossible(f"{where} is not a function")
    # In a plug-in, the name of an unused parameter begins with an underscore.
    own = [one.lstrip("_") for one in inspect.signature(value).parameters]
    wanted = list(inspect.signature(expected).parameters)[1:]
    if own != wanted:
        raise Impossible(
            f"{where} takes ({', '.join(own)}) where it must take ({', '.join(wanted)})"
        )


def part(kind: str, name: str, module: str) -> ModuleType | None:
    """Import and return the module `module` in the folder of a plug-in.

    Returns None if the plug-in, or this module in it, does not exist.
    """
    if (
        name not in names(kind)
        or not (_home(kind, name) / _module(name) / f"{module}.py").is_file()
    ):
        return None
    return _imported(kind, name, f".{module}")


def _imported(kind: str, name: str, inner: str = "") -> ModuleType:
    """Import a plug-in, or with `inner` a module in its folder, and return it.

    Raises Impossible if a plug-in of the user's cannot be imported.
    """
    module = f"replayer.{kind}.{_module(name)}{inner}"
    if not _is_own(kind, name):
        return lazy_import.load(module)
    own, path = _home(kind, name), _file(kind, name)
    own_plugins.trust(own)
    right = _module(name)
    if right not in (path.stem, path.parent.name):
        raise Impossible(f"{path}: {name} is a keyword of Python: call it {right}")
    _search(kind, own)
    try:
        loaded = lazy_import.load(module)
    except (Exception, SystemExit) as error:
        # The user's code raises what it likes, and sys.exit() there would end replayer unnoticed.
        raise Impossible(f"{path}: {own_plugins.explain(error, str(path))}") from error
    if not str(loaded.__file__).startswith(f"{own}/"):
        raise Impossible(
            f"{path}: replayer's own {_one(kind)} {name} cannot be hidden, as others are made of "
            f"its parts: give the file another name"
        )
    return loaded


def _search(kind: str, own: Path) -> None:
    """Have Python look for plug-ins of a kind in one more folder of the user's.

    Replayer's own plug-ins are loaded before, so that those which import another one's parts get
    replayer's own.
    """
    searched = lazy_import.load(f"replayer.{kind}").__path__
    if str(own) not in searched:
        for shipped in _shipped(kind):
            if not _is_own(kind, shipped):
                load(kind, shipped)
        first = [str(one) for one in own_plugins.folders(kind)]
        before = [one for one in first if one in {*searched, str(own)}]
        searched[:] = [*before, *(one for one in searched if one not in first)]


def _folders(kind: str) -> list[Path]:
    """Return the folders that are searched for plug-ins of a kind: the user's, then replayer's."""
    return [*own_plugins.folders(kind), _HERE.joinpath(*kind.split("."))]


def _home(kind: str, name: str) -> Path:
    """Return the folder that contains a plug-in: the user's, or else that of the package."""
    folders = _folders(kind)
    there = (one for one in folders if _file_in(one, kind, name).is_file())
    return next(there, folders[-1])


def _is_own(kind: str, name: str) -> bool:
    return _home(kind, name) != _folders(kind)[-1]


def _file(kind: str, name: str) -> Path:
    return _file_in(_home(kind, name), kind, name)


def _file_in(folder: Path, kind: str, name: str) -> Path:
    """Return the path of a plug-in's main module in a folder: `thp.py`, or `walk/step.py`.

    If only a file exists whose name is a keyword of Python, that cannot be imported, it is that.
    """
    main = f"{_one(kind)}.py"
    paths = [folder / one for it in (_module(name), name) for one in (f"{it}.py", f"{it}/{main}")]
    return next((path for path in paths if path.is_file()), paths[1])


def _one(kind: str) -> str:
    """Return the singular of a kind of plug-ins, such as `step`: the name of a main module."""
    return _module(kind.rpartition(".")[2][:-1])


def _module(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _name(module: str) -> str:
    """Return the name of the plug-in whose file or folder is called `module`."""
    plain = module.removesuffix("_")
    return plain if keyword.iskeyword(plain) else module
