"""progress: a conversation on stderr that costs little and leaves nothing half-drawn."""

import io
import itertools
import os
import pty
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn, TextIO

import pytest

from replayer.errors import Interrupted
from replayer.report.terminal import progress


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Closed(io.StringIO):
    """A stream whose reader went away."""

    def write(self, _: str) -> NoReturn:
        """Fail as a pipe does."""
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test moves."""
    return Clock()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """Return a stream that is a terminal of 80 columns, and a function that ends and reads it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w", encoding="utf-8")
    seen: list[bytes] = []

    def drain() -> None:
        try:
            while chunk := os.read(ours, 65536):
                seen.append(chunk)
        except OSError:  # Linux says EIO when the other side is closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()

    def finish() -> str:
        stream.close()
        reader.join(120)
        return b"".join(seen).decode()

    yield stream, finish
    if not stream.closed:
        finish()
    os.close(ours)


def screen_of(text: str) -> list[str]:
    """Return the lines that a terminal shows after these bytes: just what the display uses."""
    lines, row, column = [""], 0, 0
    position = 0
    while position < len(text):
        character = text[position]
        if text.startswith("\x1b[", position):
            end = position + 2
            while not text[end].isalpha():
                end += 1
            number = text[position + 2 : end]
            if text[end] == "A":
                row -= int(number or 1)
            elif text[end] == "K":
                lines[row] = ""
            position = end + 1
            continue
        if character == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif character == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + character + lines[row][column + 1 :]
            column += 1
        position += 1
        if character == "\n":
            column = 0
    return [line.rstrip() for line in lines if line.strip()]


def test_a_log_gets_a_line_about_every_ten_seconds(clock: Clock) -> None:
    """Without a terminal a line comes when ten seconds have passed, with share and time left."""
    stream = io.StringIO()
    with progress.conversation(stream, clock=clock) as told, told.task("build", 100) as task:
        for done in range(0, 51, 5):
            task.update(done=done, note="1,000 rows/s")
            clock.now += 2.5

    lines = stream.getvalue().splitlines()
    assert lines == [
        "build: 20%, 0:10, 0:40 left, 1,000 rows/s",
        "build: 40%, 0:20, 0:30 left, 1,000 rows/s",
        "build: done in 27.5 s",
    ]


def test_a_task_without_a_total_says_how_long_it_takes(clock: Clock) -> None:
    """Where nothing tells the end there is no share and no time left, only time and words."""
    stream = io.StringIO()
    with progress.conversation(stream, clock=clock) as told, told.task("vacuum") as task:
        clock.now += 12
        task.advance(3)
        task.update(note="table 2 of 3")

    assert stream.getvalue().splitlines() == ["vacuum: 0:12", "vacuum: done in 12.0 s"]


def test_no_time_is_left_when_more_than_all_is_done(clock: Clock) -> None:
    """A task that runs over its total has 100 percent done and nothing left, never less."""
    stream = io.StringIO()
    with progress.conversation(stream, clock=clock) as told, told.task("sessions", 30) as task:
        clock.now += 30.1
        task.update(done=30.1)

    assert stream.getvalue().splitlines()[0] == "sessions: 100%, 0:30, 0:00 left"


def test_a_short_task_is_not_worth_a_line(clock: Clock) -> None:
    """What took less than two seconds leaves no trace in a log."""
    stream = io.StringIO()
    with progress.conversation(stream, clock=clock) as told, told.task("count", 1) as task:
        clock.now += 1.9
        task.advance(1)

    assert stream.getvalue() == ""


def test_a_task_that_failed_is_not_called_done(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]]
) -> None:
    """After an error neither a log nor a terminal says `done`."""
    stream, finish = terminal
    for one in (io.StringIO(), stream):

        def fail(to: TextIO = one) -> NoReturn:
            with progress.conversation(to, clock=clock) as told, told.task("build", 10):
                clock.now += 60
                raise Interrupted("stopped")

        with pytest.raises(Interrupted):
            fail()
        assert not isinstance(one, io.StringIO) or "done" not in one.getvalue()
    assert "done" not in finish()


def test_words_of_others_are_cleaned(clock: Clock) -> None:
    """A title, a note or a line that holds an escape sequence is written out, not sent."""
    stream = io.StringIO()
    with progress.conversation(stream, clock=clock) as told:
        told.say("label \x1b[2J")
        with told.task("bu\x1bild", 2) as task:
            clock.now += 11
            task.update(done=1, note="\x1b[31m")

    assert "\x1b" not in stream.getvalue()
    assert "\\x1b[2J" in stream.getvalue()


