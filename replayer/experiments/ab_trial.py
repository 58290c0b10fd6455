"""A trial of two variants: runs in a drawn order, until their difference is settled.

Runs come in blocks of one run of each variant.  The order within a block is drawn, so that a drift
of the machine cannot look like a difference of the variants.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from replayer.analysis.differences import comparison as comparing
from replayer.analysis.differences.samples import Side, leading, without_copies
from replayer.errors import Impossible, Interrupted, ReplayerError
from replayer.experiments import looks, neighbours
from replayer.experiments.variant import is_refused, measure_applied, refuse
from replayer.machine.host import Host
from replayer.model import Status
from replayer.results import store
from replayer.results.tags import NOT_COUNTED, SPOILT
from replayer.units import show, show_with_noun
from replayer.watch import quiet_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replayer.analysis.differences.comparison import Comparison
    from replayer.experiments.variant import RunOptions, Variant
    from replayer.factors import FactorPlace
    from replayer.model import Run

TAG = "ab"
"""The tag of each run of a trial: its value is the trial's name."""
RETRIES = 2
"""Times that a disturbed run is done again before the machine counts as busy."""


@dataclass(frozen=True)
class TrialLimits:
    """The limits of a trial, which ends at the first limit that is reached."""

    within: float
    """The share below which a difference does not matter."""
    most: int
    """The most runs of each variant."""
    seconds: float | None = None
    """The most seconds for all runs together; None for no limit."""
    wait_quiet: float = 0.0
    """The most seconds to wait before each run until other programs are quiet; 0 for no wait."""
    settle: bool = True
    """False to make all runs, whatever they show."""


@dataclass(frozen=True)
class Trial:
    """The plan of a trial: runs of two variants in turns until their difference is settled."""

    workload: str
    variants: tuple[Variant, Variant]
    place: FactorPlace
    options: RunOptions
    limits: TrialLimits
    name: str
    """The trial's name, which is the value of a tag of its runs."""
    seed: int
    between_boots: bool = False
    """True if each run needs a boot."""

    @property
    def tagged(self) -> RunOptions:
        """Return the options of the trial's runs, with the tag by which they are found again."""
        return replace(self.options, tags=(*self.options.tags, (TAG, self.name)))

    def order(self) -> Iterator[int]:
        """Yield the index of the variant for each run, without end.

        Each block of two runs has 0 and 1 once, in a random order.
        """
        draw = random.Random(self.seed)  # noqa: S311 - an order, no secret
        while True:
            yield from draw.sample((0, 1), 2)


@dataclass
class TrialState:
    """The runs of a trial so far, their comparison, and how the trial ended.

    A look is a comparison of the runs so far, which may end the trial.  `looked` is the number of
    looks.
    """

    runs: tuple[list[Run], list[Run]] = field(default_factory=lambda: ([], []))
    spoilt: list[str] = field(default_factory=list)
    """A sentence for each run that other programs disturbed, and that was done again."""
    busy: bool = False
    """True as soon as disturbed runs count, because the machine does not get quiet."""
    attempts: int = 0
    """The number of disturbed runs since the last run that counts."""
    took: float = 0.0
    """Seconds that the newest run took, including the changes of the machine for it."""
    looked: int = 0
    look_at: int = 0
    """The number of runs of each side at which the next look is due; 0 while it is not known."""
    comparison: Comparison | None = None
    reason: str = ""
    """Why the trial ended, as a sentence."""
    error: BaseException | None = None
    """The error that ended the trial early."""

    @property
    def pairs(self) -> int:
        """Return the number of pairs of runs: the number of runs of the variant that has fewer."""
        return min(map(len, self.runs))

    def count(self) -> int:
        """Return the number of runs of both variants that count."""
        return sum(map(len, self.runs))


