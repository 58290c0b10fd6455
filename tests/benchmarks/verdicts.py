"""What verdicts are worth, by simulation: shares of false and of true ones over seeded draws.

Nothing is measured: series and runs are drawn whose truth is known, and replayer judges them.  The
tables go to stdout as they come, a line a case, the rows of the benchmark are the worst of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
                    tried = _tried(random, part, move, level, shared=shared, draws=draws // 2)
                    said = [_said(why, part) for why in tried]
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


def _tried(
    random: np.random.Generator,
    part: Spent,
    move: float,
    level: float,
    *,
    shared: bool,
    draws: int,
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


def _said(why: Why, part: Spent) -> tuple[bool, bool, bool, bool, bool]:
    """Return whether the part was named, or likely; whether others were; whether none explains."""
    named = {one.part for one in why.moved}
    likely = {one.part for one in why.likely}
    silent = not why.explained and not likely and why.could_show
    rest = 0.2 * abs(why.whole.shift if why.whole else 0.0)
    wrong = {one.part for one in why.moved if abs(one.shift) > rest} - {part}
    return part in named, part in likely, bool(wrong), bool(likely - {part}), silent


# Windows: levels that change, seconds that stall, and healthy series.


def windows(random: np.random.Generator, draws: int = DRAWS) -> list[Row]:
    """Return how often series of one window's seconds are called unsteady."""
    healthy: list[float] = []
    changed: list[float] = []
    stalls: list[float] = []
    kinds = ("healthy", "last fifth -20 %", "middle third -30 %", "last third -30 %",
             "first third -30 %", "one second stalls", "drift of 15 %")  # fmt: skip
    print("seconds noise alike  " + "  ".join(kinds))
    for seconds in (12, 30, 60, 300):
        for level in (0.03, 0.05, 0.1):
            for alike in (0.0, 0.8):
                quiet = 1 + level * noise(random, (draws, seconds), alike)
                shares = [told(one) for one in _shaped(quiet)]
                print(
                    f"{seconds:7} {level:5.2f} {alike:5.1f}  "
                    + "  ".join(
                        f"{share:{len(kind)}.1%}" for kind, share in zip(kinds, shares, strict=True)
                    ),
                    flush=True,
                )
                stalls.append(shares[5])
                if level <= 0.05:
                    healthy.append(shares[0])
                    if alike == 0.0 and seconds >= 30:
                        changed += shares[1:5]
    return [
        _row("healthy series of up to 5 % of noise: unsteady", "<= 0.05", healthy),
        _row("a change of level of 20 or 30 %: unsteady", ">= 0.85", changed),
        _row("a stall of one second: unsteady", ">= 0.99", stalls),
    ]


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


def told(series: Floats) -> float:
    """Return the share of series that are called unsteady."""
    return float(np.mean([steadiness.unsteady(one) is not None for one in series.tolist()]))
