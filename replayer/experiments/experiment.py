"""An experiment: its plan, its runs in the drawn order, and when it is over.

The plan is a file in the experiment's own folder, next to the results of its runs.  Each run has
tags with its block and its combination, so that an interrupted experiment continues where it was.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from replayer import trusted_path
from replayer.analysis.differences.selection import no_column
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.experiments import neighbours
from replayer.experiments.boot_turns import BootJob
from replayer.experiments.design import FactorialDesign, build_design
from replayer.experiments.variant import (
    RunOptions,
    Variant,
    fill_switch,
    is_refused,
    measure_applied,
    parse_variant,
    refuse,
    run_arguments,
    with_own_data,
)
from replayer.model import Noun, Status
from replayer.results import store
from replayer.watch import quiet_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from replayer.factors import FactorPlace
    from replayer.model import Run

FORMAT = 1
FILE = "plan.experiment"
BOOTS = "boots.plan"
"""The plan of boots in the folder of an experiment that needs them."""
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
    """True if the factor is expensive to switch, and so changes seldom within a block."""

    def word(self, sign: int) -> str:
        """Return NAME=LEVEL, quoted for a shell, with the first (`sign` -1) or second (1) level.

        For the factor `switch` it is only the level, which goes into the command of --switch.
        """
        level = self.first if sign < 0 else self.second
        return shlex.quote(level if self.name == SWITCH else f"{self.name}={level}")


class SidesGap(Noun):
    """The difference of two groups of stored runs in one metric, which an experiment is to explain.

    `value` is the difference of logarithms, `error` its standard error, None if that is not known,
    and `free` the degrees of freedom.
    """

    value: float = Field(ge=-50, le=50)
    error: float | None = Field(ge=0, le=50)
    free: int


class ExperimentPlan(Noun):
    """Everything that an experiment was asked for; the order of its runs follows from the seed."""

    format: int = FORMAT
    id: str
    workload: str
    digest: str = ""
    """The digest of the workload when the experiment began; "" in older plans."""
    arguments: tuple[str, ...] = ()
    """Arguments of `replayer run` that all runs have."""
    switch: str = ""
    switch_back: str = ""
    """The command that undoes the switching; "" to switch to the first level."""
    release: str = ""
    """The kernel of runs whose factors name none, if each run needs a boot."""
    factors: tuple[TwoLevels, ...]
    metrics: tuple[str, ...] = ()
    """Patterns of the metrics that are judged; () for the leading ones."""
    seed: int = Field(ge=0)
    within: float = Field(gt=0, lt=1)
    """The share within which an effect counts as settled."""
    sides: tuple[str, ...] = ()
    """The names of the two sides whose difference is to be explained, if there are any."""
    gaps: dict[str, SidesGap] = Field(default_factory=dict)
    """Metric -> the difference of the two sides."""
    not_switched: tuple[str, ...] = ()
    """Sentences about differences of the sides that cannot be switched here."""
    notes: tuple[str, ...] = ()
    boots_for: float | None = None
    """Seconds after which no further boot begins, if each run needs one."""

    def design(self) -> FactorialDesign:
        """Return the design: the combinations of levels that each block of the experiment runs."""
        names = [factor.name for factor in self.factors]
        return build_design(names, [one.name for one in self.factors if one.seldom])

    def back(self) -> str:
        """Return the command that undoes the switching of --switch; "" if the plan has no --switch.

        Without --switch-back it is the command of --switch with the first level.
        """
        firsts = [one.first for one in self.factors if one.name == SWITCH]
        return (self.switch_back or fill_switch(self.switch, firsts[0])) if firsts else ""

    def text(self, design: FactorialDesign, row: int) -> str:
        """Return the text of the variant for a combination, as `replayer ab` takes it.

        `row` is the number of the combination in the design.
        """
        signs = design.levels[row]
        return " ".join(
            factor.word(int(sign)) for factor, sign in zip(self.factors, signs, strict=True)
        )

    def variants(self, design: FactorialDesign, place: FactorPlace) -> tuple[Variant, ...]:
        """Return the variants of all combinations; raise Impossible for a level that cannot be set.

        If the runs have --data-dir, and variants cannot share their data, each gets a folder below
        that one.
        """
        variants = tuple(
            parse_variant(
                self.text(design, row), place, label=f"combination-{row + 1}", switch=self.switch
            )
            for row in range(design.size)
        )
        given = dict(pairwise(self.arguments)).get("--data-dir")
        return variants if given is None else with_own_data(variants, Path(given))

    def options(self, design: FactorialDesign, folder: Path, block: int, row: int) -> RunOptions:
        """Return the options of the run of one combination in one block.

        `block` and `row` are the numbers of the two, from 0.  The result goes to `folder`.
        """
        values = (self.id, str(block + 1), str(row + 1))
        noted = (*self.arguments, "--note", self.text(design, row))
        return RunOptions(folder, noted, tuple(zip(_TAGS, values, strict=True)))


def name_metric(key: tuple[str, str]) -> str:
    """Return the name of the metric of a (step, metric) pair, such as `walk.time` or `walk/time`.

    The name of the step is put before the metric unless the metric begins with it.
    """
    step, metric = key
    return metric if metric.startswith(f"{step}.") else f"{step}/{metric}"


def make_folder(path: Path) -> None:
    """Make a folder and its parent if they do not exist; raise Impossible if that fails."""
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
            place.replace(FILE, text, 0o644, draft=f".{FILE}.{os.getpid()}.new")
    except OSError as error:
        raise Impossible(f"the plan {folder / FILE} cannot be written: {error.strerror}") from error


def load_plan(folder: Path) -> ExperimentPlan:
    """Read the plan in a folder; raise Impossible if its file is not a valid plan.

    A plan names commands and programs that will run: a plan of another user is refused.
    """
    path = folder / FILE
    try:
        with trusted_path.Folder(folder) as place:
            plan = ExperimentPlan.model_validate_json(place.read(FILE))
    except PermissionError as error:
        raise Impossible(
            f"{path} is not resumed: {error.strerror}; a plan names commands that will run, so "
            f"only your own is taken: begin a new experiment"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Impossible(f"{path} cannot be read as a plan of an experiment: {error}") from error
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Impossible(
            f"{path} is not a plan of an experiment ({where or 'it'}: {error.errors()[0]['msg']})"
        ) from error
    if plan.id != folder.absolute().name:
        raise Impossible(f"{path} is the plan of another experiment ({plan.id!r})")
    if plan.format > FORMAT:
        raise Impossible(f"{path} is of format {plan.format}, and this replayer reads {FORMAT}")
    return plan


def find_experiment(wanted: str, where: Path) -> Path:
    """Return the folder of an experiment in the folder `where`.

    `wanted` is its id, the start of its id, `latest`, or its path: as it is, or below `where`.
    Raises NotFound if there is none, or if several ids begin so.
    """
    known = sorted(path.parent for path in where.glob(f"*/{FILE}"))
    if wanted == "latest" and known:
        return max(known, key=lambda folder: (folder / FILE).stat().st_mtime_ns)
    for folder in (*([Path(wanted)] if "/" in wanted else []), where / wanted):
        if (folder / FILE).is_file():
            return folder
    begin = [folder for folder in known if wanted and folder.name.startswith(wanted)]
    if len(begin) == 1:
        return begin[0]
    there = ", ".join(folder.name for folder in known[-3:]) or "none"
    raise NotFound(f"there is no one experiment {wanted!r} in {where}/ (the newest are: {there})")


@dataclass(slots=True)
class ExperimentRuns:
    """The runs of an experiment that are done: (block, combination) -> run, both from 0."""

    runs: dict[tuple[int, int], Run]

    @classmethod
    def of_folder(cls, folder: Path, plan: ExperimentPlan) -> ExperimentRuns:
        """Return the finished runs of this experiment in a folder.

        Runs that were marked as not counting, such as disturbed ones, are left out.
        """
        found: dict[tuple[int, int], Run] = {}
        for entry in store.runs(folder):
            if isinstance(entry, store.Unreadable) or entry.status != Status.DONE.value:
                continue
            if entry.tags.get("experiment") != plan.id or is_refused(entry):
                continue
            try:
                place = int(entry.tags["block"]) - 1, int(entry.tags["combination"]) - 1
                found[place] = store.load(entry.path, no_column)
            except (KeyError, ValueError, ReplayerError):
                continue
        return cls(found)

    def in_block(self, block: int) -> list[Run]:
        """Return the runs of a block, which may be incomplete."""
        return [run for (number, _), run in self.runs.items() if number == block]

    def blocks(self, size: int) -> list[list[Run]]:
        """Return the runs of each complete block, in the order of the combinations.

        `size` is the number of combinations.
        """
        numbers = sorted({block for block, _ in self.runs})
        return [
            [self.runs[block, row] for row in range(size)]
            for block in numbers
            if all((block, row) in self.runs for row in range(size))
        ]


@dataclass(frozen=True, slots=True)
class RunDone:
    """The report about a run that has just ended, and took `seconds`.

    `block` is the number, from 0, of its block: one run of each combination of levels.  `runs` are
    all runs of this block so far.  `text` is the combination, such as `thp=never walk.threads=8`.
    """

    runs: list[Run]
    block: int
    number: int
    """The number of the run within its block, from 1."""
    text: str
    seconds: float
    again: str
    """Why the run was done again; "" if it was done once."""


@dataclass(frozen=True, slots=True)
class ExperimentWork:
    """The plan of an experiment, with the design and the variants that follow from the plan."""

    plan: ExperimentPlan
    design: FactorialDesign
    variants: tuple[Variant, ...]
    """A variant for each combination."""
    folder: Path
    place: FactorPlace
    wait_quiet: float = 0.0
    """The most seconds that each run waits until other programs are quiet."""

    @property
    def boots(self) -> BootJob | None:
        """Return the data for the experiment's plan of boots; None if its runs need no boots."""
        kernels = dict.fromkeys(map(self.kernel_of, range(len(self.variants))))
        if "" in kernels:
            return None
        words = ("experiment", "--resume", self.plan.id, "--yes")
        more = ("--wait-quiet", f"{self.wait_quiet:g}s") if self.wait_quiet else ()
        return BootJob(
            path=self.folder / BOOTS,
            kernels=tuple(kernels),
            words=(*words, *more, "--results", str(self.folder.parent.absolute())),
            arguments=(self.plan.workload, *self.plan.arguments),
        )

    def kernel_of(self, row: int) -> str:
        """Return the kernel that a combination must be booted with; "" for any."""
        return self.variants[row].boot_kernel(self.plan.release) or ""

    @property
    def runs_folder(self) -> Path:
        """Return the folder of the experiment's runs."""
        return self.boots.runs if self.boots is not None else self.folder

    def done(self) -> ExperimentRuns:
        """Return the runs of this experiment that are stored in its folder."""
        return ExperimentRuns.of_folder(self.runs_folder, self.plan)

    @classmethod
    def of_plan(
        cls, plan: ExperimentPlan, folder: Path, place: FactorPlace, wait_quiet: float = 0.0
    ) -> ExperimentWork:
        """Return the plan with the design and the variants that follow from it.

        Raises Impossible for a level that cannot be set on this machine.  `wait_quiet` is the
        number of seconds to wait for a quiet machine before a run; 0 does not wait.
        """
        design = plan.design()
        return cls(plan, design, plan.variants(design, place), folder, place, wait_quiet)

    def measure(self, block: int, row: int) -> tuple[Run, str]:
        """Do the run of a combination in a block; return it, and why it was done again, or "".

        A run that failed is done again once.  With `wait_quiet`, so is a run that other programs
        disturbed.  Raises ReplayerError if it fails twice, or cannot be done.
        """
        again, last = "", None
        for left in reversed(range(_TRIES)):
            if self.wait_quiet:
                quiet_machine.wait_until_quiet(self.place.host, self.wait_quiet)
            try:
                last = measure_applied(
                    self.plan.workload,
                    self.variants[row],
                    self.plan.options(self.design, self.runs_folder, block, row),
                    self.place,
                )
            except ReplayerError as error:
                if isinstance(error, Impossible) or not left:
                    raise self._failed(row, f"failed ({error})") from error
                again = str(error)
                continue
            disturbed = neighbours.spoilt(last) if self.wait_quiet else ""
            if last.status is Status.DONE and (not disturbed or not left):
                return last, again
            refuse(self.runs_folder, last)
            again = disturbed or f"it was {last.status.value}"
        raise self._failed(row, f"ended as {last.status.value if last else 'failed'} twice")

    def _failed(self, row: int, what: str) -> ReplayerError:
        return ReplayerError(
            f"the run with {self.plan.text(self.design, row)} {what}",
            f"`replayer experiment --resume {self.plan.id}` continues when that is mended",
        )