def perform(trial: Trial, state: TrialState, say: Callable[[str], None]) -> TrialState:
    """Make the runs until the trial ends; return the state, with the comparison if there is one.

    Runs that the state already has count.  `say` gets a line about each run.  An error or Ctrl-C
    also ends the trial: the state then has the error, and all that was measured before.
    """
    began = time.monotonic()
    order = trial.order()
    try:
        _take_up(trial, state)
        while not state.reason:
            which = _next(state, order)
            _one_run(trial, state, which, say)
            late = trial.limits.seconds is not None and (
                time.monotonic() - began + state.took > trial.limits.seconds
            )
            if len(state.runs[0]) == len(state.runs[1]) or late:
                look(trial, state, late=late)
    except (ReplayerError, Interrupted) as error:
        state.error, state.reason = error, f"ended early: {error}"
        if state.pairs:
            # They may have nothing in common, which may be the error.
            with contextlib.suppress(Impossible):
                state.comparison = looks.at_look(_compared(trial, state), state.looked + 1)
    return state


def found_again(trial: Trial) -> TrialState:
    """Return the state of an interrupted trial of the same name, from its stored runs.

    Runs that were made before the last boot of the machine do not count, unless each run needs a
    boot.
    """
    state = TrialState()
    boot = Host().boot_id()
    labels = [variant.label for variant in trial.variants]
    runs = [
        store.load(entry.path)
        for entry in store.runs(trial.options.results)
        if isinstance(entry, store.StoredRun)
        and entry.tags.get(TAG) == trial.name
        # Runs that other programs disturbed are judged again: they show how busy the machine was.
        and (not is_refused(entry) or entry.tags[NOT_COUNTED] == SPOILT)
    ]
    for run in without_copies(sorted(runs, key=lambda run: run.id)):
        here = trial.between_boots or run.host.get("boot.id") == boot
        if run.status is Status.DONE and here and run.label in labels:
            _take(state, labels.index(run.label), run)
    return state


def due(trial: Trial, state: TrialState) -> int | None:
    """Return the index (0 or 1) of the variant to boot next.

    Returns None if the trial is over; `state.reason` then has the reason.
    """
    _take_up(trial, state)
    if state.reason:
        return None
    return _next(state, itertools.islice(trial.order(), state.count(), None))


def perform_one(trial: Trial, state: TrialState, which: int, say: Callable[[str], None]) -> None:
    """Make one run of the variant with the index `which` (0 or 1) in this boot.

    `say` gets a line about the run.  Raises ReplayerError if the run fails.
    """
    _one_run(trial, state, which, say)
    state.looked = 0


def _next(state: TrialState, order: Iterator[int]) -> int:
    """Return the index of the variant to run next, and take one index from `order`.

    The variant with fewer runs is next.  If both have the same number, it is the index from
    `order`.
    """
    sizes = [len(side) for side in state.runs]
    which = next(order)
    if sizes[0] != sizes[1]:
        return sizes.index(min(sizes))
    return which


def _one_run(trial: Trial, state: TrialState, which: int, say: Callable[[str], None]) -> None:
    """Run the variant with the index `which` until one of its runs counts.

    A run that other programs on the machine disturbed is done again, unless that happens too often.
    """
    variant = trial.variants[which]
    counts = False
    while not counts:
        if trial.limits.wait_quiet:
            _wait(trial, say)
        begun = time.monotonic()
        run = measure_applied(trial.workload, variant, trial.tagged, trial.place)
        state.took = time.monotonic() - begun
        was_busy = state.busy
        why, counts = _take(state, which, run)
        if not counts:
            refuse(trial.options.results, run, SPOILT)
        say(_line(state, variant, run, why, again=not counts, first=state.busy and not was_busy))


def _take(state: TrialState, which: int, run: Run) -> tuple[str, bool]:
    """Judge whether a run counts, and add it to the state if it does.

    Returns how other programs disturbed the run ("" if they did not), and whether it counts.  A
    disturbed run counts if it comes after RETRIES disturbed ones: the machine then counts as busy.
    """
    why = neighbours.spoilt(run)
    counts = not why or state.busy or state.attempts >= RETRIES
    if counts:
        state.attempts = 0
        state.busy = state.busy or bool(why)
        state.runs[which].append(run)
    else:
        state.attempts += 1
        state.spoilt.append(f"{run.id}: {why}")
    return why, counts


