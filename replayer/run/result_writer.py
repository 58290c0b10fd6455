"""A run as far as it has come, kept in a file: in another folder once its own takes nothing."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from replayer import journal
from replayer.analysis.capacity import ceiling
from replayer.errors import ReplayerError
from replayer.model import Run, Status
from replayer.results import editing, store

Tell = Callable[[Run, Path | None], None]
"""Prints what a run measured, and where it is."""


class ResultWriter:
    """The run as far as it has come, and its file."""

    def __init__(self, where: Path, goes_on: Path | None = None) -> None:
        """Keep a new run in a folder, or go on with one that is stored there."""
        self._where = where
        self._path: Path | None = None
        self._goes_on = goes_on
        self._run: Run | None = None
        self._refused: ReplayerError | None = None

    def keep(self, run: Run, say: Callable[[str], None]) -> None:
        """Store the run; raise ReplayerError when no folder takes it, or another writes it."""
        # While it grows others see whose it is.
        writer = journal.identity(os.getpid()) if run.status is Status.RUNNING else ""
        run = run.model_copy(update={"writer": writer})
        if self._path is None and self._goes_on is not None:
            # Refused while another process writes it.
            editing.change(self._goes_on, lambda _: run)
            self._path = self._goes_on
        elif self._path is None:
            self._path = store.reserve(self._where, run)
        self._run = run
        try:
            store.save(self._path, run)
        except ReplayerError as error:
            # Where there was no other place before, there will be none now.
            if self._refused is not None:
                raise
            self._refused = error
            self._path = _elsewhere(run)
            if self._path is None:
                raise
            say(f"{error}: the run is kept in {self._path}")

    @property
    def path(self) -> Path | None:
        """Return the run's file, None before there is one."""
        return self._path

    def finish(self, tell: Tell) -> None:
        """Tell what was measured, stored or not; raise ReplayerError when it lies elsewhere."""
        if self._run is None:
            return
        run = ceiling.beside(_ended(self._run), store.with_text(self._where, '"io": ['))
        try:
            if run is not self._run and self._path is not None:
                self.keep(run, _say)
        finally:
            tell(run, self._path)
        if self._refused is not None and self._path is not None:
            raise ReplayerError(f"{self._refused}: the run is in {self._path}") from self._refused


def _elsewhere(run: Run) -> Path | None:
    """Store a run where its own folder takes nothing more; None if no other one does."""
    homes = (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp", os.path.expanduser("~"))  # noqa: PTH111, S108
    for home in filter(os.path.isabs, dict.fromkeys(homes)):
        with contextlib.suppress(ReplayerError, OSError):
            # A folder of its own: nobody else can put anything in the place of the file.
            folder = tempfile.mkdtemp(prefix="replayer-results-", dir=home)
            try:
                return store.reserve(folder, run)
            except ReplayerError:
                Path(folder).rmdir()
    return None


def _ended(run: Run) -> Run:
    """Return the run; one that was stopped between two steps is marked as such."""
    if run.status is not Status.RUNNING:
        return run
    return run.model_copy(
        update={"status": Status.INTERRUPTED, "error": "stopped between steps", "writer": ""}
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
