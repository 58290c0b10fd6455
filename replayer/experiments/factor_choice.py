"""The factors of an experiment and their levels: by words, or by what differs between two sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replayer import factors
from replayer.analysis.attribution import known_causes
from replayer.analysis.differences import environment, statistics
from replayer.analysis.differences.environment import MISSING, Sort
from replayer.analysis.differences.samples import Samples, unit_of
from replayer.errors import Impossible, ReplayerError
from replayer.experiments.experiment import SWITCH, SidesGap, TwoLevels, name_metric
from replayer.experiments.variant import parse_variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replayer.analysis.differences.doubts import CountedResults
    from replayer.analysis.differences.environment import Difference
    from replayer.analysis.differences.samples import Side
    from replayer.factors import FactorPlace

_SETTING = "engine.settings."
_SETTINGS_OF_WORK = "workload.settings."
"""Begins the facts on settings that the runs were given; the server reports these, too."""
_SERVER = ("pg.", "server.", "mysql.")
_NAMES = {
    "host.memory.transparent_huge_pages": "thp",
    "host.memory.transparent_huge_pages_defrag": "thp_defrag",
    "host.kernel.preemption": "preempt",
    "host.kernel.release": "kernel",
}
"""Fact -> the factor that switches it, for facts whose last word is not the factor's name."""


@dataclass(frozen=True, slots=True)
class ChosenFactors:
    """The factors that can be switched on this machine, and sentences about those that cannot.

    `refused` has the latter; `notes` are remarks on levels that were chosen by default.
    """

    factors: tuple[TwoLevels, ...]
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def parse_factors(
    words: Iterable[str], place: FactorPlace, *, switch: str = "", seldom: Sequence[str] = ()
) -> ChosenFactors:
    """Return the factors, each with two levels, that words such as `read_ahead_kb=128:8192` name.

    A word may also be only a name of `replayer list factors`, such as `thp`.  Its first level is
    then the present one, or the first known one; its second level is the last of the others.
    `switch` is the command of --switch.  `seldom` are the names of factors that are expensive to
    switch.  Raises NotFound for a factor that does not exist, and Impossible for one that cannot be
    switched here.
    """
    chosen, notes = [], []
    for word in words:
        name, sign, levels = word.partition("=")
        name = name if name.startswith(_SERVER) or name == SWITCH else factors.plain_name(name)
        first, second = _two(name, levels) if sign else _own_levels(name, place)
        if not sign:
            notes.append(f"{name}: levels {first} and {second}, as none were given")
        one = TwoLevels(name=name, first=first, second=second, seldom=name in seldom)
        _check(one, place, switch)
        chosen.append(one)
    _refuse_names([one.name for one in chosen], seldom)
    return ChosenFactors(tuple(chosen), notes=tuple(notes))


def find_factors(base: Side, other: Side, place: FactorPlace) -> ChosenFactors:
    """Return the factors that differ between two groups of runs, with the level of each group.

    They are found among the facts that a comparison of the groups lists as `may explain`, and among
    the settings of the server.
    """
    allowed = (f"{_SETTING}*", "engine.version")
    plain = environment.differences(base.runs, other.runs)
    noise = {one.key for one in plain if one.sort is Sort.NOISE}
    different = [
        one
        for one in environment.differences(base.runs, other.runs, allowed=allowed)
        if one.key not in noise
    ]
    suspected = {one.key for one in known_causes.may_explain(different, ())}
    chosen, refused = [], []
    for one in different:
        if one.sort is Sort.REFUSED and not one.key.startswith(_SETTINGS_OF_WORK):
            refused.append(f"{_words(one)}: it is of the work itself")
            continue
        if environment.step_setting(one.key):
            # The server's setting of that name is the factor, and it reaches the step.
            continue
        name = _factor_name(one.key)
        if one.sort is not Sort.EXPLAINS or not (name or one.key in suspected):
            continue
        try:
            factor = _of_difference(one, name)
            _check(factor, place, "")
            chosen.append(factor)
        except ReplayerError as error:
            refused.append(f"{_words(one)}: {error}")
    return ChosenFactors(tuple(chosen), tuple(refused))