def _wait(trial: Trial, say: Callable[[str], None]) -> None:
    waited, quiet = quiet_machine.wait_until_quiet(trial.place.host, trial.limits.wait_quiet)
    if not quiet:
        say(f"the machine was not quiet within {waited:.0f} s: the run is made nevertheless")


def _line(
    state: TrialState, variant: Variant, run: Run, why: str, *, again: bool, first: bool
) -> str:
    """Return one line about a run: its number, its variant, and its main metric.

    `why` is how other programs disturbed the run, or "".  `again` is True if it is therefore done
    again.  `first` is True for the first disturbed run that counts.
    """
    line = f"run {state.count() + again}, {variant.label}: {_figure(run)}, {state.took:.0f} s"
    if not why:
        return line
    if again:
        return f"{line}; disturbed, and done again: {why}"
    rest = f": {why}; from now on such runs count" if first else ""
    return f"{line} (next to other programs{rest})"


def _figure(run: Run) -> str:
    """Return name and value of a run's first leading metric; the run's status if it has none.

    Leading metrics are the main metrics of a step, by which runs are judged.
    """
    for step in run.steps:
        names = leading(step.measurements)
        for one in step.measurements:
            if one.metric in names:
                return f"{one.metric} {show(one.value, one.unit)}"
    return run.status.value


def _take_up(trial: Trial, state: TrialState) -> None:
    """Set the state of an interrupted trial as if its runs had just been made.

    A look is a comparison of the runs so far, which may end the trial.  The looks that were due at
    earlier numbers of runs are counted, as each makes a false alarm more likely.  If both variants
    have the same number of runs, a look at these runs follows.
    """
    if not state.pairs:
        return
    state.look_at = _first_look(trial, state)
    equal = len(state.runs[0]) == len(state.runs[1])
    # A run follows a pair only after the look at the pair, if one was due then.
    while state.look_at < state.pairs + (not equal):
        state.looked += 1
        state.look_at = looks.next_look(state.look_at)
    if equal:
        look(trial, state, late=False)


def _first_look(trial: Trial, state: TrialState) -> int:
    rows = looks.judged(_compared(trial, state).rows)
    leading = sum(row.leading for row in rows)
    return looks.first_look(leading, len(rows) - leading)


def _compared(trial: Trial, state: TrialState) -> Comparison:
    sides = sides_of(trial, state)
    return comparing.compare(*sides, allowed=("*",), threshold=trial.limits.within)


def sides_of(trial: Trial, state: TrialState) -> tuple[Side, Side]:
    """Return the two variants as named groups with their runs, for a comparison and its page."""
    first, second = (
        Side(variant.label, tuple(runs))
        for variant, runs in zip(trial.variants, state.runs, strict=True)
    )
    return first, second


def look(trial: Trial, state: TrialState, *, late: bool) -> None:
    """Compare both sides if a comparison is due now; set `state.reason` if the trial is over.

    The trial is over if the difference is settled, or if no further run will be made.  `late` is
    True if there is no time for another run.  Raises Impossible if the time is over before both
    sides have a run.
    """
    limits = trial.limits
    pairs = state.pairs
    last = late or pairs >= limits.most
    if not pairs:
        if last:
            raise Impossible(
                f"the time of --for is over before both variants had a run: give it more than "
                f"{2 * state.took:.0f} s"
            )
        return
    if not state.look_at:
        state.look_at = _first_look(trial, state)
    if not last and (not limits.settle or pairs < state.look_at):
        return
    state.looked += 1
    state.look_at = looks.next_look(max(pairs, state.look_at))
    state.comparison = looks.at_look(_compared(trial, state), state.looked, last=last)
    if looks.settled(state.comparison):
        state.reason = f"settled after {_counted(pairs)}"
    elif late:
        state.reason = f"the time of --for was over after {_counted(pairs)}"
    elif last:
        state.reason = f"all {_counted(pairs)} were made"


def _counted(pairs: int) -> str:
    return f"{show_with_noun(pairs, 'run')} of each variant"
