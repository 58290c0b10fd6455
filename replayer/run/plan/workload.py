"""Workload files: TOML -> Workload; an error suggests the nearest right word.

description = "…"           one line
engines = ["postgres", …]   on each of them in turn, unless one is named
repeat = 3                  how often the steps run
[settings]                  server settings
shared_buffers = "1GB"
[[step]]                    one table for each step, in order
step = "walk"               a name from `replayer list steps`
name = "cold"               its own name, needed if a step is used twice
once = true                 in the first repeat only
threads = 50                the step's own keys: `replayer list steps -v`
"""

import difflib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from replayer import assets, registry
from replayer.errors import Impossible, NotFound, nearest
from replayer.model import StepSpec, Workload, WorkloadFacts
from replayer.run import step_plugin
from replayer.run.step_plugin import IgnoredKey

CAPTURE = ".replay"
"""The suffix of a capture (a converted log); used as a workload, it has one step: its replay."""
TOP_KEYS = {
    "description": "The purpose of the workload, in one line.",
    "engines": "Names of engines: the workload runs on each in turn, unless `--engine` names one.",
    "repeat": "The number of times that the steps run, 1 if not given; `--repeat` replaces it.",
    "settings": "A table of server settings, `name = value`; `--pg-set` adds to them.",
    "step": "A table for each step, `[[step]]`, in order; its key `step` is the step's name.",
}
"""The keys of a workload file, each with its meaning."""
_MOST_REPEATS = 10_000
_MOST_SHOWN = 100


def load(
    name: str,
    overrides: Sequence[str] = (),
    *,
    repeat: int | None = None,
    settings: Sequence[str] = (),
    probe: Mapping[str, Any] | None = None,
) -> Workload:
    """Read a workload by name or path and apply the user's changes to it.

    `overrides` are texts `step.key=value`, and `settings` are `name=value` of server settings. A
    `repeat` replaces the number of repeats in the file.
    If the name is that of a capture file (a converted log), the workload is one that replays it.
    `probe` holds options of the command line: they replace the keys of every step that takes all of
    them.

    Raises NotFound for a name that does not exist, Impossible for anything that cannot be
    understood; the message names the file, the step, the key and the nearest right word.
    """
    captured = name.endswith(CAPTURE)
    path = _capture(name) if captured else assets.workload(name)
    text = _of_capture(name) if captured else assets.text(path)
    try:
        table = assets.parse_toml(text)
    except ValueError as error:
        raise Impossible(f"{path}: it is not TOML: {error}{_where_else(name)}") from error
    for key in table:
        if key not in TOP_KEYS:
            raise Impossible(f"{path.name}: unknown key {key!r}{nearest(key, TOP_KEYS)}")
    tables = _tables(path, table)
    _set_options(path, tables, probe or {})
    applied = _override(path, tables, overrides)
    _check_texts(path, tables)
    specs = _given_specs(path, tables, applied)
    _unlike_names(path, specs)
    return Workload(
        name=path.stem,
        source=str(path),
        description=str(table.get("description", "")),
        comment=_comment(text),
        repeat=_repeat(f"{path.name}: repeat =", table.get("repeat", 1))
        if repeat is None
        else _repeat("--repeat", repeat),
        engines=_engines(path, table),
        settings={**_settings(path, table), **server_settings(settings)},
        steps=specs,
    )


def _where_else(name: str) -> str:
    """Return which files are workloads, if the file's name does not end as theirs do; else ""."""
    if name.endswith((".toml", CAPTURE)):
        return ""
    return "; give a path to a .toml file or a name from `replayer list workloads`"


def server_settings(given: Sequence[str]) -> dict[str, str]:
    """Return server setting -> value from texts `name=value`; raise Impossible for other texts."""
    return dict(_pair(one, "--pg-set") for one in given)


def facts(workload: Workload) -> WorkloadFacts:
    """Return the part of a workload that a result file keeps.

    It includes a digest (16 hexadecimal digits) of the server settings and the steps.
    """
    steps = tuple(spec.model_dump(mode="json") for spec in workload.steps)
    what = json.dumps([workload.settings, steps], sort_keys=True)
    return WorkloadFacts(
        name=workload.name,
        source=workload.source,
        digest=hashlib.sha256(what.encode()).hexdigest()[:16],
        repeat=workload.repeat,
        settings=workload.settings,
        steps=steps,
    )


def _capture(name: str) -> Path:
    """Return the path of the capture file (a converted log) that the user named.

    Raises NotFound if it does not exist, so that no run begins.
    """
    if not os.path.isfile(name):  # noqa: PTH113 - a Path raises for a name that is too long
        raise NotFound(
            f"the capture {name} {assets.absence(name)}; `replayer convert LOG... --out FILE` "
            f"makes one"
        )
    return Path(name)


