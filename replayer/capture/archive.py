r"""A replay file (converted capture): written in one pass in bounded memory, read block by block.

    REPLAY1\n                       the format's number
    message...                      kind, bytes, bytes when unpacked; a zstd frame of msgpack maps
    offset of the last message, sha256 of all before the digest, "REPLAY.\n"

A message of kind C holds the columns of a block, one of kind W the texts to which the columns refer
(words).  One of kind F is the last: the summary, and the offset and time of each block.  Each map
holds bytes only, so that a reader never creates an object larger than the message declares.

The log has actions in the order of their ends, the file in the order of their starts.  The writer
sorts a window of them.  An action that began before one that is already written goes to a separate
block, which overlaps other blocks; a reader merges them.

The history of the format; every format that was ever released is still read.

1   the first
"""

import hashlib
import os
import re
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgpack
import numpy as np
import zstandard
from pydantic import ValidationError

from replayer.capture.action import DOES, UNKNOWN, Action, LoggedSession
from replayer.capture.block import ActionColumns, ActionRow, Block
from replayer.capture.capture_summary import ActionSource, CaptureSummary
from replayer.capture.copies import copied
from replayer.capture.held_actions import HeldActions
from replayer.capture.implicit_transactions import ImplicitTransactions
from replayer.capture.ordering import CommitOrder
from replayer.capture.tally import WriteCounts
from replayer.errors import Impossible, ReplayerError
from replayer.results.draft import Draft

FORMAT = 1
"""The format that this replayer writes; if you raise it, add a line to the history above."""

WINDOW_NS = 10_000_000_000
"""Nanoseconds of the log that the writer holds back, to sort their actions by start."""
_MOST_ROWS = 100_000
_MOST_CHARACTERS = 16 << 20
"""Characters of the texts and parameters in the window.

If the window has more characters or more rows than allowed, half of it is written.
"""
_BLOCK_ROWS = 16_384
_BLOCK_CHARACTERS = 4 << 20
_LATE_ROWS = 2_048
LONGEST = 8 << 20
"""Characters of the longest action; a longer one is counted and left out."""
TOO_LONG = "statements of more than 8 million characters"
_MOST_SESSIONS = 100_000

_MAGIC = b"REPLAY%d\n"
_NAMED = re.compile(rb"REPLAY([0-9]{1,9})\n")
_END = b"REPLAY.\n"
_TRAILER = struct.Struct("<Q32s8s")
_MESSAGE = struct.Struct("<cII")
_NUMBERS = {does: number for number, does in enumerate(DOES)}
_STATEMENTS = frozenset((_NUMBERS["simple"], _NUMBERS["extended"]))
_COLUMNS, _WORDS, _LAST = b"C", b"W", b"F"
_MOST_PACKED = 64 << 20
_MOST_LAST = 16 << 20
_MOST_KEYS = 64
_MOST_OVERLAPPING = 4 << 20
"""The largest number of actions that a reader holds back at once."""
_INDEX = ("offset", "begin", "end", "actions")


