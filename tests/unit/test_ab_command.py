"""`ab`: the exit status of `--fail-if-worse`, and the plan of a trial between boots."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replayer.analysis.differences.metric_verdicts import MetricRow, MetricVerdict
from replayer.commands import ab
from replayer.errors import Impossible, Worse
from replayer.experiments import ab_trial
from replayer.model import Better
from replayer.run.plan import run_words
from tests.fixture_types import RunOf


def compared(base: float, other: float, ratio: float | None) -> Any:
    """Return a comparison with one leading metric of which less is better."""
    row = MetricRow(
        step="load", metric="load.errors", unit="1/s", better=Better.LESS, base=base, other=other,
        base_values=(base,), other_values=(other,), ratio=ratio, low=None, high=None, p=0.001,
        p_holm=0.001, verdict=MetricVerdict.WORSE, leading=True,
    )  # fmt: skip
    names = {name: SimpleNamespace(name=name) for name in ("base", "other")}
    return SimpleNamespace(rows=(row,), threshold=0.02, unjudged={}, **names)


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


def test_a_step_that_is_not_judged_does_not_pass() -> None:
    """Nothing is worse by 20 percent, but the step was disturbed."""
    one = compared(100.0, 110.0, 1.1)
    one.unjudged = {"load": "other programs used up to 60%"}

    with pytest.raises(Impossible, match="load is not judged"):
        ab._fail_if_worse(SimpleNamespace(between_boots=True), one, 0.2)  # type: ignore[arg-type]


def test_runs_without_a_metric_in_common_are_found_by_the_user(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run_of: RunOf,
) -> None:
    """The error ends the trial after the first pair, and the folder of the runs is named."""
    runs = iter([run_of(**{f"sessions.at_{number}": [1.0]}) for number in (1, 2)])
    monkeypatch.setattr(ab_trial, "measure_applied", lambda *_: next(runs))
    words = ("smoke", "--b", "walk.threads=2", "--results", str(tmp_path))

    with pytest.raises(Impossible, match="no metric in common"):
        ab.run(run_words.parse(words, "ab"))
    assert f"the runs are in {tmp_path}/" in capsys.readouterr().err


def test_a_plan_of_boots_is_the_same_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words in the plan ask for the same trial, with the same plan, in any other folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REPLAYER_RESULTS", raising=False)
    variants = ("--a=kernel=1.0 --pg-bindir=./old", "--b", "kernel=2.0 --bindir 'the new'")
    asked = run_words.parse(["smoke", *variants, "--data-dir", "data"], "ab")
    job = ab._job(asked, ab._trial(asked))
    monkeypatch.chdir("/")
    again = run_words.parse(job.words[1:], "ab")

    assert ab._job(again, ab._trial(again)) == job
    assert job.path.parent == tmp_path / "results"
    assert f"--b=kernel=2.0 --bindir '{tmp_path}/the new'" in job.words
