"""The order of commits, in memory that all worker processes share.

One byte for each transaction by its rank, and one for each change of a table by its turn: 1 once it
has ended.  Whoever ends something wakes only the processes in which somebody waits.
"""

import contextlib
import heapq
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replayer.watch.workers import Descriptor

_NEVER = b"\0"


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


class Sequenced:
    """Who has to end what, collected while a replay is prepared."""

    def __init__(self) -> None:
        self._ranks = bytearray()
        self._chains: dict[int, bytearray] = {}

    def ends(self, rank: int) -> None:
        """Tell that a transaction will end; those of whom nobody tells have ended."""
        _mark(self._ranks, rank)

    def takes(self, chain: int, turn: int) -> None:
        """Tell that a change will take its turn."""
        _mark(self._chains.setdefault(chain, bytearray()), turn)

    @contextlib.contextmanager
    def shared(self, processes: int) -> Iterator[Shared]:
        """Put all of it into memory that can be shared, for as long as the `with` block runs."""
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
            bells = []
            for _ in range(processes):
                bells.append(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
                stack.callback(os.close, bells[-1])
            yield Shared(
                Descriptor(memory),
                tuple(Descriptor(bell) for bell in bells),
                len(self._ranks),
                places,
                size,
            )


def _mark(ended: bytearray, place: int) -> None:
    if place >= len(ended):
        ended.extend(b"\1" * (place + 1 - len(ended)))
    ended[place] = 0


def _write(file: int, content: bytes | bytearray) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


class Gate:
    """The order as one process sees it: who waits here, and for what."""

    def __init__(self, shared: Shared, process: int) -> None:
        self._shared = shared
        self._bytes = mmap.mmap(shared.memory.fd, shared.size + len(shared.bells))
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

    def close(self) -> None:
        """Give the memory back."""
        self._bytes.close()

    def waits(self, who: int, needs: int, chain: int, turn: int) -> bool:
        """Tell whether somebody has to wait; he is named by `released` when he need not any more.

        `needs` and `chain` are -1 where there is nothing to wait for.
        """
        if needs > self._ended and needs > self._prefix():
            heapq.heappush(self._by_rank, (needs, who))
            return True
        if chain < 0:
            return False
        place = self._shared.chains[chain][0] + turn
        if place <= self._next[chain] or place <= self._turn(chain):
            return False
        heapq.heappush(self._by_turn.setdefault(chain, []), (place, who))
        return True

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
