"""Metrics of a run under way: Prometheus and others ask, while the real thing is measured."""

import http.client
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import scraped
from tests.command import Replayer
from tests.told import line_with, matched
from tests.waiting import wait_until

LINK = re.compile(r"metrics: (http://\S+)")
LONG = '[[step]]\nstep = "probe"\nname = "cpu"\nprobe = "cpu"\nduration = "60s"\n'
COUNTERS = ("_bucket", "_count", "_sum", "_total")
STEADY = (
    "replayer_step_measured",
    "replayer_step_elapsed",
    "replayer_step_ledger",
    "replayer_step_riops",
    "replayer_step_latency",
    "replayer_step_cpu",
    "replayer_step_device",
    "replayer_step_cold",
    "replayer_step_resident",
)
"""What a finished step has: with one repeat it never changes again."""
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""What was exported, by name and labels."""
Starting = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder that the server of root's run can reach."""
    folder = Path(tempfile.mkdtemp(prefix="replayer-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start(replayer: Replayer, home: Path) -> Iterator[Starting]:
    """Return a function that starts a replayer with this home, which ends in order."""
    started = []

    def call(*words: object) -> "subprocess.Popen[str]":
        # A pipe that nobody reads would hold up its report.
        quiet = {"stdout": subprocess.DEVNULL}
        one = replayer.start(*words, popen=quiet, REPLAYER_HOME=str(home / "home"))
        started.append(one)
        return one

    yield call
    for one in started:
        if one.poll() is None:
            one.send_signal(signal.SIGINT)
        one.communicate(timeout=120)


def link_of(process: "subprocess.Popen[str]") -> str:
    """Return where a run or a command says that its metrics are."""
    return matched(LINK, line_with(process.stderr, LINK))[1]


def samples(text: str) -> Samples:
    """Return (name, labels) -> value of what was exported."""
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def asked(link: str) -> Samples | None:
    """Return what a link exports now; None when nobody is there any more."""
    try:
        with urllib.request.urlopen(link, timeout=60) as answer:
            return samples(answer.read().decode())
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        return None


@pytest.mark.slow
def test_the_board_has_data_of_a_run_and_the_values_are_the_reports(
    home: Path, replayer: Replayer, start: Starting
) -> None:
    """Each query of the board is answered; no counter falls; what a step has it keeps."""
    results = home / "results"
    first = start("run", "smoke", "--label", "stock", "--results", results, "-q")
    _, err = first.communicate(timeout=600)
    assert first.returncode == 0, err
    longer = (
        "--set",
        "build.rows=3145728",
        "--set",
        "cached.run_time=8s",
        "--set",
        "physical.run_time=8s",
    )
    run = start(
        "run", "smoke", "--label", "uek", "--results", results, *longer, "--metrics", "127.0.0.1:0"
    )
    link = link_of(run)
    stored = start("metrics", "--results", results, "--listen", "127.0.0.1:0")
    polls = []
    with scraped.prometheus(home, link, link_of(stored)) as prometheus:
        while (now := asked(link)) is not None:
            polls.append(now)
            time.sleep(0.2)
        run.communicate(timeout=600)
        without = [one for one in scraped.queries() if not prometheus.series(one[1])]
    final = samples(replayer("metrics", "uek", "--results", results).out)

    assert run.returncode == 0
    assert not without
    assert len(polls) > 5
    seen: Samples = {}
    for poll in polls:
        for key, value in poll.items():
            if key[0].startswith(STEADY):
                assert final[key] == value, key
            if key[0].endswith(COUNTERS):
                assert value >= seen.get(key, 0), key
                seen[key] = value
        assert {key for key in seen if key[0].startswith(STEADY)} <= set(poll)
    told = {name for poll in polls for name, _ in poll}
    assert {"replayer_current_riops", "replayer_current_cpu_ratio", "replayer_step_running"} <= told
    steps = {dict(pairs)["step"] for name, pairs in seen if name.startswith("replayer_step_")}
    assert steps


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_they_end_with_the_run(home: Path, start: Starting, ending: signal.Signals) -> None:
    """Whatever ends the run, nobody answers afterwards, and nothing is left of the process."""
    (home / "long.toml").write_text(LONG)
    words = ("--results", home / "results", "--metrics", "127.0.0.1:0")
    run = start("run", home / "long.toml", *words)
    link = link_of(run)
    wait_until(lambda: any(name == "replayer_step_running" for name, _ in asked(link) or {}))
    run.send_signal(ending)
    run.communicate(timeout=120)

    wait_until(lambda: asked(link) is None)
