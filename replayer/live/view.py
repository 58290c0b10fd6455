"""What the page shows of a run, for any number of browsers, from the events that it tells."""

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
"""Points that a browser may be behind; one that is further behind gets all that there are."""


class View:
    """The run as far as it was told; `look` asks what is new."""

    def __init__(self) -> None:
        self.reader = EventReader()
        self._follower: Follower | None = None
        self._folder = Path("/")
        self._numbers = itertools.count(1)
        self._recent: deque[tuple[int, events.Event]] = deque(maxlen=_RECENT)

    def follow(self, result: Path, folder: Path = Path("/")) -> None:
        """Read the events of the run that is stored there from now on, and was begun in a folder.

        This process is in no folder of the user's, and the run's own path may be a relative one.
        """
        self._follower, self._folder = Follower(result), folder

    @property
    def path(self) -> Path:
        """Return where the run is stored by now: a folder that is full has it lie elsewhere."""
        assert self.reader.run is not None, "it has begun"
        return self._folder / self.reader.run.path

    def look(self) -> None:
        """Read what was told since the last time."""
        while self._follower is not None and (data := self._follower.fresh()):
            for event in self.reader.feed(data):
                number = next(self._numbers)
                if isinstance(event, Figures | MachineActivity):
                    self._recent.append((number, event))

    @property
    def ended(self) -> bool:
        """Tell whether the run is over."""
        return self.reader.run is not None and self.reader.run.status != events.RUNNING

    @property
    def under_way(self) -> bool:
        """Tell whether a run has begun whose end was not told yet."""
        return self.reader.run is not None and not self.ended

    def message(self, heard: int) -> tuple[int, str]:
        """Return how many events there are, and what a browser needs that heard so many."""
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
    """Return what holds texts with all of them cut, and without what steers or hides."""
    if isinstance(value, str):
        return sanitize(shortened(value))
    if isinstance(value, dict):
        return {key: _safe(one) for key, one in value.items()}
    return [_safe(one) for one in value] if isinstance(value, list) else value
