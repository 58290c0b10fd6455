"""The pages and pictures in docs/sample, from real runs: `make sample`.

    python -m tests.sample [FOLDER]

FOLDER has the results of an earlier call: then only the pages are made again, and their pictures.
What says where the pages were made is left out of them: the host's name, the kernel's command line
and local version, paths, and what other programs did.

The comparison is of the same work with and without a CPU quota of 0.6 processors, in alternating
runs: a difference that is there, with a cause that is known.  It wants root and cgroups of version
1, for the quota; the pictures want chromium.
"""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from replayer.analysis.advice import warnings
from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.samples import Side
from replayer.journal import home
from replayer.model import Run, StackProfile, StepResult
from replayer.report.pages import run_page
from replayer.results import store
from tests.command import COMMAND

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "docs" / "sample"
GROUP = Path("/sys/fs/cgroup/cpu") / f"replayer-sample-{os.getpid()}"
PERIOD = 100_000
VARIANTS = {"full": None, "quota": 0.6}
"""Label -> quota of processors."""
ROUNDS = 6
SHORT = ("--set", "build.rows=196608", "--set", "cached.run_time=5s")
METRICS = ("cached.*",)
"""What the quota limits: fewer metrics are told apart by fewer runs."""
WIDTH, HEIGHT = 1400, 1000
TOKEN = secrets.token_urlsafe(16)
"""What opens the live page."""
PRIVATE = ("kernel.cmdline", "kernel.version")


@contextlib.contextmanager
def quota(cores: float | None) -> Iterator[str]:
    """Yield the start of a shell's script whose program and children have a CPU quota."""
    if cores is None:
        yield 'exec "$@"'
        return
    GROUP.mkdir()
    try:
        (GROUP / "cpu.cfs_period_us").write_text(str(PERIOD))
        (GROUP / "cpu.cfs_quota_us").write_text(str(round(cores * PERIOD)))
        yield f'echo $$ > {GROUP}/cgroup.procs; exec "$@"'
    finally:
        deadline = time.monotonic() + 30
        while GROUP.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                GROUP.rmdir()
            time.sleep(0.1)


def replayer(results: Path, *words: str, cores: float | None = None) -> None:
    """Run the sample's workload, within a quota of processors if one is given."""
    command = [*COMMAND, "run", str(HERE / "sample.toml"), "-q", "--results", str(results), *words]
    with quota(cores) as script:
        subprocess.run(["sh", "-c", script, "sh", *command], check=True, cwd=ROOT)


def measure(results: Path) -> None:
    """Make the runs of the comparison in turns, and the one of three repeats."""
    for number in range(ROUNDS):
        # A B B A: a machine that becomes faster or slower favours neither.
        for label in sorted(VARIANTS, reverse=bool(number % 2)):
            replayer(results, "--label", label, *SHORT, cores=VARIANTS[label])
    replayer(results, "--label", "sample", "--repeat", "3")


def neutral(run: Run) -> Run:
    """Return a run that does not tell where it was made."""
    text = run.model_dump_json().replace(str(ROOT), "/opt/replayer")
    text = text.replace(str(home()), "/var/lib/replayer")
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
        for label in (*VARIANTS, "sample")
    }
    two = [sides[label] for label in VARIANTS]
    pages = {
        "run.html": run_page.page([sides["sample"]], None),
        "comparison.html": run_page.page(two, compare(*two, metrics=METRICS)),
    }
    for name, text in pages.items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"{HERE / name}: {len(text.encode()):,} bytes")


@contextlib.contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Yield a browser that nobody sees."""
    options = Options()
    for word in ("--headless=new", "--no-sandbox", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


def picture(driver: webdriver.Chrome, address: str, name: str, settle: float) -> None:
    """Save what the first screen of a page shows after some seconds."""
    driver.get(address)
    time.sleep(settle)
    driver.save_screenshot(str(HERE / f"{name}.png"))
    print(f"{HERE / name}.png")


def picture_of_a_live_page(driver: webdriver.Chrome, results: Path) -> None:
    """Save the live page while the physical sessions of a run are under way."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("--live", f"127.0.0.1:{port}", "--live-token", TOKEN, "--live-for", "1s")
    workload = ["run", str(HERE / "sample.toml"), "-q", "--results", str(results), *words]
    with subprocess.Popen([*COMMAND, *workload], cwd=ROOT) as run:
        address = f"http://127.0.0.1:{port}/?token={TOKEN}"
        while run.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        driver.get(address)
        # The page names the step under way; its last one is that of the physical sessions.
        while run.poll() is None and "physical" not in status_of(driver):
            time.sleep(0.5)
        time.sleep(6)
        driver.save_screenshot(str(HERE / "live.png"))


def status_of(driver: webdriver.Chrome) -> str:
    """Return what a live page says of the step under way."""
    script = "return document.getElementById('tasks').innerText"
    return str(driver.execute_script(script) or "")


def main() -> None:
    """Measure, write the pages, take the pictures."""
    with contextlib.ExitStack() as stack:
        if len(sys.argv) > 1:
            folder = Path(sys.argv[1])
        else:
            work = stack.enter_context(tempfile.TemporaryDirectory(prefix="replayer-sample-"))
            folder = Path(work)
            measure(folder)
        write(folder)
        driver = stack.enter_context(browser())
        for name in ("run", "comparison"):
            picture(driver, (HERE / f"{name}.html").as_uri(), name, settle=3)
        live = stack.enter_context(tempfile.TemporaryDirectory(prefix="replayer-sample-"))
        picture_of_a_live_page(driver, Path(live))


if __name__ == "__main__":
    main()
