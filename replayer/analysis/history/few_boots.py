"""Large changes among boots that are too few for a proof.

Random orders of so few values show nothing (`change_points.enough`).  Student's t at the best place
shows what the spread of the boots does not explain, if boots are independent and normal.  That is
an assumption, so such a change is a suspicion, and not a finding.
"""

import math

import numpy as np

from replayer.analysis.differences import statistics
from replayer.analysis.differences.level_changes import Floats
from replayer.analysis.history.boot_units import FEWEST
from replayer.analysis.history.change_points import ALPHA


def suspected(units: Floats, *, family: int = 1) -> int | None:
    """Return the index of the first boot after the clearest change of level; None without one.

    `units` has the median of each boot, in the order of time.  The chance of an error is divided
    among the `family` series and the places of each (C. Bonferroni).
    """
    if len(units) < FEWEST:
        return None
    size = len(units)
    place = max(range(1, size), key=lambda at: _student(units, at))
    certainty = 1 - ALPHA / max(1, family) / (size - 1) / 2
    is_clear = _student(units, place) > statistics.student_quantile(size - 2, certainty)
    return place if is_clear else None


def _student(units: Floats, at: int) -> float:
    """Return Student's t of the difference of the units before and from a place.

    The variance is never below that of rounding to the smallest step between two values (W. F.
    Sheppard, 1898), as values in steps may be equal by chance.
    """
    steps = np.diff(np.unique(units))
    if not steps.size:
        return 0.0
    sides = units[:at], units[at:]
    squares = sum(float(np.sum((side - side.mean()) ** 2)) for side in sides)
    variance = max(squares / (len(units) - 2), float(steps.min()) ** 2 / 12)
    error = math.sqrt(variance * sum(1 / len(side) for side in sides))
    return abs(float(sides[1].mean() - sides[0].mean())) / error
