"""The measurements and a few facts of many stored runs; other parts of their files are skipped.

Ten thousand runs take some seconds: only the head of a file is parsed, or, for metrics that the
head does not have, the lists of measurements.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pydantic_core import from_json

from replayer.errors import ReplayerError
from replayer.model import Better, Status
from replayer.results import store
from replayer.results.store import StoredRun

_LIST = b'\n   "measurements": ['
_LIST_END = b"\n   ]"
_STEPS_END = b"\n ]"
"""The end of the last step: the lists after the steps have names, too."""
_FIELD = re.compile(rb'\n   "(step|name|status)": ("(?:[^"\\\n]|\\.)*")')
"""Kind, name or status of a step in the text of a file that `store.save` wrote."""
_ENGINE_FIELDS = ("name", "version", "place")
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
"""The errors that a file edited by hand may cause."""
_Chosen = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """One metric of one run: the median over its repeats."""

    name: str
    """The metric, such as sessions.riops; physical.sessions.riops if its step is named physical."""
    value: float
    unit: str
    better: Better


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A stored run as one point in the history of its workload."""

    path: Path
    id: str
    when: float
    """The start in seconds since 1970."""
    workload: str
    work: str
    """The workload's settings, as `key=value, ...`: with other settings, it is other work."""
    engine: str
    machine: str
    boot: str
    fact: str
    """The value of the fact that was asked for; "" if the run does not have it."""
    values: tuple[MeasuredValue, ...]
    """The leading metrics of the run's steps, or all metrics."""


def read(
    where: str | Path, fact: str, warn: Callable[[str], None] = lambda _: None
) -> list[tuple[StoredRun, MeasuredRun]]:
    """Return (summary, run with its leading metrics) for each run of a folder, sorted by start.

    A leading metric is the main result of a step.  `fact` is the key of a fact, such as
    host.kernel.release, whose value each MeasuredRun gets as its `fact`.  Files that are no runs,
    runs whose start is not known, and copies of a run that is there already are left out.  `warn`
    gets a sentence with the number of such files, and one with the number of copies.
    """
    found: dict[str, tuple[StoredRun, MeasuredRun]] = {}
    files, read, undated = set(store.names(where)), [], []
    for summary, keys in store.headed(where):
        if not summary.started:
            undated.append(summary.path.name)
            continue
        with contextlib.suppress(ReplayerError, OSError, *MALFORMED):
            one = _measured(summary, keys, fact)
            read.append(summary.path.name)
            found.setdefault(one.id, (summary, one))
    # Runs may begin and be removed meanwhile.
    damaged = sum((Path(where) / name).exists() for name in files.difference(read, undated))
    copies = len(read) - len(found)
    if damaged:
        warn(f"{damaged:,} files cannot be read as runs, and are left out: `replayer runs list`")
    if undated:
        warn(f"{len(undated):,} imported runs without the time of their start are left out")
    if copies:
        warn(f"{copies:,} files are copies of other runs (the same id), and are left out")
    return sorted(found.values(), key=lambda pair: (pair[1].when, pair[1].id))


def all_values(path: Path) -> tuple[MeasuredValue, ...]:
    """Return all metrics of a run file, each as the median over the repeats."""
    return tuple(_medians(path, tuple))


def leading_values(path: Path) -> tuple[MeasuredValue, ...]:
    """Return the leading metric (the main result) of each step of a run file; () if it is no run.

    The metrics of steps that run in each repeat come before those of steps that run once.
    """
    found = [keys for summary, keys in store.headed(path.parent, path.name)]
    return tuple(_leading(found[0], path)) if found else ()


