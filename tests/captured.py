"""Captures made by hand; `from tests.captured import Capture`."""

from pathlib import Path
from typing import Any, Self

from replayer.capture.action import Action, Does, LoggedSession
from replayer.capture.archive import ArchiveWriter
from replayer.capture.capture_summary import ActionSource

BEGIN = 1_700_000_000 * 10**9


class Capture:
    """Collects what sessions did, second by second, and writes it as a replay file."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.sessions: list[LoggedSession] = []

    def session(self, number: int, *, connects: float = 0.0, **who: Any) -> Self:
        """Describe a session that connects at a second."""
        self.sessions.append(LoggedSession(number, **who))
        self.actions.append(Action(number, "connect", BEGIN + round(connects * 1e9)))
        return self

    def leaves(self, number: int, at: float) -> Self:
        """Have a session disconnect."""
        self.actions.append(Action(number, "disconnect", BEGIN + round(at * 1e9)))
        return self

    def runs(self, number: int, at: float, text: str, *, lasts: float = 0.001, **more: Any) -> Self:
        """Have a session send a statement: a simple query, or with a name or parameters more."""
        does: Does = "extended" if "parameters" in more else "simple"
        start, duration = BEGIN + round(at * 1e9), round(lasts * 1e9)
        self.actions.append(Action(number, does, start, duration, text, **more))
        return self

    def write(self, path: Path, engine: str = "postgres", **source: Any) -> Path:
        """Write the file, in the order in which actions ended, and return its path.

        `source` has further fields of its ActionSource.
        """
        with ArchiveWriter(path, engine) as writer:
            for session in self.sessions:
                writer.describe(session)
            for one in sorted(
                self.actions, key=lambda each: each.start_ns + max(0, each.duration_ns)
            ):
                writer.add(one)
            writer.close(ActionSource(engine=engine, **source))
        return path
