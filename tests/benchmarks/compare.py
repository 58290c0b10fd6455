"""Comparing and reporting many runs: seconds of the command as a user waits for them."""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hdrh.histogram import HdrHistogram
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver as Chrome

from replayer.analysis.differences.samples import Side
from replayer.model import (
    Better,
    Latency,
    Ledger,
    Measurement,
    ReadOrigin,
    Run,
    Series,
    Status,
    StepResult,
    WorkloadFacts,
)
from replayer.results import store
from tests.benchmarks import Row
from tests.made import page_of

NAME = "compare"
SAMPLES = 3
RUNS = 100
REPEATS = 5
SECONDS = 60
METRICS = ("riops", "latency.p50", "latency.p95", "latency.p99", "latency.p999", "client_cpu")
COLUMNS = (
    "sessions.riops",
    "diskstats.r/s",
    "diskstats.w/s",
    "cpu.%usr",
    "cpu.%sys",
    "cpu.%iowait",
)


def run(workdir: Path) -> list[Row]:
    """Measure compare of 2 x 100 runs, a page of 100, and how fast a large page opens."""
    folder = workdir / "results"
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(RUNS):
        for label, level in (("stock", 20_000), ("uek", 20_500)):
            made = _run(random, label, number, level)
            store.save(folder / f"{made.id}.json", made)
    command = [sys.executable, "-m", "replayer"]
    compared = _times([*command, "compare", "stock", "uek", "--results", str(folder)])
    page = workdir / "report.html"
    reported = _times([*command, "report", "stock", "--html", str(page), "--results", str(folder)])
    return [
        _row(f"compare of 2 x {RUNS} runs", compared, 3.0),
        _row(f"report --html of {RUNS} runs", reported, 5.0),
        _opened(workdir),
    ]


def _row(what: str, samples: list[float], limit: float) -> Row:
    return {
        "what": what,
        "against": f"{limit:g} s",
        "bar": "<= 1.0",
        "ratio": statistics.median(samples) / limit,
        "samples": samples,
    }


def _times(command: list[str]) -> list[float]:
    samples = []
    for _ in range(SAMPLES):
        begin = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        samples.append(time.monotonic() - begin)
    return samples


def _run(random: np.random.Generator, label: str, number: int, level: float) -> Run:
    """Return a run of two steps of 5 repeats, 60 s each, with 78 columns of series."""
    columns = [*COLUMNS, *(f"vmstat.column{i}" for i in range(72))]
    steps = []
    for repeat in range(1, REPEATS + 1):
        for name in ("cached", "physical"):
            steps.append(
                _step(
                    name,
                    repeat,
                    tuple(
                        Measurement(
                            metric=f"sessions.{metric}",
                            value=random.normal(level, 200),
                            unit="1/s",
                            better=Better.MORE,
                        )
                        for metric in METRICS
                    ),
                    _series(random, columns, SECONDS, level),
                    _latency(random),
                )
            )
    return _of(f"20261120-{number:06d}-{label}", label, f"{label}-{number}", steps)


def _latency(random: np.random.Generator) -> Latency:
    histogram = HdrHistogram(1, 10**11, 3)
    for value in random.lognormal(13, 0.5, 1000):
        histogram.record_value(int(value))
    return Latency(payload=histogram.encode().decode(), operations=1000)


def _series(
    random: np.random.Generator, columns: Sequence[str], seconds: int, level: float
) -> Series:
    return Series(
        started="",
        seconds=tuple(float(i + 1) for i in range(seconds)),
        columns={
            name: tuple(random.normal(level, 100, seconds).round(1).tolist()) for name in columns
        },
    )


def _step(
    name: str,
    repeat: int,
    measurements: tuple[Measurement, ...],
    series: Series,
    latency: Latency | None,
) -> StepResult:
    ledger = Ledger(
        asked=None,
        verdict=ReadOrigin.PHYSICAL,
        window_seconds=60,
        riops=1.0,
        buffer_hits=1.0,
        page_cache_hits=0.0,
        device_reads=1.0,
        device_read_bytes=8192.0,
        ratio=1.0,
        device="vda",
    )
    return StepResult(
        step="sessions",
        name=name,
        repeat=repeat,
        status=Status.DONE,
        started="",
        elapsed=60.0,
        spec={"step": "sessions", "name": name},
        measurements=measurements,
        series=series,
        latency={"select": latency} if latency else {},
        ledger=ledger,
    )


def _of(identity: str, label: str, boot: str, steps: list[StepResult]) -> Run:
    return Run(
        format=store.FORMAT,
        id=identity,
        version="0",
        label=label,
        started="2026-11-20T10:00:00+00:00",
        finished="2026-11-20T11:00:00+00:00",
        status=Status.DONE,
        host={"boot.id": boot, "kernel.release": label},
        engine=None,
        workload=WorkloadFacts(
            name="demo",
            source="",
            digest="",
            repeat=REPEATS,
            settings={},
            steps=({"step": "sessions", "name": "sessions"},),
        ),
        steps=tuple(steps),
    )


def _opened(workdir: Path) -> Row:
    """Return the row of a page with 1,000 repeats of 600 s, until all its charts are drawn."""
    what = "page of 1,000 repeats of 600 s: opened in Chromium"
    row: Row = {"what": what, "against": "3 s", "bar": "<= 1.0", "ratio": None, "samples": []}
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        return {**row, "skipped": "chromium and chromium-driver are missing"}
    random = np.random.default_rng(2)
    steps = []
    for repeat in range(1, 1001):
        riops = Measurement(
            metric="sessions.riops", value=random.normal(1000, 10), unit="1/s", better=Better.MORE
        )
        steps.append(_step("sessions", repeat, (riops,), _series(random, COLUMNS, 600, 1000), None))
    page = workdir / "large.html"
    page.write_text(page_of([Side("all", (_of("large", "all", "b", steps),))], None))
    samples = [_open(chromium, driver, page) for _ in range(SAMPLES)]
    return {
        **row,
        "ratio": statistics.median(samples) / 3,
        "samples": samples,
        "bytes": page.stat().st_size,
    }


def _open(chromium: str, driver: str, page: Path) -> float:
    options = Options()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory(prefix="replayer-chromium-") as profile:
        for flag in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
            "--disable-component-update",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(flag)
        browser = Chrome(options=options, service=Service(driver))
        try:
            begin = time.monotonic()
            browser.get(f"file://{page}")
            while browser.execute_script("return document.documentElement.dataset.ready") != "yes":
                time.sleep(0.02)
            return time.monotonic() - begin
        finally:
            browser.quit()
