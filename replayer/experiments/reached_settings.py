"""Checks that the server of a run really had the settings of its variant.

A step may set a setting itself, and a server may use another value than the one it was given.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from replayer.errors import Impossible, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replayer.model import Run
    from replayer.run.runner import RunRequest

_PLAIN = re.compile(r"[A-Za-z_]+|[0-9]+")
"""Matches values that a server reports unchanged; it reports sizes and times in its own units."""


def refuse_unreached(request: RunRequest, asked: Mapping[str, str]) -> None:
    """Raise Impossible for a setting of the server in `asked` that no step would run with.

    That is so if every step of the workload sets it itself, to another value.
    """
    sessions = request.engine.spec.sessions
    for name, value in asked.items():
        fixed = [
            (spec.name, kind, sessions.of(kind).settings.get(name, value))
            for spec in request.workload.steps
            if (kind := getattr(spec, "memory", None)) is not None
        ]
        if len(fixed) == len(request.workload.steps) and all(own != value for *_, own in fixed):
            step, kind, own = fixed[0]
            raise Impossible(
                f"{name}={value or 'none'} would be in no run: the step {step} sets it to {own} "
                f"itself, as its memory is {kind}: choose another memory with --set "
                f"{step}.memory=KIND"
            )


def check_kept(run: Run, asked: Mapping[str, str]) -> None:
    """Raise ReplayerError if the server of a run had another value of a setting than asked for.

    `asked` has name -> value of the settings that the server was given.
    """
    kept = {} if run.engine is None else run.engine.settings
    for name, value in asked.items():
        own = kept.get(name, value)
        plain = all(_PLAIN.fullmatch(one) for one in (own, value))
        if plain and own.casefold() != value.casefold():
            raise ReplayerError(
                f"{name}={value} was not in force: the server had {own}, so that the run does not "
                f"count: give a level that it takes here"
            )


def shared_settings(measured: Sequence[tuple[Sequence[str], Run]]) -> list[str]:
    """Return a sentence for each step and setting whose value was not that of the variants.

    The variants have different values of the setting, but the step sets it itself, to the same
    value in every run.  So the variants do not differ in this step.  `measured` has the arguments
    of each variant, and one run of it.
    """
    asked = [settings_of(arguments) for arguments, _ in measured]
    names = sorted({name for settings in asked for name in settings})
    return [
        f"{step} sets {name} itself: every run had {value} in it"
        for name in names
        if len({settings.get(name) for settings in asked}) > 1
        for step, value in _same_in_all([run for _, run in measured], name)
    ]


def settings_of(arguments: Sequence[str]) -> dict[str, str]:
    """Return name -> value of the server's settings (--pg-set) in arguments of `replayer run`."""
    texts = [text.partition("=") for option, text in pairwise(arguments) if option == "--pg-set"]
    return {name.strip(): value.strip() for name, _, value in texts}


def _same_in_all(runs: Sequence[Run], name: str) -> list[tuple[str, str]]:
    """Return (step, value) for each step whose setting `name` has the same value in all runs."""
    values: dict[str, set[str]] = {}
    for step in (step for run in runs for step in run.steps):
        if f"settings.{name}" in step.facts:
            values.setdefault(step.name, set()).add(str(step.facts[f"settings.{name}"]))
    return [(step, own.pop()) for step, own in values.items() if len(own) == 1]
