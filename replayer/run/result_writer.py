"""Write a run's result file after each step; use another folder if the file cannot be written."""

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
"""Prints what a run measured, and the path of its result file (None if it has none)."""


class ResultWriter:
    """The writer of one run's result file; after each call of `keep` it has the newest Run."""

    def __init__(
        self,
        where: Path,
        goes_on: Path | None = None,
        *,
        worded: Callable[[Run], Run] = lambda run: run,
    ) -> None:
        """Store a new run in the folder `where`, or resume the run in the result file `goes_on`.

        `worded` is called with each Run before it is stored; it adds the headline in words.
        """
        self._worded = worded
        self._where = where
        self._path: Path | None = None
        self._goes_on = goes_on
        self._run: Run | None = None
        self._refused: ReplayerError | None = None

    def keep(self, run: Run, say: Callable[[str], None]) -> None:
        """Store the Run in its file; after a first failed write, use a new file in another folder.

        `say` is called with a sentence that names the new file. Raises ReplayerError if the first
        file cannot be made, if the new file cannot be written either, or if another process writes
        this run.
        """
        # While the run grows, its file names the process that writes it.
        writer = journal.identity(os.getpid()) if run.status is Status.RUNNING else ""
        run = self._worded(run.model_copy(update={"writer": writer}))
        if self._path is None and self._goes_on is not None:
            # This refuses a run that another process writes.
            editing.change(self._goes_on, lambda _: run)
            self._path = self._goes_on
        elif self._path is None:
            self._path = store.reserve(self._where, run)
        self._run = run
        try:
            store.save(self._path, run)
        except ReplayerError as error:
            # One change of the folder is enough: if the second fails too, no other will work.
            if self._refused is not None:
                raise
            self._refused = error
            self._path = _elsewhere(run)
            if self._path is None:
                raise
            say(f"{error}: the run is kept in {self._path}")

    @property
    def path(self) -> Path | None:
        """Return the path of the run's file, or None before the file exists."""
        return self._path

    def withdraw(self) -> None:
        """Remove the file of a new run that was refused before any step measured something."""
        if self._run is None or self._path is None or self._goes_on is not None:
            return
        if all(step.status is not Status.DONE for step in self._run.steps):
            with contextlib.suppress(ReplayerError):
                editing.remove(self._path)
            self._run = None

    def finish(self, tell: Tell) -> None:
        """Store the run, marked as interrupted if it had not ended, and report it to the user.

        Raises ReplayerError if the run is stored in another folder, because its first file could
        not be written.
        """
        if self._run is None:
            return
        run = _ended(self._run)
        # This run ends well even if the earlier ones cannot be read.
        with contextlib.suppress(ReplayerError):
            run = ceiling.add_ceilings(run, store.with_text(self._where, '"io": ['))
        try:
            if run is not self._run and self._path is not None:
                self.keep(run, _say)
        finally:
            tell(run, self._path)
        if self._refused is not None and self._path is not None:
            raise ReplayerError(f"{self._refused}: the run is in {self._path}") from self._refused


def _elsewhere(run: Run) -> Path | None:
    """Return the path of a new file for the run in another folder; None if no folder takes it."""
    homes = (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp", os.path.expanduser("~"))  # noqa: PTH111, S108
    for home in filter(os.path.isabs, dict.fromkeys(homes)):
        with contextlib.suppress(ReplayerError, OSError):
            # A new private folder: no other user can put anything in the place of the file.
            folder = tempfile.mkdtemp(prefix="replayer-results-", dir=home)
            try:
                return store.reserve(folder, run)
            except ReplayerError:
                Path(folder).rmdir()
    return None


def _ended(run: Run) -> Run:
    """Return the run unchanged if it has ended, or else marked as interrupted between two steps."""
    if run.status is not Status.RUNNING:
        return run
    return run.model_copy(
        update={"status": Status.INTERRUPTED, "error": "stopped between steps", "writer": ""}
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201
