"""`run --dry-run` and `plan` as a user types them: all is said, and nothing is done."""

import dataclasses
import json
import platform
from pathlib import Path

import pytest

from replayer.model import Status
from replayer.results import store
from replayer.run.plan import workload
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions.spec import Spec
from tests.captured import Capture
from tests.command import Replayer
from tests.fixture_types import RunOf
from tests.made import altered
from tests.sizing_runs import of_cpu


@pytest.fixture
def replayer(replayer: Replayer, tmp_path: Path) -> Replayer:
    """Return replayer's command line where it has no folder of its own yet."""
    home = {"REPLAYER_HOME": str(tmp_path / "home")}
    return dataclasses.replace(replayer, environment={**replayer.environment, **home})


def test_nothing_is_started_or_written(replayer: Replayer, tmp_path: Path) -> None:
    """Neither replayer's own folder nor the results' is there afterwards; each step was named."""
    shown = replayer("run", "smoke", "--dry-run").out

    assert list(tmp_path.iterdir()) == []
    for spec in workload.load("smoke").steps:
        assert f"\n  {spec.name}\n" in shown
    # A long path is folded.
    assert str(tmp_path / "home" / "data") in "".join(shown.split())


def test_bytes_are_what_the_steps_say(replayer: Replayer) -> None:
    """The same tables take their room once, as in the check of the space before a run."""
    foreseen = json.loads(replayer("run", "demo", "--dry-run", "--json").out)
    parts = {part["name"]: part for part in foreseen["parts"]}
    specs = {spec.name: spec for spec in workload.load("demo").steps}
    spec = specs["cached"]
    assert isinstance(spec, Spec)
    cached = sessions.footprint(spec, 8192).disk_bytes

    assert parts["cached"]["disk_bytes"] == parts["physical"]["disk_bytes"] == cached
    assert foreseen["disk_bytes"] == parts["build"]["disk_bytes"] + cached
    assert foreseen["disk"]["free_bytes"] > 0


def test_a_dry_run_of_a_sizing_makes_no_folder(replayer: Replayer, tmp_path: Path) -> None:
    """It asks for the free space where the data would be, without replayer's own folder."""
    made = of_cpu(tmp_path / "x.profile", rate=5, cores=0.001)
    replayer("size", made, "--dry-run")

    assert list(tmp_path.iterdir()) == [made]


def timed(run_of: RunOf, folder: Path, *, host: str, seconds: float) -> str:
    """Store a run of the sessions of slob-cached that took so long on a machine."""
    specs = [spec.model_dump(mode="json") for spec in workload.load("slob-cached").steps]
    run = run_of([1.0], workload="other", spec=specs[0], host={"host.name": host})
    steps = tuple(
        altered(run.steps[0], step=one["step"], name=one["name"], spec=one, elapsed=seconds)
        for one in specs
    )
    run = altered(run, steps=steps, status=Status.DONE)
    folder.mkdir(exist_ok=True)
    store.save(folder / f"{run.id}.json", run)
    return run.id


def test_this_machines_earlier_results_tell_the_time(
    replayer: Replayer, run_of: RunOf, tmp_path: Path
) -> None:
    """Another machine's do not, nor those of other settings: then the keys say the least."""
    specs = workload.load("slob-cached").steps
    timed(run_of, tmp_path / "results", host="another", seconds=7.0)
    keys = json.loads(replayer("run", "slob-cached", "--dry-run", "--json").out)
    assert [part["known"]["source"] for part in keys["parts"]] == [""] * len(specs)
    assert keys["expected"]["whole"] is False

    own = timed(run_of, tmp_path / "results", host=platform.node(), seconds=7.0)
    told = json.loads(replayer("run", "slob-cached", "--dry-run", "--json", "--repeat", 3).out)
    assert [part["known"] for part in told["parts"]] == [{"seconds": 7.0, "source": own}] * len(
        specs
    )
    assert told["expected"]["seconds"] == 7.0 * sum(1 if spec.once else 3 for spec in specs)

    other = replayer("run", "slob-cached", "--dry-run", "--json", "--set", "sessions.run_time=11s")
    assert own not in {part["known"]["source"] for part in json.loads(other.out)["parts"]}


def test_a_plan_says_the_same_of_each_boot(replayer: Replayer) -> None:
    """The lines of the steps are those of the dry run."""
    alone = replayer("run", "smoke", "--dry-run").out
    planned = replayer("plan", "--kernels", "A,B", "--boots", 12, "smoke").out

    # What is free may change meanwhile.
    steps = alone[alone.index("\n\n") :]
    assert steps.strip() in planned


@pytest.mark.parametrize("option", [["--dry-run"], ["--resume", "latest"]])
def test_what_no_boot_can_do_is_not_planned(replayer: Replayer, option: list[str]) -> None:
    """A plan is of whole runs."""
    planned = replayer("plan", "--kernels", "A,B", "--boots", 2, "--", "smoke", *option, status=2)

    assert f"{option[0]} cannot be planned" in planned.err


def test_what_a_run_would_refuse_is_refused(replayer: Replayer, tmp_path: Path) -> None:
    """An unknown workload, a key that is not there, a server that is not there: one sentence."""
    for words in (["nosuch"], ["smoke", "--set", "walk.nosuch=1"]):
        assert replayer("run", "--dry-run", *words, status=2).err.startswith("replayer: error: ")
    gone = replayer(
        "run", "smoke", "--dry-run", "--engine", "postgresql://x@127.0.0.1:1/db", status=2
    ).err
    assert "127.0.0.1" in gone
    empty = replayer("run", "smoke", "--dry-run", "--pg-bindir", "/nowhere", status=2).err
    assert "there is no postgres in /nowhere" in empty
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("tables=order", "does not have 'order' - did you mean orders?"),
        ("users=anne", "does not have 'anne' - did you mean ann?"),
        ("restore=/nosuch/dump", "/nosuch/dump': there is no such file or folder"),
        ("source=postgresql://x:secret@h/d", "PGPASSWORD"),
    ],
)
def test_what_a_capture_does_not_hold_is_refused(
    replayer: Replayer, tmp_path: Path, keys: str, words: str
) -> None:
    """Filters of a replay are looked up before anything is started."""
    made = Capture().session(0, user="ann").runs(0, 1.0, "INSERT INTO orders VALUES (1)")
    file = made.write(tmp_path / "shop.replay")
    ended = replayer("run", file, "--dry-run", "--set", f"replay.{keys}", status=2)
    assert words in ended.err
    assert len(ended.err.splitlines()) <= 2
    assert "secret" not in ended.err
    assert list(tmp_path.iterdir()) == [file]
    replayer("run", file, "--dry-run", "--set", "replay.users=ann")


def test_too_little_room_is_said(replayer: Replayer) -> None:
    """Who would need more than there is reads it before the run does."""
    shown = replayer("run", "demo", "--dry-run", "--set", "cached.scale=900T").out

    assert "give --data-dir on a larger disk" in shown
