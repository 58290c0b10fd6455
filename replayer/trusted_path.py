"""Folders and files as they are written where somebody else may place a link or swap a folder.

A path is walked from / down, each name opened below the folder before it and no link followed
blindly, so that what was checked is what is used: every later call goes through the descriptor.
For root a link is followed only if it is root's own; a file is always a new one, or one that only
its own folder knows.  An ordinary user's paths are the kernel's business, as with any program.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pwd
import shutil
import stat
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Self

from replayer.errors import Impossible

if TYPE_CHECKING:
    from types import TracebackType

    from replayer.shell import User

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_LINKS = 40
"""Links on one path, as many as the kernel follows."""
_SMALL = 1 << 20
"""Bytes of the largest file that is read at once: notes, markers and settings are a few KiB."""
_ALL_USERS = (0, 0, (1 << 32) - 1)
"""The one line of /proc/self/uid_map where no user namespace hides anybody."""


class Folder:
    """An open folder; whatever it does, it does below its descriptor.

    `path` is how it was asked for.  `swappable` says how somebody else could put another folder in
    its place, or something else in the place of what is made in it; "" where nobody can.
    """

    def __init__(self, path: Path | str) -> None:
        """Open a folder; raise OSError where it cannot be, Impossible for another owner's link."""
        self.path = Path(path)
        self.fd, self.swappable = _walked(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What is done below a descriptor fails under a bare name, or under none.
        if isinstance(error, OSError) and not os.path.isabs(error.filename or ""):  # noqa: PTH117
            error.filename = str(self.path / (error.filename or ""))
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)

    def shared(self) -> str:
        """Return who else owns this folder or may write in it, as part of a sentence; "" if nobody.

        The group of an ordinary user's own counts as the user.
        """
        about = os.fstat(self.fd)
        if about.st_uid != os.geteuid():
            return f"belongs to {_name(about.st_uid)}"
        group = 0 if about.st_gid == os.getegid() else stat.S_IWGRP
        return "can be written by others" if about.st_mode & (stat.S_IWOTH | group) else ""

    def below(self, name: str) -> Folder:
        """Open a folder in this one, which is no link; raise OSError where there is none."""
        inner = Folder.__new__(Folder)
        inner.path, inner.swappable = self.path / name, self.swappable
        inner.fd = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=self.fd)
        return inner

    def make(self, name: str, mode: int, owner: User | None = None) -> None:
        """Make a folder, give it to its owner and set its mode, whatever the umask."""
        os.mkdir(name, 0o700, dir_fd=self.fd)
        with self.below(name) as made:
            if owner is not None:
                os.fchown(made.fd, owner.uid, owner.gid)
            os.fchmod(made.fd, mode)

    def create(self, name: str, mode: int = 0o644, owner: User | None = None) -> int:
        """Create a file that must not be there, and return its descriptor for writing."""
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=self.fd)
        if owner is not None:
            os.fchown(fd, owner.uid, owner.gid)
            os.fchmod(fd, mode)
        return fd

    def replace(
        self,
        name: str,
        text: str,
        mode: int = 0o644,
        owner: User | None = None,
        *,
        draft: str = "",
    ) -> None:
        """Write a file whole or not at all: a new one takes the place of what has that name.

        It is called `draft`, or `name`.new, until it is whole and on the disk.
        """
        draft = draft or f"{name}.new"
        self.forget(draft)
        try:
            with os.fdopen(self.create(draft, mode, owner), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self.rename(draft, name)
        except BaseException:
            self.forget(draft)
            raise

    def rename(self, old: str, new: str) -> None:
        """Rename what is in this folder; the new name may be taken."""
        os.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def read(self, name: str, *owners: int) -> str:
        """Return the text of a regular file of one of these users, this one if none is named.

        Raises PermissionError for any other file, OSError and ValueError for what cannot be read.
        """
        fd = os.open(name, os.O_RDONLY | _FILE, dir_fd=self.fd)
        with os.fdopen(fd, encoding="utf-8", errors="strict") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise PermissionError(errno.EPERM, "it is no regular file", name)
            if about.st_uid not in (owners or (os.geteuid(),)):
                raise PermissionError(errno.EPERM, f"it belongs to {_name(about.st_uid)}", name)
            if about.st_size > _SMALL:
                raise PermissionError(errno.EPERM, "it is too large", name)
            return file.read(_SMALL)

    def mode(self, name: str) -> int:
        """Return the mode of what is in this folder, a link's own if it is one; 0 if nothing is."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode
        return 0

    def is_ours(self, name: str, beginning: bytes) -> bool:
        """Tell whether a file is this user's alone, and begins so, or is empty."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=self.fd), "rb") as file:
            about = os.fstat(file.fileno())
            mine = about.st_uid == os.geteuid() and about.st_nlink == 1
            if not mine or not stat.S_ISREG(about.st_mode):
                return False
            return file.read(len(beginning)) in {b"", beginning}

    def forget(self, name: str) -> None:
        """Remove a file or a link, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Remove a folder with all that is in it, or a link to one; fine if it is not there."""
        if stat.S_ISDIR(self.mode(name)):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(name, dir_fd=self.fd)
        else:
            self.forget(name)

    def rmdir(self, name: str) -> None:
        """Remove a folder if it is there and nothing is in it."""
        try:
            os.rmdir(name, dir_fd=self.fd)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def names(self) -> list[str]:
        """Return the sorted names of what is in this folder."""
        return sorted(os.listdir(self.fd))  # noqa: PTH208 - a descriptor


def own(path: Path, what: str) -> Folder:
    """Open a folder that nobody else can write in, swap or put a link into.

    Raises Impossible, which calls it `what`, for any other folder; OSError where it cannot be.
    """
    folder = Folder(path)
    reason = folder.shared()
    reason = f"{path} {reason}" if reason else folder.swappable
    if reason:
        folder.close()
        raise Impossible(
            f"{what} {path} is not {_name(os.geteuid())}'s alone: {reason}, who could put a link "
            f"in the place of a file; give a folder that only {_name(os.geteuid())} can write, "
            f"below such folders"
        )
    return folder


def steady(path: Path, what: str) -> Folder:
    """Open a folder in which nobody else can swap what is made there: own, or sticky as /tmp is.

    Raises Impossible, which calls it `what`, for any other folder; OSError where it cannot be.
    """
    folder = Folder(path)
    if folder.swappable:
        folder.close()
        raise Impossible(
            f"{what} {path} cannot be used by {_name(os.geteuid())}: {folder.swappable}, who could "
            f"put a link in the place of a file; give another folder, or run replayer as its owner"
        )
    return folder


def real(path: Path) -> Path:
    """Return a path without links, of which root follows only its own; it need not be there.

    Raises Impossible for somebody else's link.
    """
    try:
        with Folder(path) as folder:
            return Path(f"/proc/self/fd/{folder.fd}").readlink()
    except OSError:
        if os.path.lexists(path) or path == path.parent:
            return Path(os.path.realpath(path))
        return real(path.parent) / path.name


def first_line(path: Path) -> str:
    """Return the first line of a small regular file; "" if there is none, or it is anything else.

    A pipe or a device in its place is not waited for.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _FILE)
        with os.fdopen(fd, encoding="utf-8", errors="replace") as file:
            return file.readline(_SMALL).strip() if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""


def open_to_write(path: Path) -> int:
    """Return a descriptor of a file that the user named, empty and open for writing.

    A new file is made; one that is there is emptied, if it is a plain one that no other folder
    knows.  Where nobody else can put a link, what the user named is taken as it is: a device, a
    pipe, a link.  Raises Impossible for somebody else's link, OSError where it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    if os.geteuid() != 0:
        return os.open(path, flags | os.O_TRUNC, 0o666)
    with Folder(path.parent) as folder:
        if not folder.swappable and not os.fstat(folder.fd).st_mode & _WRITABLE:
            return os.open(path.name, flags | os.O_TRUNC, 0o666, dir_fd=folder.fd)
        try:
            return os.open(path.name, flags | os.O_EXCL | _FILE, 0o666, dir_fd=folder.fd)
        except FileExistsError:
            pass
        return _emptied(folder, path)


def _emptied(folder: Folder, path: Path) -> int:
    """Open a file that is there already, and empty it once it is known what it is."""
    try:
        fd = os.open(path.name, os.O_WRONLY | _FILE, dir_fd=folder.fd)
    except OSError as error:
        if stat.S_ISLNK(folder.mode(path.name)):
            raise Impossible(_a_link(path)) from error
        raise
    about = os.fstat(fd)
    mine = about.st_uid in {os.geteuid(), os.fstat(folder.fd).st_uid}
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1 or not mine:
        os.close(fd)
        raise Impossible(
            f"{path} is there already, and is no plain file of {_name(os.geteuid())}'s in a folder "
            f"where others can place one: remove it, or give another name"
        )
    os.ftruncate(fd, 0)
    return fd


def _a_link(path: Path) -> str:
    return (
        f"{path} is a link in a folder where others can place one, and is not followed: remove "
        f"it, or give another name"
    )


def _walked(path: Path) -> tuple[int, str]:
    """Return a descriptor of a folder, and how somebody else could put another in its place."""
    if os.geteuid() != 0:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), ""
    names = deque((Path.cwd() / path).parts)
    shown, fd, swappable, links = Path("/"), -1, "", 0
    try:
        while names:
            name = names.popleft()
            if name == "/":
                shown, fd = Path("/"), _instead(fd, os.open("/", os.O_PATH | os.O_DIRECTORY))
            else:
                inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                target = _target(inner, shown / name)
                if target is not None:
                    os.close(inner)
                    links += 1
                    _bear(links, path)
                    names.extendleft(reversed(target.parts))
                    continue
                shown, fd = shown / name, _instead(fd, inner)
            swappable = swappable or _others(fd, shown)
        return _instead(fd, os.open(".", os.O_RDONLY | _FOLDER, dir_fd=fd)), swappable
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise


