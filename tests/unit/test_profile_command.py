"""replayer profile: a file becomes a profile, a profile a report; else there is one sentence."""

import json
import re
from pathlib import Path

import pytest

from replayer.__main__ import main

FILES = Path(__file__).parents[1] / "fixtures" / "profiles"


@pytest.fixture
def made(tmp_path, capsys):
    """Return where the profile of an AWR export is."""
    path = tmp_path / "awr.profile"
    assert main(["profile", "--from", str(FILES / "csv" / "awr.csv"), "--out", str(path)]) == 0
    capsys.readouterr()
    return path


def refused(words, capsys):
    """Return the one sentence with which a command ends."""
    assert main(["profile", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("file", ["iostat/json.json", "sadf/several.json", "csv/cloudwatch.csv"])
def test_a_file_becomes_a_profile_without_saying_what_it_is(file, tmp_path, capsys, monkeypatch):
    """Its name is the file's own, in this folder; what was done to it is said."""
    monkeypatch.chdir(tmp_path)

    assert main(["profile", "--from", str(FILES / file)]) == 0
    said = capsys.readouterr()
    path = Path(f"{Path(file).stem}.profile")
    assert path.is_file()
    assert said.out.startswith(f"{path}  ")
    assert all(line.startswith("note: ") for line in said.err.splitlines())
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["profile"] == 1


def test_a_profile_is_never_written_over(made, capsys):
    """The file that is there may be of the source itself."""
    before = made.read_bytes()
    sentence = refused(["--from", str(FILES / "csv" / "epoch.csv"), "--out", str(made)], capsys)

    assert "already there" in sentence
    assert made.read_bytes() == before


def test_the_report_has_every_window_and_says_what_is_not_known(made, capsys):
    """Of an AWR export the busiest minute is known, seconds are not, and the grade says why."""
    assert main(["profile", "show", str(made), "--above", "read_mbps=200"]) == 0
    text = capsys.readouterr().out

    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"^  device reads, MB/s .* 413 ", text, re.MULTILINE)
    assert re.search(r"windows of 1 s\n  not known: values are averages over 60.0 s", text)
    assert "busiest 1 min by transactions" in text
    # One minute of four hours is six a day.
    assert "device reads above 200 MB/s: 6 minutes a day" in text
    assert "partial: " in text
    assert "memory: not in it, so whether the memory suffices is not tested" in " ".join(
        text.split()
    )


def test_csv_and_markdown_have_the_same_percentiles(made, tmp_path, capsys):
    """They go to files, or to stdout with a dash."""
    assert main(["profile", "show", str(made), "--csv", str(tmp_path / "x.csv")]) == 0
    assert capsys.readouterr().out == ""
    rows = [line.split(",") for line in (tmp_path / "x.csv").read_text().splitlines()]
    assert main(["profile", "show", str(made), "--markdown", "-"]) == 0
    text = capsys.readouterr().out

    assert {len(row) for row in rows} == {12}
    minute = next(row for row in rows if row[0] == "read_mbps" and float(row[3] or 0) == 60)
    assert float(minute[7]) == 413.0
    assert "| 413 |" in text
    assert "**profile" in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "what is to be done is not said"),
        (["show"], "what is to be done is not said"),
        (["show", "nowhere.profile"], "nowhere.profile"),
        (["show", str(FILES / "csv" / "awr.csv")], "it is no profile of replayer"),
        (["--from", "/dev/null"], "is no file"),
        (["--from", str(FILES.parent / "imports" / "fio" / "randrw.json")], "is of none of"),
        (["show", "x", "--from", str(FILES / "csv" / "awr.csv")], "both"),
        (["--from", str(FILES / "csv" / "awr.csv"), "--device", "sda"], "no --device"),
        (["--from", str(Path(__file__))], "is of none of csv, iostat, sadf"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    """With status 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)

    assert sentence in refused(words, capsys)
    assert not list(tmp_path.iterdir())


def test_levels_of_what_is_not_there_are_refused(made, capsys):
    """A resource that has another name, is not in the profile, or a level that is no number."""
    for above, sentence in (
        ("reed_iops=3", "did you mean read_iops"),
        ("wal=3", "does not know"),
        ("read_iops=many", "it must be as in"),
    ):
        assert sentence in refused(["show", str(made), "--above", above], capsys)


def test_a_profile_is_not_imported_twice(made, capsys):
    """It is one already."""
    assert "is a profile already" in refused(["--from", str(made)], capsys)
