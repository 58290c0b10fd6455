"""The order of commits, in memory that all worker processes share.

One byte for each transaction by its rank, and one for each change of a table by its turn: 1 once it
has ended.  Whoever ends something wakes only the processes in which somebody waits.

Where one waits here for another that waits in the server for a lock of the first, neither would
ever go on, and the server sees no deadlock.  So the memory says as well whose each rank and turn
is, and what each session waits for: with what the server says of its locks, such a circle is seen.
"""

import contextlib
import heapq
import mmap
import os
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from replayer.watch.workers import Descriptor

_NEVER = b"\0"
_NOBODY = -1
_WORD = 8
_SESSION, _WAITS, _SINCE, _COLUMNS = range(4)
"""What is known of each client: its session in the server, what it waits for, and since when."""
_FREE, _BY_RANK, _BY_TURN = range(3)
"""What a client waits for: nothing, a rank, or the turn of a chain, whose number is added."""


def client_number(process: int, who: int, processes: int) -> int:
    """Return the number of a process's client among those of all processes."""
    return who * processes + process


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the bytes lie, and what wakes each process; it travels to all of them."""

    memory: Descriptor
    bells: tuple[Descriptor, ...]
    """One eventfd for each process."""
    ranks: int
    chains: Mapping[int, tuple[int, int]]
    """Number of a chain -> its first byte, and the byte behind its last."""
    size: int
    """Bytes of all of them; behind it is one for each process: 1 while somebody waits there."""
    owners: int
    """Where the owner of each of them stands, by 8 bytes."""
    clients: int
    """Where what is known of each client stands."""
    end: int

    def number(self, process: int, who: int) -> int:
        """Return the number of a client among those of all processes."""
        return client_number(process, who, len(self.bells))

    def of(self, number: int) -> tuple[int, int]:
        """Return the process of a client, and its number there."""
        return number % len(self.bells), number // len(self.bells)


class Sequenced:
    """Who has to end what, collected while a replay is prepared."""

    def __init__(self) -> None:
        self._ranks = bytearray()
        self._chains: dict[int, bytearray] = {}
        self._of_ranks = array("q")
        self._of_turns: dict[int, array[int]] = {}

    def ends(self, rank: int, owner: int = _NOBODY) -> None:
        """Tell who will end a transaction; those of whom nobody tells have ended."""
        _mark(self._ranks, self._of_ranks, rank, owner)

    def takes(self, chain: int, turn: int, owner: int = _NOBODY) -> None:
        """Tell whose change will take its turn."""
        owners = self._of_turns.setdefault(chain, array("q"))
        _mark(self._chains.setdefault(chain, bytearray()), owners, turn, owner)

    @contextlib.contextmanager
    def shared(self, processes: int, clients: int = 0) -> Iterator[Shared]:
        """Put all of it into memory that can be shared, for as long as the `with` block runs.

        `clients` is how many each process has, at most.
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
                end=behind + len(known),
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
    """The order as one process sees it: who waits here, and for what."""

    def __init__(self, shared: Shared, process: int) -> None:
        self._shared = shared
        self._process = process
        self._bytes = mmap.mmap(shared.memory.fd, shared.end)
        self._views: list[memoryview] = []
        self._owners = self._words(shared.owners, shared.clients)
        self._clients = self._words(shared.clients, shared.end)
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
        self._moved = False

    def _words(self, begin: int, end: int) -> memoryview:
        plain = memoryview(self._bytes)
        part = plain[begin:end]
        words = part.cast("q")
        self._views += [words, part, plain]
        return words

    def close(self) -> None:
        """Give the memory back."""
        for words in self._views:
            words.release()
        self._bytes.close()

    def waits(self, who: int, needs: int, chain: int, turn: int) -> bool:
        """Tell whether somebody has to wait; he is named by `released` when he need not any more.

        `needs` and `chain` are -1 where there is nothing to wait for.
        """
        if needs > self._ended and needs > self._prefix():
            heapq.heappush(self._by_rank, (needs, who))
            self._note(who, _BY_RANK)
            return True
        if chain < 0:
            return False
        place = self._shared.chains[chain][0] + turn
        if place <= self._next[chain] or place <= self._turn(chain):
            return False
        heapq.heappush(self._by_turn.setdefault(chain, []), (place, who))
        self._note(who, _BY_TURN + chain)
        return True

    def _note(self, who: int, waits: int) -> None:
        """Let all processes know what a client waits for, and since when."""
        at = self._shared.number(self._process, who) * _COLUMNS
        if not self._clients[at + _WAITS]:
            self._clients[at + _SINCE] = time.monotonic_ns()
        self._clients[at + _WAITS] = waits

    def goes(self, who: int) -> None:
        """Take notice that a client waits no more, whether or not it was its turn."""
        self._clients[self._shared.number(self._process, who) * _COLUMNS + _WAITS] = _FREE

    def meet(self, who: int, session: int) -> None:
        """Take the number that a client's session has in the server."""
        self._clients[self._shared.number(self._process, who) * _COLUMNS + _SESSION] = session

    def deadlocked(self, blocked: Iterable[tuple[int, int]], asked_ns: int) -> list[int]:
        """Return who must go, as those that it waits for wait for it in the server.

        `blocked` has the sessions that waited there for a lock at `asked_ns`, each with those that
        it waited for.  Of each circle one goes: one that holds such a lock.
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
            # Each process finds the same circles, and lets its own clients go.
            if process == self._process and self._clients[chosen * _COLUMNS + _WAITS]:
                going.append(who)
        return going

    def _edges(self, blocked: Iterable[tuple[int, int]], asked_ns: int) -> dict[int, set[int]]:
        """Return for each client that waits, here or in the server, for whom it does."""
        known = self._clients
        edges: dict[int, set[int]] = {}
        numbers: dict[int, int] = {}
        for number in self._present():
            at = number * _COLUMNS
            if known[at + _SESSION]:
                numbers[known[at + _SESSION]] = number
            waits = known[at + _WAITS]
            # One that has begun to wait since may have let go of what it held.
            if waits and known[at + _SINCE] < asked_ns:
                owner = self._owner(waits)
                if owner not in {_NOBODY, number}:
                    edges[number] = {owner}
        for who, whom in blocked:
            if who in numbers and whom in numbers and not known[numbers[who] * _COLUMNS + _WAITS]:
                edges.setdefault(numbers[who], set()).add(numbers[whom])
        return edges

    def _present(self) -> list[int]:
        """Return the clients that are connected or wait: few of those that a long capture has."""
        if not len(self._clients):
            return []
        table = np.frombuffer(self._clients, np.int64).reshape(-1, _COLUMNS)
        present: list[int] = np.flatnonzero(table[:, _SESSION] | table[:, _WAITS]).tolist()
        return present

    def _owner(self, waits: int) -> int:
        """Return whose end is the next one of what a client waits for."""
        if waits == _BY_RANK:
            place, end = self._prefix(), self._shared.ranks
        else:
            chain = waits - _BY_TURN
            place, end = self._turn(chain), self._shared.chains[chain][1]
        return self._owners[place] if place < end else _NOBODY

    def _prefix(self) -> int:
        """Return how many transactions have ended without a gap."""
        first = self._bytes.find(_NEVER, self._ended, self._shared.ranks)
        self._ended = self._shared.ranks if first < 0 else first
        # Those that nobody ends lie behind the last that somebody does.
        return self._ended if first >= 0 else 1 << 62

    def _turn(self, chain: int) -> int:
        end = self._shared.chains[chain][1]
        first = self._bytes.find(_NEVER, self._next[chain], end)
        self._next[chain] = end if first < 0 else first
        return self._next[chain]

    def end(self, rank: int, chain: int, turn: int) -> None:
        """Tell that a transaction has ended, or a change, or both; -1 is none."""
        if rank >= 0:
            self._bytes[rank] = 1
            self._moved = True
        if chain >= 0:
            self._bytes[self._shared.chains[chain][0] + turn] = 1
            self._moved = True

    def released(self) -> Sequence[int]:
        """Return who need not wait any more, each to ask `waits` again; nobody if nothing ended."""
        free: list[int] = []
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
        """Wake the other processes in which somebody waits, if something ended here."""
        if self._moved:
            self._moved = False
            for place, bell in self._others:
                if self._bytes[place]:
                    os.eventfd_write(bell, 1)

    def sleep(self) -> bool:
        """Tell the others whether somebody waits here; True if nobody is released yet."""
        waiting = bool(self._by_rank) or any(self._by_turn.values())
        self._bytes[self._own] = waiting
        return waiting

    def silence(self) -> None:
        """Take notice of the bell."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)


def _circle(edges: Mapping[int, set[int]]) -> list[int] | None:
    """Return some that wait for each other, each for the next one and the last for the first."""
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
