"""Safe writing of folders and files where another user may place a link or swap a folder.

A path is walked from / down.  Each name is opened below the folder before it, and no link is
followed unchecked.  Every later call uses the descriptor, so that it uses the folder that was
checked.  Root follows a link only if root owns it.  Root writes only new files, or files without a
hard link in another folder.  For an ordinary user the kernel resolves the path, as for any program.
A command that outlives the process that was given it is checked before root runs it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pwd
import re
import shutil
import stat
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Self

from replayer import shell
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_LINKS = 40
"""The most links on one path: as many as the kernel follows."""
_SMALL = 1 << 20
"""The most bytes of a file that is read at once: notes, markers and settings are a few KiB."""
_BETWEEN = re.compile(r"[^\w%+./-]+")
"""The signs between two paths in a word: white space, and signs of a shell or of an option."""
_ALL_USERS = (0, 0, (1 << 32) - 1)
"""The only line of /proc/self/uid_map if no user namespace hides a user."""


class Folder:
    """An open folder; its methods use names in this folder, relative to its descriptor.

    `path` is the path that the caller gave.  `swappable` describes how another user could replace
    the folder, or replace what is made in it; "" if no other user can.
    """

    def __init__(self, path: Path | str) -> None:
        """Open a folder; raise OSError if that fails, Impossible for another user's link."""
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
        # A call below a descriptor fails with a bare file name, or with none: add the folder.
        if isinstance(error, OSError) and not os.path.isabs(error.filename or ""):  # noqa: PTH117
            error.filename = str(self.path / (error.filename or ""))
        self.close()

    def close(self) -> None:
        """Close the folder's descriptor."""
        os.close(self.fd)

    def shared(self) -> str:
        """Return which other user owns the folder or may write in it; "" if none does.

        The text is part of a sentence.  The user's own group counts as the user.
        """
        about = os.fstat(self.fd)
        if about.st_uid != os.geteuid():
            return f"belongs to {_name(about.st_uid)}"
        group = 0 if about.st_gid == os.getegid() else stat.S_IWGRP
        return "can be written by others" if about.st_mode & (stat.S_IWOTH | group) else ""

    def below(self, name: str) -> Folder:
        """Open a folder in this one; raise OSError if it does not exist or is a link."""
        inner = Folder.__new__(Folder)
        inner.path, inner.swappable = self.path / name, self.swappable
        inner.fd = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=self.fd)
        return inner

    def make(self, name: str, mode: int, owner: shell.User | None = None) -> None:
        """Make a folder in this one, with exactly this mode; without `owner` it is this user's."""
        os.mkdir(name, 0o700, dir_fd=self.fd)
        with self.below(name) as made:
            if owner is not None:
                os.fchown(made.fd, owner.uid, owner.gid)
            os.fchmod(made.fd, mode)

    def create(self, name: str, mode: int = 0o644, owner: shell.User | None = None) -> int:
        """Create a file in this folder; return its descriptor, to read and write.

        Without `owner` it belongs to this user.  Raises OSError if the name exists already.
        """
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
        owner: shell.User | None = None,
        *,
        draft: str = "",
    ) -> None:
        """Write a file completely or not at all: a new file replaces whatever has that name.

        Until the new file is complete and on the disk, its name is `draft`, by default `name`.new.
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

    def renew(self, name: str, text: str, *, draft: str) -> None:
        """Write a file as `replace` does; it keeps its mode and, if root writes it, its owner.

        A file that does not exist yet gets the mode that the umask leaves of 0o666.
        """
        mode, owner = 0o666, None
        with contextlib.suppress(FileNotFoundError):
            about = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                mode = about.st_mode & 0o777
                if os.geteuid() == 0 != about.st_uid:
                    owner = shell.User("", about.st_uid, about.st_gid)
        try:
            self.replace(name, text, mode, owner, draft=draft)
        except PermissionError:
            if owner is None:
                raise
            # On some network file systems root is an ordinary user.
            self.replace(name, text, mode, draft=draft)

    def rename(self, old: str, new: str) -> None:
        """Rename an entry of this folder; an entry with the new name is replaced."""
        os.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def read(self, name: str, *owners: int) -> str:
        """Return the text of a regular file that one of these users owns; by default this user.

        Raises PermissionError for any other file, and for one of more than 1 MiB.  Raises OSError
        if it cannot be read, ValueError if it is not UTF-8.
        """
        fd = os.open(name, os.O_RDONLY | _FILE, dir_fd=self.fd)
        with os.fdopen(fd, encoding="utf-8", errors="strict") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise PermissionError(errno.EPERM, "it is not a regular file", name)
            if about.st_uid not in (owners or (os.geteuid(),)):
                raise PermissionError(errno.EPERM, f"it belongs to {_name(about.st_uid)}", name)
            if about.st_size > _SMALL:
                raise PermissionError(errno.EPERM, "it is too large", name)
            return file.read(_SMALL)

    def mode(self, name: str) -> int:
        """Return the mode of an entry, without following a link; 0 if there is no entry."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode
        return 0

    def is_ours(self, name: str, beginning: bytes) -> bool:
        """Return whether a file belongs to this user only, and is empty or starts with `beginning`.

        Returns False for a file with a second hard link, and for one that is not regular.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=self.fd), "rb") as file:
            about = os.fstat(file.fileno())
            mine = about.st_uid == os.geteuid() and about.st_nlink == 1
            if not mine or not stat.S_ISREG(about.st_mode):
                return False
            return file.read(len(beginning)) in {b"", beginning}

    def forget(self, name: str) -> None:
        """Remove a file or a link, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Remove a folder with all its content, or a file or link, if it exists."""
        if stat.S_ISDIR(self.mode(name)):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(name, dir_fd=self.fd)
        else:
            self.forget(name)

    def rmdir(self, name: str) -> None:
        """Remove a folder if it exists and is empty."""
        try:
            os.rmdir(name, dir_fd=self.fd)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def names(self) -> list[str]:
        """Return the sorted names of the entries of this folder."""
        return sorted(os.listdir(self.fd))  # noqa: PTH208 - a descriptor


def own(path: Path, what: str) -> Folder:
    """Open a folder in which no other user can write, and which no other user can replace.

    Raises Impossible for any other folder; its message calls the folder `what`.  Raises OSError if
    the folder cannot be opened.
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
    """Open a folder in which no other user can swap entries: the user's own, or sticky as /tmp.

    Raises Impossible for any other folder; its message calls the folder `what`.  Raises OSError if
    the folder cannot be opened.
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
    """Return a path with all links resolved; the path need not exist.

    Root follows only root's own links.  Raises Impossible for another user's link.
    """
    try:
        with Folder(path) as folder:
            return Path(f"/proc/self/fd/{folder.fd}").readlink()
    except OSError:
        if os.path.lexists(path) or path == path.parent:
            return Path(os.path.realpath(path))
        return real(path.parent) / path.name


def changeable(words: Sequence[str], folder: Path, *, opens_folders: bool = True) -> str:
    """Return how another user could have changed what a command runs; "" if none could.

    Checked are the command's working folder and all files and folders that its `words` name, also
    within a word: an interpreter runs the script that an argument names, and looks for files in
    folders.  A name that a program puts together from parts cannot be checked.  `opens_folders` is
    False for a program that uses no file in the folders that it is given, such as mount.
    """
    try:
        own(folder, "the folder").close()
        paths = (folder / name for word in words for name in _names(word, folder))
        reasons = (_foreign(path, opened=opens_folders) for path in paths)
        return next(filter(None, reasons), "")
    except (OSError, Impossible) as error:
        return str(error)


def _names(word: str, folder: Path) -> Iterator[str]:
    """Yield each name in a word that has a / or exists in a folder, such as /a of `-C/a`."""
    # A name may itself have a sign that else is between two names, such as a space or a comma.
    ends = {word[sign.end() :] for sign in re.finditer("=", word)}
    for part in (word, *ends, *_BETWEEN.split(word)):
        option = re.match(r"-+\w?", part)
        names = {part, part[option.end() :]} if option else {part}
        names.add(part[max(0, part.find("/")) :])
        yield from (
            name for name in names if name and ("/" in name or os.path.lexists(folder / name))
        )


def _foreign(path: Path, *, opened: bool) -> str:
    """Return how another user could change a file or folder, or could make a missing one.

    Returns "" if no other user could.  `opened` is True if files in the folder are used.
    """
    if not os.path.lexists(path):
        above = next(one for one in path.parents if one.exists())
        with Folder(above) as folder:
            reason = folder.shared() or folder.swappable
        return f"{path} is missing, and {above} {reason}" if reason else ""
    whole = real(path)
    for parent in {path.parent, whole.parent}:
        steady(parent, "the folder").close()
    about = whole.stat()
    if stat.S_ISDIR(about.st_mode) and opened:
        with Folder(path) as folder:
            reason = folder.shared()
            return f"{path} {reason}" if reason else folder.swappable
    # A device is not run.
    if not stat.S_ISREG(about.st_mode):
        return ""
    if about.st_uid != 0 or about.st_mode & _WRITABLE:
        return f"{path} can be changed by other users"
    return ""


def refusal(folder: Path) -> str:
    """Return why this user can make nothing in a folder, such as `Permission denied`; "" if not so.

    Nothing is written.
    """
    try:
        about = os.statvfs(folder)
    except OSError as error:
        return error.strerror or str(error)
    if not os.path.isdir(folder):  # noqa: PTH112 - a Path raises below a folder of another user
        return os.strerror(errno.ENOTDIR)
    if os.access(folder, os.W_OK | os.X_OK):
        return ""
    return os.strerror(errno.EROFS if about.f_flag & os.ST_RDONLY else errno.EACCES)


def first_line(path: Path) -> str:
    """Return the first line of a regular file, without blanks around it; "" if it has none.

    Returns "" for a missing file and for any other kind of file.  Never waits for a pipe or device.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _FILE)
        with os.fdopen(fd, encoding="utf-8", errors="replace") as file:
            return file.readline(_SMALL).strip() if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""