class ArchiveWriter:
    """A writer of a replay file from the actions of a log; its memory does not grow with the file.

    The file appears under its name when `close` has returned; without `close` no file is left.
    """

    def __init__(self, path: Path, engine: str = "postgres") -> None:
        """Begin a file; raise Impossible if it cannot be written."""
        from replayer.capture.fingerprint import Fingerprints  # noqa: PLC0415 - no reader parses SQL

        self._file = _Messages(Path(path))
        self._fingerprints = Fingerprints(engine)
        self._order = CommitOrder()
        self._tally = WriteCounts()
        self._skipped: Counter[str] = Counter()
        self._window: list[ActionRow] = []
        self._transactions = ImplicitTransactions(
            self._window, self._fingerprints.statement, self._skipped
        )
        self._index: dict[str, list[int]] = {name: [] for name in _INDEX}
        self._characters = 0
        self._look_at = _BLOCK_ROWS
        self._late: list[ActionRow] = []
        self._late_characters = 0
        self.late = 0
        self._latest = -(1 << 62)
        self._written = -(1 << 62)
        self._ends: dict[int, int] = {}
        self._sessions: dict[int, LoggedSession] = {}
        self._last_number = -1
        """Number of the last new session; -1 before the first."""
        self._new: set[int] = set()
        self._changed: set[int] = set()
        """Sessions that were described again after their description was written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.abandon()

    def describe(self, session: LoggedSession) -> None:
        """Store what is known of a session; call it before the session's first action is added.

        New sessions come in the order of their numbers.  Call it again if more becomes known of a
        session.  What is already written does not have that.
        """
        self._sessions[session.number] = session
        # The description of a known session may be forgotten.
        if session.number <= self._last_number:
            self._changed.add(session.number)
        else:
            self._last_number = session.number
            self._new.add(session.number)
            if session.began_before:
                self._transactions.begin_before(session.number)
        if len(self._sessions) > _MOST_SESSIONS:
            self._forget_sessions()

    def add(self, action: Action) -> None:
        """Add the next action of the log; the caller adds actions in the order of their ends."""
        values = action.parameters
        length = len(action.text) + len(action.name)
        if values:
            length += sum([len(value) for value in values if value is not None])
        if length > LONGEST:
            self._skipped[TOO_LONG] += 1
            return
        action, end = self._in_turn(action)
        does = _NUMBERS[action.does]
        statement = form = None
        if does in _STATEMENTS:
            statement = self._fingerprints.statement(action.text, action.query_id)
            form = statement.fingerprint
            if (table := copied(action.text)) is not None:
                self._tally.copies[table] += 1
        row = ActionRow(
            action.start_ns,
            action.session,
            does,
            action.duration_ns,
            action.rows,
            *self._order.place(action, end, form),
            statement,
            action.name,
            action.sqlstate,
            values,
            length,
        )
        self._transactions.add(action, row, end)
        self._latest = max(end, self._latest)
        self._characters += length
        if len(self._window) >= self._look_at or self._characters > _MOST_CHARACTERS:
            self._look()

    def close(
        self,
        source: ActionSource | None = None,
        skipped: Mapping[str, int] | None = None,
        damage: Sequence[str] = (),
    ) -> CaptureSummary:
        """Write the last actions, give the file its name, and return the file's summary.

        `skipped` (reason -> number of things) and `damage` (sentences) become a part of it.
        """
        self._transactions.finish()
        self._sort()
        self._write_sorted(len(self._window))
        self._write_late()
        summary = self._tally.summary(
            source or ActionSource(),
            skipped=self._skipped + Counter(skipped or {}),
            damage=damage,
            late=self.late,
            transactions=self._order.transactions,
            chains=self._order.chains,
        )
        last = {
            "summary": summary.model_dump_json().encode(),
            **{name: np.array(numbers, "<i8").tobytes() for name, numbers in self._index.items()},
        }
        self._file.finish(last)
        return summary

    def _in_turn(self, action: Action) -> tuple[Action, int]:
        """Return (action, its end in ns since 1970); a start that is too early is moved.

        It is too early if it is before the end of its session's last action.  A computed start may
        be, because a log's clock is coarser than durations.
        """
        start, free = action.start_ns, self._ends.get(action.session)
        if free is not None and free > start:
            start = free
            action = action._replace(start_ns=start)
        end = start + action.duration_ns if action.duration_ns > 0 else start
        if action.does == "disconnect":
            self._ends.pop(action.session, None)
        else:
            self._ends[action.session] = end
            if len(self._ends) > _MOST_SESSIONS:
                self._ends = {s: e for s, e in self._ends.items() if e > self._latest - WINDOW_NS}
        return action, end

    def _look(self) -> None:
        """Write the rows that began more than 10 s before the newest end, if they are many."""
        self._sort()
        sure = bisect_left(self._window, self._latest - WINDOW_NS, key=itemgetter(0))
        full = len(self._window) > _MOST_ROWS or self._characters > _MOST_CHARACTERS
        if full:  # Then write at least half of the rows.
            sure = max(sure, (len(self._window) + 1) // 2)
        if full or sure >= _BLOCK_ROWS // 2:
            self._write_sorted(sure)
        self._look_at = len(self._window) + _BLOCK_ROWS

    def _sort(self) -> None:
        """Sort the unwritten rows by start; set aside those that began before a written row."""
        self._window.sort(key=itemgetter(0))
        late = bisect_left(self._window, self._written, key=itemgetter(0))
        for row in self._window[:late]:
            self._late.append(row)
            self._late_characters += row.length
            self._characters -= row.length
            if len(self._late) >= _LATE_ROWS or self._late_characters > _BLOCK_CHARACTERS:
                self._write_late()
        del self._window[:late]
        self.late += late

    def _write_sorted(self, count: int) -> None:
        """Write the first `count` of the rows that are held back, and remove them from there."""
        for begin in range(0, count, _BLOCK_ROWS):
            rows = self._window[begin : min(begin + _BLOCK_ROWS, count)]
            self._characters -= sum([row.length for row in rows])
            for part in _parted(rows):
                self._write(part, self._new | self._changed)
                self._changed.difference_update([row.session for row in part])
        if count:
            self._written = self._window[count - 1][0]
        del self._window[:count]

    def _write_late(self) -> None:
        if self._late:
            self._late.sort(key=itemgetter(0))
            # A reader in the order of starts may meet these sessions here first.
            self._write(self._late, set(self._sessions))
        self._late, self._late_characters = [], 0

    def _write(self, rows: Sequence[ActionRow], wanted: set[int]) -> None:
        numbers = {row.session for row in rows} & wanted
        sessions = [
            self._sessions[number] for number in sorted(numbers) if number in self._sessions
        ]
        block = Block.of(rows, sessions)
        self._tally.add(self._without(block, numbers - self._new))
        self._new -= numbers
        columns, words = block.pack()
        offset = self._file.add(_COLUMNS, columns)
        self._file.add(_WORDS, words)
        entry = (offset, rows[0].start_ns, rows[-1].start_ns, len(rows))
        for name, number in zip(_INDEX, entry, strict=True):
            self._index[name].append(number)

    @staticmethod
    def _without(block: Block, known: set[int]) -> Block:
        """Return the block without the descriptions of the sessions whose numbers are `known`."""
        return replace(
            block, sessions=tuple(each for each in block.sessions if each.number not in known)
        )

    def _forget_sessions(self) -> None:
        """Forget the oldest descriptions of sessions that are already written, to save memory."""
        kept = self._new | self._changed
        old = [number for number in self._sessions if number not in kept]
        for number in old[: _MOST_SESSIONS // 2]:
            del self._sessions[number]


def _parted(rows: Sequence[ActionRow]) -> Iterator[Sequence[ActionRow]]:
    """Yield the rows in parts that are small enough for a block; one row is never divided."""
    if len(rows) < 2 or sum([row.length for row in rows]) <= _BLOCK_CHARACTERS:
        yield rows
        return
    middle = len(rows) // 2
    yield from _parted(rows[:middle])
    yield from _parted(rows[middle:])


class _Messages:
    """A writer of a replay file's messages; the file gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._compress = zstandard.ZstdCompressor(level=3).compress
        self._digest = hashlib.sha256()
        self._size = 0
        self._draft = Draft(path)
        self.abandon = self._draft.abandon
        self._put(_MAGIC % FORMAT)

    def add(self, kind: bytes, content: Mapping[str, bytes]) -> int:
        """Write a message of a kind (C, W or F) with the map `content`; return its byte offset."""
        offset = self._size
        raw: bytes = msgpack.packb(content)
        packed = self._compress(raw)
        self._put(_MESSAGE.pack(kind, len(packed), len(raw)))
        self._put(packed)
        return offset

    def finish(self, last: Mapping[str, bytes]) -> None:
        """Write the message `last` and the trailer with the digest, and give the file its name."""
        offset = self.add(_LAST, last)
        self._put(struct.pack("<Q", offset))
        self._put(self._digest.digest() + _END)
        try:
            self._draft.publish()
        except OSError as error:
            raise self._full(error) from error

    def _put(self, data: bytes) -> None:
        try:
            self._draft.file.write(data)
        except OSError as error:
            raise self._full(error) from error
        self._digest.update(data)
        self._size += len(data)

    def _full(self, error: OSError) -> ReplayerError:
        return ReplayerError(f"{self._path} could not be written: {error.strerror}")


