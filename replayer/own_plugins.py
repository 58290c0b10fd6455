"""Plug-ins of the user: drivers of databases in the folders of $REPLAYER_SCHEMAS.

A wire is the way to reach a server, such as a driver of Python; it is a file in `wires/` there.  A
guest is a database that is a library in a process; it is a file in `guests/`.  Both are next to the
engines that name them.  They are code, which is loaded only from a folder to which only this user
and root can write.  An engine's folder has commands, so that for root it must be such a one, too.
"""

import os
import stat
import traceback
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


def trust(folder: Path, what: str = "code") -> None:
    """Raise Impossible if another user could change the code in a folder, or replace a part of it.

    The message calls the content of the folder `what`.
    A link is followed, for root if root owns it, and what it leads to is checked, too.
    """
    try:
        reason = _find_danger(folder, set())
    except OSError as error:
        raise Impossible(f"{folder} cannot be read: {error.strerror}") from error
    if reason:
        todo = "let only yourself and root write there"
        if os.geteuid() == 0 and any(one in reason for one in (" belongs to ", " is a link of ")):
            # To give root a folder of that user's, such as a home, would take it from the user.
            todo = "run replayer as that user, or copy it into a folder of root's, such as in /opt"
        raise Impossible(
            f"{what} in {folder} is not loaded: {reason}",
            f"{todo}, or take its folder out of REPLAYER_SCHEMAS",
        )


def explain(error: BaseException, file: str) -> str:
    """Return an error of a user's own code as part of one sentence, with its line in that file.

    A SyntaxError has file and line in its own text.
    """
    what = one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f"{what} (line {lines[-1]})" if lines else what


def _find_danger(folder: Path, seen: set[tuple[int, int]]) -> str:
    """Return how another user could change or replace a folder's content; "" if none could.

    `seen` are the device and inode of each folder and link that was checked: a link may lead back.
    """
    with trusted_path.Folder(folder) as opened:
        about = os.fstat(opened.fd)
        if opened.swappable or _is_seen(about, seen):
            return opened.swappable
        if problem := _problem(about):
            return f"{folder} {problem}"
        return next(filter(None, (_danger_of(opened, name, seen) for name in opened.names())), "")


def _danger_of(there: trusted_path.Folder, name: str, seen: set[tuple[int, int]]) -> str:
    """Return how another user could change an entry of a folder, or what a link leads to."""
    path = there.path / name
    about = os.stat(name, dir_fd=there.fd, follow_symlinks=False)
    if stat.S_ISLNK(about.st_mode):
        return "" if _is_seen(about, seen) else _danger_of_link(path, about, seen)
    if stat.S_ISDIR(about.st_mode):
        return _find_danger(path, seen)
    problem = _problem(about)
    return f"{path} {problem}" if problem else ""


def _danger_of_link(link: Path, about: os.stat_result, seen: set[tuple[int, int]]) -> str:
    """Return how another user could change what a link leads to, or could make it if missing."""
    if os.geteuid() == 0 != about.st_uid:
        return f"{link} is a link of user {about.st_uid}, which root does not follow"
    if link.is_dir():
        return _find_danger(link, seen)
    target = link.parent / link.readlink()
    above = next(one for one in target.parents if os.path.lexists(one))
    with trusted_path.Folder(above) as there:
        if there.swappable:
            return there.swappable
        if os.path.lexists(target):
            return _danger_of(there, target.name, seen)
        problem = _problem(os.fstat(there.fd))
        return f"{link} leads to a missing file, and {above} {problem}" if problem else ""


def _is_seen(about: os.stat_result, seen: set[tuple[int, int]]) -> bool:
    """Return whether a file was checked before; from now on it is."""
    known = len(seen)
    seen.add((about.st_dev, about.st_ino))
    return len(seen) == known


def _problem(about: os.stat_result) -> str:
    if about.st_uid not in {0, os.geteuid()}:
        return f"belongs to user {about.st_uid}"
    group = 0 if about.st_gid in {0, os.getegid()} else stat.S_IWGRP
    return "can be written by others" if about.st_mode & (stat.S_IWOTH | group) else ""
