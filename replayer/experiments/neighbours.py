"""Runs of an experiment that other programs on the machine disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.analysis.advice import warnings

if TYPE_CHECKING:
    from replayer.model import Run


def spoilt(run: Run) -> str:
    """Return how other programs disturbed a run, as a sentence part; "" if they did not.

    This is judged by the work of these programs, never by the results of the run: so it is fair to
    leave such a run out.
    """
    found = (warning(run) for warning in warnings.DISTURBING)
    return "; ".join(advice.found for advice in found if advice is not None)
