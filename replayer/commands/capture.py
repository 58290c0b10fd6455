"""Show what a server must log for a replay and what that costs; with --apply, log it.

Without --apply nothing is changed: the settings are printed, with the bytes of log per second that
they cause under the present load. With --apply the settings are changed. They are restored when the
time is over and at Ctrl-C. If replayer was killed, the next command that measures or captures
restores them, and so does `replayer clean`. A log contains the statements of users: only its owner
can read the copies.
"""

from __future__ import annotations

import getpass
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer import signals
from replayer.capture import logging_settings, span
from replayer.engines import credentials, engine
from replayer.errors import Impossible
from replayer.report.messages import show
from replayer.report.terminal import progress
from replayer.run.recovery import give_back
from replayer.servers import log_settings, remote
from replayer.units import duration, show_duration, show_rate, show_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from sqlalchemy.engine import URL

    from replayer.capture.logging_settings import LoggingCost, LogLocation, LogSetting, Needs
    from replayer.engines.engine import Engine
    from replayer.report.terminal.progress import Conversation, ProgressLine

EPILOG = """\
examples:
  replayer capture postgresql://postgres@db.example/shop
  replayer capture postgresql:///shop?host=/run/postgresql --for 1h --apply --out monday
  replayer convert monday --out monday.replay
"""
_LEAST_FREE = 1 << 30
"""Free bytes on the log's disk below which a capture ends early: a full disk stops the server."""
_LOOKED_EVERY = 1.0
_LAST_LINES_SECONDS = 1.0
"""Seconds to wait after the settings are restored, until the server has written its last lines."""
_NAME, _CALLED = "application_name", "replayer capture"
"""The parameter and value of a connection by which `replayer convert` knows the sessions of
`replayer capture`, and leaves them out."""


class _Source(NamedTuple):
    """The server that is captured."""

    engine: Engine
    url: URL

    @property
    def title(self) -> str:
        return f"{self.engine.title} {self.engine.version} at {credentials.show(self.url)}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("url", metavar="URL", help="the server to capture")
    add(
        "--for",
        type=duration,
        default="10m",
        metavar="TIME",
        dest="seconds",
        help=(
            "how long to log with --apply; without it, the time for which the bytes of log are "
            "estimated from 3 s of the present load (default: 10m)"
        ),
    )
    add("--apply", action="store_true", help="change the log settings, wait, and restore them")
    add("--out", type=Path, metavar="FOLDER",
        help=(
            "copy the new part of the log into this folder, readable by its owner only"
        ))  # fmt: skip
    add(
        "--anonymise",
        action="store_true",
        help=("add --anonymise to the `replayer convert` command that is printed"),
    )


def run(args: argparse.Namespace) -> int:
    """Print the log settings that a replay needs and their cost; return 0.

    With --apply, change the settings of the server for the time of --for.
    """
    seconds = args.seconds
    _check(args, seconds)
    ask = getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None
    asked = engine.of_url(args.url)
    named = {_NAME: _CALLED} if _NAME in asked.spec.profile.query else {}
    source = _Source(*remote.identified(asked, args.url, ask=ask, query=named))
    with progress.conversation() as told:
        for words in log_settings.give_back_left(*source):
            told.say(f"left by an earlier run: {words}")
        give_back(told.say)
        with log_settings.asking(*source) as database:
            needs = logging_settings.needs(database)
            undoing = log_settings.undoing(database, needs.changes)
            reloading = log_settings.reloading(database) if needs.changes else []
            cost = logging_settings.cost(database, logging_settings.SAMPLE_SECONDS)
        place = logging_settings.place(*source)
        lines = [*_needed(needs, undoing, reloading), *_costs(cost, seconds, place)]
        _print([source.title, *lines])
        if args.apply:
            _capture(args, source, needs, seconds, told)
        else:
            _print(_where(place, args))
    return 0


def _check(args: argparse.Namespace, seconds: float) -> None:
    if "://" not in args.url:
        raise Impossible("a source is given by its URL, such as postgresql://postgres@db/shop")
    if seconds <= 0:
        raise Impossible("--for is 0: it must be a time such as 10m")
    if args.out is not None:
        if not args.apply:
            raise Impossible("--out has what was logged meanwhile: it needs --apply")
        span.check_out(args.out)


def _print(lines: list[str]) -> None:
    for line in lines:
        show(line)
    sys.stdout.flush()


# Output.


