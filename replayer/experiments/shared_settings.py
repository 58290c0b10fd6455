"""Settings of the server that variants have and that no run had: a step sets them itself."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.experiments.variant import Variant
    from replayer.model import Run


def shared_settings(measured: Sequence[tuple[Variant, Run]]) -> list[str]:
    """Return a sentence for each setting that differs between variants, and in no step of a run."""
    asked = [_server_settings(variant) for variant, _ in measured]
    names = sorted({name for settings in asked for name in settings})
    return [
        f"{step} sets {name} itself: every run had {value} in it"
        for name in names
        if len({settings.get(name) for settings in asked}) > 1
        for step, value in _same_in_all([run for _, run in measured], name)
    ]


def _server_settings(variant: Variant) -> dict[str, str]:
    pairs = pairwise(variant.arguments)
    texts = [text.partition("=") for option, text in pairs if option == "--pg-set"]
    return {name.strip(): value.strip() for name, _, value in texts}


def _same_in_all(runs: Sequence[Run], name: str) -> list[tuple[str, str]]:
    """Return the steps that report a setting, with its value if that is one in all runs."""
    values: dict[str, set[str]] = {}
    for step in (step for run in runs for step in run.steps):
        if f"settings.{name}" in step.facts:
            values.setdefault(step.name, set()).add(str(step.facts[f"settings.{name}"]))
    return [(step, *own) for step, own in values.items() if len(own) == 1]
