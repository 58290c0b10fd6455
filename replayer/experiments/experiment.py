"""An experiment: its plan, its runs in the drawn order, and when it is over.

The plan is a file in the experiment's own folder, next to the results of its runs.  Each run has
tags with its block and its combination, so that an experiment that was cut goes on where it was.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from replayer import assets, trusted_path
from replayer.analysis.differences.selection import no_column
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.experiments.design import FactorialDesign, build_design
from replayer.experiments.variant import (
    RunOptions,
    Variant,
    applied,
    measure,
    parse_variant,
)
from replayer.model import Noun, Status
from replayer.results import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from replayer.factors import FactorPlace
    from replayer.model import Run

FORMAT = 1
FILE = "plan.experiment"
SWITCH = "switch"
"""The factor whose levels are the words for the command of --switch."""
_TRIES = 2
_TAGS = ("experiment", "block", "combination")


class TwoLevels(Noun):
    """A factor of an experiment, with its two levels."""

    name: str
    first: str
    second: str
    seldom: bool = False
    """Whether it is dear to switch, and so changes seldom within a block."""

    def word(self, sign: int) -> str:
        """Return the word of a variant for its first level (-1) or its second (1)."""
        level = self.first if sign < 0 else self.second
        return shlex.quote(level if self.name == SWITCH else f"{self.name}={level}")


class Gap(Noun):
    """A difference of two stored sides that an experiment is to explain, for one metric.

    The difference of logarithms, and its standard error and degrees of freedom.
    """

    value: float
    error: float | None
    free: int


class ExperimentPlan(Noun):
    """Everything that an experiment was asked for; its order follows from the seed."""

    format: int = FORMAT
    id: str
    workload: str
    arguments: tuple[str, ...] = ()
    """Arguments of `replayer run` that all runs have."""
    switch: str = ""
    factors: tuple[TwoLevels, ...]
    metrics: tuple[str, ...] = ()
    """Patterns of the metrics that are judged; () for the leading ones."""
    seed: int
    within: float
    """The share within which an effect counts as settled."""
    sides: tuple[str, ...] = ()
    """The names of the two sides whose difference is to be explained, if there are any."""
    gaps: dict[str, Gap] = Field(default_factory=dict)
    """Metric -> the difference of those sides."""
    not_switched: tuple[str, ...] = ()
    """Sentences about differences of the sides that cannot be switched here."""
    notes: tuple[str, ...] = ()

    def design(self) -> FactorialDesign:
        """Return the combinations of one block."""
        names = [factor.name for factor in self.factors]
        return build_design(names, [one.name for one in self.factors if one.seldom])

    def text(self, design: FactorialDesign, row: int) -> str:
        """Return the words of a combination, as a variant has them."""
        signs = design.levels[row]
        return " ".join(
            factor.word(int(sign)) for factor, sign in zip(self.factors, signs, strict=True)
        )

    def variant(self, design: FactorialDesign, row: int, place: FactorPlace) -> Variant:
        """Return the variant of a combination; raise Impossible for a level that cannot be set."""
        label = f"combination-{row + 1}"
        return parse_variant(self.text(design, row), place, label=label, switch=self.switch)

    def options(self, folder: Path, block: int, row: int) -> RunOptions:
        """Return the options of one run; blocks and combinations are counted from 0."""
        values = (self.id, str(block + 1), str(row + 1))
        tags = [
            part for tag in zip(_TAGS, values, strict=True) for part in ("--tag", "=".join(tag))
        ]
        return RunOptions(folder, (*self.arguments, *tags))


def make_folder(path: Path) -> None:
    """Make a folder, and the one above it; raise Impossible if that fails."""
    for one in (path.parent, path):
        if one.is_dir():
            continue
        try:
            with trusted_path.Folder(one.parent) as parent:
                os.mkdir(one.name, dir_fd=parent.fd)
        except OSError as error:
            raise Impossible(
                f"the experiment cannot be stored in {one}: {error.strerror}; give a folder that "
                f"you may write with --results"
            ) from error


def save_plan(folder: Path, plan: ExperimentPlan) -> None:
    """Write the plan into its folder; raise Impossible if that fails."""
    text = json.dumps(plan.model_dump(mode="json"), indent=1) + "\n"
    try:
        with trusted_path.Folder(folder) as place:
            place.replace(FILE, text, 0o666, draft=f".{FILE}.{os.getpid()}.new")
    except OSError as error:
        raise Impossible(f"the plan {folder / FILE} cannot be written: {error.strerror}") from error


def load_plan(folder: Path) -> ExperimentPlan:
    """Read the plan of a folder; raise Impossible, in one sentence, if it is not one."""
    path = folder / FILE
    try:
        plan = ExperimentPlan.model_validate_json(assets.text(path))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Impossible(
            f"{path} is no plan of an experiment ({where or 'it'}: {error.errors()[0]['msg']})"
        ) from error
    if plan.format > FORMAT:
        raise Impossible(f"{path} is of format {plan.format}, and this replayer reads {FORMAT}")
    return plan


def find_experiment(wanted: str, where: Path) -> Path:
    """Return the folder of an experiment by its path, its id or the start of it, or `latest`."""
    known = sorted(path.parent for path in where.glob(f"*/{FILE}"))
    if wanted == "latest" and known:
        return max(known, key=lambda folder: (folder / FILE).stat().st_mtime_ns)
    direct = where / wanted if "/" not in wanted else None
    for folder in (direct, where.joinpath(wanted) if "/" in wanted else None):
        if folder is not None and (folder / FILE).is_file():
            return folder
    begin = [folder for folder in known if wanted and folder.name.startswith(wanted)]
    if len(begin) == 1:
        return begin[0]
    there = ", ".join(folder.name for folder in known[-3:]) or "none"
    raise NotFound(f"there is no one experiment {wanted!r} in {where}/ (the newest are: {there})")


@dataclass(slots=True)
class ExperimentRuns:
    """The runs of an experiment that are done, by block and combination, both from 0."""

    runs: dict[tuple[int, int], Run]

    @classmethod
    def of_folder(cls, folder: Path, plan: ExperimentPlan) -> ExperimentRuns:
        """Return the runs that a folder has of this experiment; those that failed do not count."""
        found: dict[tuple[int, int], Run] = {}
        for entry in store.runs(folder):
            if isinstance(entry, store.Unreadable) or entry.status != Status.DONE.value:
                continue
            if entry.tags.get("experiment") != plan.id:
                continue
            try:
                place = int(entry.tags["block"]) - 1, int(entry.tags["combination"]) - 1
                found[place] = store.load(entry.path, no_column)
            except (KeyError, ValueError, ReplayerError):
                continue
        return cls(found)

    def blocks(self, size: int) -> list[list[Run]]:
        """Return the runs of each block that is complete, by combination."""
        numbers = sorted({block for block, _ in self.runs})
        return [
            [self.runs[block, row] for row in range(size)]
            for block in numbers
            if all((block, row) in self.runs for row in range(size))
        ]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment is, after a run."""

    block: int
    number: int
    """The run's number within its block, from 1."""
    size: int
    text: str
    seconds: float


