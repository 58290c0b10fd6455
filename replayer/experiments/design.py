"""Designs of experiments with factors of two levels: which combinations are run, in which order.

All combinations up to 3 factors, a fraction of resolution IV up to 7 (Box, Hunter and Hunter,
"Statistics for Experimenters", 2005, table 6.22), and beyond that Plackett and Burman's design
(1946) with its mirror image (fold-over).  In each of them no main effect is mixed with another, or
with an interaction of two factors.

The unit of repetition is a block: every combination once, in an order that is drawn.  So a drift
that is slow compared with a block is the same for all combinations.  Factors that are expensive to
switch (`dear`) change seldom within a block: runs with the same levels of all these factors follow
each other and are one whole plot.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replayer.errors import Impossible
from replayer.lazy_import import load

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

FULL_UP_TO = 3
"""Up to this number of factors every combination is run."""
_FRACTIONS = {4: "a b c abc", 5: "a b c d abcd", 6: "a b c d abc bcd", 7: "a b c d abc bcd acd"}
"""Number of factors -> the generators of its fraction, of resolution IV or V."""
MOST = 23
"""The largest number of factors; more would need over 48 runs a block."""
_LEAST_FREE = 5
"""The fewest degrees of freedom from which an interval is made."""
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Term:
    """An effect that a design estimates: of one factor, or the interaction of two.

    `aliases` are other interactions with the same column: the design cannot separate them.
    """

    factors: tuple[str, ...]
    aliases: tuple[tuple[str, ...], ...] = ()

    @property
    def interaction(self) -> bool:
        """Return whether the term is an interaction of two factors, not the effect of one."""
        return len(self.factors) > 1

    @property
    def title(self) -> str:
        """Return the name of the factor, or of the interaction of two factors, such as `a x b`.

        Aliases are named, too: `a x b or c x d`.
        """
        return " or ".join(" x ".join(names) for names in (self.factors, *self.aliases))


@dataclass(frozen=True, eq=False, slots=True)
class FactorialDesign:
    """The runs of one block of an experiment: one of each combination of the factors' levels.

    `levels` has a row for each combination and a column for each factor: -1 is the first level of
    the factor, and 1 the second.  `dear` are the factors that are expensive to switch, and so
    change seldom.
    """

    factors: tuple[str, ...]
    dear: tuple[str, ...]
    title: str
    levels: Places

    @property
    def size(self) -> int:
        """Return the number of runs of a block."""
        return len(self.levels)

    def plots(self) -> Places:
        """Return for each combination the number, from 0, of its whole plot.

        A whole plot is the group of runs with the same levels of all `dear` factors, which are
        expensive to switch.  Without such factors each run is a plot alone.
        """
        if not self.dear:
            return np.arange(self.size)
        chosen = [self.factors.index(name) for name in self.dear]
        plots = np.unique(self.levels[:, chosen], axis=0, return_inverse=True)[1]
        return np.asarray(plots, np.int64).reshape(-1)

    def column(self, names: Sequence[str]) -> Floats:
        """Return the product of the columns of these factors: -1 or 1 for each combination.

        For two factors it is the column of their interaction.
        """
        chosen = [self.factors.index(name) for name in names]
        product: Floats = np.prod(self.levels[:, chosen], axis=1).astype(np.float64)
        return product

    def terms(self) -> list[Term]:
        """Return the effects that the design can estimate: first of each factor, then interactions.

        Interactions with the same column, or its negative, are one term with aliases.
        """
        terms = [Term((name,)) for name in self.factors]
        groups: list[tuple[Floats, list[tuple[str, ...]]]] = []
        for pair in combinations(self.factors, 2):
            own = self.column(pair)
            group = next((pairs for column, pairs in groups if _same(column, own)), None)
            if group is None:
                groups.append((own, [pair]))
            else:
                group.append(pair)
        return [*terms, *(Term(pairs[0], tuple(pairs[1:])) for _, pairs in groups)]

    def partly_aliased(self) -> bool:
        """Return whether some interactions cannot be separated completely.

        Their columns are correlated without being equal.  That is so in designs by Plackett and
        Burman.
        """
        columns = [self.column(term.factors) for term in self.terms() if term.interaction]
        products = [abs(float(a @ b)) / self.size for a, b in combinations(columns, 2)]
        return any(_EQUAL < product < 1 - _EQUAL for product in products)

    def draw_order(self, seed: int, block: int) -> list[int]:
        """Return the combinations (as rows of the design) of a block in a random order.

        The order depends only on `seed` and on `block`, the number of the block.  Runs with the
        same levels of the factors that are expensive to switch stay together.  These groups are
        shuffled, and the runs within each.
        """
        random = np.random.default_rng([seed, block])
        plots = self.plots()
        first = random.permutation(int(plots.max()) + 1)
        return [int(row) for row in np.lexsort((random.random(self.size), first[plots]))]

    def least_blocks(self) -> int:
        """Return the fewest blocks from which intervals can be computed.

        A block is one run of each combination.
        """
        plots = len(np.unique(self.plots()))
        return max(2, 1 + -(-_LEAST_FREE // (plots - 1)))


def _same(column: Floats, other: Floats) -> bool:
    return bool(np.array_equal(column, other) or np.array_equal(column, -other))


def build_design(factors: Sequence[str], dear: Sequence[str] = ()) -> FactorialDesign:
    """Return the design (the combinations of levels to run) for factors of two levels each.

    `dear` are the names of the factors that are expensive to switch.  Raises Impossible for no
    factor, and for more than 23.
    """
    count = len(factors)
    if not count:
        raise Impossible("an experiment needs at least one factor: give --factors NAME,…")
    if count > MOST:
        raise Impossible(
            f"an experiment over {count} factors is too large (at most {MOST}): leave out some"
        )
    doe = load("pyDOE3")
    if count <= FULL_UP_TO:
        title, levels = "all combinations", doe.ff2n(count)
    elif count in _FRACTIONS:
        resolution = "V" if count == 5 else "IV"
        title = f"a fraction of resolution {resolution}"
        levels = doe.fracfact(_FRACTIONS[count])
    else:
        title = "Plackett-Burman with fold-over"
        levels = doe.fold(doe.pbdesign(count))
    columns = np.rint(np.asarray(levels, np.float64)).astype(np.int64)
    kept = tuple(name for name in factors if name in dear)
    # If all are dear, each run is one plot anyhow.
    return FactorialDesign(tuple(factors), () if len(kept) == count else kept, title, columns)