def perform(
    work: ExperimentWork,
    *,
    over: Callable[[list[list[Run]]], bool],
    seconds: float | None,
    on_run: Callable[[RunDone], None],
) -> list[list[Run]]:
    """Do the runs that are missing, block by block; return the runs of the complete blocks.

    A block is one run of each combination.  After each block `over` gets all complete blocks; the
    work is done when it returns True.  `over` is first called after the fewest blocks for a result.
    By the mean time of a run so far, no run begins that would end after `seconds`.  Once there are
    the fewest blocks, no block begins that would end after that.  `on_run` is called after each
    run.  Raises ReplayerError if a run fails twice.
    """
    design = work.design
    done = work.done()
    clock = _Clock(seconds)
    least = design.least_blocks()
    block = 0
    while True:
        order = design.draw_order(work.plan.seed, block)
        missing = [row for row in order if (block, row) not in done.runs]
        if missing and block >= least and not clock.allows(len(missing)):
            return done.blocks(design.size)
        for number, row in enumerate(missing, start=1 + design.size - len(missing)):
            if not clock.allows(1):
                return done.blocks(design.size)
            begin = time.monotonic()
            done.runs[block, row], again = work.measure(block, row)
            took = time.monotonic() - begin
            clock.note(took)
            text, runs = work.plan.text(design, row), done.in_block(block)
            on_run(RunDone(runs, block, number, text, took, again))
        block += 1
        blocks = done.blocks(design.size)
        # Stored runs of an earlier part are looked at only once, all together.
        if block >= least and len(blocks) == block and over(blocks):
            return blocks


