"""Python as replayer starts it: a child imports from no place that this process does not use.

Python looks into the current folder first for `python -m` and `python -c`, and a worker of
multiprocessing is the latter: the code of another user who can write there would run as root.  This
module is imported first, so that it imports only what is loaded when Python starts.
"""

import os
import sys

_SAFE, _PATH, _NO_USER_SITE = "PYTHONSAFEPATH", "PYTHONPATH", "PYTHONNOUSERSITE"
_KEPT = frozenset(
    {
        # This process was found by them, and replayer may be installed there.
        "PYTHONHOME",
        "PYTHONUSERBASE",
        # They name no code.
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONIOENCODING",
        _NO_USER_SITE,
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
    }
)
_given: dict[str, str] = {}


def module(name: str) -> list[str]:
    """Return the words that run a module of replayer in an interpreter of its own."""
    flags = ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
    return [sys.executable, *flags, "-P", "-m", name]


def safe(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment in which replayer and what it starts work, instead of this one.

    Of Python's variables those stay that name no code, or the places that this process was loaded
    from; PYTHONSTARTUP, PYTHONPYCACHEPREFIX, PYTHONWARNINGS and others go.  In paths only absolute
    folders stay: an empty one, as in PYTHONPATH=/a: by mistake, is the current folder.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if not name.startswith("PYTHON") or (name in _KEPT and not sys.flags.ignore_environment)
    }
    for name in ("PATH", "" if sys.flags.ignore_environment else _PATH):
        folders = [one for one in variables.get(name, "").split(os.pathsep) if one.startswith("/")]
        if folders:
            kept[name] = os.pathsep.join(folders)
    if sys.flags.no_user_site:
        kept[_NO_USER_SITE] = "1"
    return {**kept, _SAFE: "1"}


def isolate() -> None:
    """Import nothing more from the current folder, here and in all that is started here.

    A folder that has this replayer itself stays, as the last one.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        # Workers get the flags of this process, and would ignore the variable, too.
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])  # noqa: S606
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is not loaded yet
    first = sys.path.index(library) if library in sys.path else len(sys.path)
    before = [folder for folder in sys.path[:first] if not _is_current(folder)]
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    last = [own] if own in sys.path[:first] and own not in before else []
    sys.path[:] = [*before, *sys.path[first:], *last]
    if not _given:
        _given.update(os.environ)
    kept = safe(dict(os.environ))
    for name in set(os.environ) - set(kept):
        del os.environ[name]
    os.environ.update(kept)


def given() -> dict[str, str]:
    """Return the variables that `isolate` changed as the user had set them, for the user's own."""
    names = {name for name in _given if _given[name] != os.environ.get(name)}
    return {_SAFE: "", **{name: _given[name] for name in names}} if _given else {}


def _is_current(folder: str) -> bool:
    try:
        return not folder or os.path.samestat(os.stat(folder), os.stat("."))  # noqa: PTH116
    except OSError:
        # It was removed: nothing is imported from there.
        return False
