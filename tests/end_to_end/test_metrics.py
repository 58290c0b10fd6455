"""Metrics of stored runs: over HTTP, as a file, in Debian's Prometheus, and on the board."""

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from replayer.results import store
from replayer.results.store import FORMAT
from tests import scraped
from tests.command import Replayer
from tests.told import line_with, matched

FIXTURE = Path(__file__).parents[1] / "fixtures" / "runs" / f"format-{FORMAT}.json"
LINK = re.compile(r"^metrics: (http://127\.0\.0\.1:\d+/metrics)\n$")
FAMILIES: Callable[[str], Iterator[Metric]] = text_string_to_metric_families
_UNDER_WAY = re.compile("replayer_(current_|step_running)")
"""What only a run under way has."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one run of each of two kernels."""
    folder = tmp_path_factory.mktemp("results")
    run = store.load(FIXTURE)
    for label, kernel in (("stock", "6.12.0-stock"), ("uek", "6.12.0-uek")):
        host = run.host | {"kernel.release": kernel}
        other = run.model_copy(update={"id": f"{run.id}-{label}", "label": label, "host": host})
        store.save(folder / f"{other.id}.json", other)
    return folder


Serving = Callable[..., AbstractContextManager[tuple[str, "subprocess.Popen[str]"]]]


@pytest.fixture
def serving(replayer: Replayer) -> Serving:
    """Return what gives the link that a `replayer metrics --listen` prints, and its process."""

    @contextlib.contextmanager
    def serve(*words: object) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
        process = replayer.start("metrics", *words, "--listen", "127.0.0.1:0")
        yield matched(LINK, line_with(process.stderr, LINK))[1], process
        process.kill()
        process.communicate()

    return serve