def due_run(
    work: ExperimentWork, done: ExperimentRuns, over: Callable[[list[list[Run]]], bool]
) -> tuple[int, int] | None:
    """Return (block, combination) of the run for the next boot, both from 0; None if all is done.

    A block is one run of each combination; `over` returns whether the complete blocks are enough.
    It also returns None if the next run would end later than the plan's `boots_for` after the first
    run began.
    """
    if _is_late(work.plan.boots_for, list(done.runs.values())):
        return None
    design, least = work.design, work.design.least_blocks()
    for block in itertools.count():
        order = design.draw_order(work.plan.seed, block)
        missing = [row for row in order if (block, row) not in done.runs]
        if missing:
            return block, missing[0]
        blocks = done.blocks(design.size)
        if block + 1 >= least and len(blocks) == block + 1 and over(blocks):
            return None
    raise AssertionError("a count has no end")


def _is_late(seconds: float | None, runs: Sequence[Run]) -> bool:
    """Return whether another boot would end later than `seconds` after the first run began.

    It is judged by the mean time of a boot so far.
    """
    if seconds is None or not runs:
        return False
    begun = min(datetime.fromisoformat(run.started) for run in runs)
    passed = (datetime.now(UTC) - begun).total_seconds()
    return passed * (1 + 1 / len(runs)) > seconds