def _needed(needs: Needs, undoing: list[str], reloading: list[str]) -> Iterator[str]:
    changed = [one for one in needs.settings if one.changes]
    if changed:
        yield "to be set:"
        yield from map(_typed, needs.statements, changed)
        yield from (f"  {words};" for words in reloading)
        yield "afterwards:" if undoing else "afterwards: what they were before"
        yield from (f"  {words};" for words in [*undoing, *(reloading if undoing else [])])
    same = [f"{one.name} = {one.value}" for one in needs.settings if not one.changes]
    if same:
        yield f"as it must be already: {', '.join(same)}"
    yield from (f"note: {words}" for words in needs.notes)


def _typed(statement: str, setting: LogSetting) -> str:
    return f"  {statement};  -- {setting.why}"


def _costs(cost: LoggingCost, seconds: float, place: LogLocation) -> Iterator[str]:
    if not cost.statements:
        yield "cost: no statement was seen, so the cost is not known"
        return
    least = "at least " if cost.at_least else "about "
    yield (
        f"cost: {least}{show_rate(cost.statements)} statements/s of "
        f"{show_size(cost.text_bytes)} each come to {_range(cost.low, cost.high)} of log a second, "
        f"{_range(cost.low * seconds, cost.high * seconds)} in {show_duration(seconds)}; more "
        f"where drivers send several messages for one"
    )
    free = span.free(place)
    if free is not None:
        yield f"free where the log is: {show_size(free)}"


def _range(low: float, high: float) -> str:
    return f"{show_size(low)} to {show_size(high)}"


def _where(place: LogLocation, args: argparse.Namespace) -> list[str]:
    """Return two lines to print: where the log is, and the command that converts the log."""
    if place.here is not None:
        return [f"log: {place.here}", _convert(str(_files(place)), place, args)]
    where = place.said or "where its messages go: its log file, systemd's journal or a container's"
    there = " on the server's machine" if place.said else ""
    return [f"log: {where}{there}", _convert("LOG", place, args)]


def _files(place: LogLocation) -> Path:
    assert place.here is not None, "it is on this machine"
    return place.here.parent if place.rotated else place.here


def _convert(log: str, place: LogLocation, args: argparse.Namespace) -> str:
    words = ["replayer", "convert", log, "--out", "capture.replay"]
    if place.prefix:
        words += ["--prefix", place.prefix]
    return f"convert it: {shlex.join([*words, *(['--anonymise'] if args.anonymise else [])])}"


# Capture.


def _capture(
    args: argparse.Namespace, source: _Source, needs: Needs, seconds: float, told: Conversation
) -> None:
    """Change the log settings for some seconds, then copy what was logged, even after a Ctrl-C."""
    before = span.sizes(logging_settings.place(*source))
    place: LogLocation | None = None
    try:
        with log_settings.apply_settings(*source, needs.changes, told.say):
            with signals.shield():
                place = logging_settings.place(*source)
            for words in logging_settings.check_effect(*source):
                told.say(f"note: {words}")
            with told.task(f"capturing {credentials.show(source.url)}", seconds) as task:
                _wait(place, before, seconds, task, told)
    finally:
        if place is not None:
            time.sleep(_LAST_LINES_SECONDS)
            _keep(args, place, before)


def _keep(args: argparse.Namespace, place: LogLocation, before: dict[span.Inode, int]) -> None:
    """Copy what was logged during the capture to --out; print where it is and how to convert it.

    `before` has the size of each log file when the capture began. Nothing is copied without --out,
    or if the log files are not on this machine.
    """
    if args.out is None:
        _print(_where(place, args))
        return
    if place.here is None:
        _print(["its files are not to be seen here: copy them yourself", *_where(place, args)])
        return
    logged = span.copy_pieces(span.written(place, before), args.out)
    made = f"log: {args.out}  {show_size(logged)}, made for its owner alone"
    _print([made, _convert(str(args.out), place, args)])


def _wait(
    place: LogLocation,
    before: dict[span.Inode, int],
    seconds: float,
    task: ProgressLine,
    told: Conversation,
) -> None:
    """Wait for `seconds`, or less if the log's disk is nearly full before that.

    `task` shows the progress: the time, and the bytes that were logged. For this, `before` has the
    size of each log file when the capture began.
    """
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        logged = sum(piece.end - piece.begin for piece in span.written(place, before))
        task.update(done=passed, note=f"{show_size(logged)} logged" if place.here else "")
        free = span.free(place)
        if free is not None and free < _LEAST_FREE:
            told.say(
                f"ended after {show_duration(passed)}: only {show_size(free)} are free where the "
                f"log is"
            )
            return
        time.sleep(min(_LOOKED_EVERY, max(0.0, seconds - passed)))
