"""Replays on the real server, compared and sized by: what differs there, and nothing else."""

import json
import os
from pathlib import Path

import pytest

from tests.captured import Capture
from tests.command import Replayer
from tests.made import drawn_in
from tests.sizing_runs import of_cpu

pytestmark = pytest.mark.slow

DUMP = """
CREATE TABLE item (id int PRIMARY KEY, name text);
INSERT INTO item SELECT n, 'name ' || n FROM generate_series(1, {rows}) AS n;
CREATE FUNCTION work() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM pg_sleep({seconds})';
CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM pg_sleep(0.002)';
"""
SECRET = "hunter2-hunter2"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of two sessions with four kinds of statements."""
    made = Capture()
    for number in (1, 2):
        made.session(number)
        for at in range(40):
            made.runs(number, at / 100, "SELECT work()")
            made.runs(number, at / 100 + 0.002, "SELECT other()")
            made.runs(
                number, at / 100 + 0.004, f"SELECT count(*) FROM item WHERE name < '{SECRET}'"
            )
            made.runs(number, at / 100 + 0.006, f"SELECT name FROM item WHERE id > {4000 + at}")
    return made.write(tmp_path / "a.replay")


def test_two_places_differ_where_they_do(
    capture: Path, made_home: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """One function slower, and some rows fewer: these fingerprints alone, and no value is shown."""
    # Longer than a statement waits for a processor that other programs use.
    for label, rows, seconds in (("old", 4700, 0.002), ("new", 4690, 0.05)):
        dump = tmp_path / "shop.sql"
        dump.write_text(DUMP.format(rows=rows, seconds=seconds))
        keys = {"speed": "0", "restore": dump, "verify": "rows"}
        replayer(
            *("run", capture, "--repeat", 5, "--label", label, "--results", tmp_path / "r"),
            *(word for key, value in keys.items() for word in ("--set", f"replay.{key}={value}")),
        )

    words = ["compare", "old", "new", "--results", tmp_path / "r"]
    told = json.loads(replayer(*words, "--json").out)
    shown = replayer(*words, "--html", tmp_path / "page.html").out

    (compared,) = told["replays"]
    by_text = {one["text"]: one for one in compared["fingerprints"]}
    moved = {
        text
        for text, one in by_text.items()
        if one["time"]["verdict"] == "differs in these runs" and one["time"]["ratio"] > 1.5
    }
    assert [text for text in moved if "WORK" in text], by_text
    assert not [text for text in moved if "OTHER" in text]
    assert compared["time"]["ratio"] > 1.5
    diverging = {text for text, one in by_text.items() if one["diverging"]}
    assert diverging == {"SELECT name FROM item WHERE id > ?"}
    assert "answered otherwise" in shown
    page = (tmp_path / "page.html").read_text()
    assert "Replay" in page
    assert "answers by time" in page
    assert SECRET not in shown + page + drawn_in(page) + json.dumps(told)


@pytest.mark.quiet
def test_a_capture_sizes_the_machine(made_home: Path, replayer: Replayer, tmp_path: Path) -> None:
    """A session busy for 40 % of its time is kept up with at 2.5 times its speed, and not at 5."""
    made = Capture().session(1)
    for at in range(600):
        made.runs(1, at * 0.05, "SELECT pg_sleep(0.02)", lasts=0.02)
    path = made.write(tmp_path / "a.replay")
    words = ["size", path, "--window", "12s", "--hold", "0", "--results", tmp_path / "r"]
    words += ["--slo", "none"]

    verdict = json.loads(replayer(*words, "--json").out)
    shown = replayer("size", "show", "latest", "--results", tmp_path / "r").out
    too_fast = json.loads(replayer(*words, "--growth", "5", "--json", status=3).out)

    assert verdict["fit"] == "fits"
    assert 1.7 < verdict["multiple"] < 2.6
    assert "kept up" not in verdict["reasons"][0]
    assert "the trials" in shown
    assert too_fast["fit"] == "does not fit"
    assert 0.3 < too_fast["multiple"] < 0.55


def test_a_profile_and_a_capture_stand_beside_each_other(
    made_home: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """Both size the machine, one after the other; each resource has what both say of it."""
    made = Capture().session(1)
    for at in range(200):
        made.runs(1, at * 0.02, "SELECT count(*) FROM generate_series(1, 1000)", lasts=0.001)
    path = made.write(tmp_path / "a.replay")
    profile = of_cpu(tmp_path / "x.profile", rate=5, cores=0.001)
    words = ["size", profile, path, "--trial", "3s", "--hold", "0", "--results", tmp_path / "r"]
    words += ["--slo", "p99=2s"]

    verdicts = json.loads(replayer(*words, "--markdown", tmp_path / "x.md", "--json").out)
    page = tmp_path / "page.html"
    shown = replayer(
        *("size", "show", "latest", "--beside", min((tmp_path / "r").glob("*.json"))),
        *("--html", page, "--results", tmp_path / "r"),
    ).out

    assert list(verdicts) == ["x.profile", "a.replay"]
    assert verdicts["a.replay"]["fit"] == "fits"
    rows = {row["resource"]: row for row in verdicts["a.replay"]["rows"]}
    assert 0 < rows["CPU of the machine"]["busy"] < 1
    assert rows["CPU of the machine"]["here"] <= os.cpu_count()
    for text in (shown, page.read_text(), (tmp_path / "x.md").read_text()):
        assert "ext to each other" in text
        assert "CPU of the machine" in text
    assert "Response time by speed" in page.read_text()
