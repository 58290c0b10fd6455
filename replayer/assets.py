"""Find the data folders, workloads/ and schemas/, in a checkout and when pip-installed."""

import os
from pathlib import Path

from replayer.errors import NotFound, nearest

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: str) -> Path:
    """Return the folder `workloads` or `schemas`: inside the wheel, else in the checkout."""
    inside = _PACKAGE / "_data" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def workloads() -> dict[str, Path]:
    """Return name -> file of every workload that ships."""
    return {path.stem: path for path in sorted(folder("workloads").glob("*.toml"))}


def engines() -> dict[str, Path]:
    """Return name -> folder of every engine: those that ship, and those in $REPLAYER_SCHEMAS.

    $REPLAYER_SCHEMAS lists folders as $PATH does; an engine in them hides one that ships.
    """
    own = os.environ.get("REPLAYER_SCHEMAS", "").split(os.pathsep)
    folders = [folder("schemas"), *(Path(name).absolute() for name in reversed(own) if name)]
    found = [path.parent for one in folders for path in one.glob("*/engine.toml")]
    return {path.name: path for path in sorted(found, key=lambda path: path.name)}


def workload(name: str) -> Path:
    """Return the file of a workload: a bare name ships with replayer, a / or .toml makes a path.

    Raises NotFound when there is no such file.
    """
    if "/" in name or name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise NotFound(
                f"workload file {name} is not there; give a path to a .toml file or a name "
                f"from `replayer list workloads`"
            )
        return path
    known = workloads()
    if name not in known:
        raise NotFound(f"there is no workload {name!r}{nearest(name, known)}")
    return known[name]
