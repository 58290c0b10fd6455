"""Counters of a profile -> statements that a load can execute.

A load knows five kinds of statements (`load.mix`), each committed by itself, on tables with one row
in a block.  A profile counts transactions, rows, blocks and bytes of many tables, and never which
row belonged to which statement.  `of` makes such statements from the counters.  Where the counters
leave something open, `of` makes an assumption and records it in a sentence:

    writes       rows inserted, updated and deleted; a deleted row counts as an updated one.  There
                 are as many statements as rows, with two upper limits: the transactions, as each
                 statement commits by itself, and the syncs of the log, as each commit is one.  Rows
                 beyond that share statements: rows written by one transaction, or synced at once,
                 are one statement of several rows
    reads        rows fetched by an index, less those that were then updated or deleted, and no
                 fewer than the rows that reading statements returned.  As many statements as the
                 profile counts; where it counts none, one a transaction
    point, range a read of at most 1.5 rows is of one row; all others are as long as their mean
    blocks       rows that lie in one block count once, as far as the block accesses show it
    scan         rows read and not fetched by an index, 50 of them in a block; but no more blocks
                 than were missed in the buffers and do not belong to rows read by an index.  Scans
                 of blocks in the buffers cost CPU only, which the load burns anyway
    device only  where only a device was profiled: a small read of the device is a row, a large one
                 a part of a scan; two writes are an update, one of the log and one of the block
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from replayer.errors import Impossible
from replayer.load.mix import WeightedMix
from replayer.model import Noun
from replayer.results.profile import StatementUse

_INDEX_LEVELS = 3
"""Blocks of an index on the way to a row: an index of a hundred million rows has so many."""
_ROWS_A_BLOCK = 50
_BLOCK = 8192
_LARGE = 131_072
"""Bytes of a scan's read, as a device sees it: the kernel's read-ahead."""
_ONE_ROW = 1.5
_LONGEST_RANGE = 10_000
_LARGEST_ROW = 4000
_MOST_ROWS = 1_000_000
_ROW_BYTES = 200
_LONGEST = 3600.0
_SHORTEST = 1e-9
"""Seconds of CPU of a statement: with less, the load burns none."""


class StatementLoad(Noun):
    """Statements a second that do the same work as a source."""

    point: float = 0.0
    range: float = 0.0
    update: float = 0.0
    insert: float = 0.0
    scanned_blocks: float = 0.0
    """Blocks a second that scans read; the size of a table decides how many scans that is."""
    work_unit: int = 1
    update_rows: int = 1
    insert_bytes: int = _ROW_BYTES
    cpu_cores: float | None = None
    """Processors that the server's processes used or, where not counted, the whole host."""
    hit_ratio: float | None = None
    hot: str = ""
    assumptions: tuple[str, ...] = ()

    def rate(self, table_blocks: int) -> float:
        """Return the statements a second; a scan reads `table_blocks` blocks, a whole table."""
        scans = self.scanned_blocks / max(1, table_blocks)
        return self.point + self.range + self.update + self.insert + scans

    def mix(self, table_blocks: int) -> WeightedMix:
        """Return the proportions of the statements; a scan reads `table_blocks` blocks.

        Raise Impossible if the profile counted no work, so that there are no statements.
        """
        rate = self.rate(table_blocks)
        if not rate:
            raise Impossible(
                "the profile knows of no row, block, request or transaction, so that no load can "
                "be made of it: profile the database itself with `replayer profile URL`"
            )
        cpu = min(_LONGEST, self.cpu_cores / rate) if self.cpu_cores else 0.0
        return WeightedMix(
            point=self.point,
            range=self.range,
            update=self.update,
            insert=self.insert,
            scan=self.scanned_blocks / max(1, table_blocks),
            work_unit=self.work_unit,
            update_rows=self.update_rows,
            insert_bytes=self.insert_bytes,
            hot=self.hot,
            cpu=cpu if cpu >= _SHORTEST else None,
            cpu_rate=rate if cpu >= _SHORTEST else None,
            hit_ratio=self.hit_ratio,
        )


