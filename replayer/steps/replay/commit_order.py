"""The order of commits of a replay, in memory that all worker processes share.

The transactions of a capture are numbered in the order of their ends: the number is the rank.  The
changes of one table are a chain, and each of them has a turn in it.  The memory has one byte for
each rank and for each turn.  It becomes 1 when the transaction or the change has ended.  A process
that sets a byte wakes only those processes in which a client waits.

A change waits for all changes of its table that had ended at the source when it began, and for
those that may be of the same row.  So changes of different rows run at the same time, as they did
at the source.  For each turn, the memory has the place in the chain before which all turns must
have ended, and one further turn that must have ended.

A client may wait here for a second client, which waits in the server for a lock of the first.
Neither would ever go on, and the server sees no deadlock.  So the memory also has the owner of each
rank and turn, and what each client waits for.  Together with the lock waits that the server
reports, such a cycle is found.
"""

import contextlib
import heapq
import mmap
import os
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replayer.watch.workers import Descriptor

_NEVER = b"\0"
_NOBODY = -1
_WORD = 8
_TURN_COLUMNS = 2
"""Columns of a turn: the place before which all turns must have ended, and one further turn.

Both are offsets in the memory.  The second is -1 if there is no further turn.
"""
_SESSION, _WAITS, _SINCE, _COLUMNS = range(4)
"""Columns of a client: its session in the server, what it waits for, and since when, in ns."""
_FREE, _BY_RANK, _BY_TURN = range(3)
"""Waits of a client: none, for ranks, or for turns of a chain (the chain's number is added).

A number below 0 is a wait for one single turn: -1 minus the offset of that turn.
"""
_RESOLUTION_NS = 10**6
"""Resolution of logs' stamps, in nanoseconds: the order of closer events is not certain."""
_GAP, WHOLE_TABLE, _FIRST_KIND = range(3)
"""Kinds of changes: no change at this turn, of any rows, and from _FIRST_KIND on of one row."""


def client_number(process: int, who: int, processes: int) -> int:
    """Return a client's number among the clients of all processes of a replay, from 0.

    A client is one captured session that is replayed.  `who` is its number among the clients of the
    process `process`; both count from 0.  `processes` is the number of processes.
    """
    return who * processes + process


@dataclass(frozen=True, slots=True)
class Shared:
    """The layout of the shared memory with the order of commits, and eventfds to wake processes.

    Every worker process gets it.  A rank is the place of a transaction in the order, a chain is the
    order of the changes of one table, and a turn is the place of a change in it.
    """

    memory: Descriptor
    bells: tuple[Descriptor, ...]
    """One eventfd for each process."""
    ranks: int
    chains: Mapping[int, tuple[int, int]]
    """Number of a chain -> offset of its first byte, and of the byte after its last."""
    size: int
    """Bytes of all ranks and chains.

    After them comes one byte for each process: 1 while a client waits there.
    """
    owners: int
    """Offset of the owners: for each rank and turn, the number of its client in 8 bytes."""
    clients: int
    """Offset of the columns of the clients."""
    turns: int
    """Offset of the waits of the turns: two columns of 8 bytes for each (see _TURN_COLUMNS)."""
    end: int
    """Size of the whole memory in bytes."""

    def number(self, process: int, who: int) -> int:
        """Return a client's number among the clients of all processes.

        `who` is its number among the clients of the process `process`.
        """
        return client_number(process, who, len(self.bells))

    def of(self, number: int) -> tuple[int, int]:
        """Return the process of a client, and the client's number in that process."""
        return number % len(self.bells), number // len(self.bells)


class RowChange(NamedTuple):
    """A change of a table in the captured server: its row, if that is known, and its times."""

    kind: int
    """WHOLE_TABLE, or what `Sequenced.kind` returns for the columns that choose the row."""
    row: int
    """A number that is equal for changes of the same row, from 0 to 2^63 - 1."""
    start_ns: int
    end_ns: int