class ArchiveReader:
    """A reader of a replay file, which is checked as a whole before any of its contents is used.

    `digest` is equal for two files if, and only if, their contents are equal.
    """

    def __init__(self, path: Path) -> None:
        """Open a file; raise Impossible if it is not a replay file or is damaged."""
        self.path = Path(path)
        try:
            if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
                raise Impossible(f"{self.path} cannot be read: it is not a file")
            self._file: BinaryIO = self.path.open("rb")
        except OSError as error:
            raise Impossible(f"{self.path} cannot be read: {error.strerror}") from error
        try:
            self._last = self._checked()
            self.summary = self._summary(self._last)
            self._entries = self._index(self._last)
        except OSError as error:
            self._file.close()
            raise Impossible(f"{self.path} cannot be read: {error.strerror}") from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def blocks(self) -> Iterator[Block]:
        """Yield all actions in blocks, in the order of their starts.

        Starts count from the first action's start, in nanoseconds.  What is known of an action's
        session is in `sessions` of this block or an earlier one.  Raises Impossible for a damaged
        block.
        """
        held: HeldActions | None = None
        order = self._by_begin()
        for place, number in enumerate(order):
            block = self._block(number)
            held = held.joined(block, number) if held else HeldActions.of(block, number)
            if place + 1 == len(order):
                yield held.block
                return
            ready, held = held.split(self._begin(order[place + 1]), order[place + 1])
            if ready is not None:
                yield ready
            if held and len(held.block) > _MOST_OVERLAPPING:
                raise self._damaged("too many of its blocks overlap")

    def check_order(self) -> None:
        """Raise Impossible if the commit order has numbers that do not fit the number of actions.

        A replay in commit order allocates memory up to the largest turn of each chain.
        """
        count, last = 0, UNKNOWN
        turns: dict[int, int] = {}
        for columns in self.columns():
            count += len(columns)
            ranks = (columns.needs, columns.ends)
            if min(int(places.min()) for places in (*ranks, columns.chain, columns.turn)) < UNKNOWN:
                raise self._damaged("a place in its order is none")
            if ((columns.chain == UNKNOWN) != (columns.turn == UNKNOWN)).any():
                raise self._damaged("a place in its order is half of one")
            last = max(last, *(int(places.max()) for places in ranks))
            for chain, turn in _last_turns(columns):
                turns[chain] = max(turn, turns.get(chain, turn))
        # Each action ends at most one transaction, and takes at most one turn of one chain.
        if last > count or sum(turns.values()) + len(turns) > count:
            raise self._damaged(f"its order has more places than it has actions ({count:,})")

    def columns(self) -> Iterator[ActionColumns]:
        """Yield the columns of each block, in the order in which the blocks were written.

        This is fast, but late actions come at the end, not in the order of their starts.
        """
        for number in range(len(self._entries["offset"])):
            yield self._columns(number)[0]

    def actions(self) -> Iterator[Action]:
        """Yield all actions in the order of their starts.

        Starts count from the first action's start, in nanoseconds.
        """
        for block in self.blocks():
            for row in range(len(block)):
                yield block.action(row)

    def _by_begin(self) -> list[int]:
        begins = self._entries["begin"]
        return sorted(range(len(begins)), key=begins.__getitem__)

    def _begin(self, number: int) -> int:
        return self._entries["begin"][number] - self.summary.begin_ns

    def _block(self, number: int) -> Block:
        columns, offset = self._columns(number)
        try:
            return Block.unpack(columns, self._message(offset, _WORDS, _MOST_PACKED)[0])
        except (ValueError, KeyError, RecursionError, OSError) as error:
            raise self._damaged(f"block {number:,} cannot be read ({error})") from error

    def _columns(self, number: int) -> tuple[ActionColumns, int]:
        """Return (columns of the block `number`, byte offset of the message with its texts)."""
        try:
            packed, offset = self._message(self._entries["offset"][number], _COLUMNS, _MOST_PACKED)
            columns = ActionColumns.unpack(packed)
        except (ValueError, KeyError, OSError) as error:
            raise self._damaged(f"block {number:,} cannot be read ({error})") from error
        starts = columns.start_ns
        if not len(columns) or (np.diff(starts) < 0).any():
            raise self._damaged(f"block {number:,} is not in the order of time")
        if int(starts[0]) != self._entries["begin"][number]:
            raise self._damaged(f"block {number:,} is not where it should be")
        return replace(columns, start_ns=starts - self.summary.begin_ns), offset

    def _message(self, offset: int, kind: bytes, most: int) -> tuple[dict[str, bytes], int]:
        """Return (map in the message at a byte `offset`, offset after it).

        Raises ValueError if the message is damaged, is not of this `kind`, or has more than `most`
        bytes, packed or unpacked.
        """
        self._file.seek(offset)
        head = self._file.read(_MESSAGE.size)
        if len(head) < _MESSAGE.size:
            raise ValueError("it ends too early")
        found, packed, raw = _MESSAGE.unpack(head)
        if found != kind or packed > most or raw > most:
            raise ValueError("it is not a message of its kind")
        data = self._file.read(packed)
        if len(data) < packed:
            raise ValueError("it ends too early")
        return _unpacked(data, raw), offset + _MESSAGE.size + packed

    def _checked(self) -> dict[str, bytes]:
        """Return the map in the last message; raise Impossible for a file cut off or damaged."""
        head = self._file.read(32)
        named = _NAMED.match(head)
        if named is None:
            raise Impossible(
                f"{self.path} is not a replay file: make one of a log with replayer convert"
            )
        if int(named[1]) > FORMAT:
            raise Impossible(
                f"{self.path} has format {int(named[1])}, and this replayer reads formats up to "
                f"{FORMAT}: use a newer replayer"
            )
        size = self._size = self._file.seek(0, os.SEEK_END)
        if size < len(named[0]) + _TRAILER.size:
            raise self._cut()
        self._file.seek(size - _TRAILER.size)
        offset, digest, end = _TRAILER.unpack(self._file.read(_TRAILER.size))
        if end != _END:
            raise self._cut()
        if self._hashed(size - _TRAILER.size + 8) != digest:
            raise self._damaged("its digest is another one")
        self.digest: str = digest.hex()
        if offset >= size:
            raise self._damaged("its end points beyond it")
        try:
            return self._message(offset, _LAST, _MOST_LAST)[0]
        except ValueError as error:
            raise self._damaged(f"its summary cannot be read ({error})") from error

    def _hashed(self, size: int) -> bytes:
        digest = hashlib.sha256()
        self._file.seek(0)
        while size > 0 and (data := self._file.read(min(size, 1 << 20))):
            digest.update(data)
            size -= len(data)
        return digest.digest()

    def _summary(self, last: Mapping[str, bytes]) -> CaptureSummary:
        try:
            return CaptureSummary.model_validate_json(last["summary"])
        except (KeyError, ValidationError) as error:
            raise self._damaged("its summary cannot be read") from error

    def _index(self, last: Mapping[str, bytes]) -> dict[str, list[int]]:
        try:
            index = {name: np.frombuffer(last[name], "<i8").tolist() for name in _INDEX}
        except (KeyError, ValueError) as error:
            raise self._damaged("its index cannot be read") from error
        offsets = index["offset"]
        whole = len({len(numbers) for numbers in index.values()}) == 1
        # A block that is listed many times would make a small file endless.
        whole = whole and len(set(offsets)) == len(offsets)
        if not whole or not 0 <= min(offsets, default=0) <= max(offsets, default=0) < self._size:
            raise self._damaged("its index cannot be read")
        if self.summary.begin_ns != min(index["begin"], default=self.summary.begin_ns):
            raise self._damaged("it does not begin where its summary says")
        return index

    def _cut(self) -> Impossible:
        return Impossible(
            f"{self.path} is incomplete (cut off, or still being written): convert its log again"
        )

    def _damaged(self, what: str) -> Impossible:
        return Impossible(f"{self.path} is damaged, {what}: convert its log again")