def gaps_of(counted: CountedResults) -> dict[str, SidesGap]:
    """Return metric -> the difference of two sides (groups of runs), as a difference of logarithms.

    An experiment then finds how much of it the factors explain.  Metrics of steps that a comparison
    of the sides does not judge are left out.
    """
    base, other = counted.base, counted.other
    unit = unit_of(base.runs, other.runs)
    below, above = Samples.of(base, unit), Samples.of(other, unit)
    gaps = {}
    for key in below.kinds.keys() & above.kinds.keys():
        if key[0] in counted.unjudged:
            continue
        values = [side.values(key) for side in (below, above)]
        values = [one[np.isfinite(one)] for one in values]
        if any(not one.size for one in values):
            continue
        ratio = statistics.ratio(*values)
        if ratio is not None:
            error = ratio.error if math.isfinite(ratio.error) else None
            free = values[0].size + values[1].size - 2
            gaps[name_metric(key)] = SidesGap(value=math.log(ratio.value), error=error, free=free)
    return gaps


def _two(name: str, levels: str) -> tuple[str, str]:
    parts = levels.split(":")
    if len(parts) != 2 or not all(parts) or parts[0] == parts[1]:
        raise Impossible(
            f"{name}={levels} has not two different levels: write {name}=FIRST:SECOND, as in "
            f"read_ahead_kb=128:8192"
        )
    return parts[0], parts[1]


def _own_levels(name: str, place: FactorPlace) -> tuple[str, str]:
    if "." in name or name == SWITCH:
        raise Impossible(f"{name} has no known levels: write {name}=FIRST:SECOND")
    factor = factors.load(name)
    reason = factor.unavailable(place)
    if reason:
        raise Impossible(f"{name} cannot be switched here: {reason}")
    known = factor.levels(place)
    first = factor.current(place) or (known[0] if known else None)
    others = [level for level in known if level != first]
    if first is None or not others:
        raise Impossible(
            f"{name} has no two levels to choose from by itself: write {name}=FIRST:SECOND"
        )
    return first, others[-1]


def _check(one: TwoLevels, place: FactorPlace, switch: str) -> None:
    """Raise NotFound or Impossible if a level of the factor cannot be set here."""
    if one.name == SWITCH and not switch:
        raise Impossible("the factor switch needs its command: give --switch 'CMD {}'")
    for sign in (-1, 1):
        parse_variant(one.word(sign), place, switch=switch if one.name == SWITCH else "")


def _refuse_names(names: Sequence[str], seldom: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Impossible(f"the factor {', '.join(twice)} stands there twice: leave one out")
    unknown = [name for name in seldom if name not in names]
    if unknown:
        raise Impossible(f"--seldom {', '.join(unknown)}: it is not a factor of this experiment")


def _factor_name(fact: str) -> str:
    """Return the name of the factor that can change a fact of a run; "" if there is none."""
    if fact.startswith(_SETTING):
        return f"pg.{fact.removeprefix(_SETTING)}"
    last = fact.rpartition(".")[2]
    name = _NAMES.get(fact, last if fact.startswith("host.") else "")
    return name if name in factors.names() else ""


def _of_difference(one: Difference, name: str) -> TwoLevels:
    if not name:
        raise Impossible("there is no factor that switches it")
    if len(one.base) != 1 or len(one.other) != 1:
        raise Impossible("its value is not the same in all runs of a side")
    if MISSING in (*one.base, *one.other):
        raise Impossible("it is not known on one side")
    return TwoLevels(name=name, first=one.base[0], second=one.other[0])


def _words(one: Difference) -> str:
    return f"{one.key} ({', '.join(one.base)} -> {', '.join(one.other)})"
