"""Conversion of servers' logs into a replay file, which `replayer run` replays, in one pass."""

import contextlib
import gc
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from replayer import registry, trusted_path
from replayer.capture import archive
from replayer.capture.action import Action
from replayer.capture.anonymise import Anonymiser
from replayer.capture.capture_summary import ActionSource, CaptureSummary
from replayer.capture.entry import ReadCounts
from replayer.capture.inputs import Input, listed
from replayer.capture.logs import LogLayout, ReadRequest
from replayer.errors import Impossible
from replayer.units import show_duration, show_with_noun

LOGS = "capture.logs"
_COARSE_NS = 10**9
_FINE_NS = 10**6
_MOST_FILES = 100_000
_TRANSLATED = (
    "its server logs in another language than English, and only English messages can be read: set "
    "lc_messages = 'C' there, and log again"
)
_SHORTEST_HOLE = 16
"""The shortest hole in a log of MySQL, in bytes: fewer zeros may be text of a client.

PostgreSQL's texts never contain zeros.
"""


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """The logs to convert into the replay file `out`, and the options of the conversion.

    `names` are files, folders, or "-" for standard input.  `prefix` is the log_line_prefix that the
    user gave.  With `anonymise`, values in statements are replaced.
    """

    names: Sequence[str]
    out: Path
    prefix: str | None = None
    anonymise: bool = False


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """The log files to read, in the order of their times, and their layout (form of log).

    `notes` are sentences on files that are left out.
    """

    layout: str
    inputs: tuple[Input, ...]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int | None:
        """Return the bytes of all files together; None if one of the inputs is a pipe."""
        sizes = [one.size for one in self.inputs]
        return sum(sizes) if all(sizes) else None


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """The summary of the replay file that a conversion wrote, and notes on the logs."""

    summary: CaptureSummary
    notes: tuple[str, ...]
    """Sentences on how the logs were understood."""


@dataclass(slots=True)
class _Candidate:
    """A file that may be converted, with its layout (form of log) and its beginning `head`.

    `began` is the time of its first entry in nanoseconds since 1970; None if it is not known.
    """

    source: Input
    layout: str
    began: int | None
    head: str = field(repr=False)


def planned(wish: ConversionRequest) -> ConversionPlan:
    """Return the files to read for a conversion, all of one layout (form of log), oldest first.

    If the files of `wish` have several layouts, only those of the best one are read.  Raises
    Impossible if none of the files is a log that can be replayed.
    """
    nothing = ReadRequest(ReadCounts(), lambda _: None, lambda _: None, wish.prefix)
    candidates: list[_Candidate] = []
    notes: list[str] = []
    problem: Impossible | None = None
    inputs = listed(wish.names)
    _check_out(wish.out, inputs)
    for source in inputs:
        try:
            candidates.append(_candidate(source, nothing))
        except Impossible as error:
            problem = problem or error
            notes.append(f"passed over: {error}")
    if not candidates:
        assert problem is not None, "each file has a layout or a problem"
        if len(inputs) == 1:
            raise problem
        raise Impossible(f"none of {len(inputs):,} files is a log that is known: {problem}")
    best = max(candidates, key=lambda one: (_log(one.layout).RANK, one.source.size))
    chosen = [one for one in candidates if one.layout == best.layout]
    notes += [
        f"passed over: {one.source.name}, as logs of {best.layout} are read and it is of "
        f"{one.layout}"
        for one in candidates
        if one.layout != best.layout
    ]
    for one in chosen:
        if _log(best.layout).ENGINE == "mysql":
            one.source.shortest_hole = _SHORTEST_HOLE
    chosen.sort(key=lambda one: (one.began or 0, one.source.name))
    return ConversionPlan(best.layout, tuple(_once(chosen, notes)), tuple(notes))


def convert(
    plan: ConversionPlan, wish: ConversionRequest, advance: Callable[[int], None]
) -> ConversionResult:
    """Write the replay file `wish.out`; return its summary, and notes on how logs were understood.

    `plan` has the files to read.  `advance` is called with the number of bytes of each piece that
    was read.  Raises Impossible if there is nothing to replay; then no file is written.
    """
    log, reading = _log(plan.layout), ReadCounts()
    with (
        contextlib.ExitStack() as ends,
        _collected_never(),
        archive.ArchiveWriter(wish.out, log.ENGINE) as writer,
    ):
        for one in plan.inputs:
            ends.callback(one.close)
        order = ReadRequest(reading, writer.describe, advance, wish.prefix)
        made = log.read(plan.inputs, order)
        if wish.anonymise:
            made = _changed(made, Anonymiser(log.ENGINE))
        for actions in made:
            for action in actions:
                writer.add(action)
        damage = [*_damage(plan), *reading.damage]
        if more := reading.damaged - len(reading.damage):
            damage.append(f"and {more:,} more places that cannot be read")
        source = ActionSource(
            engine=log.ENGINE,
            server_version=reading.version,
            logs=tuple(one.name for one in plan.inputs[:_MOST_FILES]),
            resolution_ns=_COARSE_NS if reading.coarse else _FINE_NS,
            errors_logged=not reading.silent,
            anonymised=wish.anonymise,
        )
        whole = reading.sessions or reading.statements
        summary = writer.close(source, reading.skipped, damage) if whole else None
    if summary is None:
        raise Impossible(_nothing(plan, reading, damage))
    notes = *plan.notes, *_notes(plan, reading), *_copies(summary)
    return ConversionResult(summary, notes)


def _check_out(out: Path, inputs: Sequence[Input]) -> None:
    if reason := trusted_path.refusal(out.parent):
        raise Impossible(f"{out} cannot be written: {reason}", "give another --out")
    if out.is_dir():
        raise Impossible(f"{out} is a folder: --out names the file that is written")
    if any(one.path is not None and out.exists() and one.path.samefile(out) for one in inputs):
        raise Impossible(f"{out} is a log that is to be converted: give --out another name")