class _Counted:
    """The columns of one window of a profile, and the assumptions made while reading them."""

    def __init__(
        self, columns: Mapping[str, float], block_bytes: int, statements: Sequence[StatementUse]
    ) -> None:
        self.columns = columns
        self.block_bytes = block_bytes
        self.kinds = {one.kind: one for one in statements}
        self.assumptions: list[str] = []

    def known(self, *names: str) -> bool:
        return any(name in self.columns for name in names)

    def sum(self, *names: str) -> float:
        return sum(self.columns.get(name, 0.0) for name in names)

    def assume(self, sentence: str) -> None:
        self.assumptions.append(sentence)


def of(
    columns: Mapping[str, float],
    *,
    statements: Sequence[StatementUse] = (),
    block_bytes: int | None = None,
    hot: str = "",
) -> StatementLoad:
    """Return statements a second that do the work of one window of a profile.

    `columns` has the means of the profile's columns over the window.  `statements` has the kinds of
    statements in the whole profile; each kind is assumed to have the same share in the window.
    `hot` is the share of the data that gets most accesses, such as 10%/90%, or "".
    """
    counted = _Counted(columns, block_bytes or _BLOCK, statements)
    writes = _writes(counted)
    reads = _reads(counted, writes)
    return StatementLoad(
        **writes,
        **reads,
        cpu_cores=_cpu(counted),
        hit_ratio=_hit_ratio(columns),
        hot=hot,
        assumptions=tuple(counted.assumptions),
    )


def transactions(columns: Mapping[str, float]) -> float | None:
    """Return transactions a second, committed or rolled back; None where they are not counted.

    `columns` is a profile's column -> its mean.
    """
    if "commits" not in columns:
        return None
    return columns["commits"] + columns.get("rollbacks", 0.0)


def _hit_ratio(columns: Mapping[str, float]) -> float | None:
    accesses = columns.get("blocks_hit", 0.0) + columns.get("blocks_read", 0.0)
    if "blocks_hit" not in columns or "blocks_read" not in columns or not accesses:
        return None
    return columns["blocks_hit"] / accesses


def _cpu(counted: _Counted) -> float | None:
    if counted.known("server_cpu_cores"):
        return counted.sum("server_cpu_cores") or None
    if not counted.known("cpu_cores"):
        return None
    counted.assume("all CPU of the source's host is taken to be the database's")
    return counted.sum("cpu_cores") or None


_ROWS = ("tuples_inserted", "tuples_updated", "tuples_deleted")
_STATEMENTS = ("inserts", "updates", "deletes")


def _writes(counted: _Counted) -> dict[str, Any]:
    """Return fields of a StatementLoad: inserts and updates a second, and the size of each."""
    names = _ROWS if counted.known(*_ROWS) else _STATEMENTS
    if not counted.known(*names):
        return _guessed_writes(counted)
    inserted, changed = counted.sum(names[0]), counted.sum(*names[1:])
    if counted.sum(names[2]):
        counted.assume("a row that is deleted is taken for one that is updated")
    rows = inserted + changed
    most = _write_transactions(counted)
    if not most or rows <= most:
        if rows:
            counted.assume("each row that is written is taken to be a transaction of its own")
        return {"insert": inserted, "update": changed}
    counted.assume(
        f"the {_rows(rows / most)} that a transaction writes are taken to be all alike in each: "
        f"which transactions only read is not known"
        + (", and that as many write as the log is synced" if _synced(counted) == most else "")
    )
    return _bundled(inserted, changed, most)