def of_facts(known: WorkloadFacts) -> Workload:
    """Return the workload that a result file describes: the reverse of `facts`.

    The workload's description and comment are "". Raises Impossible or NotFound for anything that
    cannot be understood.
    """
    path = Path(known.source)
    tables = [dict(table) for table in known.steps]
    if not tables or not all(isinstance(own.get("step"), str) for own in tables):
        raise Impossible(f"{path.name}: a workload needs at least one [[step]] table")
    tables = [{"name": own["step"], **own} for own in tables]
    specs = tuple(_spec(path, number, own, {}) for number, own in enumerate(tables, 1))
    _unlike_names(path, specs)
    return Workload(
        name=known.name,
        source=known.source,
        description="",
        comment="",
        repeat=_repeat(f"{path.name}: repeat =", known.repeat),
        settings=dict(known.settings),
        steps=specs,
    )


def turns(workload: Workload) -> Iterator[tuple[int, StepSpec]]:
    """Yield (number of the repeat, step) for each execution of a step, in the order of the run.

    A step with `once` is executed in the first repeat only.
    """
    for repeat in range(1, workload.repeat + 1):
        yield from ((repeat, spec) for spec in workload.steps if repeat == 1 or not spec.once)


def _of_capture(name: str) -> str:
    return f'[[step]]\nstep = "replay"\nfile = {json.dumps(name, ensure_ascii=False)}\n'


