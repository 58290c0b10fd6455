"""The runs to export; the file of a run is read again only when it has changed."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from replayer.errors import ReplayerError
from replayer.metrics.families import MetricFamilies, needs
from replayer.metrics.running import RunMetrics
from replayer.results import store
from replayer.results.store import StoredRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from prometheus_client.core import Metric

    from replayer.model import Run


class RunFiles(Protocol):
    """A source of the runs to export; `paths` is called each time that Prometheus asks."""

    def paths(self) -> Sequence[Path]:
        """Return the result files of the runs to export."""
        ...


class Named(NamedTuple):
    """Runs that the user named."""

    files: tuple[Path, ...]

    def paths(self) -> Sequence[Path]:
        """Return the result files of the runs to export."""
        return self.files


class Newest:
    """The newest runs of a folder, at most `most`, found again each time Prometheus asks."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._changed = 0
        self._paths: tuple[Path, ...] = ()

    def paths(self) -> Sequence[Path]:
        """Return the result files of the runs to export, the newest last.

        If the folder cannot be read now, they are as of the last time that it could be read.
        """
        # A new version of a result file replaces the file, which changes the folder's time.
        changed = 0
        with contextlib.suppress(OSError):
            changed = self._folder.stat().st_mtime_ns
        if changed != self._changed or not changed:
            with contextlib.suppress(ReplayerError):
                listed = [
                    one.path for one in store.runs(self._folder) if isinstance(one, StoredRun)
                ]
                self._paths = tuple(listed[-self._most :])
                self._changed = changed
        return self._paths


class _Version(NamedTuple):
    """Inode, time of change and size of a file; if one of them differs, the file has changed."""

    inode: int
    changed: int
    size: int


class _Known(NamedTuple):
    """A run and its metrics, as of the last time that the run's file was read."""

    version: _Version
    run: Run
    families: MetricFamilies


class Runs(Collector):
    """A collector that makes the metrics of all runs of a source, each time Prometheus asks."""

    def __init__(self, source: RunFiles) -> None:
        self._source = source
        self._known: dict[Path, _Known] = {}
        self._watched: dict[Path, RunMetrics] = {}
        # Several scrapes may come at the same time.
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family that has samples, with the samples of all runs."""
        families = MetricFamilies()
        with self._lock:
            for path, one in self._runs():
                families.join(one.families)
                self._watched[path].add(families, one.run)
        yield from families.all()

    def _runs(self) -> Iterator[tuple[Path, _Known]]:
        """Yield (path, run and its metrics) for each run; copies of a run are left out.

        If a file cannot be read now, the run is as of the last time that it could be read.
        """
        known = {}
        for path in self._source.paths():
            with contextlib.suppress(ReplayerError, OSError):
                self._read(path)
            if path in self._known:
                known[path] = self._known[path]
        for path in self._known.keys() - known.keys():
            self._watched.pop(path).close()
        self._known = known
        # There may be links and copies: export each run once, or its samples would be doubled.
        yield from {one.run.id: (path, one) for path, one in known.items()}.values()

    def _read(self, path: Path) -> None:
        state = path.stat()
        version = _Version(state.st_ino, state.st_mtime_ns, state.st_size)
        if path not in self._known or self._known[path].version != version:
            run, families = store.load(path, needs), MetricFamilies()
            families.add(run)
            # Drop the steps: they are large, and their samples are in the families.
            self._known[path] = _Known(version, run.model_copy(update={"steps": ()}), families)
            self._watched.setdefault(path, RunMetrics(path))


def registry(source: RunFiles) -> CollectorRegistry:
    """Return a Prometheus registry that has only the metrics of the runs of `source`."""
    made = CollectorRegistry(auto_describe=False)
    made.register(Runs(source))
    return made
