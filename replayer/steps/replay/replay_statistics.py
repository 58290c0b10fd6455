"""Collection of a worker process's events: a record for each statement, counts of other events."""

from array import array
from dataclasses import dataclass
from typing import Final, NamedTuple

from replayer.steps.replay.replay_client import LoopClock, ReplayClient
from replayer.steps.replay.replay_counts import First, ReplayCounts, paired
from replayer.steps.replay.work import Record

LOST_SESSIONS: Final = "sessions lost"
NOT_RUN: Final = "not run"
ORDER_TIMEOUTS: Final = "order timeouts"
OUT_OF_TURN: Final = "out of turn"
IMPOSED_FAILURES: Final = "imposed failures"
REFUSED: Final = "connections refused"
GIVEN_UP: Final = "sessions given up"
SHARED: Final = "connections handed on"


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """A report of a worker process: counts since its last report, and the state of its sessions."""

    process: int
    seconds: float
    """Time since the start of the replay, in seconds."""
    tally: ReplayCounts
    at_work: int
    """Sessions with a statement under way."""
    done: int
    """Actions that this process has finished since the start of the replay."""
    behind: float
    """Seconds by which the session that has been due for longest is late; 0 if none is late."""


class Uncounted(NamedTuple):
    """Records of statements that are not counted yet, and the report that is to carry the counts.

    `begin_ns` is the begin of the replay on the monotonic clock.
    """

    progress: ReplayProgress
    records: "array[int]"
    """FIELDS numbers for each statement, as in replay_counts.py."""
    hashes: "array[int]"
    """A hash of the rows for each statement; empty if none were asked for."""
    begin_ns: int


class ReplayStatistics:
    """Collects the events of a worker process until `take` returns them for a report.

    With `timed`, statements have an intended start.  With `hashes`, answers have a hash of rows.
    """

    def __init__(self, process: int, clock: LoopClock, *, timed: bool, hashes: bool) -> None:
        self._process = process
        self._clock = clock
        self._timed = timed
        self._with_hashes = hashes
        self._records = array("q")
        self._hashes = array("Q")
        self._first: dict[tuple[int, int], First] = {}
        self._happened: dict[str, int] = {}
        self._unordered: dict[int, int] = {}
        self._reported = -1
        self.done = self.at_work = 0

    def count(self, event: str) -> None:
        """Count one more event; an event is a text such as "sessions given up"."""
        self._happened[event] = self._happened.get(event, 0) + 1

    def count_unordered(self, event: str, record: Record) -> None:
        """Count an event that lets an action run before its turn, and count that action, too."""
        self.count(event)
        if record.fingerprint >= 0:
            self._unordered[record.fingerprint] = self._unordered.get(record.fingerprint, 0) + 1

    def note_first(self, record: Record, code: int, session: int) -> None:
        """Note the time and session when a fingerprint first ends in another way than in the log.

        `code` is the SQLSTATE of an error that the log does not have.  It is below 0 for an error
        that only the log has, and 0 for another number of rows.
        """
        key = (record.fingerprint, code)
        if key not in self._first:
            self._first[key] = First(self._clock.seconds, session)

    def write(  # noqa: PLR0917 - the columns of a record
        self, client: ReplayClient, record: Record, code: int, rows: int, hashed: int, held: int
    ) -> None:
        """Record the times and the result of a statement that ended now.

        `code` is its SQLSTATE as a number, 0 for success, below 0 for an error that follows from an
        earlier one.  `rows` is the number of rows, -1 for none.  `hashed` is the hash of its rows.
        `held` is the comparison of its rows with the log's, as the function `held` of
        replay_counts.py packs it.
        """
        begun = client.begun_ns
        # At speed 0 there is no intended start: the statement was due when it was sent.
        intended = self._clock.begin_ns + record.start_ns if self._timed else begun
        self._records.extend(
            (
                record.fingerprint,
                intended,
                client.free_ns,
                begun,
                self._clock.seen_ns,
                code,
                rows,
                record.logged,
                held,
                client.where + record.part,
                paired(record.source_ns, client.work.number),
            )
        )
        if self._with_hashes:
            self._hashes.append(hashed)

    def take(self, behind: float) -> Uncounted | None:
        """Return what was collected since the last call; None if nothing happened.

        `behind` is the seconds by which the replay is late, for the report.  A report always means
        that something happened: if the server is silent, no report comes.
        """
        if not self._records and not self._happened and self._reported == self.done:
            return None
        self._reported = self.done
        counts = ReplayCounts(
            first=dict(self._first), unordered=self._unordered, happened=self._happened
        )
        progress = ReplayProgress(
            self._process, self._clock.seconds, counts, self.at_work, self.done, behind
        )
        taken = Uncounted(progress, self._records, self._hashes, self._clock.begin_ns)
        self._records, self._hashes = array("q"), array("Q")
        self._happened, self._unordered = {}, {}
        return taken