def _tables(path: Path, table: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables = table.get("step", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise Impossible(f"{path.name}: a workload needs at least one [[step]] table")
    named = [{"name": own.get("step"), **own} for own in tables]
    _check_texts(path, named)
    return named


def _check_texts(path: Path, tables: Sequence[Mapping[str, Any]]) -> None:
    """Raise Impossible for a step whose `step` or `name` is blank, or not a text."""
    for number, own in enumerate(tables, 1):
        if not _is_word(own.get("step")):
            raise Impossible(f'{path.name}: step {number}: it needs a line such as step = "walk"')
        if not _is_word(own["name"]):
            raise Impossible(
                f"{path.name}: step {number}: name = {_short(own['name'])}: it must be a text that "
                f"is not blank"
            )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _override(path: Path, tables: list[dict[str, Any]], overrides: Sequence[str]) -> dict[str, str]:
    """Set each `step.key=value` in the tables of all steps with that name or of that kind.

    Returns `<id of the table>.<key>` -> the override as the user wrote it, for error messages.
    """
    applied = {}
    for given in overrides:
        target, value = _pair(given, "--set")
        where, dot, key = target.rpartition(".")
        if not dot:
            raise Impossible(f"--set {given}: it must be step.key=value, such as walk.threads=8")
        chosen = [own for own in tables if where in (own["name"], own["step"])]
        if not chosen:
            # An earlier override may have set the name to a number, which the step refuses later.
            names = {str(own[key]) for own in tables for key in ("name", "step")}
            raise NotFound(
                f"--set {given}: {path.name} has no step {where!r}{nearest(where, names)}"
            )
        for own in chosen:
            own[key] = _literal(value)
            applied[f"{id(own)}.{key}"] = given
    return applied


def _set_options(path: Path, tables: list[dict[str, Any]], options: Mapping[str, Any]) -> None:
    """Set the options of the command line as keys of each step that takes all of these options.

    Raises Impossible if no step does.
    """
    takers = [own for own in tables if options and options.keys() <= _options_of(own["step"])]
    if options and not takers:
        words = ", ".join(f"--{key.replace('_', '-')}" for key in options)
        raise Impossible(f"{words}: {path.name} has no step that takes it")
    for own in takers:
        own.update(options)


def _options_of(step: str) -> frozenset[str]:
    # An unknown step is reported later, with its place in the file.
    known = step in registry.names("steps")
    return frozenset(step_plugin.load(step).OPTIONS if known else ())


def _literal(text: str) -> Any:
    """Return the TOML value of a text, or the text itself: --set build.rows=20M needs no quotes."""
    try:
        table = assets.parse_toml(f"value = {text}")
    except ValueError:
        return text
    # A text with a line break may hold more than one value.
    return table["value"] if len(table) == 1 else text


def _given_specs(
    path: Path, tables: Sequence[dict[str, Any]], applied: Mapping[str, str]
) -> tuple[StepSpec, ...]:
    """Return the steps of the tables that the user wrote.

    Raises Impossible also for a key that has no effect with the others.  Such a key of the file is
    left out if an override of the command line replaces it, and an override is left out of such a
    step if it has an effect in another one.
    """
    specs = [_spec(path, number, own, applied) for number, own in enumerate(tables, 1)]
    ignored = [_ignored_keys(spec, own) for spec, own in zip(specs, tables, strict=True)]
    effective = {
        applied[place]
        for own, reasons in zip(tables, ignored, strict=True)
        for key in own.keys() - reasons.keys()
        if (place := f"{id(own)}.{key}") in applied
    }
    for number, own in enumerate(tables, 1):
        reasons = ignored[number - 1]
        for key, reason in reasons.items():
            override = applied.get(f"{id(own)}.{key}")
            replaced = f"{id(own)}.{reason.replaced_by}" in applied
            if not (replaced if override is None else override in effective):
                begin = _place(path, number, own) + (f" (--set {override})" if override else "")
                raise Impossible(f"{begin}: {key} {reason.words}")
        if reasons:
            left = {key: value for key, value in own.items() if key not in reasons}
            specs[number - 1] = _spec(path, number, left, applied)
    return tuple(specs)


def _ignored_keys(spec: StepSpec, table: Mapping[str, Any]) -> dict[str, IgnoredKey]:
    """Return key -> reason of each key of the table that has no effect with the others."""
    ignored = step_plugin.load(spec.step).explain_ignored_keys(spec)
    return {key: reason for key, reason in ignored.items() if key in table}


def _place(path: Path, number: int, table: Mapping[str, Any]) -> str:
    return f"{path.name}: step {number} ({table['name']})"


def _spec(path: Path, number: int, table: dict[str, Any], applied: Mapping[str, str]) -> StepSpec:
    where = _place(path, number, table)
    try:
        step = step_plugin.load(table["step"])
    except NotFound as error:
        raise NotFound(f"{path.name}: step {number}: {error}") from error
    try:
        kind = step.spec_of(table)
        return kind.model_validate(table)
    except NotFound as error:
        raise NotFound(f"{where}: {error}") from error
    except ValidationError as error:
        raise Impossible(_explain(where, kind, table, error, applied)) from error


def _explain(
    where: str,
    kind: type[StepSpec],
    table: Mapping[str, Any],
    error: ValidationError,
    applied: Mapping[str, str],
) -> str:
    """Return one sentence on the first error in a step's table, for the user.

    `where` names the file and the step. `applied` has the overrides of the command line by table
    and key, so that the sentence can name the override that caused the error.
    """
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    given = applied.get(f"{id(table)}.{key}")
    begin = f"{where} (--set {given})" if given else where
    if first["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in kind.model_fields.items()]
        return f"{begin}: unknown key {key!r}{nearest(key, known)}"
    if first["type"] == "missing":
        return f"{begin}: the key {key!r} is missing"
    wanted = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if first["type"] == "too_short":
        wanted = "it must name at least one"
    if first["type"] in {"enum", "literal_error"}:
        choices = (
            str(first.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
        )
        close = difflib.get_close_matches(str(table.get(key)), choices.split(", "), n=1)
        wanted += f" - did you mean {close[0]}?" if close else ""
    if not key:
        return f"{begin}: {wanted}"
    return f"{begin}: {key} = {_short(table.get(key))}: {wanted}"


def _short(value: Any) -> str:
    """Return a value as a short text for a sentence."""
    words = repr(value)
    return words if len(words) <= _MOST_SHOWN else f"{words[:_MOST_SHOWN]}…"


def _unlike_names(path: Path, specs: Sequence[StepSpec]) -> None:
    seen: set[str] = set()
    for number, spec in enumerate(specs, 1):
        if spec.name in seen:
            raise Impossible(
                f"{path.name}: step {number} is the second one called {spec.name!r}; "
                f'give it another name with a line such as name = "{spec.name}-again"'
            )
        seen.add(spec.name)


def _repeat(given_as: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_REPEATS:
        raise Impossible(
            f"{given_as} {_short(value)}: it must be a whole number from 1 to {_MOST_REPEATS:,}"
        )
    return value


def _settings(path: Path, table: Mapping[str, Any]) -> dict[str, str]:
    settings = table.get("settings", {})
    if not isinstance(settings, dict):
        raise Impossible(f"{path.name}: settings must be a table of server settings")
    for name, value in settings.items():
        if isinstance(value, dict | list):
            raise Impossible(f"{path.name}: settings: {name} must be a text, a number or a boolean")
    return {name: _plain(value) for name, value in settings.items()}


def _engines(path: Path, table: Mapping[str, Any]) -> tuple[str, ...]:
    names = table.get("engines", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Impossible(f"{path.name}: engines = {_short(names)}: it must be a list of names")
    known = assets.engines()
    for name in names:
        if name not in known:
            raise NotFound(f"{path.name}: there is no engine {name!r}{nearest(name, known)}")
    return tuple(names)


def _plain(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _pair(given: str, option: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise Impossible(f"{option} {given}: it must be name=value")
    return name.strip(), value.strip()


def _comment(text: str) -> str:
    """Return the comment lines at the beginning of a workload file, without `#`."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines)
