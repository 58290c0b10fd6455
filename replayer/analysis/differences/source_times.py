"""Verdicts on the times of statements in a replay, against their durations in the source's log.

A verdict is for one fingerprint: all statements that differ only in their values.  The session is
one sample, not the execution: executions of one session share a connection, data and a time of day.
Every session has times on both sides.  If both servers were equal, it would be chance which of the
two times of a session is longer.  So the test changes the signs of the differences of whole groups
of sessions, for all fingerprints together, and compares each fingerprint with the largest
difference that any fingerprint then shows by chance (a sign-flip test, corrected by the step-down
method of Westfall and Young, "Resampling-Based Multiple Testing", 1993, algorithm 2.8).

The interval is that of a ratio of two totals in a sample of clusters (Cochran, "Sampling
Techniques", 3rd edition, 1977, sections 6.4 and 9A.1), on a log scale.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.differences.comparison import MetricVerdict
from replayer.analysis.differences.multiple_testing import likely_up_to
from replayer.analysis.differences.statistics import ALPHA, student_quantile

Floats = NDArray[np.float64]

THRESHOLD = 0.2
"""A smaller difference from the source is of no interest: both were measured at different times."""
_WITH_ROWS = 2.0
"""Time on the way of an answer with rows, divided by that of an answer without rows.

On loopback an answer with rows took 0.2 ms, and that of BEGIN 0.1 ms: without this factor, four of
ten replays on the same server called a statement of 0.1 ms slower.
"""
DISTURBED_SHARE = 0.1
"""Share of the processors from which on the use of other programs disturbs times of statements."""
APART = 2.0
"""Allowed factor while other programs use the machine, in addition to how much they slow it."""
_MOST_JUDGED = 200
_ENOUGH = 30
"""Executions from which on a statement's mean shows the way to the server and back."""
_LONGEST_WAY = 1e-3
"""Longest way to a server on this host and back, in seconds."""
_FEWEST = 6
"""Groups of sessions from which on a test can show a difference at 5 percent: 2 / 2^6 = 0.03."""
_ALL_UP_TO = 13
"""Number of groups up to which all combinations of signs are tried; with more, random ones."""
_DRAWN = 4_999
_SEED = 20261123
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class TimesOfGroups:
    """Times of the executions of one fingerprint that succeeded in the source and in the replay.

    A fingerprint stands for all statements that differ only in their values.  Each array has one
    element for each group of sessions: a number of executions, their seconds in the source, and
    their seconds in the replay.
    """

    executions: Floats
    source_s: Floats
    target_s: Floats

    @property
    def totals(self) -> tuple[float, float]:
        """Return the seconds of all executions together: in the source, and in the replay."""
        return float(self.source_s.sum()), float(self.target_s.sum())

    @property
    def means(self) -> tuple[float, float]:
        """Return the mean seconds per execution: in the source, and in the replay."""
        count = max(1.0, float(self.executions.sum()))
        source, target = self.totals
        return source / count, target / count


@dataclass(frozen=True, slots=True)
class SourceVerdict:
    """The verdict on the time of one fingerprint (statements that differ only in their values).

    `ratio` is its time in the replay divided by that in the source; None if it was not judged.
    `low` and `high` are its 95 percent interval; None also if only one session executed it.
    """

    verdict: MetricVerdict
    ratio: float | None
    low: float | None
    high: float | None
    """The 95 percent interval of the ratio.

    The lower end allows for the way to the server and back, which the source's log does not count.
    """
    p: float | None
    """The p value, corrected for all fingerprints; None if there is no interval."""
    sessions: int
    """Number of sessions, or groups of sessions, that executed the fingerprint."""
    why: str = ""
    """Reason why there is no clear verdict."""


@dataclass(frozen=True, slots=True)
class SourceComparison:
    """The comparison of statements' times in a replay with their durations in the source's log.

    `verdicts` has a verdict for each fingerprint, which is given by its number.
    """

    verdicts: Mapping[int, SourceVerdict]
    way_s: float
    """Seconds of an execution that are allowed for the way to the server and back."""
    common: float | None
    """The median ratio of replay to source, weighted by seconds in the source; None if unknown."""


