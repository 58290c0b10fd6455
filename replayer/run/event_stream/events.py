"""What a run tells while it runs, one JSON object a line, and what is known of it from them.

The lines stand in RESULTS/.RUN.events for as long as the run lasts, which `replayer watch`, the
page of `--live` and `--metrics` read, and on stderr with `--progress json`:

{"event": "plan", "steps": [{"number": 1, "name": …, "repeat": 1, "seconds": …, …}, …]}
{"event": "run", "id": …, "path": …, "status": …, …}        the run began, and ended
{"event": "about", "engine": …, "host": {…}}                where it runs, once that is known
{"event": "begin", "name": …, "repeat": 1}                  a step begins
{"event": "step", "name": …, "repeat": …, "status": …, "reason": …, "seconds": …, "measured": {…}}
{"event": "task", "number": 1, "title": …, "total": …}      something begins; total may be null
{"event": "progress", "number": 1, "done": …, "total": …, "note": …}     at most twice a second
{"event": "end", "number": 1, "seconds": …}                 it is over
{"event": "figures", "values": {"riops": …, …}}             of the step under way, by FIGURES
{"event": "machine", "values": {"cpu_user": …, …}}          of the second before, by FIGURES
{"event": "mark", "when": …, "kind": …, "text": …}          what the server did by itself
{"event": "say", "text": …}                                 a sentence
{"event": "error", "text": …, "status": …}                  the last line of what went wrong

Each has `at`, its time in UTC, but the error.  Keys and events may be added: who reads passes over
what it does not know.
"""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_MOST_POINTS = 1200
"""Of one figure; of more every second one is left out, the older and the newer alike."""
_MOST_MARKS = 300
_MOST_SAID = 100
_LONGEST_LINE = 4 << 20
"""Bytes of an event; the plan of very many steps has the most."""
_LONGEST = 400
"""Characters of any text that somebody else may have chosen."""
RUNNING, TO_COME = "running", "to come"
"""What a step is that has not ended; else it has a model.Status."""


class FigureKind(NamedTuple):
    """What a live figure is."""

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
    "cpu_system": FigureKind("kernel", "ratio"),
    "cpu_iowait": FigureKind("waiting for I/O", "ratio"),
    "device_reads": FigureKind("device reads", "1/s"),
    "device_writes": FigureKind("device writes", "1/s"),
    "device_read_bytes": FigureKind("read", "B/s"),
    "device_write_bytes": FigureKind("written", "B/s"),
}
"""Every live figure by its name: those of a step come first, those of the machine after `behind`.

Rates are of the time since the figure was last told, shares of all processors' time.
"""


def now() -> str:
    """Return the time of an event."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class _Event(BaseModel):
    """A frozen record; a key that is not known is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    at: str = Field(default_factory=now)


class Planned(BaseModel):
    """A step to come."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    number: int
    """From 1, in the order in which they are done."""
    name: str
    repeat: int
    step: str = ""
    about: str = ""
    seconds: float | None = None
    """As long as it took before on this machine, or its keys say; None where nobody knows."""
    source: str = ""
    """The run that took so long; "" for the step's own keys."""


class Number(BaseModel):
    """A figure of a step that is done."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    metric: str
    value: float | None
    unit: str
    text: str = ""
    """Value and unit as a report has them."""


class PlannedSteps(_Event):
    """All steps, in order."""

    event: Literal["plan"] = "plan"
    steps: tuple[Planned, ...]


class RunState(_Event):
    """The run, and where its result is; "" where it has no place yet."""

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
    """What to know about its numbers, at its end."""


class RunLocation(_Event):
    """Where it runs, once that is known."""

    event: Literal["about"] = "about"
    engine: str = ""
    host: dict[str, str] = {}
    """host.name, kernel.release, cpu.model … of the host under test, those that are known."""


class Begin(_Event):
    """A step begins."""

    event: Literal["begin"] = "begin"
    name: str
    repeat: int
    step: str = ""
    device: str = ""
    """The one whose figures the machine's are."""


class StepEnded(_Event):
    """A step has ended."""

    event: Literal["step"] = "step"
    name: str
    repeat: int
    status: str
    reason: str
    seconds: float
    measured: dict[str, float | None]
    figures: tuple[Number, ...] = ()
    """What it is run for, and the next few."""
    proof: str = ""
    """How cold it was, and where its blocks came from, in a few words."""
    earlier: bool = False
    """Whether it was done before the run was taken up again."""


class TaskBegin(_Event):
    """Something begins that takes a while."""

    event: Literal["task"] = "task"
    number: int
    title: str
    total: float | None


