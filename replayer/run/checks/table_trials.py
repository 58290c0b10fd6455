"""Trials of the verbs (an engine's SQL files) that make, grow and remove the table persons1."""

import time

from replayer import __version__
from replayer.run.checks.verb_trials import VerbTrials
from replayer.tables.persons import NAME, SEEDS

FEW = 6_144
"""Rows of the table on which every verb is tried."""
GROWN = 98_304
"""Rows to which the table is grown at last; then its hash and its files are compared."""
CHECKS_OWN = "check --prove"
"""The text that is recorded as the compression of this check's table, to recognize that table.

A build step cannot ask for a compression of this name, so the table of a run never has it."""
SEGMENT_ROWS = FEW // 2
"""Rows of one segment: half of 6,144, so that the doubling to 6,144 copies a whole segment."""
_NAME_BYTES = 20.0


class TableTrials:
    """The trials of the verbs (SQL files) on one table; a failed verb does not stop the others."""

    def __init__(self, trials: VerbTrials, layout: str) -> None:
        self.trials = trials
        self.layout = layout
        self.doubling = 0
        self._compression = ""
        self._double = f"{self.layout}/double"

    @property
    def rows(self) -> int:
        """Return the number of rows of the table after the doublings so far."""
        return len(SEEDS) << self.doubling

    def make(self) -> None:
        """Make the table, and double it until it has 6,144 rows."""
        attempt = self.trials.attempt
        attempt("table/session")
        attempt("table/found")
        names = attempt(f"{self.layout}/compressions")
        self._compression = str(names[0]["name"]) if names else ""
        attempt(f"{self.layout}/locks", segments=GROWN // SEGMENT_ROWS)
        attempt(
            f"{self.layout}/estimate", rows=FEW, lastname_bytes=_NAME_BYTES,
            compression=self._compression, segments=2,
        )  # fmt: skip
        attempt("begin")
        attempt("rollback")
        attempt(
            "table/create", made_by=f"replayer {__version__}", layout=self.layout,
            compression=CHECKS_OWN, segment_rows=SEGMENT_ROWS, rows_wanted=GROWN,
        )  # fmt: skip
        attempt("table/begin", {"doubling": 0})
        attempt("begin")
        attempt(f"{self.layout}/create")
        self._empty_segment(1)
        attempt(f"{self.layout}/seed")
        self._publish()
        attempt("commit")
        self._grow_to(FEW)
        for name in ("state", "segments", "bytes", "doublings", "warm_up"):
            attempt(f"table/{name}")
        if self._compression:
            self._try_other_compressions([str(row["name"]) for row in names[1:]])

    def grow(self) -> None:
        """Double the table until it has 98,304 rows."""
        self._grow_to(GROWN)

    def read_ranges(self) -> list[int]:
        """Read all rows in two ranges, the first with a third of them; return each sum of ids.

        A range that could not be read is left out.
        """
        middle = self.rows // 3
        ranges = [(1, middle), (middle + 1, self.rows)]
        rows = [
            self.trials.attempt("table/range", {"table": NAME}, first=first, last=last)
            for first, last in ranges
        ]
        return [int(found[0]["id_sum"]) for found in rows if found]

    def vacuum(self) -> None:
        """Execute the SQL files (verbs) with which the step `flush` vacuums the tried table."""
        for segment in range(1, max(1, self.rows // SEGMENT_ROWS) + 1):
            self.trials.attempt(f"{self.layout}/vacuum", {"segment": segment})
        self.trials.attempt(f"{self.layout}/vacuum_all")
        self.trials.attempt("table/vacuum")

    def remove(self) -> None:
        """Remove the table with the same verbs (SQL files) that a run uses."""
        attempt = self.trials.attempt
        segments = attempt("table/segments")
        attempt("table/forget")
        attempt(f"{self.layout}/unpublish")
        for row in segments:
            attempt(f"{self.layout}/discard", {"segment": row.number("segment")})
        attempt(f"{self.layout}/remove")
        attempt("table/drop")

    def _grow_to(self, rows: int) -> None:
        while self.rows < rows:
            begun = time.monotonic()
            self._grow_once()
            seconds = time.monotonic() - begun
            self.trials.attempt(
                "table/measured", {"doubling": self.doubling}, doubling=self.doubling,
                seconds=seconds, table_bytes=None, wal_bytes=None,
            )  # fmt: skip

    def _grow_once(self) -> None:
        attempt, before = self.trials.attempt, self.rows
        number = self.doubling + 1
        attempt("table/begin", {"doubling": number})
        whole = self.trials.database.engine.named(self._double) is None
        if whole or before < SEGMENT_ROWS:
            attempt("begin")
            self._empty_segment(0)
            attempt(f"{self.layout}/grow", {"rows": before, "doubling": number})
        else:
            for source in range(1, before // SEGMENT_ROWS + 1):
                self._double_segment(number, source, before)
            attempt("begin")
        self.doubling = number
        self._publish()
        attempt("commit")

    def _double_segment(self, number: int, source: int, before: int) -> None:
        target = before // SEGMENT_ROWS + source
        first = (source - 1) * SEGMENT_ROWS
        holes = {
            "doubling": number, "source": source, "target": target, "segment": target,
            "first_row": first, "target_row": before + first, "rows": SEGMENT_ROWS,
        }  # fmt: skip
        self.trials.attempt("begin")
        self._empty_segment(target)
        self.trials.attempt(self._double, holes)
        self.trials.attempt(f"{self.layout}/bytes", holes)
        self.trials.attempt("commit")

    def _empty_segment(self, number: int) -> None:
        self.trials.attempt(f"{self.layout}/segment", {"segment": number})
        if self._compression:
            self.trials.attempt(f"{self.layout}/store_{self._compression}", {"segment": number})

    def _try_other_compressions(self, names: list[str]) -> None:
        """Try each other compression on the first segment, then set its own compression again.

        `names` are the other compressions. Setting a compression does not rewrite stored rows.
        """
        for name in (*names, self._compression):
            self.trials.attempt(f"{self.layout}/store_{name}", {"segment": 1})

    def _publish(self) -> None:
        doubling = self.doubling
        self.trials.attempt(f"{self.layout}/publish", {"doubling": doubling})
        self.trials.attempt("table/complete", {"doubling": doubling, "rows": self.rows})