def _bear(links: int, path: Path) -> None:
    """Raise OSError for more links than the kernel follows."""
    if links > _LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _instead(old: int, new: int) -> int:
    if old >= 0:
        os.close(old)
    return new


def _target(fd: int, shown: Path) -> Path | None:
    """Return where a link points, None if it is none; `fd` is the link itself."""
    about = os.fstat(fd)
    if not stat.S_ISLNK(about.st_mode):
        return None
    if not _trusted(about.st_uid):
        os.close(fd)
        raise Impossible(
            f"{shown} is a link of {_name(about.st_uid)}'s, which "
            f"{_name(os.geteuid())} does not follow: give the folder itself"
        )
    return Path(os.readlink("", dir_fd=fd))


def _others(fd: int, shown: Path) -> str:
    """Return how others could swap what is in a folder, as part of a sentence; "" if they cannot.

    In a sticky folder only the owner of a thing can.
    """
    about = os.fstat(fd)
    if not stat.S_ISDIR(about.st_mode):
        return ""
    if not _trusted(about.st_uid):
        return f"{shown} belongs to {_name(about.st_uid)}"
    writable = about.st_mode & (_WRITABLE if about.st_gid else stat.S_IWOTH)
    return f"{shown} can be written by others" if writable and not about.st_mode & 0o1000 else ""


def _trusted(uid: int) -> bool:
    """Tell whether links and folders of a user are as good as root's own."""
    return uid in {0, _unmapped()}


@functools.cache
def _unmapped() -> int:
    """Return the user id that stands for all users outside of this user namespace, -1 if none does.

    Real root's folders are shown as that user's to the root of a namespace.
    """
    try:
        lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
        stands = int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except OSError:
        return -1
    ranges = [tuple(map(int, line.split())) for line in lines]
    if ranges == [_ALL_USERS]:
        return -1
    return -1 if any(first <= stands < first + many for first, _, many in ranges) else stands


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
