"""The search for the first candidate that differs: one run at a time, until one is 95 % likely."""

import hashlib
import math
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from replayer import shell, trusted_path
from replayer.analysis.differences import boot_plan, doubts
from replayer.analysis.differences.samples import origin
from replayer.errors import Impossible, Interrupted, NotFound, ReplayerError, nearest
from replayer.experiments import bisection, neighbours, variant
from replayer.experiments.bisection import Bisection
from replayer.experiments.ends import EndsVerdict
from replayer.experiments.variant import RunOptions, Variant, is_refused, measure_applied, refuse
from replayer.factors import FactorPlace
from replayer.model import Better, Run, StepResult
from replayer.results import measured_runs, store
from replayer.results.measured_runs import MeasuredValue, name_value
from replayer.units import show
from replayer.watch import quiet_machine

TAG = "bisect"
CANDIDATE = "candidate"
_BUILD_TIMEOUT = 2 * 3600.0
_BUILT = ".replayer-built"
_TRIES = 2
"""The most runs of a candidate until one reads as those before did."""


@dataclass(frozen=True)
class SearchCandidate:
    """One of the ordered things among which the search finds the first that differs."""

    name: str
    variant: Variant
    """The levels of the machine, and the arguments of `replayer run`, for the candidate's runs."""
    commit: str = ""
    """The commit to build for the candidate; "" if nothing must be built."""


@dataclass(frozen=True)
class CommitBuild:
    """The way to build a commit: a command that is run in a separate clone of the repository."""

    repository: Path
    command: str
    folder: Path
    """The folder for the clones, one for each commit that is measured; they are kept."""

    def place(self, commit: str) -> Path:
        """Return the folder for the clone in which a commit is built.

        Its name has a digest of the build command: another command gets another folder.
        """
        command = hashlib.sha256(self.command.encode()).hexdigest()[:8]
        return self.folder / f"{commit[:12]}-{command}"

    def perform(self, commit: str) -> None:
        """Build a commit, unless that was done; raise ReplayerError if the command fails.

        The repository itself is only read.
        """
        place = self.place(commit)
        self._clone(place)
        if (place / _BUILT).exists():
            return
        # A clone without its .git, such as after a kill: git would take a repository above it.
        here = {"GIT_CEILING_DIRECTORIES": str(place.parent.resolve())}
        checkout = ["git", "checkout", "--quiet", "--detach", commit]
        shell.run(checkout, folder=place, environment=here)
        try:
            command = ["/bin/sh", "-c", self.command]
            shell.run(command, folder=place, timeout=_BUILD_TIMEOUT, bound=True)
        except ReplayerError as error:
            raise ReplayerError(f"commit {commit[:12]} cannot be built: {error}") from error
        (place / _BUILT).touch()

    def _clone(self, place: Path) -> None:
        """Clone the repository unless `place` exists; refuse a clone of another user."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            draft = place.with_name(f"{place.name}.new")
            shutil.rmtree(draft, ignore_errors=True)
            clone = ["git", "clone", "--quiet", "--shared", "--no-checkout"]
            shell.run([*clone, self.repository.resolve(), draft], timeout=_BUILD_TIMEOUT)
            draft.rename(place)
        # Its programs will run with this user's rights.
        trusted_path.own(place, "the clone").close()


@dataclass(frozen=True)
class CandidateSearch:
    """The plan of a search for the first of ordered candidates that differs."""

    name: str
    """A digest of the plan: the value of a tag by which the search's runs are found again."""
    workload: str
    candidates: tuple[SearchCandidate, ...]
    place: FactorPlace
    options: RunOptions
    metric: str = ""
    """The metric to compare; "" for the first leading metric (main result of a step) of a run."""
    most: int = 200
    """The most runs."""
    seconds: float | None = None
    """The most seconds for all runs together; None for no limit."""
    wait_quiet: float = 0.0
    """The most seconds to wait before each run until other programs are quiet; 0 for no wait."""
    build: CommitBuild | None = None
    """The way to build the candidates if they are commits, else None."""

    @property
    def plan(self) -> Path:
        """Return the file of the plan of boots, which only a search among kernels writes."""
        return self.options.results / f"bisect-{self.name}.plan"

    @property
    def runs_folder(self) -> Path:
        """Return the folder of the search's runs."""
        booted = bool(self.candidates[0].variant.switched_by_boot)
        return boot_plan.folder(self.plan) if booted else self.options.results


