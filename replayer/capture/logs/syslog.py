"""syslog of PostgreSQL, as rsyslog, syslog-ng or journald write it, and Heroku's Logplex."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from replayer.capture import assembly, prefix
from replayer.capture.action import Action
from replayer.capture.entry import LogEntry, spread
from replayer.capture.holes import HOLE
from replayer.capture.inputs import Input
from replayer.capture.lines import Joiner
from replayer.capture.logs import ReadRequest
from replayer.capture.stamps import MONTHS, ZONE, StampReader, Yearless
from replayer.errors import Impossible

ENGINE = "postgres"
RANK = 1
_HEADER = (
    rf"(?:<\d{{1,3}}>\d? ?)?(?:(?P<old>(?:{'|'.join(MONTHS)}) [ \d]\d \d\d:\d\d:\d\d)"
    rf"|(?P<new>\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?: ?{ZONE})?)) "
    r"(?:(?P<host>\S+) )??(?P<program>[\w./-]+)\[(?:postgres\.)?(?P<process>\d+)\]:?"
    r"(?: \d+ \S+)?(?: -)* ?(?:\[[A-Z_]+\] )?"
)
_LINE = re.compile(rf"{_HEADER}(?:\[\d+-(?P<part>\d+)\] ?)?")
"""The text before PostgreSQL's; its end is [5-1], the numbers of the message and of a part."""
_NUMBERED = re.compile(rf"{_HEADER}\[(?P<number>[1-9]\d*)\]")
_LINE_WITH_NUMBER = re.compile(rf"{_HEADER}(?:\[(?:\d+-(?P<part>\d+)|[1-9]\d*)\] ?)?")
"""Its end may be [1] without syslog_sequence_numbers, or [5] without syslog_split_messages."""
_OCTAL = re.compile(r"#([01]\d\d)")
_SAMPLES = 500
_WINDOW = 256
_SECOND = 10**9
_FEW = 3


def fits(head: str) -> bool:
    """Return whether `head`, a log's beginning, has PostgreSQL's messages in lines of syslog."""
    texts = _texts(head)
    return len(texts) > 0 and prefix.guessed(texts, timed=False, known=True) is not None


def find_start(head: str, order: ReadRequest) -> int | None:  # noqa: ARG001 - layouts share one face
    """Return the time of the first line with a time, in ns since 1970; None without such a line.

    `head` is the beginning of a log.
    """
    clock, yearless = StampReader(), Yearless(None)
    for line in head.split("\n"):
        match = _LINE.match(line)
        if match is not None:
            try:
                return yearless.ns(match["old"]) if match["old"] else clock.ns(match["new"])
            except ValueError:
                continue
    return None


def read(inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order of their ends."""
    clock, whole = StampReader(), assembly.SessionAssembly(order.reading, order.announce)
    for source in inputs:
        for entries in _Lines(source, clock, order).entries():
            yield whole.take(spread(entries, _SECOND) if order.reading.coarse else entries)
    assembly.note_zones(clock, order.reading)
    yield whole.finish()


def _texts(head: str) -> list[str]:
    """Return the lines of `head` without syslog's time, host and program; [] if few have them."""
    lines, pattern = head.split("\n")[:_SAMPLES], _line_pattern(head)
    matches = [(match, line) for line in lines if (match := pattern.match(line)) is not None]
    if len(matches) < min(_FEW, len([line for line in lines if line]) / 2):
        return []
    return [_decoded(line[match.end() :]).split("\n")[0] for match, line in matches]


def _line_pattern(head: str) -> re.Pattern[str]:
    """Return the pattern of the text before PostgreSQL's in the lines of a log.

    `head` is the log's beginning.  If most of its lines have one number in brackets, the number is
    not PostgreSQL's text, unless it is always that of the process: then it is of a log_line_prefix.
    """
    lines = head.split("\n")[:_SAMPLES]
    numbered = [match for line in lines if (match := _NUMBERED.match(line)) is not None]
    is_other = any(match["number"] != match["process"] for match in numbered)
    is_most = 2 * len(numbered) > sum(_LINE.match(line) is not None for line in lines)
    return _LINE_WITH_NUMBER if is_other and is_most else _LINE


class _Lines:
    """A reader of the entries of one log file that syslog wrote."""

    def __init__(self, source: Input, clock: StampReader, order: ReadRequest) -> None:
        head = source.head()
        asked = order.prefix
        begin = (
            prefix.compiled(asked, timed=False, known=True)
            if asked is not None
            else prefix.guessed(_texts(head), timed=False, known=True)
        )
        if begin is None:
            raise Impossible(
                f"{source.name} has lines of no log_line_prefix that is known: --prefix gives it"
            )
        self._source, self._clock, self._order = source, clock, order
        self._match = _line_pattern(head).match
        self._joiner = Joiner(begin, clock, order.reading, _WINDOW)
        written = source.written()
        self._yearless = Yearless(written or datetime.now(UTC))

    def entries(self) -> Iterator[list[LogEntry]]:
        """Yield lists of entries; the parts into which syslog splits a message are joined."""
        for lines in self._source.lines(self._order.advance):
            holed = lines[-1].endswith(HOLE)
            if holed:
                lines[-1] = lines[-1].removesuffix(HOLE)
            for line in lines:
                self._line(line)
            yield self._joiner.break_off() if holed else self._joiner.ready()
        yield self._joiner.finish(cut=self._source.unfinished)

    def _line(self, line: str) -> None:
        match = self._match(line)
        if match is None:
            self._order.reading.foreign += bool(line)
            return
        old, new, _, _, process, part = match.groups()
        try:
            time_ns = self._yearless.ns(old) if old else self._clock.ns(new)
        except ValueError:
            self._order.reading.foreign += 1
            return
        if old or "." not in new[19:]:
            self._order.reading.coarse = True
        first, *others = _decoded(line[match.end() :]).split("\n")
        self._joiner.add(first, time_ns, process, is_later=part is not None and part != "1")
        for other in others:
            self._joiner.add(other, time_ns, process, is_later=True)


def _decoded(text: str) -> str:
    """Return a line with its control characters, of which syslog may have written numbers."""
    return _OCTAL.sub(_character, text) if "#" in text else text


def _character(match: re.Match[str]) -> str:
    """Return the control character of an octal number such as #011; other text stays."""
    code = int(match[1], 8)
    return chr(code) if code < 32 else match[0]
