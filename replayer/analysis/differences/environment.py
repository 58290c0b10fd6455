"""Differences of the environment (facts of machine, server and work) between two groups of runs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from replayer.errors import NotFound, nearest
from replayer.model import Better, Fact, Noun, Run, Status, StepResult


class Sort(StrEnum):
    """The kind of a difference between two environments: it decides if their runs are compared.

    A difference may be the one that is asked about, forbid the comparison, explain it, or be noise.
    """

    ASKED = "asked"
    """The groups were formed by this fact."""
    REFUSED = "refused"
    """The work or the database differs: such runs are not compared unless this is allowed."""
    EXPLAINS = "explains"
    """The fact may be the reason why measured values differ."""
    NOISE = "noise"
    """The fact differs between any two runs or machines, and has no meaning."""


class Difference(Noun):
    """One fact that is not the same in all compared runs, with its values in each group.

    `key` is, for example, host.kernel.release.
    """

    key: str
    sort: Sort
    base: tuple[str, ...]
    other: tuple[str, ...]


MISSING = "-"
"""The value that is shown if a fact is not known."""

NO_LIMIT = "none"
"""The value that is shown for a limit that is not set."""
_LIMITS = "host.cgroup.*limit*"
_LIMITS_READ = "cgroup.version"
"""A run with this fact of its host looked for limits: a limit that it does not have is not set."""

_NOISE = (
    "host.boot.*",
    "host.device.name",
    "host.memory.*free*",
    "host.memory.available*",
    "host.host.load*",
    "host.host.uptime*",
    "engine.settings.port",
    # Each server that replayer starts has its own folder for its socket.
    "engine.settings.unix_socket_directories",
    "engine.settings.socket",
    # A path is not a cause; what lies below it is in the facts of the file system and the device.
    "engine.data.directory",
    "host.data.directory",
    "engine.left.*",
    "workload.digest",
    "workload.source",
    "workload.repeat",
    "workload.*.against",
    "workload.*.i_will_change",
    # The content of the file is in the fact replay.capture.
    "workload.*.file",
)
_JITTER = {"host.cpu.mhz": 0.05, "host.cpu.bogomips": 0.02, "host.memory.bytes": 0.01}
"""Facts that the kernel measures at boot -> the share by which they vary by themselves."""
_LOOP = "storage.loop"
_PYTHON = "Python"
_REFUSED = (
    *("workload.*", "data.*", "*.replay.capture"),
    # A probe's loop is machine code, or this is missing: 15 percent and more of its operations.
    f"*.{_LOOP}",
    *("engine.name", "engine.version", "engine.settings.*"),
)
"""Patterns of facts that describe the work: if they differ, runs are compared only if allowed."""
_LAST = ("release", "version", "name", "model")
"""A key such as host.kernel stands for host.kernel.release, or for the next of these endings."""
_BOOT_FILE = re.compile(r"\b(?:BOOT_IMAGE|initrd)=\S+\s*")


def facts(run: Run) -> dict[str, str]:
    """Return all facts of a run, without its measurements: key, such as host.fs.type -> value."""
    known: dict[str, Any] = {"label": run.label, "replayer.version": run.version}
    known |= {f"tag.{name}": value for name, value in run.tags.items()}
    known |= {f"host.{key}": value for key, value in run.host.items()}
    if run.engine is not None:
        engine = run.engine
        known |= {"engine.name": engine.name, "engine.version": engine.version}
        known |= {"engine.place": engine.place}
        known |= {f"engine.settings.{key}": value for key, value in engine.settings.items()}
        known |= {f"engine.{key}": value for key, value in engine.facts.items()}
    known |= dict(_workload(run))
    known |= {f"cluster.{key}": value for key, value in run.cluster.items()}
    for step in run.steps:
        if step.status is Status.DONE:
            known |= dict(_step(step))
    known |= _loops(run)
    return {key: _shown(key, value) for key, value in known.items()}


def _loops(run: Run) -> dict[str, str]:
    """Return the fact of the loops of each step that has it, of all its repeats.

    A repeat without it had Python's: numba may have come, or gone, before the run was resumed.
    """
    seen: dict[str, list[str]] = {}
    for step in run.steps:
        if step.status is Status.DONE:
            seen.setdefault(step.name, []).append(str(step.facts.get(_LOOP, _PYTHON)))
    return {
        f"{name}.{_LOOP}": " and ".join(dict.fromkeys(values))
        for name, values in seen.items()
        if set(values) != {_PYTHON}
    }


def _is_done(step: StepResult, name: str) -> bool:
    return step.name == name and step.status is Status.DONE


def step_setting(key: str) -> tuple[str, str] | None:
    """Return (step, setting) if `key` is that of a server's setting in one step, else None.

    The fact engine.settings.NAME has the value with which the server was started.  The fact
    STEP.settings.NAME has the value that was in effect in a step.
    """
    step, sign, name = key.partition(".settings.")
    return (step, name) if sign and step not in {"engine", "workload"} else None


def _workload(run: Run) -> Iterator[tuple[str, Any]]:
    workload = run.workload
    yield "workload.name", workload.name
    yield "workload.source", workload.source
    yield "workload.digest", workload.digest
    yield "workload.repeat", workload.repeat
    for key, value in workload.settings.items():
        yield f"workload.settings.{key}", value
    for number, spec in enumerate(workload.steps, start=1):
        name = spec.get("name") or spec.get("step") or str(number)
        for key, value in spec.items():
            if key != "name":
                yield f"workload.{name}.{key}", value


def _step(step: StepResult) -> Iterator[tuple[str, Any]]:
    for m in step.measurements:
        if m.better is Better.NEITHER and m.metric.endswith(".rows"):
            yield f"data.{step.name}.rows", m.value
    if step.cold is not None:
        yield f"{step.name}.cold", step.cold.got.value
    if step.ledger is not None:
        yield f"{step.name}.verdict", step.ledger.verdict.value
    for key, value in step.facts.items():
        # A number in a step's facts is a result, and not part of the environment.
        if isinstance(value, str | bool):
            yield f"{step.name}.{key}", value


def _shown(key: str, value: Fact | list[Any] | dict[str, Any]) -> str:
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value)
    text = MISSING if value is None else str(value)
    return _BOOT_FILE.sub("", text) if key == "host.kernel.cmdline" else text


def resolve(key: str, runs: Iterable[Run]) -> str:
    """Return the fact that `--by KEY` stands for, such as host.kernel.release for host.kernel.

    It is the key itself, or the key with one of the endings release, version, name and model.
    Raises NotFound, with the most similar fact, if no run has such a fact.
    """
    known = set().union(*(facts(run) for run in runs))
    for candidate in (key, *(f"{key}.{last}" for last in _LAST)):
        if candidate in known:
            return candidate
    raise NotFound(f"no run has the fact {key!r}{nearest(key, known)}")


def differences(
    base: Sequence[Run], other: Sequence[Run], *, asked: str = "", allowed: Sequence[str] = ()
) -> list[Difference]:
    """Return every fact that is not the same in all runs of both groups, ordered by sort and key.

    The sort is the effect that the difference has on a comparison.  `asked` is the fact by which
    the groups were formed.  `allowed` are patterns of keys, which may contain `*`: runs may be
    compared although these facts differ.
    """
    sides = [_values(base), _values(other)]
    different = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        below, above = (
            _with_unset(key, side.get(key, (MISSING,)), runs)
            for side, runs in zip(sides, (base, other), strict=True)
        )
        if not (below and above):
            continue
        if len(below) == len(above) == 1 and below == above:
            continue
        known = [value for value in (*below, *above) if value not in (MISSING, NO_LIMIT)]
        sort = _sort(key, known, asked, allowed)
        different.append(Difference(key=key, sort=sort, base=below, other=above))
    order = list(Sort)
    return sorted(different, key=lambda difference: (order.index(difference.sort), difference.key))


def _with_unset(key: str, values: tuple[str, ...], runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the values of a fact, with the value that a missing one stands for.

    A missing limit of a cgroup is `none`, if all runs looked for limits.  A loop is Python's in a
    run that has the step without the fact.  Returns () if no run has finished the step of a loop.
    """
    if key.endswith(_LOOP):
        name = key.removesuffix(f".{_LOOP}")
        having = [run for run in runs if any(_is_done(step, name) for step in run.steps)]
        return tuple(sorted({_loops(run).get(key, _PYTHON) for run in having}))
    if not fnmatchcase(key, _LIMITS) or not all(_LIMITS_READ in run.host for run in runs):
        return values
    return tuple(NO_LIMIT if value == MISSING else value for value in values)


