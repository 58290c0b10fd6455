"""Assembly of the entries (messages) of a PostgreSQL log from its lines.

The first line of an entry begins with a prefix, as log_line_prefix defines it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator

from replayer.capture.entry import HOLED, LogEntry, ReadCounts, query_number
from replayer.capture.holes import HOLE
from replayer.capture.inputs import CUT, LONGEST_LINE, Input
from replayer.capture.prefix import FIELDS, PARTS, Prefix
from replayer.capture.stamps import StampReader

_PARTS = frozenset(PARTS)
_SEVERITY, _TIME, _EPOCH, _PROCESS, _SESSION = range(5)
_USER, _DATABASE, _APPLICATION, _REMOTE, _STATE, _NUMBER, _QUERY_ID, _VXID = range(5, len(FIELDS))


_CODE = re.compile(r"([0-9A-Z]{5}): ")
"""The SQLSTATE before a message, if log_error_verbosity is verbose."""
_TOGETHER_NS = 10**9
"""Nanoseconds within which several processes may have written at the same time."""


class _Draft:
    """An entry (one message) of a PostgreSQL log that may get further lines."""

    __slots__ = ("groups", "holed", "key", "last", "parts", "session", "size", "time_ns")

    def __init__(
        self, time_ns: int, key: str, session: str, groups: tuple[str, ...], message: str
    ) -> None:
        self.time_ns, self.groups = time_ns, groups
        self.key, self.session = key, session
        self.parts = {"message": [message]}
        self.last = "message"
        self.size = len(message)
        self.holed = False


class Joiner:
    """A builder of entries from the lines of a PostgreSQL log.

    Lines of one entry may stand between lines of others.  `window` is the number of entries that
    may be incomplete at a time.
    """

    def __init__(
        self, prefix: Prefix, clock: StampReader, reading: ReadCounts, window: int = 1
    ) -> None:
        self._match = prefix.pattern.match
        self._places = prefix.places
        self._clock, self._reading, self._window = clock, reading, window
        self._drafts: deque[_Draft] = deque()
        self._open: dict[str, _Draft] = {}
        self._ready: list[LogEntry] = []
        self._is_torn = False
        """True if a line was passed over since an entry, or a part of one, last began."""

    def add(
        self, text: str, time_ns: int = 0, process: str = "", *, is_later: bool = False
    ) -> None:
        """Add the next line of the log.

        Pass its time in nanoseconds since 1970 (`time_ns`) and the number of its server process
        (`process`) if they are not in the prefix of the line.  Pass `is_later=True` if it is known
        not to be the first line of its message.
        """
        match = self._match(text)
        if match is None:
            self._go_on(text, process)
            return
        # The last group is an empty text, for fields that the prefix does not have.
        groups = (*match.groups(""), "")
        places = self._places
        severity = groups[places[_SEVERITY]]
        session = groups[places[_SESSION]] or groups[places[_PROCESS]] or process
        key = process or session
        if severity in _PARTS:
            self._attach(key, severity, text[match.end() :])
            return
        if is_later:
            self._go_on(text, process)
            return
        if not time_ns:
            try:
                stamp = groups[places[_TIME]]
                time_ns = (
                    self._clock.ns(stamp) if stamp else self._clock.epoch(groups[places[_EPOCH]])
                )
            except ValueError:
                self._pass_over()
                return
        draft = _Draft(time_ns, key, session, groups, text[match.end() :])
        self._drafts.append(draft)
        self._open[key] = draft
        self._is_torn = False
        if len(self._drafts) > self._window:
            self._finish(self._drafts.popleft())

    def ready(self) -> list[LogEntry]:
        """Return the entries that were completed since the last call."""
        made, self._ready = self._ready, []
        return made

    def finish(self, *, cut: bool = False) -> list[LogEntry]:
        """Return all entries that `ready` has not returned yet, complete or not, at a file's end.

        Pass `cut` if the file ends within a line; the last entry then ends with CUT, a NUL.
        """
        if cut and self._drafts:
            last = self._drafts[-1]
            last.parts[last.last].append(CUT)
        while self._drafts:
            self._finish(self._drafts.popleft())
        return self.ready()

    def break_off(self) -> list[LogEntry]:
        """Return all entries that `ready` has not returned yet, because a hole follows.

        A hole is a lost part of the log.  Entries that it may have cut off are marked as HOLED:
        the last entry of each session, unless it is a second or more older than the last entry.
        """
        last = self._drafts[-1] if self._drafts else None
        for draft in self._open.values():
            if last is not None and draft.time_ns > last.time_ns - _TOGETHER_NS:
                draft.holed = True
        return self.finish()

    def _attach(self, key: str, part: str, text: str) -> None:
        draft = self._open.get(key)
        if draft is None:
            self._pass_over()
            return
        draft.parts[part] = [text]
        draft.last = part
        self._is_torn = False

    def _go_on(self, text: str, process: str) -> None:
        """Add a line without a prefix to the entry that it continues; count it if there is none."""
        draft = self._open.get(process) if process else self._drafts[-1] if self._drafts else None
        if not text:
            return
        if draft is None or (not process and text[0] not in "\t "):
            self._pass_over()
            return
        # syslog breaks a long text anywhere; in other logs a continued line may have lost its tab.
        more = f"\n{text[1:]}" if text[0] == "\t" else text if process else f"\n{text}"
        if self._is_torn and not process:
            # The line that was passed over, or this one, may be of another message.
            more = CUT + more
        if draft.size <= LONGEST_LINE:
            draft.size += len(more)
            draft.parts[draft.last].append(more if draft.size <= LONGEST_LINE else CUT)

    def _pass_over(self) -> None:
        self._reading.foreign += 1
        self._is_torn = True

    def _finish(self, draft: _Draft) -> None:
        if self._open.get(draft.key) is draft:
            del self._open[draft.key]
        groups, places, parts = draft.groups, self._places, draft.parts
        number, query_id = groups[places[_NUMBER]], groups[places[_QUERY_ID]]
        message, state = "".join(parts["message"]), groups[places[_STATE]]
        # Only a verbose server logs a LOCATION, and it does so with every message.
        if "LOCATION" in parts and (code := _CODE.match(message)):
            message, state = message[code.end() :], state or code[1]
        self._ready.append(
            LogEntry(
                draft.time_ns,
                draft.session,
                (HOLED if draft.holed else "") + groups[places[_SEVERITY]],
                message,
                "".join(parts.get("DETAIL", ())),
                state,
                "".join(parts.get("STATEMENT", ())),
                "".join(parts.get("CONTEXT", ())),
                groups[places[_USER]],
                groups[places[_DATABASE]],
                groups[places[_APPLICATION]],
                groups[places[_REMOTE]],
                query_number(query_id) if query_id else 0,
                int(number) if number else 0,
                groups[places[_VXID]],
            )
        )


def joined(
    joiner: Joiner, source: Input, advance: Callable[[int], None]
) -> Iterator[list[LogEntry]]:
    """Yield lists of a file's entries; `joiner` makes them from the lines of `source`.

    `advance` is called with the number of bytes of each piece of the file that was read.
    """
    add = joiner.add
    for lines in source.lines(advance):
        holed = lines[-1].endswith(HOLE)
        if holed:
            lines[-1] = lines[-1].removesuffix(HOLE)
        for line in lines:
            add(line)
        yield joiner.break_off() if holed else joiner.ready()
    yield joiner.finish(cut=source.unfinished)