_NO_CHANGE = RowChange(WHOLE_TABLE, 0, 0, 0)


@dataclass(eq=False)
class _Changes:
    """The changes of one table, as columns: item N of a column is of the change at turn N."""

    kinds: "array[int]" = field(default_factory=lambda: array("i"))
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    starts: "array[int]" = field(default_factory=lambda: array("q"))
    ends: "array[int]" = field(default_factory=lambda: array("q"))

    def put(self, turn: int, change: RowChange) -> None:
        """Store a change at its turn: its place among the changes of the table, from 0."""
        more = turn + 1 - len(self.kinds)
        columns = (self.kinds, self.rows, self.starts, self.ends)
        for column, value in zip(columns, change, strict=True):
            if more > 0:
                column.extend([0] * more)
            column[turn] = value

    def waits(self, offset: int) -> npt.NDArray[np.int64]:
        """Return two offsets for each turn, which show the turns that must end before it.

        The result is int64[n, 2].  Each turn is one change of the table.  The offsets are places in
        the shared memory.  All turns of this table before the first offset must have ended.  The
        turn at the second offset must have ended as well; -1 means that there is no such turn.
        `offset` is that of the table's first turn.
        """
        kinds = np.frombuffer(self.kinds, np.int32)
        turns = np.arange(len(kinds))
        counted = np.bincount(kinds)
        counted[:_FIRST_KIND] = 0
        of_row = (kinds == counted.argmax()) & (kinds >= _FIRST_KIND)
        # A change that chooses its row by other columns may be of any row.
        whole = (kinds != _GAP) & ~of_row
        ends = np.maximum.accumulate(np.frombuffer(self.ends, np.int64))
        starts = np.frombuffer(self.starts, np.int64) - _RESOLUTION_NS
        ended = np.minimum(np.searchsorted(ends, starts), turns)
        behind_whole = np.maximum.accumulate(np.where(whole, turns + 1, 0))
        after = np.where(of_row, np.maximum(ended, behind_whole), turns)
        follows = np.full(len(kinds), -1)
        (places,) = np.nonzero(of_row)
        rows = np.frombuffer(self.rows, np.int64)[places]
        order = np.argsort(rows, kind="stable")
        same = rows[order][1:] == rows[order][:-1]
        follows[places[order][1:][same]] = places[order][:-1][same]
        return np.column_stack([after + offset, np.where(follows < 0, -1, follows + offset)])


