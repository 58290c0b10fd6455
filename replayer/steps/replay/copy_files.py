"""Data for COPY FROM STDIN: files of a folder that the user gives, as no log has the data.

The file `schema.table.copy` is sent, unchanged, to each COPY of that table.  If a file
`schema.table.3.copy` exists, the third COPY of the table in the capture gets that one.  The schema
may be missing in the name of a file, and `public` may be missing in the statement.
"""

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from replayer import trusted_path
from replayer.capture.action import LoggedStatement
from replayer.capture.copies import SEVERAL, copied
from replayer.errors import Impossible, one_line
from replayer.watch.workers import Descriptor, allow_all_files

ENDING = ".copy"
NO_DATA = "COPY FROM STDIN: its data is not in the log; the key copy_from names a folder with it"
NO_TABLE = "COPY FROM STDIN: its text does not show one table, so that no file can have its data"
NONE, FAILS = -1, -2
"""Values that stand in the place of a file's number.

NONE: the statement takes no data.  FAILS: a COPY has no file, and is made to fail, as it failed in
the log.
"""
_MOST_NAMED = 5
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class CopyFiles:
    """The files with data for COPY FROM STDIN in a folder, each opened at its first use.

    It has no files if no folder is given.
    """

    def __init__(self, folder: str) -> None:
        """Open the folder that the key `copy_from` names; "" means that none is given.

        Raise Impossible if it cannot be opened, or if root runs replayer and another user could
        place a file there.  For other users the kernel's permissions decide what they can read.
        """
        self._path = Path(folder)
        self._given = bool(folder)
        self._close = contextlib.ExitStack()
        self._names: frozenset[str] = frozenset()
        self._places: dict[str, int] = {}
        self._fds: list[int] = []
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        if not folder:
            return
        try:
            # Each COPY may have a file.
            allow_all_files()
            self._folder = _opened(self._path)
            self._close.callback(self._folder.close)
            self._names = frozenset(self._folder.names())
        except OSError as error:
            raise Impossible(f"copy_from = {folder}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptors of the folder and of all its files that were opened."""
        self._close.close()

    def check(self, copies: Mapping[str, int]) -> None:
        """Raise Impossible if a table has no file, or a file cannot be read.

        `copies` is table -> number of its COPY FROM STDIN statements in the capture.  Nothing is
        checked if no folder is given.
        """
        if not self._given:
            return
        counts: Counter[str] = Counter()
        for table, count in copies.items():
            if table != SEVERAL:
                counts[_bare(table)] += count
        missing = [table for table, count in counts.items() if self._missing(table, count)]
        if missing:
            names = [f"{table}{ENDING}" for table in missing]
            raise Impossible(
                f"copy_from = {self._path}: it has no {_named(names)}, of which the capture has "
                f"COPY FROM STDIN: put the data there as COPY reads it; an empty file is not a row"
            )
        for table, count in counts.items():
            for number in range(1, count + 1):
                self._place(self._name(table, number))

    def feed(
        self, statement: LoggedStatement | None, *, failed: bool = False, kept: bool = True
    ) -> int | None:
        """Return the number of the file with the data for a COPY: its index in `descriptors`.

        Statements must come in the order of the capture, as a file may be for the N-th COPY.

        Return NONE if the statement is no COPY FROM STDIN.  Without a file, return FAILS if the
        statement `failed` in the log, so that it is made to fail again.  If it had succeeded there,
        return None: it cannot run.  It is then counted as left out if `kept` is True.
        """
        table = None if statement is None else copied(statement.text)
        if table is None:
            return NONE
        table = _bare(table)
        self._counts[table] += 1
        name = "" if table == SEVERAL else self._name(table, self._counts[table])
        if name:
            return self._place(name)
        if failed:
            # Without it, its transaction would keep what it lost in the source.
            return FAILS
        self._left_out[NO_TABLE if self._given and table == SEVERAL else NO_DATA] += kept
        return None

    def unused(self) -> str:
        """Return a sentence that names the files that no COPY of the capture takes, or ""."""
        names = sorted(name for name in self._names - self._places.keys() if name.endswith(ENDING))
        return f"copy_from: no COPY of the capture takes {_named(names)}" if names else ""

    def left_out(self) -> Mapping[str, int]:
        """Return reason -> number of COPY statements left out, as there is no data for them."""
        return self._left_out

    def descriptors(self) -> tuple[Descriptor, ...]:
        """Return the descriptors of the open files, for worker processes to inherit."""
        return tuple(Descriptor(fd) for fd in self._fds)

    def _missing(self, table: str, count: int) -> bool:
        return any(not self._name(table, number) for number in range(1, count + 1))

    def _name(self, table: str, number: int) -> str:
        """Return the name of the file for the COPY of that number, from 1; "" if there is none."""
        _, dot, last = table.rpartition(".")
        stems = (table, last) if dot else (f"public.{table}", table)
        names = (f"{stem}{part}{ENDING}" for part in (f".{number}", "") for stem in stems)
        return next((name for name in names if name in self._names), "")

    def _place(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = len(self._fds)
            self._fds.append(self._open(name))
        return place

    def _open(self, name: str) -> int:
        """Open a file of the folder, and return its descriptor.

        Raise Impossible if that fails, if it is a link or no plain file, or if root runs replayer
        and another user could change it.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        shown = one_line(name)
        try:
            fd = os.open(name, flags, dir_fd=self._folder.fd)
        except OSError as error:
            why = "links are not followed" if error.errno == errno.ELOOP else error.strerror
            raise Impossible(f"copy_from = {self._path}: {shown} cannot be read: {why}") from error
        self._close.callback(os.close, fd)
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise Impossible(f"copy_from = {self._path}: {shown} is not a plain file")
        if not os.geteuid() and (about.st_uid or about.st_mode & _OTHERS or about.st_nlink > 1):
            raise Impossible(
                f"copy_from = {self._path}: {shown} is not root's alone, so that others could "
                f"change what root sends: give a copy that only root can write"
            )
        return fd


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    shown = ", ".join(map(one_line, names[:_MOST_NAMED]))
    return shown + (f" and {more:,} more" if more > 0 else "")


def _bare(table: str) -> str:
    """Return a table's name without the schema `public`, which a statement may leave out."""
    return table.removeprefix("public.")


def _opened(path: Path) -> trusted_path.Folder:
    if os.geteuid():
        return trusted_path.Folder(path)
    return trusted_path.own(path, "the folder of copy_from")