@dataclass(frozen=True, slots=True)
class _Interval:
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Rule:
    """The bounds of a ratio of times, beyond which a statement is called better or worse.

    The ratio is the time in the replay over that in the source.
    """

    better: float
    worse: float
    likely_p: float
    """Largest uncorrected p of a difference that is likely."""
    disturbed: bool

    @classmethod
    def of(cls, common: float | None, likely_p: float, foreign_share: float) -> "_Rule":
        """Return the rule for a replay; it depends on how much other programs used the processors.

        `likely_p` is the largest uncorrected p value of a difference that is likely.  `common` is
        the median ratio of replay to source over all statements; None if not known.
        `foreign_share` is the other programs' share of the processors, 0 to 1.  Processors that are
        shared with others take 1 / (1 - their share) times as long for each piece of work
        (processor sharing: Kleinrock, "Queueing Systems", volume 2, 1976, section 4.4).  Twice that
        is allowed for, as clients wait for them, too.
        """
        disturbed = foreign_share >= DISTURBED_SHARE
        shared = common if disturbed and common is not None else 1.0
        apart = allowed_factor(foreign_share)
        return cls(min(1.0, shared) / apart, max(1.0, shared) * apart, likely_p, disturbed)

    def verdict(
        self, times: TimesOfGroups, interval: _Interval | None, plain: float, p: float
    ) -> SourceVerdict:
        """Return the verdict on a fingerprint, whose times have the `interval`.

        `p` is the p value that is corrected for all fingerprints, and `plain` is the uncorrected
        one.  `interval` is None if only one session executed the fingerprint.
        """
        groups = int(np.count_nonzero(times.executions))
        source, target = times.totals
        if interval is None:
            why = "one session is not a witness of the spread"
            none = MetricVerdict.UNCLEAR
            return SourceVerdict(none, target / source, None, None, None, groups, why)
        verdict, why = self._judged(interval, plain, p)
        if verdict is MetricVerdict.UNCLEAR and groups < _FEWEST:
            why = f"{groups} sessions are too few witnesses: {_FEWEST} can show a difference"
        ends = interval.ratio, interval.low, interval.high
        return SourceVerdict(verdict, *ends, p, groups, why)

    def _judged(self, interval: _Interval, plain: float, p: float) -> tuple[MetricVerdict, str]:
        low, high = interval.low, interval.high
        # Both ends on one side of 1: a difference, of whatever size.
        if low > 1 or high < 1:
            worse = low > 1
            if p <= ALPHA and (low > self.worse if worse else high < self.better):
                return (MetricVerdict.WORSE if worse else MetricVerdict.BETTER), ""
            if p <= ALPHA and self.disturbed:
                return MetricVerdict.DIFFERS, "other programs used the processors meanwhile"
            middle = abs(math.log(low * high)) / 2 if low > 0 else math.inf
            likely = plain <= self.likely_p and not self.disturbed
            if likely and middle > math.log1p(THRESHOLD):
                return (MetricVerdict.LIKELY_WORSE if worse else MetricVerdict.LIKELY_BETTER), ""
        if low > 1 / (1 + THRESHOLD) and high < 1 + THRESHOLD:
            return MetricVerdict.SAME, ""
        return MetricVerdict.UNCLEAR, ""


def compare_with_source(
    times: Mapping[int, TimesOfGroups],
    *,
    idle: Collection[int] = (),
    foreign_share: float = 0.0,
    remote: bool = False,
) -> SourceComparison:
    """Compare the times of each fingerprint in the source and in the replay.

    The fingerprints with the most time are judged, at most 200; the others are `unclear`, as too
    light.

    `times`: number of a fingerprint -> its times.
    `idle`: the fingerprints of statements that make a server do nothing, such as BEGIN.
    `foreign_share`: share of this machine's processors, from 0 to 1, that other programs used in
    the replay.  From 0.1 on, a difference is called better or worse only if it is larger than these
    programs explain, and larger than the common difference of all statements.
    `remote`: the server is on another host, so that the way to it may be long.
    """
    way = _way(times, idle, math.inf if remote else _LONGEST_WAY)
    common = _common(times.values())
    heavy = sorted(times, key=lambda one: -max(times[one].totals))[:_MOST_JUDGED]
    judged = [one for one in heavy if min(times[one].totals) > 0]
    plain, corrected = _tested([times[one] for one in judged], way)
    rule = _Rule.of(common, likely_up_to(plain), foreign_share)
    verdicts = {
        one: rule.verdict(times[one], _interval(times[one], way), p, corrected_p)
        for one, p, corrected_p in zip(judged, plain, corrected, strict=True)
    }
    for one, its in times.items():
        if one not in verdicts:
            groups = int(np.count_nonzero(its.executions))
            verdicts[one] = SourceVerdict(
                MetricVerdict.UNCLEAR, None, None, None, None, groups, "too light to be judged"
            )
    return SourceComparison(verdicts, way, common)


def allowed_factor(foreign_share: float) -> float:
    """Return the factor that a ratio of replay to source must exceed to count as a difference.

    `foreign_share` is the share of the processors, 0 to 1, that other programs used in the replay.
    """
    if foreign_share < DISTURBED_SHARE:
        return 1 + THRESHOLD
    return APART / max(0.01, 1 - foreign_share)


