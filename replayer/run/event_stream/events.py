"""The events of a run, one JSON object a line, and the state of the run that follows from them.

As long as the run lasts, the lines are in RESULTS/.RUN.events, which `replayer watch`, the page of
`--live` and `--metrics` read. With `--progress json` they are also printed on stderr:

{"event": "plan", "steps": [{"number": 1, "name": …, "repeat": 1, "seconds": …, …}, …]}
{"event": "run", "id": …, "path": …, "status": …, …}        the run began, and ended
{"event": "about", "engine": …, "host": {…}}                where it runs, once that is known
{"event": "begin", "name": …, "repeat": 1}                  a step begins
{"event": "step", "name": …, "repeat": …, "status": …, "reason": …, "seconds": …, "measured": {…}}
{"event": "task", "number": 1, "title": …, "total": …}      a task begins; total may be null
{"event": "progress", "number": 1, "done": …, "total": …, "note": …}     at most twice a second
{"event": "end", "number": 1, "seconds": …}                 the task is over
{"event": "figures", "values": {"riops": …, …}}             of the step under way, by FIGURES
{"event": "machine", "values": {"cpu_user": …, …}}          of the second before, by FIGURES
{"event": "mark", "when": …, "kind": …, "text": …}          what the server did by itself
{"event": "say", "text": …}                                 a sentence
{"event": "error", "text": …, "status": …}                  the last line after a failure

Each event except the error has `at`, its time in UTC. Keys and events may be added: a reader
ignores those that it does not know.
"""

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_MOST_POINTS = 600
"""The most reports of live figures of one kind, of a step or of the machine, that are kept."""
_RECENT_POINTS = 200
"""The latest reports of one kind, all of which are kept."""
_MOST_MARKS = 300
_MOST_SAID = 100
_LONGEST_LINE = 4 << 20
"""Bytes of the longest event, which is the plan of very many steps."""
_LONGEST = 400
"""Characters kept of any text that another user may have chosen."""
RUNNING, TO_COME = "running", "to come"
"""States of a step before its end; after its end the state is a value of model.Status."""


class FigureKind(NamedTuple):
    """Title and unit of a live figure, which is a number that a run reports while it lasts."""

    title: str
    unit: str


FIGURES: Mapping[str, FigureKind] = {
    "riops": FigureKind("blocks that the database missed", "1/s"),
    "hits": FigureKind("blocks that it had", "1/s"),
    "bytes": FigureKind("bytes", "B/s"),
    "files": FigureKind("files", "1/s"),
    "rows": FigureKind("rows", "1/s"),
    "statements": FigureKind("statements", "1/s"),
    "operations": FigureKind("operations", "1/s"),
    "behind": FigureKind("behind its time", "s"),
    "cpu_user": FigureKind("user", "ratio"),
    "cpu_nice": FigureKind("user, niced", "ratio"),
    "cpu_guest": FigureKind("guests", "ratio"),
    "cpu_guest_nice": FigureKind("guests, niced", "ratio"),
    "cpu_system": FigureKind("kernel", "ratio"),
    "cpu_irq": FigureKind("interrupts", "ratio"),
    "cpu_softirq": FigureKind("soft interrupts", "ratio"),
    "cpu_steal": FigureKind("stolen by the hypervisor", "ratio"),
    "cpu_iowait": FigureKind("waiting for I/O", "ratio"),
    "device_reads": FigureKind("device reads", "1/s"),
    "device_writes": FigureKind("device writes", "1/s"),
    "device_read_bytes": FigureKind("read", "B/s"),
    "device_write_bytes": FigureKind("written", "B/s"),
}
"""Every live figure by its name: figures of a step up to `behind`, then those of the machine.

Rates are measured since the last report of the figure; shares are of the time of all processors.
"""


def now() -> str:
    """Return the present time as events show it: ISO 8601, UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class _Event(BaseModel):
    """The base of all events; `at` is the time of the event.

    An event cannot be changed. Keys that are not known are ignored when an event is read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    at: str = Field(default_factory=now)


