"""Safe start of Python: a child process imports only from folders that this process uses, too.

`python -m` and `python -c` look for modules in the current folder first, and a worker of
multiprocessing is a `python -c`.  If another user can write in that folder, the code of that user
would run as root.  This module is imported first: it may import only modules that Python itself
loads at its start.
"""

import os
import sys

_SAFE, _PATH, _NO_USER_SITE = "PYTHONSAFEPATH", "PYTHONPATH", "PYTHONNOUSERSITE"
_KEPT = frozenset(
    {
        # This process found its modules by them, and replayer may be installed there.
        "PYTHONHOME",
        "PYTHONUSERBASE",
        # They do not name code.
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONIOENCODING",
        _NO_USER_SITE,
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
    }
)
_FOREIGN = ("PYTHON", "NUMBA_")
"""First letters of variables that can name code.  numba's make it read and write files."""
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""The variable for numpy's threads: without it, each worker starts a thread per processor."""
_given: dict[str, str] = {}


def module(name: str) -> list[str]:
    """Return the command, as a list of words, that runs a Python module in a new interpreter."""
    flags = ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
    return [sys.executable, *flags, "-P", "-m", name]


def safe(variables: dict[str, str]) -> dict[str, str]:
    """Return a safe copy of an environment, for replayer and for the programs that it starts.

    Python's variables stay if they do not name code, or name the places from which this process was
    loaded.  PYTHONSTARTUP, PYTHONPYCACHEPREFIX, PYTHONWARNINGS and others are removed, and those of
    numba.  In paths, only absolute folders stay: an empty one, as in a mistaken PYTHONPATH=/a:, is
    the current folder.  numpy makes no threads, unless the user asks for them.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if not name.startswith(_FOREIGN) or (name in _KEPT and not sys.flags.ignore_environment)
    }
    for name in ("PATH", "" if sys.flags.ignore_environment else _PATH):
        folders = [one for one in variables.get(name, "").split(os.pathsep) if one.startswith("/")]
        if folders:
            kept[name] = os.pathsep.join(folders)
    if sys.flags.no_user_site:
        kept[_NO_USER_SITE] = "1"
    return {**kept, _BLAS_THREADS: kept.get(_BLAS_THREADS) or "1", _SAFE: "1"}


def isolate() -> None:
    """Stop imports from the current folder, in this process and in all that it starts.

    The folder that contains this replayer stays in sys.path, as the last one.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        # Workers inherit the flags of this process: they would ignore PYTHONSAFEPATH, too.
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
    """Return name -> the user's value of each environment variable that replayer changed.

    `isolate` changes them when replayer starts; a program of the user's is started with the values
    that are returned here.  A variable that the user did not set is "", which means the same to
    Python and to OpenBLAS.  Returns {} if `isolate` was not called.
    """
    names = {name for name in _given if _given[name] != os.environ.get(name)}
    added = {name: "" for name in (_SAFE, _BLAS_THREADS) if name not in _given}
    return {**added, **{name: _given[name] for name in names}} if _given else {}


def _is_current(folder: str) -> bool:
    try:
        return not folder or os.path.samestat(os.stat(folder), os.stat("."))  # noqa: PTH116
    except OSError:
        # The folder was removed: nothing can be imported from there.
        return False
