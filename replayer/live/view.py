"""The content of the live page, made from the run's events, for any number of browsers."""

import itertools
import json
from collections import deque
from pathlib import Path
from typing import Any

from replayer.report.sanitize import sanitize
from replayer.run.event_stream import events
from replayer.run.event_stream.event_file import Follower
from replayer.run.event_stream.events import EventReader, Figures, MachineActivity, shortened

_RECENT = 240
"""The most points that a browser may be behind; one that is further behind gets all points."""


class View:
    """The state of a run, from those of its events that were read; `look` reads new ones."""

    def __init__(self) -> None:
        self.reader = EventReader()
        self._follower: Follower | None = None
        self._result = Path()
        self._folder = Path("/")
        self._numbers = itertools.count(1)
        self._recent: deque[tuple[int, events.Event]] = deque(maxlen=_RECENT)

    def follow(self, result: Path, folder: Path = Path("/")) -> None:
        """Read the events of the run with the result file `result` from now on.

        `folder` is the current folder of the run's process: paths in the events may be relative to
        it, and this process has another current folder.
        """
        self._follower, self._result, self._folder = Follower(result), result, folder

    @property
    def path(self) -> Path:
        """Return the path of the run's result file; its first event must have been read.

        The path changes during the run if the folder of the first file becomes full.
        """
        assert self.reader.run is not None, "it has begun"
        named = self._folder / self.reader.run.path
        # An event cannot hold every path: bytes that are no text are replaced in it.
        return named if named.exists() else self._result

    def look(self) -> None:
        """Read the run's events that were written since the last call, if there is a run."""
        while self._follower is not None and (data := self._follower.fresh()):
            for event in self.reader.feed(data):
                number = next(self._numbers)
                if isinstance(event, Figures | MachineActivity):
                    self._recent.append((number, event))

    @property
    def ended(self) -> bool:
        """Return whether the run is over."""
        return self.reader.run is not None and self.reader.run.status != events.RUNNING

    @property
    def under_way(self) -> bool:
        """Return whether a run has begun, and its end has not been read yet."""
        return self.reader.run is not None and not self.ended

    def message(self, heard: int) -> tuple[int, str]:
        """Return (number of events so far, JSON message with the run's state and its new points).

        `heard` is the number of events that the browser had at its last message.  If it is 0, or
        too far behind, the message has all points of the charts.
        """
        whole = not heard or (len(self._recent) == _RECENT and self._recent[0][0] > heard + 1)
        points: list[dict[str, Any]] = (
            [{"at": point.at, "values": point.values} for point in self.reader.points]
            if whole
            else [
                {"at": event.at, "values": event.values}
                for number, event in self._recent
                if number > heard and isinstance(event, Figures | MachineActivity)
            ]
        )
        state = self.reader.state().model_dump(mode="json")
        shown = {"whole": whole, "now": events.now(), "state": _safe(state), "points": points}
        return self.reader.heard, json.dumps(shown, separators=(",", ":"), allow_nan=False)


def _safe(value: Any) -> Any:
    """Return a JSON value with each text shortened, and its control characters made visible."""
    if isinstance(value, str):
        return sanitize(shortened(value))
    if isinstance(value, dict):
        return {key: _safe(one) for key, one in value.items()}
    return [_safe(one) for one in value] if isinstance(value, list) else value
