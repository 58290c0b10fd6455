"""`replayer experiment` as a user types it, over a probe that needs no database."""

import json
import os
import signal
from pathlib import Path

import pytest

from replayer.analysis.differences import boot_plan
from tests.command import Replayer

WORKLOAD = """\
description = "divisions for a moment"

[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
threads = [1]
duration = "0.3s"
"""
FACTORS = "cpu.cpu_max_prime=4000:16000"
"""Twice the divisors, each of more numbers: fewer than half of the passes, on any machine."""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Return a workload of less than a second."""
    path = tmp_path / "moment.toml"
    path.write_text(WORKLOAD)
    return path


def test_a_dry_run_prints_every_command(replayer: Replayer, workload: Path) -> None:
    """The runs of the first blocks in the drawn order, each with its tags; nothing is written."""
    words = ("experiment", workload, "--factors", f"{FACTORS},thp", "--seed", 1, "--dry-run")
    first, again = replayer(*words), replayer(*words)
    commands = [line for line in first.out.splitlines() if line.startswith("replayer run")]
    levels = [line.split("--tag thp=")[1].split()[0] for line in commands]

    assert len(commands) == 12
    assert sum("cpu.cpu_max_prime=16000" in line for line in commands) == 6
    assert len(set(levels)) == 2
    assert first.out.count("set thp to ") == 12
    assert [line.split("--results")[0].split("--tag experiment")[0] for line in commands] == [
        line.split("--results")[0].split("--tag experiment")[0]
        for line in again.out.splitlines()
        if line.startswith("replayer run")
    ]
    assert list(workload.parent.iterdir()) == [workload]


def test_what_cannot_be_done_is_refused_in_a_sentence(replayer: Replayer, workload: Path) -> None:
    """Before anything is run or written."""
    asked = ("experiment", workload)
    for words, reason in (
        (asked, "needs --factors NAME,… or --between A B"),
        (("experiment", "--factors", "thp"), "needs a workload"),
        ((*asked, "--factors", "thp"), "allow it with --yes"),
        ((*asked, "--factors", "cpu.nope=1:2"), "nope"),
        ((*asked, "--factors", FACTORS, "--seldom", "thp"), "is not a factor of this experiment"),
        ((*asked, "--factors", FACTORS, "--within", 0), "must be above 0"),
        (("experiment", "--resume", "nothing"), "there is no one experiment 'nothing'"),
        ((*asked, "--resume", "latest"), "leave out WORKLOAD"),
        (
            ("experiment", "slob-physical", "--factors", "debug_io_direct=none:data"),
            "debug_io_direct=none would be in no run: the step ",
        ),
    ):
        ended = replayer(*words, status=2)
        assert reason in ended.err
        assert ended.err.count("\n") == 1
    assert list(workload.parent.iterdir()) == [workload]


def test_levels_without_a_metric_in_common_end_it_after_their_first_runs(
    replayer: Replayer, workload: Path
) -> None:
    """The metrics of the probe name its threads: one run of each level shows that."""
    ended = replayer("experiment", workload, "--factors", "cpu.threads=1:2", status=2)

    assert "is not in every run, and is left out" in ended.err
    assert "above zero in every run" not in ended.err
    assert len(list((workload.parent / "results").glob("*/*.json"))) == 2


@pytest.mark.root
@pytest.mark.parametrize("owner", [os.geteuid(), 65534], ids=["own", "of another user"])
def test_a_plan_of_another_user_is_not_even_read(
    replayer: Replayer, tmp_path: Path, owner: int
) -> None:
    """It names commands that would run with the rights of whoever resumes it."""
    plan = tmp_path / "results" / "experiment-1" / "plan.experiment"
    plan.parent.mkdir(parents=True)
    plan.write_bytes(b"\xff")
    os.chown(plan, owner, -1)

    ended = replayer("experiment", "--resume", "latest", status=2)

    assert ended.err.count("\n") == 1
    assert ("only your own is taken" in ended.err) == (owner != os.geteuid())
    assert str(plan.relative_to(tmp_path)) in ended.err


@pytest.mark.slow
def test_a_planted_cause_is_named_and_a_cut_experiment_goes_on(
    replayer: Replayer, workload: Path
) -> None:
    """Cut by Ctrl-C and by --for, it goes on where it was; no run is done twice."""
    results = workload.parent / "results"
    words = ("experiment", workload, "--factors", FACTORS, "--within", "30%", "--without", "all")
    started = replayer.start(*words)
    assert started.stderr is not None
    while "block 1, run 1 of 2" not in started.stderr.readline():
        pass
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == 130
    cut = replayer("experiment", "--resume", "latest", "--for", "0.1s", status=1)
    assert "there is no result yet: 1 of at least 6 blocks" in cut.err
    assert "--for 100 ms is over" in cut.err

    ended = replayer("experiment", "--resume", "latest", "--json")
    answer = json.loads(ended.out)
    effect = answer["effects"][0]
    (folder,) = (path for path in results.iterdir() if path.is_dir())
    places = [
        (run["tags"]["block"], run["tags"]["combination"])
        for run in map(json.loads, (path.read_text() for path in folder.glob("*.json")))
        if run["status"] == "done"
    ]

    assert effect["verdict"] == "shown"
    assert effect["share"]["high"] < 0
    assert effect["share"]["low"] < -0.5
    assert len(places) == len(set(places)) == answer["runs"] >= 12
    assert (folder / "experiment.html").is_file()


@pytest.mark.usefixtures("settings_of_the_machine")
def test_a_factor_of_the_boot_writes_a_plan_of_boots(replayer: Replayer, workload: Path) -> None:
    """Each run is one boot: this one has neither level, so only what to boot is said."""
    results = workload.parent / "results"
    words = ("experiment", workload, "--factors", "mitigations=off:auto,thp=always:never", "--yes")
    begun = replayer(*words, "--factors", "kernel=0.1:0.2", "--seed", 1, "--results", results)
    (plan,) = results.glob("*/boots.plan")
    named = replayer("step", plan, "--next").out.removeprefix("next boot: ").strip()

    schedule = boot_plan.load(plan)
    assert set(schedule.kernels) == {
        f"{kernel} mitigations={level}" for kernel in ("0.1", "0.2") for level in ("off", "auto")
    }
    assert named in schedule.kernels
    assert f"next: boot {named}," in begun.err
    assert schedule.job[:3] == ("experiment", "--resume", plan.parent.name)
    assert not list(plan.with_suffix(".runs").glob("*"))
    # Runs of an edited file would do other work than those that are there.
    workload.write_text(WORKLOAD.replace("0.3s", "0.4s"))
    refused = replayer("experiment", "--resume", "latest", "--yes", status=2)
    assert f"the workload {workload} was changed since {plan.parent.name} began" in refused.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seed", "-5"], "--seed -5: it must be 0 or more"),
        (["--within", "nan"], "must be above 0 and below 100"),
        (["--within", "inf"], "must be above 0 and below 100"),
        (["--within", "100%"], "must be above 0 and below 100"),
    ],
)
def test_numbers_that_cannot_be_are_one_sentence(
    replayer: Replayer, workload: Path, words: list[str], sentence: str
) -> None:
    """Before anything is written."""
    ended = replayer("experiment", workload, "--factors", FACTORS, *words, "--dry-run", status=2)

    assert sentence in ended.err
    assert list(workload.parent.iterdir()) == [workload]
