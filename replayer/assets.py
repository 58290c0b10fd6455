"""The data folders workloads/ and schemas/: find them in a checkout and in an installed package.

A workload is a TOML file that lists the steps of a run.  An engine is a folder in schemas/ with an
engine.toml and the SQL files for one database.  This module also reads files that users write, any
content in bounded time and memory.
"""

import errno
import functools
import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from replayer.errors import Impossible, NotFound, nearest

_PACKAGE = Path(__file__).resolve().parent

_MOST_BYTES = 256 * 1024
_MOST_DOTS = 500
"""The most dots in one line: the time to parse a TOML key grows with the square of its dots."""


def folder(kind: str) -> Path:
    """Return the path of the data folder `kind`, which is `workloads` or `schemas`.

    It is in the installed package, or, if it is not there, in the checkout.
    """
    inside = _PACKAGE / "_data" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def workloads() -> dict[str, Path]:
    """Return name -> path of its TOML file, for every workload that ships with replayer."""
    return {path.stem: path for path in sorted(folder("workloads").glob("*.toml"))}


def own_schemas() -> list[Path]:
    """Return the user's folders of engines: the paths in $REPLAYER_SCHEMAS, separated as in $PATH.

    An engine is a folder with the SQL files for one database.
    """
    own = os.environ.get("REPLAYER_SCHEMAS", "").split(os.pathsep)
    return [Path(name).absolute() for name in own if name]


def useless_schemas() -> str:
    """Return a hint for an error message if $REPLAYER_SCHEMAS has a useless folder, else "".

    A folder is useless if it does not exist, or if it is itself an engine instead of a folder of
    engines.  The hint begins with a semicolon, to follow another sentence.
    """
    for one in own_schemas():
        if not one.is_dir():
            return f"; REPLAYER_SCHEMAS names {one}, which is not a folder"
        if (one / "engine.toml").is_file():
            return f"; REPLAYER_SCHEMAS names {one}, which is an engine: name {one.parent}"
    return ""


def engines() -> dict[str, Path]:
    """Return name -> folder of every engine: those that ship, and those in $REPLAYER_SCHEMAS.

    An engine is a folder with an engine.toml and the SQL files for one database.  One in
    $REPLAYER_SCHEMAS hides one of the same name that ships with replayer.
    """
    folders = [folder("schemas"), *reversed(own_schemas())]
    folders_with_toml = [path.parent for one in folders for path in one.glob("*/engine.toml")]
    return {path.name: path for path in sorted(folders_with_toml, key=lambda path: path.name)}


def workload(name: str) -> Path:
    """Return the file of a workload.

    A name with a / or the ending .toml is a path; any other is the name of a workload that ships
    with replayer.  Raises NotFound when there is no such file.
    """
    if "/" in name or name.endswith(".toml"):
        path = Path(name)
        if os.path.isdir(path):  # noqa: PTH112 - a Path raises for a name that is too long
            raise NotFound(f"{name} is a folder; give the path to a .toml file in it")
        if not os.path.isfile(path):  # noqa: PTH113 - a Path raises for a name that is too long
            raise NotFound(
                f"workload file {name} {absence(name)}; give a path to a .toml file or a name "
                f"from `replayer list workloads`"
            )
        return path
    known = workloads()
    if name not in known:
        raise NotFound(f"there is no workload {name!r}{nearest(name, known)}")
    return known[name]


def absence(path: Path | str) -> str:
    """Return how a path is no regular file, such as `is not there` or `is a pipe or a device`.

    A path that this user cannot look up, as in another user's folder, `cannot be read`.
    """
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "is not there"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is a folder" if stat.S_ISDIR(mode) else "is a pipe or a device, and no file"


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise OSError, also for a folder, a pipe or a device."""
    return os.fdopen(regular(path), "rb")


def regular(path: Path) -> int:
    """Return a descriptor for reading a regular file; raise OSError for a file of another type."""
    # O_NONBLOCK: without it, opening a pipe that has no writer would wait without end.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    folder = os.strerror(errno.EISDIR)
    raise OSError(errno.EINVAL, folder if stat.S_ISDIR(mode) else "it is not a file", str(path))


def text(path: Path) -> str:
    """Return the text of a file that a user wrote: UTF-8, at most 256 KiB.

    Raises Impossible, in a sentence that names the file, if it cannot be read, is larger, or is
    not UTF-8.
    """
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise Impossible(f"{path}: it is larger than {_MOST_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Impossible(f"{path}: line {line} is not UTF-8") from error


def toml(path: Path) -> Mapping[str, Any]:
    """Return the content of a TOML file; raise Impossible if it cannot be read or is not TOML.

    It also raises Impossible for a file that is larger than 256 KiB or not UTF-8.  Callers must not
    change the result: all callers that read the same content get the same object.
    """
    try:
        return _parse_once(text(path))
    except ValueError as error:
        raise Impossible(f"{path}: {error}") from error


# A command that has a URL reads the files of all engines a few times.
@functools.lru_cache(maxsize=64)
def _parse_once(source: str) -> Mapping[str, Any]:
    return parse_toml(source)


def parse_toml(source: str) -> dict[str, Any]:
    """Return the content of a text in TOML.

    Raises ValueError if it is not TOML, is nested too deeply, or has a line with over 500 dots.
    """
    for number, line in enumerate(source.splitlines(), 1):
        if line.count(".") > _MOST_DOTS:
            raise ValueError(f"line {number} has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(source)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
