"""The plan of boots of an experiment that needs a boot for each run."""

from pathlib import Path

import pytest

from replayer import journal
from replayer.analysis.differences import boot_plan
from replayer.errors import Impossible
from replayer.experiments.boot_turns import BootJob


def job(path: Path, *options: str) -> BootJob:
    """Return a search among two kernels with these options."""
    return BootJob(path, ("0.1", "0.2"), ("bisect", "cpu", *options), ("cpu",))


def test_a_plan_has_the_options_that_were_asked_for_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its boots are measured as asked; the plan that the machine does now is not changed."""
    monkeypatch.setenv("REPLAYER_HOME", str(tmp_path / "home"))
    plan = tmp_path / "results" / "bisect-1.plan"
    job(plan, "--runs", "8").write()
    job(plan, "--runs", "40").write()
    assert boot_plan.load_own(plan).job == ("bisect", "cpu", "--runs", "40")

    before = plan.stat().st_ino, plan.stat().st_mtime_ns
    with journal.held("boots", lambda: None, plan=str(plan)):
        job(plan, "--runs", "40").write()
        with pytest.raises(Impossible, match=f"bisect cpu --runs 40`, whose plan {plan} the mach"):
            job(plan, "--runs", "8").write()
    assert (plan.stat().st_ino, plan.stat().st_mtime_ns) == before