class TaskProgress(_Event):
    """How far it is."""

    event: Literal["progress"] = "progress"
    number: int
    done: float
    total: float | None
    note: str


class TaskEnd(_Event):
    """It is over."""

    event: Literal["end"] = "end"
    number: int
    seconds: float


class Figures(_Event):
    """Live figures of the step under way."""

    event: Literal["figures"] = "figures"
    values: dict[str, float | None]


class MachineActivity(_Event):
    """What the processors and the device did in the second before."""

    event: Literal["machine"] = "machine"
    values: dict[str, float | None]


class ServerMark(_Event):
    """What the server did by itself, such as a checkpoint."""

    event: Literal["mark"] = "mark"
    when: str
    kind: str
    text: str


class MessageEvent(_Event):
    """A sentence for whoever watches."""

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
"""What is told again and again: of these some may be left out."""
_ANY: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def tidy(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return figures with as many digits as anybody looks at; what is no number as None."""
    return {
        name: float(f"{value:.6g}") if math.isfinite(value) else None
        for name, value in values.items()
    }


def line(event: Event) -> bytes:
    """Return an event as a line."""
    # "event" first, for people who look at it.
    keys = event.model_dump(mode="json")
    first = {"event": keys.pop("event"), "at": keys.pop("at")}
    return json.dumps(first | keys, allow_nan=False, default=float).encode() + b"\n"


def parsed(text: bytes | str) -> Event | None:
    """Return the event of a line; None for what is none, or one of another version."""
    try:
        return _whole(_ANY.validate_json(text))
    except ValueError:
        return None


def of_keys(keys: Mapping[str, Any]) -> Event:
    """Return the event that these keys are of; raise ValueError for none."""
    return _whole(_ANY.validate_python(keys))


def _whole(event: Event) -> Event:
    """Return an event that somebody else has written; raise ValueError for inf or NaN in it."""
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
    """A step as far as it has come."""

    model_config = ConfigDict(frozen=True)

    number: int
    name: str
    repeat: int
    about: str = ""
    expected: float | None = None
    """Seconds."""
    source: str = ""
    state: str = TO_COME
    began: str = ""
    seconds: float | None = None
    reason: str = ""
    figures: tuple[Number, ...] = ()
    proof: str = ""


class TaskState(BaseModel):
    """Something that is under way."""

    model_config = ConfigDict(frozen=True)

    number: int
    title: str
    began: str
    done: float = 0.0
    total: float | None = None
    note: str = ""


class FigurePoint(BaseModel):
    """Figures at one time."""

    model_config = ConfigDict(frozen=True)

    at: str
    values: dict[str, float | None]


class RunSnapshot(BaseModel):
    """What is known of a run, but for its points."""

    model_config = ConfigDict(frozen=True)

    run: RunState | None
    about: RunLocation | None
    device: str
    steps: tuple[StepState, ...]
    tasks: tuple[TaskState, ...]
    latest: dict[str, float | None]
    """Of the step under way, and of the machine."""
    marks: tuple[ServerMark, ...]
    said: tuple[MessageEvent, ...]
    at: str
    """When something was told last."""


class EventReader:
    """The state of a run from its events, in whatever pieces their bytes come."""

    def __init__(self) -> None:
        self.run: RunState | None = None
        self.points: list[FigurePoint] = []
        self.heard = 0
        """How many events there were."""
        self._about: RunLocation | None = None
        self._rest = b""
        self._device = ""
        self._steps: dict[tuple[int, str], StepState] = {}
        self._tasks: dict[int, TaskState] = {}
        self._latest: dict[str, float | None] = {}
        self._marks: list[ServerMark] = []
        self._said: list[MessageEvent] = []
        self._at = ""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take what comes next, and yield the events that are whole; what is none is left out."""
        *lines, rest = (self._rest + data).split(b"\n")
        # What is longer is no event, and its end is none either.
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        for one in lines:
            event = parsed(one)
            if event is not None:
                self.take(event)
                yield event

    def take(self, event: Event) -> None:
        """Take the next event."""
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
        """Return what is known by now, without the points."""
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
        # Of a run that sizes a machine no step is known before it begins.
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
        self.points.append(FigurePoint(at=event.at, values=values))
        if len(self.points) > _MOST_POINTS:
            # By kind, or one of two that take turns would be left out wholly.
            machines = [one for one in self.points if "cpu_user" in one.values][::2]
            others = [one for one in self.points if "cpu_user" not in one.values][::2]
            self.points = sorted([*machines, *others], key=lambda point: point.at)


def shortened(text: str) -> str:
    """Return text that somebody else may have chosen, cut to what a line has room for."""
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
