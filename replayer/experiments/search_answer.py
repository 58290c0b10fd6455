"""The answer of a search: the first of ordered candidates that differs, or those it may be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from replayer.experiments.ends import EndsVerdict
from replayer.model import Better, Noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.experiments.candidate_search import CandidateSearch, SearchState

FOUND, ALIKE = "found", "alike"


class CandidateRun(Noun):
    """One run of a candidate, and the run's value of the metric that the search compares."""

    candidate: str
    value: float


class SearchAnswer(Noun):
    """The answer of a search for the first of ordered candidates that differs, for its reports."""

    workload: str
    name: str
    """The search's name, which is the value of a tag of its runs."""
    found: str | None
    """The first candidate that differs; None if none has 95 percent probability."""
    reason: str
    """Why the search ended: `found`, `alike`, or a sentence."""
    chance: float
    """The probability of the most likely place of the change."""
    no_change: float
    """The probability that there is no change."""
    metric: str
    unit: str
    better: Better
    change: float
    """The change of the metric, as a share such as -0.1 for 10 percent less."""
    worse: bool | None
    """True if the change is for the worse; None if neither more nor less is better, or unless the
    ends differ."""
    noise: float | None
    """The noise between runs, as a share; None before both ends were measured twice."""
    ends: EndsVerdict
    """The verdict on the difference of the first and the last candidate."""
    ends_low: float | None
    ends_high: float | None
    """The interval of the last candidate's difference from the first, as shares; None before both
    were measured twice.  The intervals of all looks together hold with 95 percent."""
    left: tuple[str, ...]
    """The fewest candidates that have 95 percent probability together; () unless the ends
    differ."""
    runs_left: int | None
    """About how many more runs the search needs; None unless the ends differ."""
    seconds_left: float | None
    """Seconds that these runs take; None if that is not known."""
    names: tuple[str, ...]
    """All candidates in their order."""
    chances: dict[str, float]
    """Candidate from the second on -> the probability that the change is there."""
    runs: tuple[CandidateRun, ...]
    """The runs, in the order in which they were made."""
    busy: int
    """The number of runs that other programs disturbed."""
    boots: int
    """The number of different boots in which the runs were made."""
    results: str
    """The folder of the runs."""

    @classmethod
    def of_state(cls, search: CandidateSearch, state: SearchState) -> SearchAnswer:
        """Return the answer after the runs so far, of which there is at least one."""
        posterior = state.state.posterior()
        names = tuple(candidate.name for candidate in search.candidates)
        ends = state.state.ends
        steps = posterior.steps_left() if state.differs else None
        each = state.took / state.made if state.made else None
        return cls(
            workload=search.workload,
            name=search.name,
            found=names[posterior.best] if state.reason == FOUND else None,
            reason=state.reason,
            chance=posterior.chance,
            no_change=posterior.no_change,
            metric=state.metric,
            unit=state.unit,
            better=state.better,
            change=state.change,
            worse=state.is_worse if state.differs else None,
            noise=state.state.measured_at(posterior.best)[1] if ends.looked else None,
            ends=ends.verdict,
            ends_low=None if ends.low is None else math.expm1(ends.low),
            ends_high=None if ends.high is None else math.expm1(ends.high),
            left=tuple(names[place] for place in posterior.left()) if state.differs else (),
            runs_left=steps,
            seconds_left=None if steps is None or each is None else steps * each,
            names=names,
            chances=dict(zip(names[1:], posterior.chances.tolist(), strict=True)),
            runs=tuple(
                CandidateRun(candidate=names[number], value=value) for number, value in state.values
            ),
            busy=state.busy,
            boots=len(state.boots),
            results=str(search.runs_folder),
        )

    @property
    def differs(self) -> bool:
        """Return whether the two ends were shown to differ, so that there is a change to find."""
        return self.ends is EndsVerdict.DIFFER

    def values(self, candidate: str) -> Sequence[float]:
        """Return the metric's value in each run of a candidate, in the order of the runs."""
        return [run.value for run in self.runs if run.candidate == candidate]
