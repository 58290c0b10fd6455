"""Debian's Prometheus beside a test, and the board; `from tests.scraped import prometheus`."""

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.told import matched

FOLDER = Path(__file__).parents[1] / "replayer" / "metrics" / "dashboard"
BOARD = FOLDER / "grafana" / "dashboards" / "replayer.json"
_LONG = 300.0
_TARGET = re.compile(r"^http://([^/]+)/metrics$")
_VARIABLE = re.compile(r"^label_values\((\w+).*, (\w+)\)$")


def program(name: str) -> str:
    """Return the path of one of Prometheus' programs; skip without it."""
    return shutil.which(name) or pytest.skip(f"no {name} here: `make packages` installs it")


def queries() -> list[tuple[str, str]]:
    """Return (panel, query) of everything that the board asks Prometheus for, of all runs."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    asked = [
        (panel["title"], target["expr"])
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]
    return [(title, re.sub(r"\$(kernel|run)\b", ".*", query)) for title, query in asked]


def variables() -> list[tuple[str, str]]:
    """Return (metric, label) of what the board lets one choose among."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    asked = [one["query"]["query"] for one in board["templating"]["list"]]
    found = [matched(_VARIABLE, query) for query in asked]
    return [(one[1], one[2]) for one in found]


class Prometheus:
    """A Prometheus that scrapes a few times a second."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._began = time.time() - 1

    def ask(self, path: str, **parameters: object) -> Any:
        """Return what its API answers."""
        url = f"{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def series(self, query: str) -> Any:
        """Return the series that a query has had since the beginning."""
        span = {"start": self._began, "end": time.time() + 1, "step": "1"}
        return self.ask("query_range", query=query, **span)["result"]

    def until(self, query: str) -> Any:
        """Wait until a query has an answer, and return it."""
        end = time.monotonic() + _LONG
        while not (rows := self.ask("query", query=query)["result"]):
            assert time.monotonic() < end, f"{query} has no answer"
            time.sleep(0.1)
        return rows


@contextlib.contextmanager
def prometheus(folder: Path, *links: str) -> Iterator[Prometheus]:
    """Give a Prometheus with its data in a folder, which scrapes what these links lead to."""
    targets = [matched(_TARGET, link)[1] for link in links]
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [{"job_name": "replayer", "static_configs": [{"targets": targets}]}],
    }
    # All JSON is YAML.
    (folder / "prometheus.yml").write_text(json.dumps(config))
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        address = _address(process, folder / "prometheus.log")
        _ready(address)
        yield Prometheus(address)
    finally:
        process.kill()
        process.wait()


def _ready(address: str) -> None:
    """Wait until it answers: it listens before it does."""
    end = time.monotonic() + _LONG
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{address}/-/ready", timeout=30).close()
        except urllib.error.HTTPError as error:
            error.close()
            time.sleep(0.05)
        else:
            return
    pytest.fail("Prometheus does not become ready")


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    end = time.monotonic() + _LONG
    while True:
        told = re.search(r'"?Listening on"? address=(\S+)', log.read_text())
        if told:
            return f"http://{told[1]}"
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