class Planned(BaseModel):
    """A planned step of the run, with its place in the order and its expected duration."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    number: int
    """From 1, in the order in which the steps are done."""
    name: str
    repeat: int
    step: str = ""
    about: str = ""
    seconds: float | None = None
    """Expected seconds, from an earlier run on this machine or the step's keys; None if unknown."""
    source: str = ""
    """The earlier run that gives `seconds`; "" if the step's own keys give it."""


class Number(BaseModel):
    """One measured number of a step that has ended, with its unit."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    metric: str
    value: float | None
    unit: str
    text: str = ""
    """Value and unit as a report prints them."""


class PlannedSteps(_Event):
    """All planned steps of a run, in the order in which they are done."""

    event: Literal["plan"] = "plan"
    steps: tuple[Planned, ...]


class RunState(_Event):
    """The state of the run; `path` is the file of its result, "" while there is none."""

    event: Literal["run"] = "run"
    id: str
    path: str
    status: str
    error: str = ""
    label: str = ""
    workload: str = ""
    started: str = ""
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    """Remarks on the run's numbers; they are there when the run has ended."""
    headline: str = ""
    """The result of the run in words; it is there when the run has ended."""
    believed: dict[str, str] = {}
    """Name of each step -> whether its figures can be believed: `yes`, `with care` or `no`.

    It is empty until the run has ended.
    """


class RunLocation(_Event):
    """The engine and the host of the run, once they are known."""

    event: Literal["about"] = "about"
    engine: str = ""
    host: dict[str, str] = {}
    """host.name, kernel.release, cpu.model … of the host under test, if known."""


class Begin(_Event):
    """The event that a step begins."""

    event: Literal["begin"] = "begin"
    name: str
    repeat: int
    step: str = ""
    device: str = ""
    """The device that the machine's figures describe."""


class StepEnded(_Event):
    """The event that a step has ended, with its status, seconds and main numbers."""

    event: Literal["step"] = "step"
    name: str
    repeat: int
    status: str
    reason: str
    seconds: float
    measured: dict[str, float | None]
    figures: tuple[Number, ...] = ()
    """Some metrics of the step, its leading ones first."""
    proof: str = ""
    """Temperature of the data before the step, and origin of its blocks, in a few words."""
    doubt: str = ""
    """The difference from the requested data, as `asked cold, got hot`; "" if there is none."""
    earlier: bool = False
    """True if the step was done before the run was resumed."""


class TaskBegin(_Event):
    """The event that a task begins, a piece of work that is shown with a progress bar.

    `number` identifies the task in later events. `total` is its amount of work, None if unknown.
    """

    event: Literal["task"] = "task"
    number: int
    title: str
    total: float | None


class TaskProgress(_Event):
    """The event that a task has made progress: `done` of its `total` amount of work, such as rows.

    `total` is None if it is unknown. `note` has the words behind the bar.
    """

    event: Literal["progress"] = "progress"
    number: int
    done: float
    total: float | None
    note: str


class TaskEnd(_Event):
    """The event that a task is over, with the seconds that it took."""

    event: Literal["end"] = "end"
    number: int
    seconds: float


class Figures(_Event):
    """Live figures of the step under way, such as its reads per second; names as in FIGURES."""

    event: Literal["figures"] = "figures"
    values: dict[str, float | None]


class MachineActivity(_Event):
    """The activity of processors and device during the last second; names as in FIGURES."""

    event: Literal["machine"] = "machine"
    values: dict[str, float | None]


class ServerMark(_Event):
    """An action that the server took by itself, such as a checkpoint; `when` is in ISO 8601."""

    event: Literal["mark"] = "mark"
    when: str
    kind: str
    text: str


class MessageEvent(_Event):
    """The event of a sentence for the people who watch the run."""

    event: Literal["say"] = "say"
    text: str


