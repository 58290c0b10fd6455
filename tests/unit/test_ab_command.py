"""`ab --fail-if-worse`: the exit status of a comparison."""

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.analysis.differences.metric_verdicts import MetricRow, MetricVerdict
from replayer.commands import ab
from replayer.errors import Worse
from replayer.model import Better


def compared(base: float, other: float, ratio: float | None) -> Any:
    """Return a comparison with one leading metric of which less is better."""
    row = MetricRow(
        step="load", metric="load.errors", unit="1/s", better=Better.LESS, base=base, other=other,
        base_values=(base,), other_values=(other,), ratio=ratio, low=None, high=None, p=0.001,
        p_holm=0.001, verdict=MetricVerdict.WORSE, leading=True,
    )  # fmt: skip
    names = {name: SimpleNamespace(name=name) for name in ("base", "other")}
    return SimpleNamespace(rows=(row,), threshold=0.02, **names)


@pytest.mark.parametrize(
    ("values", "least", "worse"),
    [
        ((0.0, 50.0, None), 0.05, True),
        ((100.0, 110.0, 1.1), 0.05, True),
        ((100.0, 110.0, 1.1), 0.2, False),
        ((100.0, 101.0, 1.01), 0.0, False),
    ],
)
def test_a_metric_without_a_ratio_is_worse_too(
    values: tuple[float, float, float | None], least: float, *, worse: bool
) -> None:
    """A median of 0 leaves no ratio: from no errors to some is not nothing."""
    trial: Any = SimpleNamespace(between_boots=True)
    if not worse:
        ab._fail_if_worse(trial, compared(*values), least)
        return
    with pytest.raises(Worse, match=r"load\.errors"):
        ab._fail_if_worse(trial, compared(*values), least)