class _Clock:
    """The time limit of an experiment, and the mean time of its runs so far."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self._took: list[float] = []

    def note(self, seconds: float) -> None:
        """Record how many seconds a run took."""
        self._took.append(seconds)

    def allows(self, runs: int) -> bool:
        """Return whether as many further runs would end before the limit.

        It is judged by the mean time of a run; True if no run was recorded yet, or without a limit.
        """
        if self._until is None or not self._took:
            return True
        mean = sum(self._took) / len(self._took)
        return time.monotonic() + mean * runs <= self._until


def commands(work: ExperimentWork) -> Iterator[str]:
    """Yield lines with what an experiment does at least: each command, each change of the machine.

    They are for the fewest blocks (each combination run once) that give a result.
    """
    for block in range(work.design.least_blocks()):
        for row in work.design.draw_order(work.plan.seed, block):
            variant = work.variants[row]
            for name, level in variant.of_scope("machine"):
                yield f"set {name} to {level}, and give it back after the run"
            if variant.switch:
                yield variant.switch
            options = work.plan.options(work.design, work.runs_folder, block, row)
            if work.kernel_of(row):
                yield f"boot {work.kernel_of(row)}"
            yield shlex.join(["replayer", *run_arguments(work.plan.workload, variant, options)])


def changes(work: ExperimentWork) -> list[str]:
    """Return what an experiment changes on the machine, as parts of a sentence.

    They are the names of its factors of the machine and of the boot, and a text on the command of
    --switch.
    """
    names = [name for name, _ in work.variants[0].of_scope("machine", "boot")]
    return [*names, *([f"what `{work.plan.switch}` changes"] if work.plan.switch else [])]
