"""Choice and order of stored runs for a list, and the state of each run that the list shows."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from pathlib import Path

from replayer.errors import Impossible, NotFound, nearest
from replayer.model import Run, Status
from replayer.results import editing
from replayer.results.store import StoredRun, Unreadable

KEYS: dict[str, Callable[[StoredRun], str]] = {
    "id": lambda run: run.id,
    "date": lambda run: run.started,
    "workload": lambda run: run.workload,
    "engine": lambda run: run.engine,
    "kernel": lambda run: run.kernel,
    "label": lambda run: run.label,
    "status": lambda run: run.status,
    "note": lambda run: "\n".join(run.notes),
}
"""Key for filters and sorting -> the function that reads it from a run; tag.NAME is a key, too."""
_TAG = "tag."
_STARTED = re.compile(r"\d{8}-\d{6}-")


def unread_since(path: Path, entries: Iterable[StoredRun | Unreadable]) -> list[Unreadable]:
    """Return those of `entries` that cannot be read and have later names than the run file `path`.

    The name of a run's file begins with the run's start; other files are left out.
    """
    return [
        one
        for one in entries
        if isinstance(one, Unreadable)
        and _STARTED.match(one.path.name)
        and one.path.name > path.name
    ]


def value(run: StoredRun, key: str) -> str:
    """Return a run's value for one of KEYS or tag.NAME; "" for a tag that the run does not have."""
    return run.tags.get(key.removeprefix(_TAG), "") if key.startswith(_TAG) else KEYS[key](run)


def only(runs: Iterable[StoredRun], conditions: Sequence[str]) -> list[StoredRun]:
    """Return the runs that meet every condition.

    A condition is KEY=VALUE.  In VALUE, `*` matches any text and `?` matches one character.  A run
    without a value meets only the condition that VALUE is empty.
    Raises Impossible if a condition has no `=`, NotFound for a key that runs do not have.
    """
    kept = list(runs)
    for condition in conditions:
        key, sign, pattern = condition.partition("=")
        if not sign:
            raise Impossible(f"{condition!r} is not a condition: it must be such as label=stock")
        _known(key)
        matches = re.compile(translate(pattern), re.DOTALL).match
        # `*` matches any value, and the text "" of a run without one is none.
        valued = kept if pattern == "" else [run for run in kept if value(run, key)]
        kept = [run for run in valued if matches(value(run, key))]
    return kept


def by(runs: Sequence[StoredRun], key: str, *, reverse: bool = False) -> list[StoredRun]:
    """Return runs sorted by a key, or by one of their leading metrics (the main results of steps).

    Runs without the key come last.  Raises NotFound if the key is neither a key of runs nor one of
    these metrics.
    """
    metrics = {metric for run in runs for metric, _, _ in run.leading}
    numbers = key in metrics and key not in KEYS
    if not numbers:
        _known(key, metrics)
    keyed = [(_number(run, key) if numbers else value(run, key), run) for run in runs]
    with_key = [pair for pair in keyed if pair[0] not in (None, "")]
    ordered = sorted(with_key, key=lambda pair: pair[0], reverse=reverse)  # type: ignore[arg-type, return-value]
    return [run for _, run in ordered] + [run for own, run in keyed if own in (None, "")]


def _number(run: StoredRun, metric: str) -> float | None:
    return next((number for name, number, _ in run.leading if name == metric), None)


def _known(key: str, others: Iterable[str] = ()) -> None:
    if key in KEYS or (key.startswith(_TAG) and key != _TAG):
        return
    names = [*KEYS, f"{_TAG}NAME", *others]
    raise NotFound(f"runs are not listed by {key!r}{nearest(key, names)}")


def without_failed(runs: Sequence[StoredRun], *, every: bool) -> tuple[list[StoredRun], str]:
    """Return the runs without those that failed, and a sentence on how many were left out.

    With `every`, none is left out, and the sentence is "".
    """
    kept = [run for run in runs if every or run.status != Status.FAILED.value]
    left = len(runs) - len(kept)
    many = "1 failed run is" if left == 1 else f"{left} failed runs are"
    return kept, f"{many} not listed: --all lists every run" if left else ""


def state(run: StoredRun | Run) -> str:
    """Return a run's status; `killed` if the status is still running but the process is gone."""
    return "killed" if run.writer and editing.cut(run.status, run.writer) else str(run.status)