def _values(runs: Sequence[Run]) -> Mapping[str, tuple[str, ...]]:
    """Return key of a fact -> its distinct values in `runs`, sorted; `-` is for runs without it."""
    all_facts = [facts(run) for run in runs]
    keys = set().union(*all_facts)
    return {key: tuple(sorted({one.get(key, MISSING) for one in all_facts})) for key in keys}


def _sort(key: str, values: Sequence[str], asked: str, allowed: Sequence[str]) -> Sort:
    if key == "label" or (asked and _means(key, asked)):
        return Sort.ASKED
    if any(fnmatchcase(key, pattern) for pattern in _NOISE) or _moves_by_itself(key, values):
        return Sort.NOISE
    refused = any(fnmatchcase(key, pattern) for pattern in _REFUSED)
    if refused and not any(fnmatchcase(key, pattern) for pattern in allowed):
        # The path of a file has no effect on a server's performance.
        placed = key.startswith("engine.settings.") and all(v.startswith("/") for v in values)
        return Sort.NOISE if placed else Sort.REFUSED
    return Sort.EXPLAINS


def _means(key: str, asked: str) -> bool:
    """Return whether the fact `key` is the fact `asked`, or identifies the same thing.

    For example, host.kernel.release and host.kernel.version do.
    """
    head, _, last = key.rpartition(".")
    return key == asked or (
        last in _LAST and asked.rpartition(".")[2] in _LAST and head == asked.rpartition(".")[0]
    )


def _moves_by_itself(key: str, values: Sequence[str]) -> bool:
    if key not in _JITTER:
        return False
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return False
    return max(numbers) - min(numbers) <= _JITTER[key] * max(numbers)