def _write_transactions(counted: _Counted) -> float | None:
    """Return an upper limit of the transactions a second that wrote; None if none were counted.

    A transaction that wrote and committed has the log synced, or shares that sync with others.
    MariaDB and MySQL count a COMMIT only where one was sent.  There, the writing transactions are
    at most the statements that write.
    """
    ended, synced = transactions(counted.columns), _synced(counted)
    if counted.known(*_STATEMENTS):
        statements = counted.sum(*_STATEMENTS)
        return max(ended or 0.0, statements if synced is None else min(statements, synced))
    if ended is None or synced is None:
        return ended
    return min(ended, synced)


def _synced(counted: _Counted) -> float | None:
    """Return syncs of the log a second; None where none were counted."""
    return counted.sum("wal_syncs") or None


def _bundled(inserted: float, changed: float, transactions_: float) -> dict[str, Any]:
    """Return fields of a StatementLoad that writes rows in fewer statements than there are rows.

    `inserted` and `changed` are rows a second; `transactions_` is statements a second.
    """
    share = inserted / (inserted + changed)
    inserts, updates = transactions_ * share, transactions_ * (1 - share)
    bytes_ = _ROW_BYTES * inserted / inserts if inserts else _ROW_BYTES
    return {
        "insert": inserts,
        "update": updates,
        "update_rows": min(_MOST_ROWS, max(1, round(changed / updates))) if updates else 1,
        "insert_bytes": min(_LARGEST_ROW, max(1, round(bytes_))),
    }


def _rows(many: float) -> str:
    return f"{many:.3g} rows"


def _guessed_writes(counted: _Counted) -> dict[str, Any]:
    """Return fields of a StatementLoad guessed from the device's writes, as rows are unknown."""
    if not counted.known("write_iops"):
        counted.assume("nothing is known of writes: there are none in the mix")
        return {}
    updates = counted.sum("write_iops") / 2
    most = transactions(counted.columns)
    updates = updates if most is None else min(updates, most)
    counted.assume("rows written are not counted: two writes of the device are taken for an update")
    return {"update": updates}