def perform(
    plan: ExperimentPlan,
    folder: Path,
    place: FactorPlace,
    *,
    over: Callable[[list[list[Run]]], bool],
    seconds: float | None,
    told: Callable[[Progress], None],
) -> ExperimentRuns:
    """Do the runs that are missing, block by block, until it is over; return all runs.

    `over` is asked after each block that is complete.  After `seconds` no further run begins; nor
    does a block that would not end by then, by the mean time of a run so far.
    Raises ReplayerError if a run fails twice.
    """
    design = plan.design()
    done = ExperimentRuns.of_folder(folder, plan)
    clock = _Clock(seconds)
    block = 0
    while True:
        blocks = done.blocks(design.size)
        complete = len(blocks) > block
        if not complete:
            missing = [
                row for row in plan_order(plan, design, block) if (block, row) not in done.runs
            ]
            if len(blocks) >= design.least_blocks() and not clock.allows(len(missing)):
                return done
            for number, row in enumerate(missing, start=1 + design.size - len(missing)):
                if not clock.allows(1):
                    return done
                begin = time.monotonic()
                done.runs[block, row] = _measure(plan, design, folder, place, at=(block, row))
                took = time.monotonic() - begin
                clock.note(took)
                told(Progress(block, number, design.size, plan.text(design, row), took))
            blocks = done.blocks(design.size)
        block += 1
        if block >= len(blocks) and len(blocks) >= design.least_blocks() and over(blocks):
            return done


def plan_order(plan: ExperimentPlan, design: FactorialDesign, block: int) -> list[int]:
    """Return the drawn order of a block."""
    return design.draw_order(plan.seed, block)


class _Clock:
    """The time that is left, and the mean time of a run."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self._took: list[float] = []

    def note(self, seconds: float) -> None:
        """Take note of the time of a run."""
        self._took.append(seconds)

    def allows(self, runs: int) -> bool:
        """Return whether so many runs end in time; the first run begins in any case."""
        if self._until is None or not self._took:
            return True
        mean = sum(self._took) / len(self._took)
        return time.monotonic() + mean * runs <= self._until


def _measure(
    plan: ExperimentPlan,
    design: FactorialDesign,
    folder: Path,
    place: FactorPlace,
    *,
    at: tuple[int, int],
) -> Run:
    """Perform the run of a block and combination; one that failed is done again once."""
    block, row = at
    variant = plan.variant(design, row, place)
    options = plan.options(folder, block, row)
    for left in reversed(range(_TRIES)):
        try:
            with applied(variant, place):
                run = measure(plan.workload, variant, options)
        except ReplayerError as error:
            if isinstance(error, Impossible) or not left:
                raise ReplayerError(
                    f"the run with {plan.text(design, row)} failed ({error})",
                    f"`replayer experiment --resume {plan.id}` goes on when that is mended",
                ) from error
            continue
        if run.status is Status.DONE:
            return run
    raise ReplayerError(
        f"the run with {plan.text(design, row)} ended as {run.status.value} {_TRIES} times",
        f"`replayer experiment --resume {plan.id}` goes on when that is mended",
    )


def commands(plan: ExperimentPlan, folder: Path, place: FactorPlace) -> Iterator[str]:
    """Yield each command and each change of the machine of the first blocks that are needed."""
    from replayer.experiments.variant import run_arguments  # noqa: PLC0415

    design = plan.design()
    for block in range(design.least_blocks()):
        for row in plan_order(plan, design, block):
            variant = plan.variant(design, row, place)
            for name, level in variant.of_scope("machine"):
                yield f"set {name} to {level}, and give it back after the run"
            if variant.switch:
                yield variant.switch
            words = run_arguments(plan.workload, variant, plan.options(folder, block, row))
            yield shlex.join(["replayer", *words])


def changes(plan: ExperimentPlan, place: FactorPlace) -> Sequence[str]:
    """Return what an experiment changes on the machine: names of factors, and the command."""
    design = plan.design()
    variant = plan.variant(design, 0, place)
    names = [name for name, _ in variant.of_scope("machine")]
    return [*names, *([f"what `{plan.switch}` changes"] if plan.switch else [])]