@pytest.mark.parametrize("kind", ["log", "terminal"])
def test_a_reader_that_went_away_ends_nothing(clock: Clock, kind: str) -> None:
    """A closed stderr does not stop the measurement."""
    stream = Closed()
    made = progress.Lines if kind == "log" else progress.Bars
    with made(stream, clock) as told, told.task("build", 10) as task:
        clock.now += 60
        task.advance(1)
        told.say("hello")
        clock.now += 60
        task.advance(1)

    assert stream.getvalue() == ""


def test_a_terminal_gets_bars_that_fit_and_go(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]]
) -> None:
    """At 80 columns every drawn line fits, time left is shown, and the end leaves plain lines."""
    stream, finish = terminal
    with progress.conversation(stream, clock=clock) as told:
        assert isinstance(told, progress.Bars)
        with told.task("run demo, step 1 of 6", 6), told.task("build", 1000) as task:
            for done in (100, 300, 500):
                clock.now += 10
                task.update(done=done, note=f"doubling 17, {done},000 rows, 345,678 rows/s, " * 3)
    text = finish()

    drawn = [line for part in text.split("\r") for line in part.split("\n")]
    plain = [screen_of(line) for line in drawn]
    assert max(len(line) for lines in plain for line in lines) <= 80
    assert any("left" in line for lines in plain for line in lines)
    assert screen_of(text) == ["build: done in 30.0 s", "run demo, step 1 of 6: done in 30.0 s"]


@pytest.mark.parametrize("how", [Interrupted("Ctrl-C"), KeyboardInterrupt(), RuntimeError("bug")])
def test_nothing_is_left_half_drawn(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]], how: BaseException
) -> None:
    """After any exception the bars are gone and the cursor is shown again."""
    stream, finish = terminal

    def fail() -> NoReturn:
        with progress.conversation(stream, clock=clock) as told, told.task("build", 10) as task:
            clock.now += 1
            task.advance(3)
            raise how

    with pytest.raises(type(how)):
        fail()
    text = finish()

    assert screen_of(text) == []
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")


def test_bars_are_drawn_at_most_twice_a_second(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a task reports, drawing happens at most every half second of the clock."""
    stream, finish = terminal
    with progress.conversation(stream, clock=clock) as told:
        assert isinstance(told, progress.Bars)
        drawn: list[float] = []
        refresh = told._rich.refresh

        def draw() -> None:
            drawn.append(clock.now)
            refresh()

        monkeypatch.setattr(told._rich, "refresh", draw)
        with told.task("walk", 100_000) as task:
            for _ in range(10_000):
                task.advance(1)
                clock.now += 0.001
    finish()

    # The first two: rich draws a new task at once, and so does the display.
    gaps = [b - a for a, b in itertools.pairwise(drawn[1:])]
    assert 15 <= len(drawn) <= 22
    assert min(gaps) > 0.499


def test_results_on_stdout_are_left_alone(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """While bars are drawn on stderr, what is printed on stdout goes to stdout."""
    stream, finish = terminal
    with progress.conversation(stream, clock=clock) as told, told.task("build", 10):
        print("a result")

    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in finish()


@pytest.mark.parametrize("term", ["dumb", "unknown", None])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    monkeypatch: pytest.MonkeyPatch, terminal: tuple[TextIO, Callable[[], str]], term: str | None
) -> None:
    """TERM=dumb is treated as a log."""
    stream, _ = terminal
    if term is None:
        monkeypatch.delenv("TERM")
    else:
        monkeypatch.setenv("TERM", term)

    assert isinstance(progress.conversation(stream), progress.Lines)


def test_no_color_takes_the_colour_of_the_bars(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR leaves bars without any colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream, finish = terminal
    with progress.conversation(stream, clock=clock) as told, told.task("build", 10) as task:
        clock.now += 5
        task.advance(5)
    text = finish()

    assert "build" in text
    assert "38;5" not in text
    assert "\x1b[3" not in text


def test_lines_said_between_bars_stay(
    clock: Clock, terminal: tuple[TextIO, Callable[[], str]]
) -> None:
    """What is said while a bar is on the screen stays above it, whole."""
    stream, finish = terminal
    long = "a sentence that is longer than the terminal is wide, which is not cut " * 2
    with progress.conversation(stream, clock=clock) as told, told.task("build", 10) as task:
        clock.now += 1
        task.advance(1)
        told.say(long)
        clock.now += 0.6
        task.advance(1)

    assert long.strip() in finish().replace("\r\n", "\n")
