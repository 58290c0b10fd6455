"""csvlog of PostgreSQL: 23 columns; 24 since version 13 and 26 since version 14."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from replayer.capture import assembly
from replayer.capture.action import Action
from replayer.capture.entry import HOLED, LogEntry, ReadCounts, query_number
from replayer.capture.holes import HOLE
from replayer.capture.inputs import LONGEST_LINE, Input
from replayer.capture.logs import ReadRequest
from replayer.capture.prefix import SEVERITIES
from replayer.capture.stamps import STAMP, StampReader

ENGINE = "postgres"
RANK = 3
_BEGIN = rf'"?{STAMP}(?:\.\d+)? [^,"\n]{{1,40}}"?,(?:"[^"\n]*")?,'
_START = re.compile(_BEGIN)
_STARTS = re.compile(rf"^{_BEGIN}", re.MULTILINE)
_FEWEST = 23
_MESSAGE = 13
_OTHERS = frozenset({"client backend", "not initialized", "postmaster", "startup", "walsender", ""})
"""Processes whose entries are used; errors of a parallel worker are also logged for its leader."""
_LONGEST_BEGIN = 512
_MOST_COUNTS = 20
_MOST_JOINED = 100
csv.field_size_limit(4 * LONGEST_LINE)


def fits(head: str) -> bool:
    """Return whether `head`, the beginning of a log, has a csvlog record, which may be cut off."""
    return _begin(head) is not None


def find_start(head: str, order: ReadRequest) -> int | None:  # noqa: ARG001 - layouts share one face
    """Return the time of the first record in `head`, in ns since 1970; None without a record."""
    row = _begin(head)
    return None if row is None else StampReader().ns(row[0])


def _begin(head: str) -> list[str] | None:
    """Return the columns of the first record in `head`, the beginning of a log.

    They are complete at least up to the message.  Returns None without a record.
    """
    # A hole may have cut off the first ones.
    for match in islice(_STARTS.finditer(head), _MOST_JOINED):
        row = _first(head[match.start() :], _MESSAGE + 1)
        if row is not None and row[_MESSAGE - 2] in SEVERITIES:
            return row
    return None


def read(inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order of their ends."""
    clock, whole = StampReader(), assembly.SessionAssembly(order.reading, order.announce)
    for source in inputs:
        line = 1
        for text in _records(source.blocks(order.advance), order.reading):
            whole_text, cut = _cut_off(text)
            rows = _rows(whole_text, f"{source.name}: line", line, order.reading)
            yield whole.take(_entries(rows, clock, order.reading))
            if cut:
                yield whole.take(_entries([cut], clock, order.reading))
            line += text.count("\n")
    assembly.note_zones(clock, order.reading)
    yield whole.finish()


def _first(text: str, columns: int = _FEWEST) -> list[str] | None:
    """Return the first CSV record with at least `columns` columns; None if it has no time.

    Returns None, too, if there is no such record.
    """
    try:
        for row in csv.reader(io.StringIO(text, newline="\n")):
            if len(row) >= columns:
                StampReader().ns(row[0])
                return row
    except (csv.Error, ValueError):
        return None
    return None


def _records(blocks: Iterable[str], reading: ReadCounts) -> Iterator[str]:
    """Yield texts of one or more complete csvlog records, from the blocks of a file.

    Each text ends where the next record begins and no quote is open.  A text that a hole (a lost
    part) cut off ends with HOLE.
    """
    held, dropping, first = "", False, 0
    for block in blocks:
        if block == HOLE:
            if not dropping:
                yield held + HOLE
            # The text after a hole is the end of a record, unless it begins one.
            held, dropping, first = "", True, 0
            continue
        text = held + block
        if dropping:
            after = _STARTS.search(text, first)
            dropping, text = after is None, text[after.start() if after else -_LONGEST_BEGIN :]
        stop = 0 if dropping else _boundary(text)
        if not stop and not dropping and len(text) > LONGEST_LINE:
            stop = _last_start(text, len(text))
            if not stop:
                # One record without an end.
                reading.skip(assembly.CUT_TEXT)
                dropping, first, text = True, 1, text[-_LONGEST_BEGIN:]
        if stop:
            yield text[:stop]
        held = text[stop:]
    if held and not dropping:
        yield held