def get(link: str, method: str = "GET", **headers: str) -> tuple[str, str]:
    """Return what a link answers."""
    request = urllib.request.Request(link, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def test_they_are_served_to_read_and_nothing_else(serving: Serving, results: Path) -> None:
    """GET answers in both forms of Prometheus; POST and names of the web are refused; ^C ends."""
    accepted = {"Accept": "application/openmetrics-text; version=1.0.0"}
    with serving("stock", "uek", "--results", results) as (link, process):
        plain, _ = get(link)
        text, kind = get(link, **accepted)
        for refused, status in (({"method": "POST"}, 405), ({"Host": "evil.example"}, 403)):
            with pytest.raises(urllib.error.HTTPError) as error:
                get(link, **refused)
            assert error.value.code == status
        process.send_signal(signal.SIGINT)
        process.wait(120)

    assert kind.startswith("application/openmetrics-text")
    families = {family.name for family in FAMILIES(text)}
    assert {"replayer_run", "replayer_step_riops", "replayer_step_latency_seconds"} <= families
    assert 'label="uek"' in plain
    assert process.returncode == 130


def test_a_port_that_is_taken_is_told_in_one_sentence(replayer: Replayer, results: Path) -> None:
    """Neither `metrics` nor `run` begins: who asked is told what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        asked = replayer("metrics", "--results", results, "--listen", address, status=2)
        ran = replayer("run", "smoke", "--results", results, "--metrics", address, status=2)

    assert re.fullmatch(rf"replayer: error: --listen {address}: .*port 0.*\n", asked.err)
    assert ran.err == asked.err.replace("--listen", "--metrics")


def test_runs_that_come_and_change_are_seen(serving: Serving, tmp_path: Path) -> None:
    """Without a RUN the newest of the folder are served, as their files are when one asks."""
    run = store.load(FIXTURE)
    # A service may be started before the first run.
    folder = tmp_path / "new"
    with serving("--results", folder, "--last", "1") as (link, _):
        assert "replayer_run_info" not in get(link)[0]
        folder.mkdir(mode=0o755)
        for label in ("one", "two"):
            store.save(folder / f"{run.id}.json", run.model_copy(update={"label": label}))
            assert f'label="{label}"' in get(link)[0]
        newer = run.model_copy(update={"id": "20991120-154500-x-1", "started": "2099-01-01"})
        store.save(folder / f"{newer.id}.json", newer)
        (tmp_path / "other.json").write_text("{")
        text = get(link)[0]

    assert f'run="{newer.id}"' in text
    assert f'run="{run.id}"' not in text


def test_the_linter_of_prometheus_finds_nothing(replayer: Replayer, results: Path) -> None:
    """Names, units, types and help are as Prometheus' conventions have them."""
    text, _ = replayer("metrics", "--results", results)
    command = [scraped.program("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    assert text.count("replayer_run_info{") == 2
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_file_for_the_textfile_collector(
    replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """It is replaced whole and can be read by others; what cannot be written is one sentence."""
    wanted = tmp_path / "replayer.prom"
    wanted.write_text("before")
    before = wanted.stat().st_ino
    replayer("metrics", "stock", "--results", results, "--out", wanted)
    printed, _ = replayer("metrics", "stock", "--results", results)

    assert wanted.stat().st_ino != before
    assert stat.S_IMODE(wanted.stat().st_mode) & ~os.umask(0o022) & 0o444 == 0o444
    assert wanted.read_text() == printed
    assert list(tmp_path.iterdir()) == [wanted]
    nowhere = tmp_path / "no" / "x.prom"
    _, err = replayer("metrics", "stock", "--results", results, "--out", nowhere, status=2)
    assert re.search(r"the metrics .*x\.prom cannot be written", err)


@pytest.mark.slow
def test_a_file_keeps_its_metrics_if_there_is_no_run(replayer: Replayer, tmp_path: Path) -> None:
    """A mistyped folder, or one without a run, does not empty the file for node_exporter."""
    out, empty, file = tmp_path / "replayer.prom", tmp_path / "empty", tmp_path / "file"
    out.write_text("kept\n")
    empty.mkdir()
    file.write_text("")
    for folder, sentence in (
        (tmp_path / "nope", f"the folder of results {tmp_path / 'nope'} is not there"),
        (empty, f"there are no runs in {empty}/"),
        (file, f"the results in {file} cannot be read: Not a directory"),
    ):
        ended = replayer("metrics", "--results", folder, "--out", out, status=2)
        assert ended.err.startswith(f"replayer: error: {sentence}")
        assert out.read_text() == "kept\n"
        assert replayer("list", "runs", "--results", folder, status=None).status == (
            0 if folder == empty else 2
        )


def test_every_query_of_the_board_that_needs_no_run_under_way_has_data(
    serving: Serving, results: Path, tmp_path: Path
) -> None:
    """Of runs that are over, for both kernels; also where two who are asked know one run apart."""
    run = next(store.load(path) for path in sorted(results.iterdir()))
    (tmp_path / "begun").mkdir()
    store.save(tmp_path / "begun" / "run.json", run.model_copy(update={"host": {}}))
    with (
        serving("--results", results) as (link, _),
        serving("--results", tmp_path / "begun") as (other, _),
        scraped.prometheus(tmp_path, link, other) as prometheus,
    ):
        prometheus.until("count(replayer_run_info) == 3")
        asked = [one for one in scraped.queries() if not _UNDER_WAY.search(one[1])]
        without = [title for title, query in asked if not prometheus.until(query)]
        kernels = prometheus.ask("label/kernel/values")
        values = [
            prometheus.ask(f"label/{label}/values", **{"match[]": metric})
            for metric, label in scraped.variables()
        ]

    assert len(asked) > 10
    assert not without
    assert kernels == ["6.12.0-stock", "6.12.0-uek"]
    assert all(values)


def test_the_files_of_prometheus_and_grafana_are_as_they_take_them() -> None:
    """Prometheus' own check takes its configuration; compose mounts what is there."""
    checked = subprocess.run(
        [scraped.program("promtool"), "check", "config", scraped.FOLDER / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    compose = (Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8")
    mounted = re.findall(r"\./(replayer/metrics/dashboard/\S+?):", compose)
    assert all((Path(__file__).parents[2] / path).exists() for path in mounted)
    assert len(mounted) == 2
