"""replayer profile: a file becomes a profile, a profile a report; else there is one sentence."""

import json
import re
from pathlib import Path

import pytest

from tests.command import Replayer

FILES = Path(__file__).parents[1] / "fixtures" / "profiles"


@pytest.fixture
def made(tmp_path: Path, replayer: Replayer) -> Path:
    """Return where the profile of an AWR export is."""
    path = tmp_path / "awr.profile"
    replayer("profile", "--from", FILES / "csv" / "awr.csv", "--out", path)
    return path


def refused(replayer: Replayer, *words: object) -> str:
    """Return the one sentence with which a command ends."""
    (line,) = replayer("profile", *words, status=2).err.splitlines()
    return line


@pytest.mark.parametrize("file", ["iostat/json.json", "sadf/several.json", "csv/cloudwatch.csv"])
def test_a_file_becomes_a_profile_without_saying_what_it_is(file: str, replayer: Replayer) -> None:
    """Its name is the file's own, in this folder; what was done to it is said."""
    out, err = replayer("profile", "--from", FILES / file)
    path = replayer.folder / f"{Path(file).stem}.profile"
    assert path.is_file()
    assert out.startswith(f"{path.name}  ")
    assert all(line.startswith("note: ") for line in err.splitlines())
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["profile"] == 1


def test_a_profile_is_never_written_over(made: Path, replayer: Replayer) -> None:
    """The file that is there may be of the source itself."""
    before = made.read_bytes()
    sentence = refused(replayer, "--from", FILES / "csv" / "epoch.csv", "--out", made)

    assert "already there" in sentence
    assert made.read_bytes() == before


def test_the_report_has_every_window_and_says_what_is_not_known(
    made: Path, replayer: Replayer
) -> None:
    """Of an AWR export the busiest minute is known, seconds are not, and the grade says why."""
    text = replayer("profile", "show", made, "--above", "read_mbps=200").out

    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"^  device reads, MB/s .* 413 ", text, re.MULTILINE)
    assert re.search(r"windows of 1 s\n  not known: values are averages over 60.0 s", text)
    assert "busiest 1 min by transactions" in text
    # Of four hours nothing is said of the other twenty.
    assert "device reads above 200 MB/s: 1 minutes of the 240 known" in text
    assert "partial: " in text
    assert "memory: not in it, so whether the memory suffices is not tested" in " ".join(
        text.split()
    )


def test_csv_and_markdown_have_the_same_percentiles(
    made: Path, tmp_path: Path, replayer: Replayer
) -> None:
    """They go to files, or to stdout with a dash."""
    assert replayer("profile", "show", made, "--csv", "x.csv").out == ""
    rows = [line.split(",") for line in (tmp_path / "x.csv").read_text().splitlines()]
    text = replayer("profile", "show", made, "--markdown", "-").out

    assert {len(row) for row in rows} == {12}
    minute = next(row for row in rows if row[0] == "read_mbps" and float(row[3] or 0) == 60)
    assert float(minute[7]) == 413.0
    assert "| 413 |" in text
    assert "profile" in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing to do was named"),
        (["show"], "nothing to do was named"),
        (["show", "nowhere.profile"], "nowhere.profile"),
        (["show", str(FILES / "csv" / "awr.csv")], "it is not a profile of replayer"),
        (["--from", "/dev/null"], "is not a file"),
        (["--from", str(FILES.parent / "imports" / "fio" / "randrw.json")], "is of none of"),
        (["show", "x", "--from", str(FILES / "csv" / "awr.csv")], "both"),
        (["--from", str(FILES / "csv" / "awr.csv"), "--device", "sda"], "leave out --device"),
        (["--from", str(Path(__file__))], "is of none of csv, iostat, sadf"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    words: list[str], sentence: str, replayer: Replayer, tmp_path: Path
) -> None:
    """With status 2, and nothing is written."""
    assert sentence in refused(replayer, *words)
    assert not list(tmp_path.iterdir())


def test_levels_of_what_is_not_there_are_refused(made: Path, replayer: Replayer) -> None:
    """A resource that has another name, is not in the profile, or a level that is not a number."""
    for above, sentence in (
        ("reed_iops=3", "did you mean read_iops"),
        ("wal=3", "does not know"),
        ("read_iops=many", "it must be as in"),
    ):
        assert sentence in refused(replayer, "show", made, "--above", above)


def test_a_profile_is_not_imported_twice(made: Path, replayer: Replayer) -> None:
    """It is one already."""
    assert "is a profile already" in refused(replayer, "--from", made)