class Sequenced:
    """Collects the order that a replay must keep, while the replay is planned.

    That is the ranks (places of the ends of transactions in the order) and the turns (places of the
    changes of each table), each with the client that owns it.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], int] = {}
        self._changes: dict[int, _Changes] = {}
        self._ranks = bytearray()
        self._chains: dict[int, bytearray] = {}
        self._of_ranks = array("q")
        self._of_turns: dict[int, array[int]] = {}

    def ends(self, rank: int, owner: int = _NOBODY) -> None:
        """Note that the client `owner` will end the transaction whose place in the order is `rank`.

        Ranks that are never noted count as ended.
        """
        _mark(self._ranks, self._of_ranks, rank, owner)

    def kind(self, columns: tuple[str, ...]) -> int:
        """Return the number of a set of columns by which changes choose their rows.

        The same set always gets the same number.
        """
        return self._kinds.setdefault(columns, len(self._kinds) + _FIRST_KIND)

    def takes(
        self, chain: int, turn: int, owner: int = _NOBODY, change: RowChange = _NO_CHANGE
    ) -> None:
        """Note that the client `owner` will make the change `change` of a table.

        `chain` is the number of the table's chain of changes, and `turn` is the place in it.
        """
        self._changes.setdefault(chain, _Changes()).put(turn, change)
        owners = self._of_turns.setdefault(chain, array("q"))
        _mark(self._chains.setdefault(chain, bytearray()), owners, turn, owner)

    @contextlib.contextmanager
    def shared(self, processes: int, clients: int = 0) -> Iterator[Shared]:
        """Write the order of commits into memory that worker processes share, and yield its layout.

        The memory exists while the `with` block runs. `processes` is the number of worker
        processes, `clients` the largest number of clients (replayed sessions) that one of them has.
        """
        with contextlib.ExitStack() as stack:
            memory = os.memfd_create("replayer-order", os.MFD_CLOEXEC)
            stack.callback(os.close, memory)
            places: dict[int, tuple[int, int]] = {}
            _write(memory, self._ranks)
            size = len(self._ranks)
            for chain, turns in self._chains.items():
                _write(memory, turns)
                places[chain] = (size, size + len(turns))
                size += len(turns)
            _write(memory, bytes(processes))
            owners = -(-(size + processes) // _WORD) * _WORD
            _write(memory, bytes(owners - size - processes))
            for owned in (self._of_ranks, *self._of_turns.values()):
                _write(memory, owned.tobytes())
            known = bytes(clients * processes * _COLUMNS * _WORD)
            _write(memory, known)
            width = 0
            for chain, changes in self._changes.items():
                columns = changes.waits(places[chain][0]).astype(np.int64).tobytes()
                _write(memory, columns)
                width += len(columns)
            bells = []
            for _ in range(processes):
                bells.append(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
                stack.callback(os.close, bells[-1])
            behind = owners + size * _WORD
            yield Shared(
                memory=Descriptor(memory),
                bells=tuple(Descriptor(bell) for bell in bells),
                ranks=len(self._ranks),
                chains=places,
                size=size,
                owners=owners,
                clients=behind,
                turns=behind + len(known),
                end=behind + len(known) + width,
            )


def _mark(ended: bytearray, owners: "array[int]", place: int, owner: int) -> None:
    if place >= len(ended):
        more = place + 1 - len(ended)
        ended.extend(b"\1" * more)
        owners.extend([_NOBODY] * more)
    ended[place] = 0
    owners[place] = owner


def _write(file: int, content: bytes | bytearray) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


class Gate:
    """The commit order in one process: its clients that wait, and the turn that each waits for.

    A client is one captured session that is replayed.  The parameter `who` is the number of a
    client among those of this process.
    """

    def __init__(self, shared: Shared, process: int) -> None:
        self._shared = shared
        self._process = process
        self._bytes = mmap.mmap(shared.memory.fd, shared.end)
        self._views: list[memoryview] = []
        self._owners = self._words(shared.owners, shared.clients)
        self._clients = self._words(shared.clients, shared.turns)
        self._turns = self._words(shared.turns, shared.end)
        self._own = shared.size + process
        self._others = [
            (shared.size + other, bell.fd)
            for other, bell in enumerate(shared.bells)
            if other != process
        ]
        self.bell = shared.bells[process].fd
        self._ended = 0
        self._next = {chain: first for chain, (first, _) in shared.chains.items()}
        self._by_rank: list[tuple[int, int]] = []
        self._by_turn: dict[int, list[tuple[int, int]]] = {}
        self._by_row: dict[int, list[int]] = {}
        """Offset of a turn -> the clients that wait for it alone."""
        self._free: list[int] = []
        """Clients that waited for a turn in `_by_row` which has ended since."""
        self._moved = False

    def _words(self, begin: int, end: int) -> memoryview:
        plain = memoryview(self._bytes)
        part = plain[begin:end]
        words = part.cast("q")
        self._views += [words, part, plain]
        return words

    def close(self) -> None:
        """Unmap the shared memory with the order."""
        for words in self._views:
            words.release()
        self._bytes.close()

    def waits(self, who: int, needs: int, chain: int, turn: int) -> bool:
        """Return whether the client `who` has to wait before its next action.

        If it has to, it is remembered, and `released` returns it once the wait may be over.

        All transactions with a rank below `needs` must have ended; -1 if the action needs none.
        `turn` is the turn of the action in the chain `chain`; `chain` is -1 if the action changes
        no table.
        """
        if needs > self._ended and needs > self._prefix():
            heapq.heappush(self._by_rank, (needs, who))
            self._note(who, _BY_RANK)
            return True
        if chain < 0:
            return False
        place = self._shared.chains[chain][0] + turn
        at = (place - self._shared.ranks) * _TURN_COLUMNS
        after = self._turns[at]
        if after > self._next[chain] and after > self._turn(chain):
            heapq.heappush(self._by_turn.setdefault(chain, []), (after, who))
            self._note(who, _BY_TURN + chain)
            return True
        follows = self._turns[at + 1]
        if follows < 0 or self._bytes[follows]:
            return False
        self._by_row.setdefault(follows, []).append(who)
        self._note(who, -1 - follows)
        return True

    def _note(self, who: int, waits: int) -> None:
        """Publish to all processes what a client waits for, and since when.

        `waits` has the form that is described at _FREE.
        """
        at = self._shared.number(self._process, who) * _COLUMNS
        if not self._clients[at + _WAITS]:
            self._clients[at + _SINCE] = time.monotonic_ns()
        self._clients[at + _WAITS] = waits

    def goes(self, who: int) -> None:
        """Publish to all processes that a client no longer waits, before its turn or at it."""
        self._clients[self._shared.number(self._process, who) * _COLUMNS + _WAITS] = _FREE

    def meet(self, who: int, session: int) -> None:
        """Publish to all processes the number of a client's session in the server, 0 for none."""
        self._clients[self._shared.number(self._process, who) * _COLUMNS + _SESSION] = session

    def deadlocked(self, blocked: Iterable[tuple[int, int]], asked_ns: int) -> list[int]:
        """Return the clients of this process that must go on now, as they are part of a deadlock.

        `blocked` has pairs of sessions in the server at the time `asked_ns` (monotonic, ns): one
        that waited for a lock, and one that it waited for.  One client of each cycle is released,
        if possible one that holds such a lock.
        """
        edges = self._edges(blocked, asked_ns)
        going: list[int] = []
        while (circle := _circle(edges)) is not None:
            held_up = [
                whom
                for who, whom in zip(circle, (*circle[1:], circle[0]), strict=True)
                if not self._clients[who * _COLUMNS + _WAITS]
                and self._clients[whom * _COLUMNS + _WAITS]
            ]
            chosen = min(held_up or circle)
            del edges[chosen]
            process, who = self._shared.of(chosen)
            # Each process finds the same cycles, and releases only its own clients.
            if process == self._process and self._clients[chosen * _COLUMNS + _WAITS]:
                going.append(who)
        return going

    def _edges(self, blocked: Iterable[tuple[int, int]], asked_ns: int) -> dict[int, set[int]]:
        """Return client -> clients that it waits for, over all processes.

        A client waits for another one by the order of commits, or by a lock in the server.  Locks
        are in `blocked`, as pairs of sessions: the one that waits, and the one that it waits for.
        """
        known = self._clients
        edges: dict[int, set[int]] = {}
        numbers: dict[int, int] = {}
        for number in self._present():
            at = number * _COLUMNS
            if known[at + _SESSION]:
                numbers[known[at + _SESSION]] = number
            waits = known[at + _WAITS]
            # A client that began to wait after the query may no longer hold the lock.
            if waits and known[at + _SINCE] < asked_ns:
                owner = self._owner(waits)
                if owner not in {_NOBODY, number}:
                    edges[number] = {owner}
        for who, whom in blocked:
            if who in numbers and whom in numbers and not known[numbers[who] * _COLUMNS + _WAITS]:
                edges.setdefault(numbers[who], set()).add(numbers[whom])
        return edges

    def _present(self) -> list[int]:
        """Return the numbers of all clients, in all processes, that are connected or wait."""
        if not len(self._clients):
            return []
        table = np.frombuffer(self._clients, np.int64).reshape(-1, _COLUMNS)
        present: list[int] = np.flatnonzero(table[:, _SESSION] | table[:, _WAITS]).tolist()
        return present

    def _owner(self, waits: int) -> int:
        """Return the number of the client that must act next before a wait can end; -1 if none.

        That is the owner of the first rank or turn that the wait needs and that has not ended.
        `waits` is the wait as a number, in the form that is described at _FREE.
        """
        if waits < 0:
            place, end = -1 - waits, self._shared.size
            place = end if self._bytes[place] else place
        elif waits == _BY_RANK:
            place, end = self._prefix(), self._shared.ranks
        else:
            chain = waits - _BY_TURN
            place, end = self._turn(chain), self._shared.chains[chain][1]
        return self._owners[place] if place < end else _NOBODY

    def _prefix(self) -> int:
        """Return the first rank that has not ended: all ranks below it have ended.

        Return 2^62, a number above every rank, if all ranks have ended.
        """
        first = self._bytes.find(_NEVER, self._ended, self._shared.ranks)
        self._ended = self._shared.ranks if first < 0 else first
        # Ranks after the last marked one have no owner: they count as ended.
        return self._ended if first >= 0 else 1 << 62

    def _turn(self, chain: int) -> int:
        end = self._shared.chains[chain][1]
        first = self._bytes.find(_NEVER, self._next[chain], end)
        self._next[chain] = end if first < 0 else first
        return self._next[chain]

    def end(self, rank: int, chain: int, turn: int) -> None:
        """Mark a transaction and a change of a table as ended, for all processes.

        `rank` is the place of the transaction in the order; -1 if none ends.  `turn` is the place
        of the change in the chain `chain` of a table; `chain` is -1 if no change ends.
        """
        if rank >= 0:
            self._bytes[rank] = 1
            self._moved = True
        if chain >= 0:
            place = self._shared.chains[chain][0] + turn
            self._bytes[place] = 1
            self._moved = True
            if place in self._by_row:
                self._free += self._by_row.pop(place)

    def released(self) -> Sequence[int]:
        """Return this process's clients whose wait may be over: call `waits` again for each."""
        free, self._free = self._free, []
        if self._others and self._by_row:
            for place in [place for place in self._by_row if self._bytes[place]]:
                free += self._by_row.pop(place)
        if self._by_rank:
            prefix = self._prefix()
            while self._by_rank and self._by_rank[0][0] <= prefix:
                free.append(heapq.heappop(self._by_rank)[1])
        for chain, waiting in self._by_turn.items():
            if waiting:
                turn = self._turn(chain)
                while waiting and waiting[0][0] <= turn:
                    free.append(heapq.heappop(waiting)[1])
        return free

    def ring(self) -> None:
        """Wake the other processes in which a client waits, if a rank or turn has ended here.

        Here means: in this process, since the last call.
        """
        if self._moved:
            self._moved = False
            for place, bell in self._others:
                if self._bytes[place]:
                    os.eventfd_write(bell, 1)

    def sleep(self) -> bool:
        """Publish whether a client waits in this process, and return it.

        After True, call `released` again before sleeping: something may have ended meanwhile.
        """
        waiting = bool(self._by_rank or self._by_row or self._free) or any(self._by_turn.values())
        self._bytes[self._own] = waiting
        return waiting

    def silence(self) -> None:
        """Reset the eventfd of this process, so that the next wake-up is noticed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)


def _circle(edges: Mapping[int, set[int]]) -> list[int] | None:
    """Return the nodes of a cycle: each waits for the next one, and the last one for the first.

    `edges` is node -> nodes that it waits for.  Return None if there is no cycle.
    """
    done: set[int] = set()
    for begin in edges:
        path: list[int] = []
        places: dict[int, int] = {}
        ahead = [iter((begin,))]
        while ahead:
            node = next(ahead[-1], None)
            if node is None:
                ahead.pop()
                if path:
                    done.add(path[-1])
                    del places[path.pop()]
            elif node in places:
                return path[places[node] :]
            elif node not in done and node in edges:
                places[node] = len(path)
                path.append(node)
                ahead.append(iter(edges[node]))
    return None