def _cut_off(text: str) -> tuple[str, list[str]]:
    """Return (the complete records in a text, the columns of a record that a hole cut off).

    The columns are [] if no record was cut off.  Their severity begins with HOLED.
    """
    if not text.endswith(HOLE):
        return text, []
    text = text.removesuffix(HOLE)
    starts = [match.start() for match in _STARTS.finditer(text)][-_MOST_COUNTS:]
    # A statement may contain text that looks like the start of a record.
    outside = [start for start in starts if not text.count('"', 0, start) % 2]
    if not starts:
        return text, []
    start = (outside or starts)[-1]
    piece = text[start:]
    open_quote = piece.count('"') % 2
    row = _first(piece + '"' * open_quote, 1)
    if row is None or (text.endswith("\n") and not open_quote):
        return text if row is not None else text[:start], []
    severity = f"{HOLED}{row[11] if len(row) > 11 else ''}"
    row = [*row, *[""] * (_FEWEST - len(row))][:_FEWEST]
    row[11] = severity
    return text[:start], row


def _boundary(text: str) -> int:
    """Return where the last record in `text` begins, after complete ones; 0 if there is none."""
    stop = _last_start(text, len(text))
    for _ in range(_MOST_COUNTS):
        # A statement may contain text that looks like the start of a record.
        if not stop or not text.count('"', 0, stop) % 2:
            return stop
        stop = _last_start(text, stop)
    return 0


def _last_start(text: str, stop: int) -> int:
    """Return where the last line before position `stop` begins that looks like a new record.

    Returns 0 if there is none after the first line.
    """
    at = text.rfind("\n", 0, max(stop - 1, 0))
    while at >= 0:
        if _START.match(text, at + 1):
            return at + 1
        at = text.rfind("\n", 0, at)
    return 0


def _rows(text: str, where: str, line: int, reading: ReadCounts) -> list[list[str]]:
    """Return the columns of each record in a text; of a damaged text, of the complete records.

    `where` names the file and `line` is the number of the text's first line, for messages.
    """
    try:
        rows = list(csv.reader(io.StringIO(text, newline="\n")))
        if all(len(row) >= _FEWEST for row in rows):
            return rows
    except csv.Error:
        pass
    return _mended(text, where, line, reading)


def _mended(text: str, where: str, line: int, reading: ReadCounts) -> list[list[str]]:
    """Return the columns of each complete record in a damaged text; count the damaged records.

    `where` names the file and `line` is the number of the text's first line, for messages.
    """
    starts = [match.start() for match in _STARTS.finditer(text)]
    rows: list[list[str]] = []
    if text[: starts[0] if starts else len(text)].strip():
        reading.hurt(f"{where} {line:,} is not a record of a csvlog")
    at = 0
    while at < len(starts):
        # A statement may contain text that looks like the start of a record.
        for end in range(at + 1, min(at + _MOST_JOINED, len(starts)) + 1):
            piece = text[starts[at] : starts[end] if end < len(starts) else len(text)]
            row = None if piece.count('"') % 2 else _first(piece)
            if row is not None:
                rows.append(row)
                at = end
                break
        else:
            number = line + text.count("\n", 0, starts[at])
            reading.hurt(f"{where} {number:,} begins a record that is damaged or cut")
            at += 1
    return rows


def _entries(
    rows: Iterable[list[str]], clock: StampReader, reading: ReadCounts
) -> Iterator[LogEntry]:
    for row in rows:
        columns = len(row)
        if columns < _FEWEST or (columns > _FEWEST and row[23] not in _OTHERS):
            reading.entries += 1
            continue
        query_id = row[25] if columns > 25 else ""
        try:
            yield LogEntry(
                clock.ns(row[0]),
                row[5],
                row[11],
                row[13],
                row[14],
                row[12],
                row[19],
                row[18],
                row[1],
                row[2],
                row[22],
                row[4],
                query_number(query_id) if query_id else 0,
                int(row[6] or 0),
                row[9],
            )
        except ValueError:
            reading.hurt("a record has no time or no number of its line")