def _reads(counted: _Counted, writes: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a StatementLoad: point and range reads, rows of a range, scanned blocks."""
    if not counted.known("tuples_fetched", "tuples_returned"):
        return _guessed_reads(counted)
    fetched = counted.sum("tuples_fetched")
    rows = max(0.0, fetched - counted.sum("tuples_updated", "tuples_deleted"))
    rows = max(rows, _rows_given(counted))
    statements = _read_statements(counted, rows)
    scanned_rows = max(0.0, counted.sum("tuples_returned") - fetched)
    rows, scanned = _in_blocks(counted, writes, rows, statements, scanned_rows)
    return {**_lengths(counted, rows, statements), "scanned_blocks": scanned}


def _read_statements(counted: _Counted, rows: float) -> float:
    """Return how many statements a second read `rows` rows a second by an index."""
    most = transactions(counted.columns)
    if counted.known("selects"):
        statements = counted.sum("selects")
    elif counted.known("statements") and "select" in counted.kinds:
        statements = counted.kinds["select"].share * counted.sum("statements")
    elif counted.known("statements"):
        written = _STATEMENTS if counted.known(*_STATEMENTS) else _ROWS
        statements = max(0.0, counted.sum("statements") - counted.sum(*written))
        counted.assume("a statement that does not write is taken for one that reads")
    elif most is not None:
        statements = most
        counted.assume("statements are not counted: each transaction is taken to read once")
    else:
        statements = rows
        counted.assume("statements are not counted: each row is taken to be read by one of its own")
    # A statement that reads no row of a table by an index costs CPU only, which is burnt anyway.
    return min(statements, rows)


def _rows_given(counted: _Counted) -> float:
    """Return the rows a second that reading statements returned, at most one row a statement.

    A statement may return more rows, but these may come from a scan, so they do not count.
    """
    reading = counted.kinds.get("select")
    if reading is None or not reading.calls or reading.rows is None:
        return 0.0
    calls = reading.share * counted.sum("statements")
    return calls * min(1.0, reading.rows / reading.calls)


def _in_blocks(
    counted: _Counted,
    writes: Mapping[str, Any],
    rows: float,
    statements: float,
    scanned_rows: float,
) -> tuple[float, float]:
    """Return (rows read by an index, blocks read by scans), both a second.

    Rows in the same block count once, as far as the counted block accesses show it.  `rows`,
    `statements` (which read them) and `scanned_rows` are numbers a second; `writes` has the fields
    of the StatementLoad about writes.
    """
    scanned = scanned_rows / _ROWS_A_BLOCK
    if scanned_rows:
        counted.assume(
            f"a row that is read and not fetched by an index is taken to be one of a scan of "
            f"{_ROWS_A_BLOCK} rows a block"
        )
    if not counted.known("blocks_hit") or not counted.known("blocks_read"):
        return rows, scanned
    accesses = counted.sum("blocks_hit", "blocks_read")
    written = float(writes.get("update", 0.0) * writes.get("update_rows", 1))
    written += float(writes.get("insert", 0.0))
    left = max(0.0, accesses - _INDEX_LEVELS * (statements + written) - written)
    if rows > left:
        counted.assume("rows that are read together are taken to lie together in blocks")
        rows = max(left, min(rows, statements))
    return rows, _missed(counted, scanned, rows + written)


def _missed(counted: _Counted, scanned: float, by_index: float) -> float:
    """Return how many of the `scanned` blocks a second were not in the server's buffers.

    `by_index` is the number of rows a second that were read or written by an index.
    """
    # For a row found by an index, its own block and the last one of the index may be missed.
    left = max(0.0, counted.sum("blocks_read") - 2 * by_index)
    large = counted.sum("io_read_bulk_mbps") * 1e6 / counted.block_bytes
    missed = min(scanned, max(left, large))
    if missed < 0.9 * scanned:
        counted.assume("scans of blocks that were in the buffers are taken to cost CPU only")
    return missed


def _lengths(counted: _Counted, rows: float, statements: float) -> dict[str, Any]:
    """Return fields of a StatementLoad for reads by an index: point reads, or ranges of one length.

    `rows` and `statements` are numbers a second.  Statements of about one row are point reads.
    """
    if not statements or not rows:
        return {}
    mean = rows / statements
    if mean <= _ONE_ROW:
        return {"point": rows}
    length = min(_LONGEST_RANGE, round(mean))
    counted.assume(f"reads are taken to be all as long as their mean, {_rows(mean)}")
    return {"range": rows / length, "work_unit": length}


def _guessed_reads(counted: _Counted) -> dict[str, Any]:
    """Return fields of a StatementLoad guessed from block or device reads, as rows are unknown."""
    if counted.known("blocks_read"):
        counted.assume("rows are not counted: each block asked of the buffers, and each two levels "
                       "of an index with it, is taken for a row")  # fmt: skip
        return {"point": counted.sum("blocks_hit", "blocks_read") / (_INDEX_LEVELS + 1)}
    if not counted.known("read_iops"):
        counted.assume("nothing is known of reads: there are none in the mix")
        return {}
    reads = counted.sum("read_iops")
    if not counted.known("read_mbps"):
        counted.assume("rows are not counted: each read of the device is taken for a row")
        return {"point": reads}
    excess = counted.sum("read_mbps") * 1e6 - reads * counted.block_bytes
    # A read of a scan is larger than one block, however large blocks are.
    large_bytes = max(_LARGE, 2 * counted.block_bytes)
    large = min(reads, max(0.0, excess / (large_bytes - counted.block_bytes)))
    counted.assume("rows are not counted: a small read of the device is taken for a row, a large "
                   "one for part of a scan")  # fmt: skip
    bytes_ = counted.sum("read_mbps") * 1e6 - (reads - large) * counted.block_bytes
    scanned = max(0.0, bytes_ / counted.block_bytes) if large else 0.0
    return {"point": reads - large, "scanned_blocks": scanned if math.isfinite(scanned) else 0.0}