def _measured(summary: StoredRun, keys: Mapping[str, Any], fact: str) -> MeasuredRun:
    when = datetime.fromisoformat(summary.started)
    settings, host, engine = keys["workload"].get("settings", {}), keys["host"], keys.get("engine")
    return MeasuredRun(
        path=summary.path,
        id=summary.id,
        when=(when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp(),
        workload=summary.workload,
        work=", ".join(f"{key}={value}" for key, value in sorted(settings.items())),
        engine=str((engine or {}).get("name", "")),
        machine=str(host.get("host.name") or ""),
        boot=str(host.get("boot.id") or ""),
        fact=_fact(keys, fact),
        values=tuple(_leading(keys, summary.path)) if summary.status == Status.DONE.value else (),
    )


def _fact(keys: Mapping[str, Any], fact: str) -> str:
    """Return the value of a fact that stands in the head of a file; "" if it is not known."""
    engine: Mapping[str, Any] = keys.get("engine") or {}
    kind, _, name = fact.partition(".")
    places: dict[str, Callable[[], Any]] = {
        "host": lambda: keys["host"].get(name),
        "tag": lambda: keys.get("tags", {}).get(name),
        "cluster": lambda: keys.get("cluster", {}).get(name),
        "replayer": lambda: keys.get("version") if name == "version" else None,
        "label": lambda: keys.get("label") if not name else None,
        "workload": lambda: keys["workload"].get(name),
        "engine": lambda: _engine_fact(engine, name),
    }
    found = places[kind]() if kind in places else None
    return "" if found is None else str(found)


def _engine_fact(engine: Mapping[str, Any], name: str) -> Any:
    if name.startswith("settings."):
        return engine.get("settings", {}).get(name.removeprefix("settings."))
    return engine.get(name) if name in _ENGINE_FIELDS else engine.get("facts", {}).get(name)


def _leading(keys: Mapping[str, Any], path: Path) -> Iterator[MeasuredValue]:
    """Yield the leading metric (the main result) of each step, from the file's head if possible.

    The head has these metrics without the names of their steps: first those of steps that run in
    each repeat, then those of steps that run once.  The names are clear if there is one step only,
    or if each kind of step has as many metrics as steps.  If not, the steps themselves are read.
    """
    steps = sorted(keys["workload"]["steps"], key=lambda step: bool(step.get("once")))
    names: dict[str, list[str]] = {}
    for step in steps:
        names.setdefault(str(step["step"]), []).append(str(step.get("name") or step["step"]))
    leading: Sequence[Mapping[str, Any]] = store.leading_metrics(keys)
    if len(steps) == len(leading) == 1:
        name = str(steps[0].get("name") or steps[0]["step"])
        yield _value(name, leading[0], float(leading[0]["value"]))
        return
    given: dict[str, list[Mapping[str, Any]]] = {}
    for m in leading:
        given.setdefault(str(m["metric"]).partition(".")[0], []).append(m)
    if not given or any(len(names.get(kind, ())) != len(own) for kind, own in given.items()):
        yield from _medians(path, _first_leading)
        return
    for kind, metrics in given.items():
        for step, m in zip(names[kind], metrics, strict=True):
            yield _value(step, m, float(m["value"]))


def _first_leading(metrics: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return a list of the one metric that is a step's main result; [] if the step has none.

    It is the metric that is marked as leading.  If there is none, it is the first of which more is
    better, or else the first of which less is better.
    """
    marked = [m for m in metrics if m.get("leading")]
    rates = [m for m in metrics if m["better"] == Better.MORE.value]
    others = [m for m in metrics if m["better"] == Better.LESS.value]
    return [*marked, *rates, *others][:1]


def _value(step: str, metric: Mapping[str, Any], value: float) -> MeasuredValue:
    full = name_value(step, str(metric["metric"]))
    return MeasuredValue(full, value, str(metric["unit"]), Better(metric["better"]))


def name_value(step: str, metric: str) -> str:
    """Return a metric's name as a MeasuredValue has it: with its step, unless that is its kind."""
    return metric if step == metric.partition(".")[0] else f"{step}.{metric}"


def _medians(path: Path, chosen: _Chosen) -> Iterator[MeasuredValue]:
    """Yield the median over the repeats of each metric that `chosen` selects.

    `chosen` gets the metrics of a step.  Only steps with the status done are counted.
    """
    found: dict[str, list[MeasuredValue]] = {}
    for step, status, metrics in _steps(path):
        if status == Status.DONE.value:
            for m in chosen(metrics):
                one = _value(step, m, float(m["value"]))
                found.setdefault(one.name, []).append(one)
    for values in found.values():
        middle = median(one.value for one in values)
        yield MeasuredValue(values[0].name, middle, values[0].unit, values[0].better)


def _steps(path: Path) -> Iterator[tuple[str, str, Sequence[Mapping[str, Any]]]]:
    """Yield the name, the status and the measurements of each step of a file."""
    data = store.content(path)
    parts = data.split(_LIST)
    if len(parts) == 1:
        for step in store.load(path, lambda _: False).steps:
            yield (
                step.name,
                step.status.value,
                [m.model_dump(mode="json") for m in step.measurements],
            )
        return
    for part in parts[1:]:
        own = part.partition(_STEPS_END)[0]
        fields = {key: from_json(text) for key, text in _FIELD.findall(own)}
        name = fields.get(b"name") or fields.get(b"step") or ""
        end = 0 if own.startswith(b"]") else own.find(_LIST_END)
        metrics = from_json(b"[" + own[:end] + b"]") if end > 0 else []
        yield str(name), str(fields.get(b"status")), metrics