def open_to_write(path: Path) -> int:
    """Return a descriptor of a file that the user named, empty and open for writing.

    A file that does not exist is created.  An existing one is emptied, if it is a regular file with
    one hard link.  In a folder where no other user can put a link, any file is accepted: a device,
    a pipe, a link.  Raises Impossible for another user's link, OSError if it cannot be written.
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
    """Open an existing file, empty it, and return its descriptor for writing.

    Raises Impossible if it is a link or not a regular file with one hard link, or if it belongs to
    neither this user nor the folder's owner.  Raises OSError if it cannot be opened.
    """
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
            f"{path} is there already, and is not a plain file of {_name(os.geteuid())}'s in a "
            f"folder where others can place one: remove it, or give another name"
        )
    os.ftruncate(fd, 0)
    return fd


def _a_link(path: Path) -> str:
    return (
        f"{path} is a link in a folder where others can place one, and is not followed: remove "
        f"it, or give another name"
    )


def _walked(path: Path) -> tuple[int, str]:
    """Open a folder; return its descriptor, and how another user could replace it.

    The second is "" if no other user can.  For a user other than root it is not checked, and "".
    """
    if os.geteuid() != 0:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), ""
    # The current folder may have been removed: ask for it only if it is needed.
    names = deque((path if path.is_absolute() else Path.cwd() / path).parts)
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
    """Raise OSError if `links`, the number of links on a path, is more than the kernel follows."""
    if links > _LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _instead(old: int, new: int) -> int:
    if old >= 0:
        os.close(old)
    return new


def _target(fd: int, shown: Path) -> Path | None:
    """Return the target of the link whose open descriptor is `fd`; None if it is not a link.

    Raises Impossible for a link of a user that is not trusted.  `shown` is the path for the
    message.
    """
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
    """Return how other users could swap entries of a folder; "" if they cannot.

    The text is part of a sentence.  In a sticky folder, only the owner of an entry can swap it.
    """
    about = os.fstat(fd)
    if not stat.S_ISDIR(about.st_mode):
        return ""
    if not _trusted(about.st_uid):
        return f"{shown} belongs to {_name(about.st_uid)}"
    writable = about.st_mode & (_WRITABLE if about.st_gid else stat.S_IWOTH)
    return f"{shown} can be written by others" if writable and not about.st_mode & 0o1000 else ""


def _trusted(uid: int) -> bool:
    """Return whether links and folders of the user `uid` are trusted like those of root."""
    return uid in {0, _unmapped()}


@functools.cache
def _unmapped() -> int:
    """Return the user id that stands for all users outside of this user namespace; -1 if none.

    In a namespace, folders of the real root appear as folders of that user.
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