Event = (
    PlannedSteps
    | RunState
    | RunLocation
    | Begin
    | StepEnded
    | TaskBegin
    | TaskProgress
    | TaskEnd
    | Figures
    | MachineActivity
    | ServerMark
    | MessageEvent
)
FREQUENT = (TaskProgress, Figures, MachineActivity)
"""Events that come again and again: some of them may be dropped."""
_ANY: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def tidy(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return name -> live figure, rounded to six significant digits; inf and NaN become None."""
    return {
        name: float(f"{value:.6g}") if math.isfinite(value) else None
        for name, value in values.items()
    }


def line(event: Event) -> bytes:
    """Return an event as a line of JSON with a line break at its end.

    What JSON cannot hold is replaced: inf and NaN by null, bytes of a path that are no text by `?`.
    """
    # "event" comes first, for people who read the lines.
    keys = _storable(event.model_dump(mode="json"))
    first = {"event": keys.pop("event"), "at": keys.pop("at")}
    return json.dumps(first | keys, allow_nan=False, default=float).encode() + b"\n"


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_storable(key): _storable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_storable, value))
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parsed(text: bytes | str) -> Event | None:
    """Return the event in a line of JSON; None if it is no event, or unknown to this version."""
    try:
        return _whole(_ANY.validate_json(text))
    except ValueError:
        return None


def of_keys(keys: Mapping[str, Any]) -> Event:
    """Return the event with the keys and values of `keys`; raise ValueError if they make none."""
    return _whole(_ANY.validate_python(keys))


def _whole(event: Event) -> Event:
    """Return the event unchanged; raise ValueError if any number in it is inf or NaN."""
    if not _is_finite(event.model_dump()):
        raise ValueError("a number of the event is none")
    return event


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


class StepState(BaseModel):
    """A planned step of the run: its state, such as running or done, and its numbers so far."""

    model_config = ConfigDict(frozen=True)

    number: int
    name: str
    repeat: int
    about: str = ""
    expected: float | None = None
    """Expected seconds; None if not known."""
    source: str = ""
    state: str = TO_COME
    began: str = ""
    seconds: float | None = None
    reason: str = ""
    figures: tuple[Number, ...] = ()
    proof: str = ""
    doubt: str = ""


class TaskState(BaseModel):
    """A task that is under way, such as a build: how much is done, and of which total."""

    model_config = ConfigDict(frozen=True)

    number: int
    title: str
    began: str
    done: float = 0.0
    total: float | None = None
    note: str = ""


class FigurePoint(BaseModel):
    """The live figures that were reported at one time, such as reads per second."""

    model_config = ConfigDict(frozen=True)

    at: str
    values: dict[str, float | None]


class RunSnapshot(BaseModel):
    """The state of a run at one time: its steps, tasks, messages and latest figures.

    Figures of earlier times are not included.
    """

    model_config = ConfigDict(frozen=True)

    run: RunState | None
    about: RunLocation | None
    device: str
    steps: tuple[StepState, ...]
    tasks: tuple[TaskState, ...]
    latest: dict[str, float | None]
    """The latest figures, of the step under way and of the machine."""
    marks: tuple[ServerMark, ...]
    said: tuple[MessageEvent, ...]
    at: str
    """The time of the last event."""


class _FigureHistory:
    """The reports of one kind of live figures: the latest ones, and every n-th of all.

    When they become too many, n doubles.  So they are equally dense over the whole time of a run.
    """

    def __init__(self) -> None:
        self._reported = 0
        self._every = 1
        self._spread: list[tuple[int, FigurePoint]] = []
        self._recent: deque[tuple[int, FigurePoint]] = deque(maxlen=_RECENT_POINTS)

    def add(self, number: int, point: FigurePoint) -> None:
        """Add a report; `number` is that of its event."""
        self._recent.append((number, point))
        if self._reported % self._every == 0:
            self._spread.append(self._recent[-1])
        self._reported += 1
        if len(self._spread) > _MOST_POINTS - _RECENT_POINTS:
            self._spread = self._spread[::2]
            self._every *= 2

    @property
    def points(self) -> dict[int, FigurePoint]:
        """Return number of the event -> its figures."""
        return {**dict(self._spread), **dict(self._recent)}


class EventReader:
    """A reader that builds the state of a run from its events, which come as lines of JSON."""

    def __init__(self) -> None:
        self.run: RunState | None = None
        self.heard = 0
        """The number of events so far."""
        self._about: RunLocation | None = None
        self._rest = b""
        self._device = ""
        self._steps: dict[tuple[int, str], StepState] = {}
        self._tasks: dict[int, TaskState] = {}
        self._latest: dict[str, float | None] = {}
        self._marks: list[ServerMark] = []
        self._said: list[MessageEvent] = []
        self._at = ""
        self._machine, self._figures = _FigureHistory(), _FigureHistory()

    @property
    def points(self) -> list[FigurePoint]:
        """Return the live figures so far in their order, thinned out in a long run."""
        known = {**self._machine.points, **self._figures.points}
        return [known[number] for number in sorted(known)]

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take the next bytes, in pieces of any size; yield the events that are complete by now.

        Lines that are not events are skipped.
        """
        *lines, rest = (self._rest + data).split(b"\n")
        # A longer line is not an event, and the part of it that follows is not one either.
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        for one in lines:
            event = parsed(one)
            if event is not None:
                self.take(event)
                yield event

    def take(self, event: Event) -> None:
        """Update the state of the run with one event, the next one in order of time."""
        self.heard += 1
        self._at = event.at
        match event:
            case PlannedSteps():
                self._steps = {(one.repeat, one.name): _to_come(one) for one in event.steps}
            case RunState():
                self.run = event
            case RunLocation():
                self._about = event
            case Begin():
                self._device = event.device
                self._put(event.repeat, event.name, state=RUNNING, began=event.at)
                self._latest = {}
            case StepEnded():
                self._end(event)
            case Figures() | MachineActivity():
                self._add(event)
            case ServerMark():
                self._marks = [*self._marks, event][-_MOST_MARKS:]
            case MessageEvent():
                self._said = [*self._said, _cut(event)][-_MOST_SAID:]
            case _:
                self._work(event)

    def state(self) -> RunSnapshot:
        """Return the state of the run so far, with the latest live figures but not earlier ones."""
        return RunSnapshot(
            run=self.run,
            about=self._about,
            device=self._device,
            steps=tuple(self._steps.values()),
            tasks=tuple(self._tasks.values()),
            latest=self._latest,
            marks=tuple(self._marks),
            said=tuple(self._said),
            at=self._at,
        )

    def _put(self, repeat: int, name: str, **about: Any) -> None:
        # In a run that sizes a machine, no step is known before it begins.
        new = StepState(number=len(self._steps) + 1, name=name, repeat=repeat)
        known = self._steps.get((repeat, name), new)
        self._steps[repeat, name] = known.model_copy(update=about)

    def _end(self, step: StepEnded) -> None:
        self._put(
            step.repeat,
            step.name,
            state=step.status,
            seconds=step.seconds,
            reason=shortened(step.reason),
            figures=step.figures,
            proof=step.proof,
            doubt=shortened(step.doubt),
        )
        self._latest = {}

    def _work(self, event: TaskBegin | TaskProgress | TaskEnd) -> None:
        if isinstance(event, TaskBegin):
            self._tasks[event.number] = TaskState(
                number=event.number,
                title=shortened(event.title),
                began=event.at,
                total=event.total,
            )
        elif isinstance(event, TaskEnd):
            self._tasks.pop(event.number, None)
        elif event.number in self._tasks:
            about = {"done": event.done, "total": event.total, "note": shortened(event.note)}
            self._tasks[event.number] = self._tasks[event.number].model_copy(update=about)

    def _add(self, event: Figures | MachineActivity) -> None:
        values = {name: value for name, value in event.values.items() if name in FIGURES}
        self._latest = {**self._latest, **values}
        kind = self._machine if isinstance(event, MachineActivity) else self._figures
        kind.add(self.heard, FigurePoint(at=event.at, values=values))


def shortened(text: str) -> str:
    """Return a text, cut to 400 characters if it is longer: another user may have chosen it."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _to_come(planned: Planned) -> StepState:
    return StepState(
        number=planned.number,
        name=planned.name,
        repeat=planned.repeat,
        about=planned.about,
        expected=planned.seconds,
        source=planned.source,
    )


def _cut(said: MessageEvent) -> MessageEvent:
    return said.model_copy(update={"text": shortened(said.text)})