def _candidate(source: Input, order: ReadRequest) -> _Candidate:
    head = source.head()
    if not head.strip() and source.damage:
        raise Impossible(f"{source.name}: {source.damage}")
    if not head.strip():
        raise Impossible(f"{source.name} is empty")
    names = sorted(registry.names(LOGS), key=lambda name: -_log(name).RANK)
    layout = _first_layout([name for name in names if _log(name).fits(head)], head)
    if layout is None and order.prefix is not None:
        layout = "postgres_stderr"
    if layout is None and source.damage:
        raise Impossible(f"{source.name}: {source.damage}")
    if layout is None:
        raise Impossible(
            f"{source.name} is of none of {', '.join(names)}: where lines have a log_line_prefix "
            f"of their own, --prefix gives it"
        )
    began = _log(layout).find_start(head, order)
    return _Candidate(source, layout, began, head)


def _first_layout(fitting: Sequence[str], head: str) -> str | None:
    """Return the one of the `fitting` layouts that fits the shortest beginning of a log's `head`.

    A value in a statement may have lines of another layout.  Of several that fit the same
    beginning, it is the first of `fitting`.  Return None without any.
    """
    # Lines with any prefix (rank 0) fit lines of other layouts, too.
    fitting = [name for name in fitting if _log(name).RANK] or fitting
    if len(fitting) < 2:
        return next(iter(fitting), None)
    lines = head.splitlines(keepends=True)

    def needed(name: str) -> int:
        fits = _log(name).fits
        return bisect_left(
            range(len(lines)), True, key=lambda many: fits("".join(lines[: many + 1]))
        )

    return min(fitting, key=needed)


def _once(chosen: Sequence[_Candidate], notes: list[str]) -> Iterator[Input]:
    """Yield the files, but only one of several files that begin with the same text.

    A file and its compressed copy begin with the same text, for example.  `notes` gets a sentence
    for each file that is left out.
    """
    heads: dict[str, str] = {}
    for one in chosen:
        begin = one.head[:4096]
        if begin in heads:
            notes.append(
                f"passed over: {one.source.name}, which begins as {heads[begin]} does: it is the "
                f"same log"
            )
            continue
        heads[begin] = one.source.name
        yield one.source


def _log(name: str) -> LogLayout:
    return cast("LogLayout", registry.plugin(LOGS, name))


def _changed(made: Iterable[list[Action]], anonymise: Anonymiser) -> Iterator[list[Action]]:
    for actions in made:
        yield [anonymise(action) for action in actions]


def _damage(plan: ConversionPlan) -> Iterator[str]:
    for one in plan.inputs:
        if one.damage:
            yield f"{one.name}: {one.damage}"
        yield from one.holes.sentences(one.name)
        if one.unfinished:
            yield f"{one.name} ends in the middle of a line"


def _notes(plan: ConversionPlan, reading: ReadCounts) -> Iterator[str]:
    yield from reading.notes
    if reading.translated:
        yield f"{reading.translated:,} messages on durations were not read: {_TRANSLATED}"
    if not reading.statements:
        yield (
            "there is no statement in it that can be replayed: `replayer capture` says what its "
            "server must log"
        )
    if reading.back:
        yield (
            f"places where the times go back: {reading.back:,}, by up to "
            f"{show_duration(reading.most_back_ns / 1e9)}. The server's clock was set, or the logs "
            f"overlap or are of several servers: what follows is not replayed when it ran, and may "
            f"be replayed twice"
        )
    wrong = sum(one.not_utf8 for one in plan.inputs)
    if wrong:
        yield (
            f"{wrong:,} lines have bytes that are no UTF-8: they are replayed as they are, which "
            f"a database of another encoding may refuse"
        )
    if reading.foreign:
        is_, was = ("is", "was") if reading.foreign == 1 else ("are", "were")
        lines = show_with_noun(reading.foreign, "line")
        yield f"{lines} {is_} of nothing that a server writes, and {was} passed over"


def _copies(summary: CaptureSummary) -> Iterator[str]:
    if summary.copies:
        yield (
            f"{sum(summary.copies.values()):,} statements are COPY FROM STDIN, whose data is not "
            f"in the log: a replay leaves them out, unless its key copy_from names a folder with it"
        )


def _nothing(plan: ConversionPlan, reading: ReadCounts, damage: Sequence[str]) -> str:
    """Return a sentence with the reason why the logs of `plan` have nothing to replay.

    `reading` has the counts of what was read.  `damage` has sentences on places that could not be
    read.
    """
    names = ", ".join(one.name for one in plan.inputs[:3])
    names += " and more" if len(plan.inputs) > 3 else ""
    if not reading.entries:
        usual = "no line of it is an entry: --prefix gives log_line_prefix"
        why = damage[0] if damage else _worded(reading.skipped) or usual
        return f"{names}, read as {plan.layout}, holds nothing that can be replayed: {why}"
    if reading.translated:
        return f"{names} holds no statement that can be read: {_TRANSLATED}"
    skipped = _worded(reading.skipped)
    return (
        f"{names} holds {reading.entries:,} entries, and no session of a client"
        f"{f' ({skipped})' if skipped else ''}: `replayer capture` says what its server must log"
    )


def _worded(skipped: Mapping[str, int]) -> str:
    return "; ".join(f"{count:,} {reason}" for reason, count in skipped.items())


@contextlib.contextmanager
def _collected_never() -> Iterator[None]:
    """Turn off automatic garbage collection until the context ends.

    It would take a third of the conversion's time.  The conversion makes no reference cycles,
    except sqlglot's trees, which the module `fingerprint` collects.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
