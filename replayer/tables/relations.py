"""The files of a table and its indexes."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer.engines.verbs import VerbName
from replayer.errors import Skip

if TYPE_CHECKING:
    from replayer.engines.connection import Database

_FILES = VerbName("files")
_MAP = re.compile(r".+_(?:fsm|vm|init)(?:\.\d+)?")
_PIECE = re.compile(r"(.+?)(?:\.\d+|_(?:fsm|vm|init)(?:\.\d+)?)")


def files(
    database: "Database",
    data_directory: Path,
    verb: VerbName = _FILES,
    holes: Mapping[str, str | int] | None = None,
    **parameters: Any,
) -> list[Path]:
    """Return the sorted paths of all files of some tables or indexes.

    `verb` is the engine's query for them: its column `path` has the first file of each, relative to
    the data directory.  `holes` are texts to fill into its SQL, and `parameters` are its bound
    parameters.

    The further files of each have the endings .1 .2 … (beyond 1 GiB), _fsm, _vm and _init.  The
    server may remove a file meanwhile.  Raises Skip if the folder of a file cannot be read.
    """
    rows = database.execute(verb, holes, **parameters)
    wanted = [data_directory / row["path"] for row in rows if row["path"]]
    pieces = {folder: _pieces(folder) for folder in {path.parent for path in wanted}}
    paths = {
        path.parent / name for path in wanted for name in pieces[path.parent].get(path.name, ())
    }
    return sorted(paths)


def without_maps(paths: Sequence[Path]) -> list[Path]:
    """Return the files that may hold rows: maps of free space and visibility hold none."""
    return [path for path in paths if not _MAP.fullmatch(path.name)]


def _pieces(folder: Path) -> dict[str, list[str]]:
    """Return name of a relation's first file -> the names of all its files in that folder.

    Raises Skip if the folder cannot be read.
    """
    pieces: dict[str, list[str]] = {}
    try:
        names = os.listdir(folder)  # noqa: PTH208 - thousands of files, and no stat of any
    except OSError as error:
        raise Skip(f"the data folder {folder} cannot be read: {error.strerror}") from error
    for name in names:
        pieces.setdefault(name, []).append(name)
        piece = _PIECE.fullmatch(name)
        if piece is not None:
            pieces.setdefault(piece[1], []).append(name)
    return pieces
