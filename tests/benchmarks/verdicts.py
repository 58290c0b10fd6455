"""What verdicts are worth, by simulation: shares of false and of true ones over seeded draws.

Nothing is measured: series and runs are drawn whose truth is known, and replayer judges them.  The
tables go to stdout as they come, a line a case, the rows of the benchmark are the worst of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.attribution.explanation import Why
from replayer.analysis.differences import steadiness
from replayer.analysis.differences.comparison import LIKELY, Comparison, MetricVerdict, compare
from replayer.analysis.differences.samples import Side
from replayer.model import (
    Account,
    Better,
    Measurement,
    Run,
    Spent,
    Status,
    StepResult,
    WorkloadFacts,
)
from replayer.results import store
from tests.benchmarks import Row
from tests.made import USUAL

NAME = "verdicts"
DRAWS = 200
Floats = NDArray[np.float64]

ABBA, AABB = "ABBAABBAABBA", "AAAAAABBBBBB"
PARTS = {**USUAL, Spent.DEVICE: 2.0e-6, Spent.LOG: 0.5e-6}
"""Seconds a block, 16.5 us."""
STEPS = ("sessions", "walk", "build", "scan", "flush")


def run(workdir: Path, seed: int) -> list[Row]:
    """Return the worst false and true shares of each kind of verdict."""
    del workdir
    random = np.random.default_rng(seed)
    return [*orders(random), *one_of_many(random), *reasons(random), *windows(random)]


def _row(what: str, bar: str, shares: Sequence[float]) -> Row:
    worst = max(shares) if bar.startswith("<=") else min(shares)
    return {"what": what, "against": "truth", "bar": bar, "ratio": worst, "samples": [*shares]}


def noise(random: np.random.Generator, shape: tuple[int, int], alike: float = 0.0) -> Floats:
    """Return rows of noise of size 1, each value of which resembles the one before it so far."""
    rows, count = shape
    fresh = random.normal(0, 1, (count + 30, rows))
    made = [fresh[0]]
    for value in fresh[1:]:
        made.append(alike * made[-1] + np.sqrt(1 - alike**2) * value)
    return np.array(made[30:]).T


# Orders of boots: a drift is no difference, whoever came first.


def orders(random: np.random.Generator, draws: int = DRAWS) -> list[Row]:
    """Return what is said of 12 boots with 31 metrics, one of each step leading.

    They differ by a drift, by noise that lasts, or in truth.
    """
    weak: list[float] = []
    strong: list[float] = []
    true: list[float] = []
    print("order  drift  noise  alike  truth   better/worse  differs in these runs  likely")
    for order in (AABB, ABBA):
        for drift, level, alike, truth in (
            (0.0, 0.02, 0.0, 1.0),
            (0.1, 0.01, 0.0, 1.0),
            (0.1, 0.03, 0.0, 1.0),
            (0.0, 0.03, 0.8, 1.0),
            (0.1, 0.02, 0.0, 0.8),
            (0.0, 0.02, 0.0, 0.9),
        ):
            moved = np.linspace(1, 1 - drift, len(order))
            side = np.where([name == "B" for name in order], truth, 1.0)
            told = []
            for _ in range(draws // 2):
                shared = noise(random, (1, len(order)), alike)
                own = noise(random, (31, len(order)))
                values = moved * side * np.exp(level * (shared * 0.8 + own * 0.6))
                told.append(_told(compared(order, values)))
            shares = [float(np.mean(one)) for one in zip(*told, strict=True)]
            print(
                f"{order[:4]}   {drift:.2f}   {level:.2f}   {alike:.1f}    {truth:.2f}    "
                + "          ".join(f"{share:6.1%}" for share in shares),
                flush=True,
            )
            if order == AABB:
                strong.append(shares[0])
                weak += [shares[1]] if truth == 1.0 else []
            elif truth != 1.0:
                true.append(shares[0])
    return [
        _row("AABB: better or worse", "<= 0", strong),
        _row("AABB: differs in these runs, by drift or noise alone", "<= 0.1", weak),
        _row("ABBA: a true difference is told", ">= 0.95", true),
    ]


def _told(comparison: Comparison) -> tuple[bool, bool, bool]:
    verdicts = {row.verdict for row in comparison.rows}
    return (
        bool(verdicts & {MetricVerdict.BETTER, MetricVerdict.WORSE}),
        MetricVerdict.DIFFERS in verdicts,
        bool(verdicts & LIKELY),
    )


def compared(order: str, values: Floats) -> Comparison:
    """Return the comparison of boots in this order; `values` are metrics x boots."""
    sides: dict[str, list[Run]] = {name: [] for name in sorted(set(order))}
    for number, name in enumerate(order):
        measured = [
            _step(STEPS[at % len(STEPS)], values[at :: len(STEPS), number])
            for at in range(min(len(STEPS), len(values)))
        ]
        sides[name].append(_run(number, name, measured))
    return compare(*(Side(name, tuple(runs)) for name, runs in sides.items()))


def _step(
    name: str, values: Sequence[float] | Floats, account: Account | None = None
) -> StepResult:
    return StepResult(
        step=name,
        name=name,
        repeat=1,
        status=Status.DONE,
        started="",
        elapsed=60.0,
        spec={"step": name, "name": name},
        measurements=tuple(
            Measurement(metric=f"{name}.m{at}", value=value, unit="1/s", better=Better.MORE)
            for at, value in enumerate(np.asarray(values).tolist())
        ),
        account=account,
    )


def _run(number: int, side: str, steps: Sequence[StepResult]) -> Run:
    return Run(
        format=store.FORMAT,
        id=f"20261120-{number:06d}-{side}",
        version="0",
        label=side,
        started=f"2026-11-20T{number // 60:02d}:{number % 60:02d}:00+00:00",
        finished="2026-11-21T00:00:00+00:00",
        status=Status.DONE,
        host={"boot.id": f"b{number}", "kernel.release": side},
        engine=None,
        workload=WorkloadFacts(name="drawn", source="", digest="", repeat=1, settings={}, steps=()),
        steps=tuple(steps),
    )


# One metric of many that moves a little.


def one_of_many(random: np.random.Generator, draws: int = DRAWS) -> list[Row]:
    """Return what is said of one of 25 metrics that is 3 percent worse, 6 boots a side.

    And of 25 that are not: an interval without 1 is explained.
    """
    told, named, silent, alone = [], [], [], []
    for truth in (0.97, 1.0):
        shown, likely, mute = [], [], []
        for _ in range(draws):
            values = np.exp(random.normal(0, 0.01, (25, 12)))
            values[24, [name == "B" for name in ABBA]] *= truth
            rows = compared(ABBA, values).rows
            one = next(row for row in rows if row.metric == "flush.m4")
            shown.append(one.verdict is MetricVerdict.WORSE)
            likely.append(
                one.verdict is MetricVerdict.LIKELY_WORSE
                if truth < 1
                else any(row.verdict in LIKELY for row in rows)
            )
            mute.append(
                any(
                    row.verdict is MetricVerdict.UNCLEAR
                    and not row.note
                    and row.low is not None
                    and row.high is not None
                    and not row.low <= 1 <= row.high
                    for row in rows
                )
            )
        print(
            f"one of 25 metrics x {truth:.2f}: worse {np.mean(shown):.1%}, "
            f"likely{'' if truth < 1 else ' (any)'} {np.mean(likely):.1%}, "
            f"an interval without 1 beside a bare unclear {np.mean(mute):.1%}",
            flush=True,
        )
        silent.append(float(np.mean(mute)))
        if truth < 1:
            told.append(float(np.mean(np.array(shown) | np.array(likely))))
        else:
            named.append(float(np.mean(shown)))
            alone.append(float(np.mean(likely)))
    return [
        _row("one of 25 metrics, 3 % worse: worse or likely worse", ">= 0.8", told),
        _row("25 metrics, A against A: anything likely", "<= 0.2", alone),
        _row("an interval without 1 beside a bare unclear", "<= 0", silent),
    ]


# Reasons: one part is 80 percent of what a step takes longer.


def reasons(random: np.random.Generator, draws: int = DRAWS) -> list[Row]:
    """Return how often a part that is 80 percent of the move is named or likely, and others are.

    The noise is either the machine's, which all parts share, with half as much of each part's own,
    or all of it each part's own.  Another part is falsely named, or likely, if it is said to be
    more of the move than all others are together.
    """
    found: list[float] = []
    false: list[float] = []
    nothing: list[float] = []
    print("noise  shared  move   part           n    named  likely  named or likely  "
          "false named  false likely  'no part'")  # fmt: skip
    for level in (0.05, 0.1, 0.2):
        for shared in (True, False):
            for part in (Spent.DEVICE, Spent.SERVER, Spent.RUN_QUEUE):
                for move in (level, 2 * level, 5 * level):
                    drawn = tried(random, part, move, level, shared=shared, draws=draws // 2)
                    said = [said_of(why, part) for why in drawn]
                    shares = [float(np.mean(one)) for one in zip(*said, strict=True)] or [0.0] * 5
                    named, likely, wrong, maybe, none = shares
                    print(
                        f"{level:.2f}   {shared!s:5}   {move:.2f}   {part.value:12} {len(said):4} "
                        f"{named:7.1%} {likely:7.1%} {named + likely:12.1%} {wrong:14.1%} "
                        f"{maybe:12.1%} {none:10.1%}",
                        flush=True,
                    )
                    if len(said) >= draws // 5:
                        found.append(named + likely)
                        false.append(wrong)
                        nothing.append(none)
    return [
        _row("a part that is 80 % of the move: named or likely", ">= 0.95", found),
        _row("another part is named", "<= 0.05", false),
        _row("`no part explains it` where one does", "<= 0.05", nothing),
    ]


def tried(
    random: np.random.Generator, part: Spent, move: float, level: float, *, shared: bool, draws: int
) -> Iterator[Why]:
    """Yield the why of draws in which the step was shown to differ."""
    whole = sum(PARTS.values())
    rest = {one: seconds * 0.2 * move for one, seconds in PARTS.items() if one is not part}
    scale = 0.2 * move * whole / sum(rest.values())
    for _ in range(draws):
        sides: dict[str, list[Run]] = {"A": [], "B": []}
        for number, name in enumerate(ABBA):
            slower = name == "B"
            parts = {
                one: seconds
                + (0.0 if not slower else 0.8 * move * whole if one is part else rest[one] * scale)
                for one, seconds in PARTS.items()
            }
            account = _account(random, parts, level, shared=shared)
            rate = account.operations / account.seconds
            sides[name].append(_run(number, name, [_step("sessions", [rate], account)]))
        yield from compare(*(Side(name, tuple(runs)) for name, runs in sides.items())).why


def _account(
    random: np.random.Generator, parts: Mapping[Spent, float], level: float, *, shared: bool
) -> Account:
    machine = random.normal(0, level) if shared else 0.0
    own = random.normal(0, level / 2 if shared else level, len(parts))
    drawn = dict(zip(parts, np.array([*parts.values()]) * np.exp(machine + own), strict=True))
    whole = sum(drawn.values())
    seconds, sessions = 5.0, 4.0
    return Account(
        operation="block",
        operations=sessions * seconds / whole,
        sessions=sessions,
        seconds=seconds,
        session={one: float(value) for one, value in drawn.items()},
        samples=200,
    )


def said_of(why: Why, part: Spent) -> tuple[bool, bool, bool, bool, bool]:
    """Return whether the part was named, or likely; whether others were; whether none explains."""
    named = {one.part for one in why.moved}
    likely = {one.part for one in why.likely}
    silent = not why.explained and not likely and why.could_show
    rest = 0.2 * abs(why.whole.shift if why.whole else 0.0)
    wrong = {one.part for one in why.moved if abs(one.shift) > rest} - {part}
    return part in named, part in likely, bool(wrong), bool(likely - {part}), silent


# Windows: levels that change, seconds that stall, and healthy series.

KINDS = ("healthy", "last fifth -20 %", "middle third -30 %", "last third -30 %",
         "first third -30 %", "one second stalls", "drift of 15 %")  # fmt: skip
LEVELS = slice(1, 5)
"""The kinds that are changes of level."""
LENGTHS = (8, 10, 12, 20, 30, 60, 120, 300)


def windows(random: np.random.Generator, draws: int = DRAWS) -> list[Row]:
    """Return how often series of one window's seconds are called unsteady, and how often steady.

    A change of level that is not seen must not be called steady either: then it cannot be said.
    Where a change is hard to see, `limit` is the share that a test sees which knows its place, its
    noise and its autocorrelation, and is false in 5 percent: no rule can see more.
    """
    # Of the same noise, over all lengths: few draws of one length scatter too much for a bar.
    healthy: dict[tuple[float, float], list[float]] = {}
    missed: dict[tuple[float, float, str], list[float]] = {}
    seen: list[float] = []
    stalls: list[float] = []
    settled: list[float] = []
    print("unsteady/cannot be said, %; limit: what could be seen of the last fifth at most")
    print("seconds noise alike  " + "  ".join(KINDS) + "  limit")
    for seconds in LENGTHS:
        for level in (0.01, 0.03, 0.05, 0.1):
            for alike in (0.0, 0.3, 0.5, 0.8):
                quiet = 1 + level * noise(random, (draws, seconds), alike)
                shares = [told(one) for one in _shaped(quiet)]
                limit = limit_of(_shaped(np.ones((1, seconds)))[1][0] - 1, level, alike)
                print(
                    f"{seconds:7} {level:5.2f} {alike:5.1f}  "
                    + "  ".join(
                        f"{f'{100 * not_:.0f}/{100 * hidden:.0f}':>{len(kind)}}"
                        for kind, (not_, hidden) in zip(KINDS, shares, strict=True)
                    )
                    + f"  {limit:5.0%}",
                    flush=True,
                )
                healthy.setdefault((level, alike), []).append(shares[0][0])
                for kind, one in zip(KINDS[LEVELS], shares[LEVELS], strict=True):
                    missed.setdefault((level, alike, kind), []).append(1 - sum(one))
                stalls.append(shares[5][0])
                if seconds >= 30 and level <= 0.03:
                    seen += [not_ for not_, _ in shares[LEVELS]]
                    settled.append(1 - sum(shares[0]))
    return [
        _row("healthy series of up to 10 % of noise: unsteady", "<= 0.05", _means(healthy)),
        _row("a change of level of 20 or 30 %: steady", "<= 0.05", _means(missed)),
        _row("the same from 30 s and up to 3 % of noise: unsteady", ">= 0.95", seen),
        _row("healthy series of such noise: steady", ">= 0.9", settled),
        _row("a stall of one second: unsteady", ">= 1", stalls),
    ]


def _means(shares: Mapping[Any, Sequence[float]]) -> list[float]:
    return [float(np.mean(one)) for one in shares.values()]


def limit_of(change: Floats, level: float, alike: float) -> float:
    """Return the share of changes that the best test of all sees, if it is false in 5 percent.

    It is Neyman and Pearson's, of a change whose place and size are known, in noise of a known size
    and autocorrelation about a level that is not known.
    """
    at = np.arange(change.size)
    noise_ = level**2 * alike ** np.abs(at[:, None] - at[None, :])
    weighed = np.linalg.inv(noise_)
    ones = weighed.sum(axis=0)
    apart = math.sqrt(float(change @ weighed @ change - (ones @ change) ** 2 / ones.sum()))
    normal = NormalDist()
    return normal.cdf(apart - normal.inv_cdf(0.95))


def _shaped(quiet: Floats) -> list[Floats]:
    """Return series as they are, and with what `windows` tells of, in its order."""
    seconds = quiet.shape[1]
    third, at = seconds // 3, np.arange(seconds)
    shapes = (
        np.ones(seconds),
        np.where(at >= seconds - seconds // 5, 0.8, 1.0),
        np.where((at >= third) & (at < 2 * third), 0.7, 1.0),
        np.where(at >= seconds - third, 0.7, 1.0),
        np.where(at < third, 0.7, 1.0),
        np.where(at == seconds // 2, 0.02, 1.0),
        np.linspace(1, 0.85, seconds),
    )
    return [quiet * shape for shape in shapes]


def told(series: Floats) -> tuple[float, float]:
    """Return the shares of series that are called unsteady, and of those that cannot be judged."""
    not_ = [steadiness.unsteady(one) is not None for one in series.tolist()]
    hidden = [
        not one and steadiness.hides_change(values)
        for one, values in zip(not_, series.tolist(), strict=True)
    ]
    return float(np.mean(not_)), float(np.mean(hidden))
