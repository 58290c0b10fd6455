"""The pages and pictures in docs/sample, from real runs: `make sample`.

    python -m tests.sample [pages] [live] [size] [--results FOLDER]

Without a name all three parts are made: the pages of a run and of a comparison with their pictures,
the picture of the live page, and that of the verdict of `size`.  FOLDER has the results of an
earlier call: then nothing is measured for the pages and for the verdict.  What says where they were
made is left out: the host's name, the kernel's command line and local version, paths, and what
other programs did.

The comparison is of the same work with and without a CPU quota of 0.6 processors, in alternating
runs: a difference that is there, with a cause that is known.  It wants root and cgroups of version
1, for the quota; the pictures want chromium.
"""

import argparse
import contextlib
import os
import secrets
import socket
import subprocess
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
from replayer.report.documents import sizing
from replayer.report.writers import page_writer
from replayer.results import store
from replayer.sizing.record import Sizing
from replayer.sizing.verdict import judge
from tests.command import COMMAND
from tests.made import page_of

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
WIDTH, SHARP = 1040, 1.5
"""Pixels of the window, and how many pixels of a picture each has: sharp in README's width."""
MOST_BYTES = 300_000
SIZE = (
    *("--growth", "1.5", "--headroom", "30%", "--slo", "p99=100ms"),
    *("--trial", "5s", "--hold", "30s", "--wait", "5min"),
)
"""What the sample profile is sized for."""
MEASURED = ("5 of 6 steps", "sessions\n")
"""What the live page has while the sessions of the last step run."""
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
        "run.html": page_of([sides["sample"]], None),
        "comparison.html": page_of(two, compare(*two, metrics=METRICS)),
    }
    for name, text in pages.items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"{HERE / name}: {len(text.encode()):,} bytes")


@contextlib.contextmanager
def browser(height: int) -> Iterator[webdriver.Chrome]:
    """Yield a browser that nobody sees, with a window of this height."""
    options = Options()
    for word in (
        *("--headless=new", "--no-sandbox", "--hide-scrollbars"),
        *(f"--window-size={WIDTH},{height}", f"--force-device-scale-factor={SHARP}"),
    ):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


def save_picture(driver: webdriver.Chrome, name: str) -> None:
    """Save what a browser shows; README is to load quickly, so a large picture is refused."""
    path = HERE / f"{name}.png"
    driver.save_screenshot(str(path))
    print(f"{path}: {path.stat().st_size:,} bytes")
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has more than {MOST_BYTES:,} bytes: show less of the page")


def show_page(driver: webdriver.Chrome, page: Path, name: str) -> None:
    """Save the first screen of a page, once its charts are drawn."""
    driver.get(page.as_uri())
    time.sleep(3)
    save_picture(driver, name)


def make_pages(driver: webdriver.Chrome, results: Path) -> None:
    """Make the pages of a run and of a comparison, and their pictures."""
    if not any(results.glob("*.json")):
        measure(results)
    write(results)
    for name in ("run", "comparison"):
        show_page(driver, HERE / f"{name}.html", name)


def make_live(driver: webdriver.Chrome, results: Path) -> None:
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
        # The last step is that of the physical sessions, which run after all else is prepared.
        while run.poll() is None and not all(word in text_of(driver) for word in MEASURED):
            time.sleep(0.2)
        time.sleep(2)
        save_picture(driver, "live")


def text_of(driver: webdriver.Chrome) -> str:
    """Return the text of a page."""
    return str(driver.execute_script("return document.body.innerText") or "")


def make_size(driver: webdriver.Chrome, results: Path) -> None:
    """Size this machine by the profile in this folder, and save the first screen of the verdict."""
    if not any(results.glob("*-size-*.json")):
        words = ("size", str(HERE / "shop.profile"), *SIZE, "--results", str(results))
        # 3 is a machine on which it does not fit, which is a verdict as well.
        if subprocess.run([*COMMAND, *words], cwd=ROOT, check=False).returncode not in {0, 3}:
            raise SystemExit("there is no verdict of size to show")
    run = neutral(store.load(max(results.glob("*-size-*.json"))))
    record = Sizing.of(run)
    text = page_writer.page(sizing.document(sizing.SizingSummary(record, run, judge(record, run))))
    with tempfile.TemporaryDirectory(prefix="replayer-sample-") as folder:
        page = Path(folder) / "size.html"
        page.write_text(text, encoding="utf-8")
        show_page(driver, page, "size")


HEIGHTS = {"pages": 760, "live": 1250, "size": 900}
PARTS = {"pages": make_pages, "live": make_live, "size": make_size}


def main() -> None:
    """Make the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.sample")
    # No name is an empty list to argparse, which looks for it in the choices.
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--results", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    for part in asked.parts or PARTS:
        with (
            browser(HEIGHTS[part]) as driver,
            tempfile.TemporaryDirectory(prefix="replayer-sample-") as work,
        ):
            PARTS[part](driver, asked.results or Path(work))


if __name__ == "__main__":
    main()
