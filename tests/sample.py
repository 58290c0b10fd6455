"""The pages in docs/sample, from real runs: `make sample`, or `python -m tests.sample FOLDER`.

FOLDER has the results of earlier calls.  What says where the pages were made is left out of them:
the host's name, the kernel's command line and local version, paths, and what other programs did.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from replayer.analysis.advice import warnings
from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.samples import Side
from replayer.model import Run, StackProfile, StepResult
from replayer.report.pages import run_page
from replayer.results import store
from tests.command import COMMAND

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "docs" / "sample"
LEVELS = ("minimal", "replica")
ROUNDS = 6
METRICS = ("build.*", "flush.*", "*.riops")
"""What another level of the log might cost: fewer metrics are told apart by fewer runs."""
PRIVATE = ("kernel.cmdline", "kernel.version")


def replayer(results: Path, *words: str) -> None:
    """Run the sample's workload."""
    command = [*COMMAND, "run", str(HERE / "sample.toml"), "-q", "--results", str(results), *words]
    subprocess.run(command, check=True, cwd=ROOT)


def measure(results: Path) -> None:
    """Make the runs of the comparison in turns, and the one of three repeats."""
    for _ in range(ROUNDS):
        for level in LEVELS:
            replayer(results, "--label", level, "--pg-set", f"wal_level={level}")
    replayer(results, "--label", "sample", "--repeat", "3")


def neutral(run: Run) -> Run:
    """Return a run that does not tell where it was made."""
    text = run.model_dump_json().replace(str(ROOT), "/opt/replayer")
    run = type(run).model_validate_json(text)
    host = {key: value for key, value in run.host.items() if key not in PRIVATE}
    host["host.name"] = "db1"
    host["kernel.release"] = str(host["kernel.release"]).partition("-")[0]
    run = run.model_copy(update={"host": host, "steps": tuple(map(alone, run.steps))})
    return run.model_copy(update={"advice": warnings.on(run)})


def alone(step: StepResult) -> StepResult:
    """Return a step in whose profile what other programs did is one frame."""
    if step.profile is None:
        return step
    stacks: dict[str, int] = {}
    for stack, count in step.profile.stacks().items():
        kind, mode, *_ = stack.split(";")
        name = f"others;{mode};others;[other programs]" if kind == "others" else stack
        stacks[name] = stacks.get(name, 0) + count
    profile = step.profile.model_copy(update={"payload": StackProfile.packed(stacks)})
    return step.model_copy(update={"profile": profile})


def write(results: Path) -> None:
    """Write both pages of the runs in a folder."""
    runs = [neutral(store.load(path)) for path in sorted(results.glob("*.json"))]
    sides = {
        label: Side(label, tuple(run for run in runs if run.label == label))
        for label in (*LEVELS, "sample")
    }
    two = [sides[level] for level in LEVELS]
    allowed = ["engine.settings.wal_level", "workload.settings.wal_level"]
    pages = {
        "run.html": run_page.page([sides["sample"]], None),
        "comparison.html": run_page.page(two, compare(*two, allowed=allowed, metrics=METRICS)),
    }
    for name, text in pages.items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"{HERE / name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="replayer-sample-") as folder:
            measure(Path(folder))
            write(Path(folder))
