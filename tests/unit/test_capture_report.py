"""`show` of a replay file: what is in it and what is not, and never a value of a statement."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from replayer.__main__ import main
from replayer.capture.action import Action, LoggedSession
from replayer.capture.archive import ArchiveWriter
from replayer.capture.capture_summary import ActionSource
from replayer.report.documents import capture_file
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer

_T0 = 1_700_000_000_000_000_000


def _written(path: Path, statements: Iterable[tuple[str, int]], **close: Any) -> Any:
    with ArchiveWriter(path) as writer:
        writer.describe(LoggedSession(1, began_before=True))
        for number, (text, duration) in enumerate(statements):
            writer.add(Action(1, "simple", _T0 + number * 1_000_000_000, duration, text))
        return writer.close(**close)


@pytest.fixture
def shown(tmp_path: Path) -> Callable[..., str]:
    """Return what is shown of statements with their durations."""

    def show(statements: Iterable[tuple[str, int]], **close: Any) -> str:
        path = tmp_path / "a.replay"
        summary = _written(path, statements, **close)
        return console.text(terminal_writer.render_parts(capture_file.parts(summary, path)))

    return show


def test_a_capture_is_shown_with_what_is_not_in_it(shown: Callable[..., str]) -> None:
    """Sessions, span, rate, busiest minute, kinds, the heaviest first, what is missing."""
    text = shown(
        [("select 4711", 1_000_000)] * 10 + [("update t set a = 'secret'", 2_000_000_000)],
        source=ActionSource(logs=("a.csv",), server_version="17.2"),
        skipped={"COPY FROM STDIN: its data is not in the log": 3},
        damage=("a.csv is cut",),
    )
    for words in (
        "capture · postgres 17.2",
        "a.csv",
        "12.0 s",
        "1, at most 1 at once; 1 began before the log",
        "11, 0.917 a second",
        "10 select, 1 update",
        "3 COPY FROM STDIN: its data is not in the log",
        "a.csv is cut",
    ):
        assert words in text
    assert text.index("UPDATE t SET a = ?") < text.index("SELECT ?")
    assert "4711" not in text
    assert "secret" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_twenty_heaviest_are_shown_of_more(shown: Callable[..., str]) -> None:
    """Without durations those that ran most often."""
    text = shown([(f"select a{number} from t", -1) for number in range(30)])
    assert "by number, as the log has no durations (20 of 30)" in text
    assert "SELECT a19 FROM t" in text
    assert "SELECT a20 FROM t" not in text
    assert "longest" not in text


def test_nothing_of_a_log_steers_a_terminal(shown: Callable[..., str]) -> None:
    """Escapes of names, texts, reasons and files are written out."""
    evil = "\x1b[2J\x9b\u202e"
    text = shown(
        [(f'select "{evil}" from t', 5)],
        source=ActionSource(logs=(f"{evil}.csv",), server_version=evil),
        skipped={evil: 1},
        damage=(evil,),
    )
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text


def test_show_finds_a_replay_file_by_its_name_or_its_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text, and as JSON that has all of the summary."""
    path = tmp_path / "a.replay"
    _written(path, [("select 1", 5)])
    other = tmp_path / "without-ending"
    other.write_bytes(path.read_bytes())
    for name in (path, other):
        assert main(["show", str(name)]) == 0
        assert "SELECT ?" in capsys.readouterr().out
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statements"] == 1


def test_show_of_a_capture_of_nothing(shown: Callable[..., str]) -> None:
    """No statement is not a table."""
    text = shown([])
    assert "heaviest" not in text
    assert "unknown" not in text


@pytest.mark.parametrize("content", [b"", b"REPLAY9\n", b"REPLAY1\nxyz", b"{}"])
def test_a_bad_replay_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """With the exit status of what cannot be."""
    path = tmp_path / "a.replay"
    path.write_bytes(content)
    assert main(["show", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("replayer: error: ")
    assert said.count("\n") == 1