def _unpacked(data: bytes, size: int) -> dict[str, bytes]:
    """Return the map in the zstd frame `data`, which has `size` bytes when unpacked.

    Raises ValueError if it has another size, is damaged, or holds anything but a map of bytes.
    """
    try:
        if zstandard.frame_content_size(data) != size:
            raise ValueError("its size is another one")
        raw = zstandard.ZstdDecompressor(max_window_size=_MOST_PACKED).decompress(data)
        content = msgpack.unpackb(
            raw, list_hook=_refuse, max_array_len=_MOST_KEYS, max_map_len=_MOST_KEYS
        )
    except (zstandard.ZstdError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(str(error)) from error
    if not isinstance(content, dict):
        raise ValueError("it is not a map")  # noqa: TRY004 - of a file, not of a caller
    if not all(isinstance(value, bytes) for value in content.values()):
        raise ValueError("it holds more than bytes")
    return content


def _last_turns(columns: ActionColumns) -> Iterator[tuple[int, int]]:
    """Yield (number, largest turn) of each chain, which is all actions that change one table."""
    chained = columns[np.flatnonzero(columns.chain != UNKNOWN)]
    chains, places = np.unique(chained.chain, return_inverse=True)
    last = np.zeros(len(chains), np.int64)
    np.maximum.at(last, places, chained.turn)
    yield from zip(chains.tolist(), last.tolist(), strict=True)


def _refuse(_: Any) -> None:
    raise ValueError("it holds more than bytes")
