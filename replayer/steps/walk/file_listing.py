"""The files that a walk reads, and the cost of listing them."""

import contextlib
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replayer.errors import Impossible, Skip
from replayer.run.context import Context
from replayer.steps.walk.spec import Spec
from replayer.storage import file_reader
from replayer.tables import persons, pgio, relations


@dataclass(frozen=True)
class FileListing:
    """The files to read, and the time of listing them.

    `entries` is the number of directory entries that were seen.  `user`, `system` (CPU time) and
    `real` (elapsed time) are the seconds of the listing.
    """

    sizes: dict[str, int]
    """Path of a file -> its size in bytes, folder by folder."""
    other_names: Mapping[str, int]
    """Path -> bytes, for further names of these files (hard links, bind mounts), not read again."""
    entries: int
    user: float
    system: float
    real: float

    @property
    def bytes(self) -> int:
        """Return the sum of the sizes of the files to read, in bytes."""
        return sum(self.sizes.values())


def files_of(spec: Spec, context: Context) -> list[str]:
    """Return the path of every file of the table, or of every file below the key `path`.

    Raises Impossible if there is no file, or if the table was not built.  Raises Skip if a folder
    cannot be listed, or if the server's files are not on this machine.
    """
    if spec.path is not None:
        files = list(list_files((str(spec.path),), None).sizes)
        if not files:
            raise Impossible(f"walk: there is no file in {spec.path}")
        return files
    folder = context.data_directory()
    with context.database() as database:
        if spec.table == persons.NAME:
            persons.needs(database)
            paths = relations.files(database, folder)
        else:
            paths = relations.files(database, folder, pgio.FILES, name=spec.table)
    if not paths:
        raise Impossible(f"walk: the table {spec.table!r} is not there, or has no files")
    return [str(path) for path in paths]


def folders_of(spec: Spec, files: Iterable[str]) -> Sequence[str]:
    """Return the sorted folders of the files, or only the folder that the key `path` names."""
    if spec.path is not None:
        return (str(spec.path),)
    return sorted({str(Path(path).parent) for path in files})


def list_files(folders: Iterable[str], wanted: set[str] | None) -> FileListing:
    """List the files in some folders and measure the time of the listing.

    `wanted` holds the paths of the files to list; None means all files, also in folders below. A
    file with several names is listed under the first one only: a second read would come from
    memory.
    """
    sizes: dict[str, int] = {}
    other_names: dict[str, int] = {}
    inodes: set[tuple[int, int]] = set()
    entries = 0
    before, began = resource.getrusage(resource.RUSAGE_THREAD), time.monotonic_ns()
    for entry in _entries(folders, deep=wanted is None):
        entries += 1
        if wanted is None:
            if not entry.is_file(follow_symlinks=False):
                continue
        elif entry.path not in wanted:
            continue
        with contextlib.suppress(FileNotFoundError):
            about = entry.stat(follow_symlinks=False)
            inode = about.st_dev, about.st_ino
            named = other_names if inode in inodes else sizes
            named[entry.path] = about.st_size
            inodes.add(inode)
    ended, after = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_THREAD)
    return FileListing(
        sizes,
        other_names,
        entries,
        user=after.ru_utime - before.ru_utime,
        system=after.ru_stime - before.ru_stime,
        real=(ended - began) / 1e9,
    )


def _entries(folders: Iterable[str], *, deep: bool) -> Iterator["os.DirEntry[str]"]:
    """Yield every entry of the folders and, with `deep`, of those below; links are not followed.

    Raises Skip for a folder that cannot be listed.
    """
    left = list(reversed(list(folders)))
    while left:
        folder = left.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if deep and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    yield entry
        except OSError as error:
            raise Skip(f"the folder {folder} cannot be listed: {error.strerror}") from error


def need_direct(files: Iterable[str]) -> None:
    """Raise Skip if the first file cannot be read with O_DIRECT, which bypasses the page cache."""
    first = next(iter(files))
    why_not = file_reader.why_not_direct(first)
    if why_not:
        raise Skip(
            f'mode = "direct" was asked for, but {first} cannot be read with O_DIRECT ({why_not}); '
            f'mode = "read" and mode = "mmap" remain'
        )