def _way(times: Mapping[int, TimesOfGroups], idle: Collection[int], longest: float) -> float:
    """Return the seconds that the way to the server and back may take in one execution.

    A log has the time in the server.  A replay measures at the client, which may also wait for a
    processor.  The way is measured by statements that do nothing: it is how much longer they take
    than in the log.  Twice that is allowed, because an answer with rows has a longer way.
    Without such statements, the way is the smallest increase of any frequent statement's mean, but
    at most `longest` seconds.  `idle` are the fingerprints of the statements that do nothing.
    """
    nothing = [times[one] for one in idle if one in times]
    executions = sum(float(one.executions.sum()) for one in nothing)
    if executions >= _ENOUGH:
        longer = sum(one.totals[1] - one.totals[0] for one in nothing)
        return max(0.0, _WITH_ROWS * longer / executions)
    known = [one for one in times.values() if one.executions.sum() >= _ENOUGH]
    least = min((one.means[1] - one.means[0] for one in known), default=0.0)
    return min(max(0.0, least), longest)


def _common(times: Collection[TimesOfGroups]) -> float | None:
    """Return the median ratio of replay to source over all statements; None without any time.

    Each statement has the weight of its seconds in the source.
    """
    totals = [one.totals for one in times]
    ratios = sorted((target / source, source) for source, target in totals if source > 0)
    half = sum(source for _, source in ratios) / 2
    for ratio, source in ratios:
        half -= source
        if half <= 0:
            return ratio
    return None


def _interval(times: TimesOfGroups, way: float) -> _Interval | None:
    """Return the ratio of a fingerprint's time in the replay to that in the source.

    It has a 95 percent interval, whose lower end allows `way` seconds per execution for the way to
    the server and back.  None if less than two groups of sessions executed the fingerprint.
    """
    used = times.executions > 0
    groups = int(used.sum())
    if groups < 2:
        return None
    source = times.source_s[used]
    raw = times.target_s[used]
    # Not cut off at 0 in each group, which would lengthen the sum of all of them.
    shorter = raw - way * times.executions[used]
    low, _ = _limits(source, shorter)
    _, high = _limits(source, raw)
    return _Interval(float(raw.sum() / source.sum()), low, high)


def _limits(source: Floats, target: Floats) -> tuple[float, float]:
    """Return the 95 percent limits of the ratio of seconds in the replay to those in the source.

    `source` and `target` (the replay) have the total seconds of each group of sessions.  Both
    limits are 0 if the ratio is not above 0.
    """
    groups = source.size
    ratio = float(target.sum() / source.sum())
    if ratio <= 0:
        return 0.0, 0.0
    rest = target - ratio * source
    error = math.sqrt(groups / (groups - 1) * float(np.square(rest).sum())) / float(source.sum())
    width = student_quantile(groups - 1, 1 - ALPHA / 2) * error / ratio
    width = min(width, math.log(1e6))
    return ratio * math.exp(-width), ratio * math.exp(width)


def _tested(times: Sequence[TimesOfGroups], way: float) -> tuple[list[float], list[float]]:
    """Return two lists of the fingerprints' p values: uncorrected, and corrected for all of them.

    Slower and faster are tested apart: `way`, the seconds per execution that are allowed for the
    way to the server and back, counts only against slower.
    """
    if not times:
        return [], []
    slower = np.array([one.target_s - way * one.executions - one.source_s for one in times])
    faster = np.array([one.source_s - one.target_s for one in times])
    signs = _signs(slower.shape[1], np.flatnonzero((slower != 0).any(axis=0)))
    chances = np.maximum(_chances(signs, slower), _chances(signs, faster))
    plain = (chances >= chances[0] - _EQUAL).mean(axis=0)
    order = np.argsort(-chances[0], kind="stable")
    # For each fingerprint: the largest difference by chance, of itself and of all after it.
    largest = np.maximum.accumulate(chances[:, order[::-1]], axis=1)[:, ::-1]
    reached = (largest >= largest[0] - _EQUAL).mean(axis=0)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(reached)
    return [float(p) for p in plain], [float(p) for p in corrected]


def _chances(signs: Floats, differences: Floats) -> Floats:
    """Return an array of draws x fingerprints: sums of differences in standard deviations.

    `differences` has a row for each fingerprint, with one difference for each group of sessions.
    Each draw, a row of `signs`, gives these differences random signs.
    """
    spread = np.sqrt(np.square(differences).sum(axis=1))
    sums: Floats = signs @ differences.T / np.maximum(spread, _EQUAL)
    return sums


def _signs(groups: int, used: NDArray[np.intp]) -> Floats:
    """Return random signs, -1 or 1, as an array of draws x groups of sessions.

    All signs in the first row are 1.  Only the groups in `used` get a sign of -1.
    """
    if used.size <= _ALL_UP_TO:
        drawn = np.array(list(product((1.0, -1.0), repeat=int(used.size))))
    else:
        random = np.random.default_rng(_SEED)
        drawn = random.choice((1.0, -1.0), (_DRAWN + 1, used.size))
        drawn[0] = 1.0
    signs = np.ones((len(drawn), groups))
    signs[:, used] = drawn
    return signs
