"""`run --dry-run` and `plan` as a user types them: all is said, and nothing is done."""

import json
import os
import platform
import subprocess
import sys

import pytest

from replayer.model import Status
from replayer.results import store
from replayer.run import workload
from replayer.steps.sessions import step as sessions


@pytest.fixture
def cli(tmp_path):
    """Return a function that runs replayer where it has no folder of its own yet."""

    def call(*arguments, status=0):
        done = subprocess.run(
            [sys.executable, "-m", "replayer", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "REPLAYER_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return call


def test_nothing_is_started_or_written(cli, tmp_path):
    """Neither replayer's own folder nor the results' is there afterwards; each step was named."""
    shown = cli("run", "smoke", "--dry-run").stdout

    assert list(tmp_path.iterdir()) == []
    for spec in workload.load("smoke").steps:
        assert f"\n{spec.name}\n" in shown
    assert str(tmp_path / "home" / "data") in shown


def test_bytes_are_what_the_steps_say(cli):
    """The same tables take their room once, as in the check of the space before a run."""
    foreseen = json.loads(cli("run", "demo", "--dry-run", "--json").stdout)
    parts = {part["name"]: part for part in foreseen["parts"]}
    specs = {spec.name: spec for spec in workload.load("demo").steps}
    cached = sessions.footprint(specs["cached"], 8192).disk_bytes

    assert parts["cached"]["disk_bytes"] == parts["physical"]["disk_bytes"] == cached
    assert foreseen["disk_bytes"] == parts["build"]["disk_bytes"] + cached
    assert foreseen["disk"]["free_bytes"] > 0


def timed(run_of, folder, *, host, seconds):
    """Store a run of the sessions of slob-cached that took so long on a machine."""
    specs = [spec.model_dump(mode="json") for spec in workload.load("slob-cached").steps]
    run = run_of([1.0], workload="other", spec=specs[0], host={"host.name": host})
    steps = tuple(
        run.steps[0].model_copy(
            update={"step": one["step"], "name": one["name"], "spec": one, "elapsed": seconds}
        )
        for one in specs
    )
    run = run.model_copy(update={"steps": steps, "status": Status.DONE})
    folder.mkdir(exist_ok=True)
    store.save(folder / f"{run.id}.json", run)
    return run.id


def test_this_machines_earlier_results_tell_the_time(cli, run_of, tmp_path):
    """Another machine's do not, nor those of other settings: then the keys say the least."""
    specs = workload.load("slob-cached").steps
    timed(run_of, tmp_path / "results", host="another", seconds=7.0)
    keys = json.loads(cli("run", "slob-cached", "--dry-run", "--json").stdout)
    assert [part["known"]["source"] for part in keys["parts"]] == [""] * len(specs)
    assert keys["expected"]["whole"] is False

    own = timed(run_of, tmp_path / "results", host=platform.node(), seconds=7.0)
    told = json.loads(cli("run", "slob-cached", "--dry-run", "--json", "--repeat", 3).stdout)
    assert [part["known"] for part in told["parts"]] == [{"seconds": 7.0, "source": own}] * len(
        specs
    )
    assert told["expected"]["seconds"] == 7.0 * sum(1 if spec.once else 3 for spec in specs)

    other = cli("run", "slob-cached", "--dry-run", "--json", "--set", "sessions.run_time=11s")
    assert own not in {part["known"]["source"] for part in json.loads(other.stdout)["parts"]}


def test_a_plan_says_the_same_of_each_boot(cli):
    """The lines of the steps are those of the dry run."""
    alone = cli("run", "smoke", "--dry-run").stdout
    planned = cli("plan", "--kernels", "A,B", "--boots", 12, "smoke").stdout

    # What is free may change meanwhile.
    steps = alone[alone.index("\n\n") :]
    assert steps.strip() in planned


@pytest.mark.parametrize("option", [["--dry-run"], ["--resume", "latest"]])
def test_what_no_boot_can_do_is_not_planned(cli, option):
    """A plan is of whole runs."""
    planned = cli("plan", "--kernels", "A,B", "--boots", 2, "--", "smoke", *option, status=2)

    assert f"{option[0]} cannot be planned" in planned.stderr


def test_what_a_run_would_refuse_is_refused(cli, tmp_path):
    """An unknown workload, a key that is not there, a server that is not there: one sentence."""
    for words in (["nosuch"], ["smoke", "--set", "walk.nosuch=1"]):
        assert cli("run", "--dry-run", *words, status=2).stderr.startswith("replayer: error: ")
    gone = cli(
        "run", "smoke", "--dry-run", "--engine", "postgresql://x@127.0.0.1:1/db", status=2
    ).stderr
    assert "127.0.0.1" in gone
    assert list(tmp_path.iterdir()) == []


def test_too_little_room_is_said(cli):
    """Who would need more than there is reads it before the run does."""
    shown = cli("run", "demo", "--dry-run", "--set", "cached.scale=900T").stdout

    assert "give --data-dir on a larger disk" in shown
