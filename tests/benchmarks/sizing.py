"""Verdicts on targets of known strength, and of one target twice: issue 9's table for `size`.

What is required is searched first, on a target that a cgroup makes as strong as it is; the targets
are then 0.75, 1 and 1.33 times that.  Each takes a minute or two, so that the whole takes hours:
REPLAYER_SIZING_TARGETS and REPLAYER_SIZING_PAIRS (20 each) make it shorter.
"""

import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks import Row
from tests.sizing_runs import caged, of_cpu, of_reads, size

NAME = "sizing"
ASKED_FOR = True
"""It is run when it is named, not with all others."""
TARGETS = int(os.environ.get("REPLAYER_SIZING_TARGETS", "20"))
PAIRS = int(os.environ.get("REPLAYER_SIZING_PAIRS", "20"))
STRENGTHS = (0.75, 1.33, 1.0)
SEARCHES = 3
WORDS = ("--trial", "3s", "--hold", "5s", "--slo", "p99=700ms")
WITH_ROOM = 1.1
KINDS: dict[str, tuple[Callable[[Path], Path], float, str]] = {
    # what is limited -> a profile, the limit that is about as strong as it needs, who gives first
    "cores": (lambda path: of_cpu(path, rate=150, cores=0.5), 0.55, "CPU quota"),
    "read_iops": (lambda path: of_reads(path, rate=600), 600, "device reads"),
}


def run(workdir: Path) -> Iterator[Row]:
    """Size targets of known strengths, then one target twice, and count what is right."""
    workdir.chmod(0o755)
    required = {kind: _required(kind, workdir) for kind in KINDS}
    yield from _targets(required, workdir)
    yield from _pairs(required, workdir)


def _sized(kind: str, strength: float, growth: float, workdir: Path) -> dict[str, Any]:
    make, limit, _ = KINDS[kind]
    made = workdir / f"{kind}.profile"
    made = made if made.exists() else make(made)
    with caged(workdir, **{kind: strength * limit}) as cage:
        sized = size(made, workdir, *WORDS, "--growth", f"{growth:.6f}", cage=cage)
        return dict(sized.verdict)


def _required(kind: str, workdir: Path) -> float:
    """Return the growth of a profile that a target of strength 1 meets exactly."""
    found = [float(_sized(kind, 1.0, 1.0, workdir)["multiple"]) for _ in range(SEARCHES)]
    return statistics.median(found)


def _right(strength: float, verdict: Mapping[str, Any]) -> bool:
    if strength == 1.0:
        return bool(verdict["fit"] != "fits" or verdict["multiple"] < WITH_ROOM)
    return bool(verdict["fit"] == ("fits" if strength > 1 else "does not fit"))


def _targets(required: Mapping[str, float], workdir: Path) -> Iterator[Row]:
    cases = itertools.islice(itertools.cycle(itertools.product(STRENGTHS, KINDS)), TARGETS)
    right, knees, first = [], [], []
    for strength, kind in cases:
        verdict = _sized(kind, strength, required[kind], workdir)
        right.append(_right(strength, verdict))
        print(
            f"  {kind} {strength:g}: {verdict['fit']} {verdict['multiple']} "
            f"({verdict['low']} to {verdict['high']}), {verdict['first']}",
            flush=True,
        )
        if verdict["multiple"]:
            knees.append(abs(verdict["multiple"] / strength - 1))
        first.append(verdict["first"] == KINDS[kind][2])
    yield {
        "what": f"right verdicts on {len(right)} targets", "against": "known strengths",
        "bar": ">= 0.95", "ratio": sum(right) / len(right), "samples": right,
    }  # fmt: skip
    yield {
        "what": "the resource that gives first", "against": "the one that is limited",
        "bar": ">= 0.90", "ratio": sum(first) / len(first), "samples": first,
    }  # fmt: skip
    yield {
        "what": "the highest multiple off by, median", "against": "known strengths",
        "bar": "<= 0.10", "ratio": statistics.median(knees), "samples": knees,
    }  # fmt: skip


def _pairs(required: Mapping[str, float], workdir: Path) -> Iterator[Row]:
    same, inside = [], []
    for kind, strength in itertools.islice(
        itertools.cycle(itertools.product(KINDS, (0.8, 1.25))), PAIRS
    ):
        one, two = (_sized(kind, strength, required[kind], workdir) for _ in range(2))
        same.append(one["fit"] == two["fit"])
        inside.append(_within(one, two) and _within(two, one))
        print(f"  {kind} {strength:g}: {one['fit']} {one['multiple']}, {two['fit']} "
              f"{two['multiple']}", flush=True)  # fmt: skip
    yield {
        "what": f"the same verdict, {len(same)} pairs", "against": "the same target",
        "bar": ">= 0.95", "ratio": sum(same) / len(same), "samples": same,
    }  # fmt: skip
    yield {
        "what": "multiples within each other's intervals", "against": "the same target",
        "bar": ">= 0.95", "ratio": sum(inside) / len(inside), "samples": inside,
    }  # fmt: skip


def _within(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    high = float("inf") if two["high"] is None else two["high"]
    return one["multiple"] is not None and (two["low"] or 0.0) <= one["multiple"] <= high