@dataclass
class SearchState:
    """The measurements of a search so far, and how it ended.

    `values` has (index of the candidate, value of the metric) of each run.  `boots` are the ids of
    the boots that had a run, `made` the number of runs of this process, and `reason` a sentence on
    why the search is over.
    """

    state: Bisection
    metric: str = ""
    unit: str = ""
    better: Better = Better.NEITHER
    values: list[tuple[int, float]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    """The runs whose results count."""
    boots: set[str] = field(default_factory=set)
    busy: int = 0
    """The number of runs that other programs disturbed."""
    took: float = 0.0
    """Seconds that all runs of this process took together."""
    made: int = 0
    reason: str = ""
    error: ReplayerError | Interrupted | None = None

    def count(self, run: Run, candidate: int, value: MeasuredValue) -> None:
        """Add a run of a candidate; raise ReplayerError if not all runs so far can be compared."""
        if why := _find_unlike([*self.runs, run], value.name)[1]:
            raise ReplayerError(
                f"{value.name} cannot be compared between all runs: {why}",
                "--resume continues without these",
            )
        self.add(candidate, value)
        self.runs.append(run)
        self.boots.add(str(run.host.get("boot.id")))

    def add(self, candidate: int, value: MeasuredValue) -> None:
        """Add a measurement of a candidate; raise ReplayerError if its value is not above 0."""
        if not value.value > 0:
            raise ReplayerError(
                f"{value.name} of this run is {value.value:g}, and only positive values can be "
                f"compared by their ratio: choose another one with --metric"
            )
        self.metric, self.unit, self.better = value.name, value.unit, value.better
        self.state = self.state.with_value(candidate, value.value)
        self.values.append((candidate, value.value))

    @property
    def differs(self) -> bool:
        """Return whether the two ends of the list were shown to differ.

        Until then no place of a change is more than a guess, and no cost to find it is known.
        """
        return self.state.ends.verdict is EndsVerdict.DIFFER

    @property
    def change(self) -> float:
        """Return the measured change of the metric, as a share: -0.1 for 10 percent less.

        It is that at the most probable place.
        """
        return math.expm1(self.state.measured_at(self.state.posterior().best)[0])

    @property
    def is_worse(self) -> bool | None:
        """Return whether the change makes the metric worse.

        Returns None for a metric of which neither more nor less is better.
        """
        if self.better is Better.NEITHER:
            return None
        return self.change > 0 if self.better is Better.LESS else self.change < 0


def with_own_data(candidates: Sequence[SearchCandidate], folder: Path) -> list[SearchCandidate]:
    """Return the candidates, each with a data folder in `folder` if they cannot share one."""
    variants = variant.with_own_data([one.variant for one in candidates], folder)
    return [replace(one, variant=own) for one, own in zip(candidates, variants, strict=True)]


def begin(search: CandidateSearch) -> SearchState:
    """Return the state of a search before its first run."""
    return SearchState(Bisection(len(search.candidates)), metric=search.metric)


def take_up(search: CandidateSearch, state: SearchState) -> None:
    """Add the stored runs of the same search, from before an interruption, to its state.

    Those that did not read as most did are left out.
    """
    names = [candidate.name for candidate in search.candidates]
    found: dict[object, tuple[Path, Run]] = {}
    for entry in store.runs(search.runs_folder):
        if not isinstance(entry, store.StoredRun) or entry.tags.get(TAG) != search.name:
            continue
        name = entry.tags.get(CANDIDATE, "")
        if entry.status == "done" and name in names and not is_refused(entry):
            run = store.load(entry.path, lambda _: False)
            found.setdefault(origin(run), (entry.path, run))
    values, metric = {}, state.metric
    for path, _ in found.values():
        values[path] = _value(path, metric)
        metric = values[path].name
    unlike, _ = _find_unlike([run for _, run in found.values()], metric)
    for path, run in found.values():
        if run.id not in unlike:
            state.count(run, names.index(run.tags[CANDIDATE]), values[path])
            state.busy += bool(neighbours.spoilt(run))


def due(state: SearchState) -> int | None:
    """Return the index of the candidate to measure next.

    Returns None if the search is over; `state.reason` then has the reason.
    """
    posterior = state.state.posterior()
    if bisection.are_alike(state.state):
        state.reason = "alike"
    elif bisection.is_found(state.state, posterior):
        state.reason = "found"
    return None if state.reason else bisection.choose(state.state, posterior)


def perform(search: CandidateSearch, state: SearchState, say: Callable[[str], None]) -> None:
    """Measure one candidate after the other until the search is over; `say` gets a line for each.

    An error or Ctrl-C also ends the search: the state then has the error, and all that was measured
    before.
    """
    began = time.monotonic()
    try:
        while (candidate := due(state)) is not None:
            if len(state.values) >= search.most:
                state.reason = f"stopped after {search.most} runs"
                return
            each = state.took / state.made if state.made else 0.0
            if search.seconds is not None and time.monotonic() - began + each > search.seconds:
                state.reason = "stopped as the time was over"
                return
            say(measure_one(search, state, candidate, say))
    except (ReplayerError, Interrupted) as error:
        state.error, state.reason = error, f"ended early: {error}"


def measure_one(
    search: CandidateSearch, state: SearchState, number: int, say: Callable[[str], None]
) -> str:
    """Measure the candidate with the index `number` once; return a line about the run.

    The measurement is added to the state.  `say` gets a sentence if the machine is not quiet.
    """
    candidate = search.candidates[number]
    if search.build is not None and candidate.commit:
        search.build.perform(candidate.commit)
    if search.wait_quiet:
        waited, quiet = quiet_machine.wait_until_quiet(search.place.host, search.wait_quiet)
        if not quiet:
            say(f"the machine was not quiet within {waited:.0f} s: the run is made nevertheless")
    begun = time.monotonic()
    run, value = _measure_alike(search, state, candidate, say)
    took = time.monotonic() - begun
    state.took, state.made = state.took + took, state.made + 1
    state.count(run, number, value)
    why = neighbours.spoilt(run)
    state.busy += bool(why)
    next_to = " (next to other programs)" if why else ""
    figure = f"{value.name} {show(value.value, value.unit)}"
    return f"run {len(state.values)}, {candidate.name}: {figure}, {took:.0f} s{next_to}; " + (
        _standing(search, state)
    )


def _measure_alike(
    search: CandidateSearch,
    state: SearchState,
    candidate: SearchCandidate,
    say: Callable[[str], None],
) -> tuple[Run, MeasuredValue]:
    """Return a run of a candidate and its value; measure again if only this run read otherwise.

    `say` then gets a sentence.  After the last try the run is returned nevertheless.
    """
    tags = ((TAG, search.name), (CANDIDATE, candidate.name))
    options = RunOptions(search.runs_folder, search.options.arguments, tags)
    for left in reversed(range(_TRIES)):
        run = measure_applied(search.workload, candidate.variant, options, search.place)
        value = _value(search.runs_folder / f"{run.id}.json", state.metric)
        unlike, why = _find_unlike([*state.runs, run], value.name)
        if unlike != {run.id} or not left:
            break
        refuse(search.runs_folder, run)
        say(f"the run {run.id} of {candidate.name} is left out, and done again: {why}")
    return run, value


def _find_unlike(runs: Sequence[Run], metric: str) -> tuple[set[str], str]:
    """Return the ids of runs in which a metric does not count, and why; "" if there are none.

    It does not count where its step did not read as in most runs.
    """
    measured = [
        run.model_copy(update={"steps": tuple(s for s in run.steps if _has(s, metric))})
        for run in runs
    ]
    unlike, remarks = doubts.find_other_reads(measured)
    return unlike, next(iter(remarks.values()), "")


def _has(step: StepResult, metric: str) -> bool:
    return any(name_value(step.name, one.metric) == metric for one in step.measurements)


def _standing(search: CandidateSearch, state: SearchState) -> str:
    if not state.differs:
        if bisection.are_alike(state.state):
            ends = state.state.ends
            most = max(abs(math.expm1(one or 0.0)) for one in (ends.low, ends.high))
            return f"the two ends do not differ by more than {most:.1%}"
        return "the two ends: no difference shown yet"
    posterior = state.state.posterior()
    name = search.candidates[posterior.best].name
    none = f", none {posterior.no_change:.0%}" if posterior.no_change > 0.01 else ""
    return f"most likely {name}, {posterior.chance:.0%}{none}"


def _value(path: Path, metric: str) -> MeasuredValue:
    """Return the value of the metric with this name in a stored run.

    The name "" stands for the run's first leading metric: the main metric of a step. Raises
    NotFound if the run does not have the metric.
    """
    leading = measured_runs.leading_values(path)
    if not metric and leading:
        return leading[0]
    values = {one.name: one for one in measured_runs.all_values(path)}
    if metric not in values:
        raise NotFound(f"the run {path.stem} has no metric {metric!r}{nearest(metric, values)}")
    return values[metric]


def commits(repository: Path, wanted: str) -> list[str]:
    """Return the commits of the range GOOD..BAD, the good one first.

    Raises Impossible if git cannot list them, or if `wanted` is not such a range.
    """
    good, sign, bad = wanted.partition("..")
    if not (good and sign and bad):
        raise Impossible(f"--over {wanted!r} must be GOOD..BAD for --git, such as v6.12..v6.13")
    git = ["git", "-C", str(repository)]
    try:
        first = shell.run([*git, "rev-parse", "--verify", f"{good}^{{commit}}"]).split()
        rest = shell.run([*git, "rev-list", "--first-parent", "--reverse", wanted]).split()
    except ReplayerError as error:
        raise Impossible(f"git cannot list {wanted} in {repository}: {error}") from error
    return [*first, *rest]


def fill(template: str, level: str) -> str:
    """Return a command with each {} replaced by `level`, which is quoted for the shell."""
    return template.replace("{}", shlex.quote(level))
