"""A cache of all metrics of many stored runs, so that each run file is read only once.

The cache is one hidden file next to the runs.  An entry counts only as long as its run file has the
same name, size and time of change to the nanosecond.  A run file that was changed within the last
seconds gets no entry, because another change could leave the same time.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic_core import from_json, to_json

from replayer import trusted_path
from replayer.errors import ReplayerError
from replayer.model import Better
from replayer.results import measured_runs, store
from replayer.results.measured_runs import MeasuredValue

NAME = ".metrics-cache"
_FORMAT = 1
_SETTLED_NS = 3_000_000_000
_FEWEST = 100
"""Number of run files that must be read anew before the cache file is written."""
_Kind = tuple[str, str, str]
"""Name, unit and direction of a metric."""
_Entry = tuple[int, int, int, list[float]]
"""Size, time of change in ns, number of the list of its metrics, and their values."""


class MetricsCache:
    """The metrics of the runs of a folder; the folder's cache has those of unchanged run files."""

    def __init__(self, folder: Path, wanted: Callable[[str], bool]) -> None:
        """Read the cache of a folder; `wanted` returns whether a metric of this name is wanted."""
        self._folder, self._wanted = folder, wanted
        self._lists: list[tuple[_Kind, ...]] = []
        self._numbers: dict[tuple[_Kind, ...], int] = {}
        self._chosen: dict[int, list[tuple[int, str, str, Better]]] = {}
        self._entries: dict[str, _Entry] = {}
        self._read = 0
        with contextlib.suppress(OSError, ReplayerError, *measured_runs.MALFORMED):
            self._load()

    def values(self, path: Path) -> tuple[MeasuredValue, ...]:
        """Return the wanted metrics of a run file; () if it cannot be read."""
        try:
            about = path.stat()
        except OSError:
            return ()
        entry = self._entries.get(path.name)
        if entry is None or (entry[0], entry[1]) != (about.st_size, about.st_mtime_ns):
            entry = self._measured(path, about)
        return tuple(
            MeasuredValue(name, entry[3][place], unit, better)
            for place, name, unit, better in self._places(entry[2])
        )

    def save(self) -> None:
        """Write the cache file, unless few run files were read or the folder is not writable.

        Run files that were removed have no entry in it.
        """
        if self._read < _FEWEST:
            return
        with contextlib.suppress(OSError, ReplayerError):
            present = set(store.names(self._folder))
            there = {name: entry for name, entry in self._entries.items() if name in present}
            content = {"format": _FORMAT, "lists": self._lists, "runs": there}
            text = to_json(content, inf_nan_mode="constants").decode()
            with trusted_path.Folder(self._folder) as folder:
                folder.replace(NAME, text, draft=f"{NAME}.{os.getpid()}.new")

    def _load(self) -> None:
        """Read the cache file; raise OSError or one of MALFORMED if it is missing or damaged.

        A file of another user or of another format is ignored.
        """
        with trusted_path.Folder(self._folder) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(NAME, flags, dir_fd=folder.fd), "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                    return
                content = from_json(file.read(), allow_inf_nan=True)
        if content["format"] != _FORMAT:
            return
        lists = [
            tuple((str(n), str(u), Better(b).value) for n, u, b in kinds)
            for kinds in content["lists"]
        ]
        entries = {name: _checked(entry, lists) for name, entry in content["runs"].items()}
        self._lists, self._entries = lists, entries
        self._numbers = {kinds: number for number, kinds in enumerate(lists)}

    def _measured(self, path: Path, about: os.stat_result) -> _Entry:
        """Read the metrics of a run file; return the entry with them, and cache it if possible.

        If the file cannot be read, the entry has no metrics.
        """
        found: Sequence[MeasuredValue] = ()
        with contextlib.suppress(ReplayerError, OSError, *measured_runs.MALFORMED):
            found = measured_runs.all_values(path)
        kinds = tuple((one.name, one.unit, one.better.value) for one in found)
        if kinds not in self._numbers:
            self._numbers[kinds] = len(self._lists)
            self._lists.append(kinds)
        values = [one.value for one in found]
        entry = (about.st_size, about.st_mtime_ns, self._numbers[kinds], values)
        if time.time_ns() - about.st_mtime_ns > _SETTLED_NS:
            self._entries[path.name] = entry
            self._read += 1
        return entry

    def _places(self, number: int) -> list[tuple[int, str, str, Better]]:
        """Return (place, name, unit, direction) of each wanted metric in a list of metrics.

        Runs with the same metrics share a list, and `number` is its number.  A place is an index in
        the values of such a run.
        """
        if number not in self._chosen:
            self._chosen[number] = [
                (place, name, unit, Better(better))
                for place, (name, unit, better) in enumerate(self._lists[number])
                if self._wanted(name)
            ]
        return self._chosen[number]


def _checked(entry: _Entry, lists: Sequence[Sequence[_Kind]]) -> _Entry:
    size, changed, number, values = entry
    if not 0 <= number < len(lists) or len(lists[number]) != len(values):
        raise ValueError("an entry does not fit its list")
    if not all(isinstance(value, float | int) for value in values):
        raise TypeError("a value is not a number")
    return size, changed, number, values
