"""Plug-ins of the user: drivers of databases in the folders of $REPLAYER_SCHEMAS.

A wire is the way to reach a server, such as a driver of Python; it is a file in `wires/` there.  A
guest is a database that is a library in a process; it is a file in `guests/`.  Both are next to the
engines that name them.  They are code, which is loaded only from a folder to which only this user
and root can write.  An engine's folder has commands, so that for root it must be such a one, too.
"""

import os
import stat
import traceback
from collections.abc import Iterator
from pathlib import Path

from replayer import assets, trusted_path
from replayer.errors import Impossible, one_line

_KINDS = ("engines.guests", "engines.wires")


def folders(kind: str) -> list[Path]:
    """Return the user's existing folders for a kind of plug-in, in the order of the search.

    The folders are `wires/` (kind `engines.wires`) or `guests/` (`engines.guests`).  Returns [] for
    a kind that users cannot add to.
    """
    if kind not in _KINDS:
        return []
    every = (one / kind.rpartition(".")[2] for one in assets.own_schemas())
    return [one for one in every if one.is_dir()]


def trust(folder: Path) -> None:
    """Raise Impossible if another user could change the code in a folder, or replace a part of it.

    For root, a link to a file is refused, as another user may own the file that it points to.  A
    link to a folder is followed if root owns it, and that folder is checked, too.
    """
    try:
        reason = _find_danger(folder)
    except OSError as error:
        raise Impossible(f"{folder} cannot be read: {error.strerror}") from error
    if reason:
        raise Impossible(
            f"code in {folder} is not loaded: {reason}",
            "let only yourself and root write there, or take its folder out of REPLAYER_SCHEMAS",
        )


def explain(error: BaseException, file: str) -> str:
    """Return an error of a user's own code as part of one sentence, with its line in that file.

    A SyntaxError has file and line in its own text.
    """
    what = one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f"{what} (line {lines[-1]})" if lines else what


def _find_danger(folder: Path) -> str:
    """Return how another user could change or replace a folder's content; "" if none could."""
    with trusted_path.Folder(folder) as opened:
        return opened.swappable or next(_shared(opened.fd, folder), "")


def _shared(descriptor: int, folder: Path) -> Iterator[str]:
    """Yield a sentence part for each file or folder in `folder` that another user can change.

    The part has the path and the reason.  `descriptor` is that of the open folder.
    """
    links = os.geteuid() != 0
    for name, inside, files, inner in os.fwalk(".", dir_fd=descriptor, follow_symlinks=links):
        for one in (".", *files):
            about = os.stat(one, dir_fd=inner, follow_symlinks=links)
            problem = _problem(about)
            if problem:
                yield f"{Path(os.path.normpath(folder / name / one))} {problem}"
        for one in () if links else inside:
            # os.fwalk does not enter links to folders, which an import does.
            mode = os.stat(one, dir_fd=inner, follow_symlinks=False).st_mode
            danger = _find_danger(folder / name / one) if stat.S_ISLNK(mode) else ""
            if danger:
                yield danger


def _problem(about: os.stat_result) -> str:
    if stat.S_ISLNK(about.st_mode):
        return "is a link, which root does not follow"
    if about.st_uid not in {0, os.geteuid()}:
        return f"belongs to user {about.st_uid}"
    group = 0 if about.st_gid in {0, os.getegid()} else stat.S_IWGRP
    return "can be written by others" if about.st_mode & (stat.S_IWOTH | group) else ""
