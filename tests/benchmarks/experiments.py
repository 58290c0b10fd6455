"""What an experiment names: causes planted in drawn numbers, and factors that do nothing.

Nothing is measured here: the values of the runs are drawn from the seed, with noise between runs,
between whole plots and between blocks, and the experiment goes on until it is settled, as
`replayer experiment` does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from replayer.experiments.design import FactorialDesign, build_design
from replayer.experiments.effects import EffectEstimate, EffectTable, estimate_effects
from tests.benchmarks import Row

NAME = "experiments"
EXPERIMENTS = 400
PLANTED = 100
WITHIN = 0.02
DRIFT = 0.05
"""Between blocks, as a share."""
MOST_BLOCKS = 60
Pair = tuple[str, str]


@dataclass(frozen=True)
class Planted:
    """What is planted in an experiment: shares by factor and by pair, and the noise."""

    factors: int
    noise: float
    causes: Mapping[str, float] = field(default_factory=dict)
    together: Mapping[Pair, float] = field(default_factory=dict)
    seldom: tuple[str, ...] = ()
    of_plots: float = 0.0

    def design(self) -> FactorialDesign:
        """Return the design of the experiment."""
        return build_design([f"f{number}" for number in range(self.factors)], self.seldom)

    def block(self, design: FactorialDesign, random: np.random.Generator) -> list[float]:
        """Return a value for each combination."""
        logs = random.normal(0, self.noise, design.size) + random.normal(0, DRIFT)
        for names, share in [*(((n,), s) for n, s in self.causes.items()), *self.together.items()]:
            logs += design.column(names) * math.log1p(share) / 2
        plots = design.plots()
        if self.seldom:
            logs += random.normal(0, self.of_plots, int(plots.max()) + 1)[plots]
        return [float(value) for value in 1000 * np.exp(logs)]


def performed(planted: Planted, random: np.random.Generator) -> EffectTable:
    """Return what an experiment shows at its end."""
    design = planted.design()
    blocks = [planted.block(design, random) for _ in range(design.least_blocks())]
    while True:
        table = estimate_effects(design, np.array(blocks)[:, :, None], ["m"])
        if table.settled(WITHIN) or len(blocks) >= MOST_BLOCKS:
            return table
        blocks.append(planted.block(design, random))


def named(table: EffectTable) -> list[EffectEstimate]:
    """Return the effects that were shown."""
    return [one for one in table.estimates if one.named]


def false_share(planted: Planted, random: np.random.Generator) -> float:
    """Return the share of experiments that name a factor or interaction that does nothing."""
    wrong = 0
    for _ in range(EXPERIMENTS):
        planted_terms = {(name,) for name in planted.causes} | set(planted.together)
        wrong += any(
            not planted_terms & {one.term.factors, *one.term.aliases}
            for one in named(performed(planted, random))
        )
    return wrong / EXPERIMENTS


def found_shares(planted: Planted, random: np.random.Generator) -> tuple[float, float]:
    """Return the share of experiments that name all causes, and of intervals with the truth."""
    found, inside = 0, []
    for _ in range(PLANTED):
        table = performed(planted, random)
        by_name = {one.term.factors: one for one in table.estimates}
        causes = {(name,): math.log1p(share) for name, share in planted.causes.items()}
        known = set().union(*({e.term.factors, *e.term.aliases} for e in named(table)))
        found += known >= {*causes, *planted.together}
        inside += [by_name[name].low <= at <= by_name[name].high for name, at in causes.items()]
    return found / PLANTED, float(np.mean(inside))


NOTHING: Sequence[tuple[str, Planted]] = (
    ("1 factor", Planted(1, 0.01)),
    ("3 factors", Planted(3, 0.01)),
    ("6 factors, noise 2 %", Planted(6, 0.02)),
    ("8 factors", Planted(8, 0.01)),
    ("8 factors, noise 3 %", Planted(8, 0.03)),
    ("4 factors, one seldom", Planted(4, 0.01, seldom=("f0",), of_plots=0.01)),
)
CAUSES: Sequence[tuple[str, Planted]] = (
    ("8 factors, -17 %", Planted(8, 0.01, {"f2": -0.17})),
    ("8 factors, -8 and +5 %, noise 2 %", Planted(8, 0.02, {"f5": -0.08, "f1": 0.05})),
    ("3 factors, 5 %, and together 4 %", Planted(3, 0.01, {"f0": 0.05}, {("f0", "f1"): 0.04})),
    ("4 factors, 10 % of a seldom one", Planted(4, 0.01, {"f0": 0.1}, {}, ("f0",), 0.01)),
)


def run(workdir: Path, seed: int) -> list[Row]:
    """Return a row for each planted case."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for what, planted in NOTHING:
        share = false_share(planted, random)
        row = {"what": f"names any of {what}", "against": "factors that do nothing"}
        rows.append({**row, "bar": "<= 0.05", "ratio": share, "samples": EXPERIMENTS})
    for what, planted in CAUSES:
        found, inside = found_shares(planted, random)
        row = {"what": f"names the cause, {what}", "against": "planted causes"}
        rows.append({**row, "bar": ">= 0.95", "ratio": found, "samples": PLANTED})
        row = {"what": f"interval has the truth, {what}", "against": "planted causes"}
        rows.append({**row, "bar": ">= 0.95", "ratio": inside, "samples": PLANTED})
    return rows
