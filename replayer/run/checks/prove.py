"""Prove an engine on a real server: every verb once, and what its numbers stand on.

A table of 6,144 rows is made verb by verb, grown to 98,304 rows, hashed, flushed, read cold and
removed.  A verb that fails ends nothing: its error is kept, and the next one is tried.
"""

import contextlib
import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from replayer import __version__
from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.credentials import redact
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError, one_line
from replayer.machine.host import Host
from replayer.model import Temperature
from replayer.run.checks import session_trials, table_trials
from replayer.run.checks.proof import EngineProof, Finding
from replayer.run.checks.table_trials import GROWN, TableTrials
from replayer.run.checks.verb_trials import VerbTrials
from replayer.servers.protocol import Server
from replayer.tables import buffers, checksum, persons, relations
from replayer.units import show_size
from replayer.watch import interference

_READ_SHARE = 0.25
"""A count that reads all values reads at least this share of the bytes in the table's files: of so
small a table the indexes, maps of free space and empty pages are up to a half."""
_BYPASSED = 0.05
"""Of a table that was just written, at most this share is in the page cache where the server
bypasses it."""
_OF_STATISTICS = ("profile/calls", "profile/statements", "capture/statements", "watch/statements")
"""Verbs that need the server's extension for statements."""
_WHY_NOT = {
    **dict.fromkeys(_OF_STATISTICS, "the server lacks the extension that counts statements"),
    "capture/": "it is for a server's log: `replayer capture` asks for it",
    "replay/": "it copies a database: the step replay asks for it",
    "residue/": "it removes what a run left: `replayer clean` asks for it",
    "profile/": "it needs a parameter: `replayer profile` gives it",
    "end_holder": "it ends another replayer's session",
    "database": "it was executed when the server was made",
    "lock": "it holds this server for this check",
    "hold": "it holds this server for this check",
    "unlock": "it holds this server for this check",
}
_ASK = (
    "version", "settings", "extensions", "claim", "location", "backend", "counters",
    "wal", "rights", "prepare", "residue/recorded", "residue/things", "residue/others",
    "capture/about", "capture/place", "capture/totals", "capture/settings", "capture/overridden",
    "capture/activity", "watch/io", "watch/wal", "watch/status", "watch/waits", "watch/statements",
    "profile/about", "profile/calls", "profile/database", "profile/extension", "profile/io",
    "profile/location", "profile/relations", "profile/rights", "profile/sessions",
    "profile/sizes", "profile/statements", "profile/transactions", "profile/wal",
    "profile/working_set", "profile/writers", "replay/blocked", "replay/guarded", "replay/waits",
    "mix/activity", "mix/waits", "mix/others",
)  # fmt: skip
"""Verbs that only ask."""


def prove(server: Server, say: Callable[[str], None]) -> EngineProof:
    """Return the proof of a server's engine; what is made for it is removed again.

    Raises Impossible if a table of the user's, or of an earlier run, is in its place.
    """
    trials = VerbTrials(Database(server.engine, server.start()))
    try:
        _refuse_table(trials.database)
        return _proof(server, trials, say)
    finally:
        # A cold read may have needed another connection meanwhile.
        trials.database.close()


def _refuse_table(database: Database) -> None:
    """Raise Impossible for a table of a run; remove that of a check that was killed."""
    there = persons.state(database)
    if there is None:
        return
    if (there.rows_wanted, there.shape.segment_rows) == (GROWN, table_trials.SEGMENT_ROWS):
        persons.drop(database, there.shape.layout)
        return
    raise Impossible(
        f"{persons.NAME} of an earlier run is there, and --prove makes its own: remove it with "
        f"`replayer clean`, or give another --data-dir or database"
    )


def _proof(server: Server, trials: VerbTrials, say: Callable[[str], None]) -> EngineProof:
    layouts = _layouts(trials.database)
    table = TableTrials(trials, layouts[0])
    findings: list[Finding] = []
    schema = _schema(trials)
    say("verbs that only ask")
    _ask(trials, schema)
    if server.kind == "private":
        _lock(trials)
    else:
        trials.attempt("holder")
    try:
        findings += [_other_layout(TableTrials(trials, other), say) for other in layouts[1:]]
        say(f"{table_trials.FEW:,} rows, verb by verb")
        table.make()
        findings.append(
            _guarded(f"doubling, {table.layout}", trials, lambda: _counted(table, table_trials.FEW))
        )
        say("the session's procedure")
        findings += session_trials.attempt_all(trials)
        say(f"{GROWN:,} rows")
        table.grow()
        findings.append(_guarded("same rows", trials, lambda: _hashed(trials.database)))
        say("flush, files, cold count")
        findings += _flushed(server, table, schema)
        findings.append(_guarded("table/count reads", trials, lambda: _read_cold(server, trials)))
    finally:
        say("remove the table")
        _cleaned(table)
    return _summed_up(server, trials, findings)


def _ask(trials: VerbTrials, schema: str) -> None:
    """Execute the verbs that only ask, but for those of an extension that is not there."""
    statistics = trials.attempt("profile/extension")
    there = trials.database.engine.named("profile/extension") is None or bool(statistics)
    if statistics:
        schema = str(statistics[0].get("schema", schema))
    for name in _ASK:
        if there or name not in _OF_STATISTICS:
            trials.attempt(name, {"schema": schema})


def _lock(trials: VerbTrials) -> None:
    """Take the lock of a server that is this check's own, and give it back."""
    holder = f"replayer {__version__} --prove"
    for name in ("lock_database", "lock", "hold", "unlock"):
        trials.attempt(name, holder=holder)


def _layouts(database: Database) -> list[str]:
    """Return the engine's layouts of tables, its default first."""
    first = database.engine.spec.layout
    return sorted(database.engine.layouts(), key=lambda name: name != first) or [first]


def _other_layout(table: TableTrials, say: Callable[[str], None]) -> Finding:
    """Make and remove a table of a layout that is not the engine's first."""
    say(f"{table_trials.FEW:,} rows as {table.layout}")
    try:
        table.make()
        table.vacuum()
        return _tested(table)
    finally:
        _cleaned(table)


def _cleaned(table: TableTrials) -> None:
    """Remove the table with its verbs; what they leave is removed by the build step's own way."""
    trials = table.trials
    trials.roll_back()
    table.remove()
    with contextlib.suppress(ReplayerError):
        left = persons.state(trials.database)
        if left is not None:
            persons.drop(trials.database, left.shape.layout)


def _schema(trials: VerbTrials) -> str:
    rows = trials.attempt("buffercache")
    return str(rows[0]["schema"]) if rows and "schema" in rows[0] else "public"


def _guarded(name: str, trials: VerbTrials, test: Callable[[], Finding]) -> Finding:
    """Return the finding of a test, or the error that kept it from an answer."""
    try:
        return test()
    except ReplayerError as error:
        found = one_line(redact(str(error), trials.database.url), 400)
        return Finding(name=name, proven=None, found=found)
    except (KeyError, TypeError, ValueError, OSError) as error:
        return Finding(name=name, proven=None, found=f"no answer that can be used: {error!r}")


def _tested(table: TableTrials) -> Finding:
    """Return whether the table of 6,144 rows has the sums that it must have."""
    return _guarded(
        f"doubling, {table.layout}", table.trials, lambda: _counted(table, table_trials.FEW)
    )


def _counted(table: TableTrials, rows: int) -> Finding:
    """Hold the checksums of table/count against what must have been built."""
    name = f"doubling, {table.layout}"
    counted = table.trials.attempt("table/count")
    table.trials.attempt("table/scan")
    table.trials.attempt("table/times")
    if not counted:
        return Finding(name=name, proven=None, found="table/count gave no row")
    sums = checksum.sums_after(table.doubling)
    try:
        checksum.check(counted[0], rows, sums)
    except ReplayerError as error:
        return Finding(name=name, proven=False, found=str(error))
    found = f"table/count found {rows:,} rows and the sums of their ids and names"
    return Finding(name=name, proven=True, found=found)


def _hashed(database: Database) -> Finding:
    """Compare the hash of all rows with that of the rows that the rule gives."""
    stored = [
        (int(row["id"]), str(row["lastname"]))
        for row in database.query(f"SELECT id, lastname FROM {persons.NAME}")  # noqa: S608
    ]
    own, rule = hash_of(stored), hash_of(list_rows(GROWN))
    found = f"{len(stored):,} rows, sha256 of the sorted rows {own}"
    if own != rule:
        found += f", where the rule gives {rule}"
    return Finding(name="same rows", proven=own == rule, found=found)


def list_rows(rows: int) -> list[tuple[int, str]]:
    """Return the ids and last names of a table of at least so many rows, by the rule itself."""
    made = [(persons.FIRST_ID + n, name) for n, name in enumerate(persons.SEEDS)]
    while len(made) < rows:
        made += [(id_ + n, f"{name}{n}") for n, (id_, name) in enumerate(made, 1)]
    return made


def hash_of(rows: Sequence[tuple[int, str]]) -> str:
    """Return the sha256 of rows in the order of their ids and names, one `id TAB name` a line."""
    text = "".join(f"{id_}\t{name}\n" for id_, name in sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest()


def _flushed(server: Server, table: TableTrials, schema: str) -> Iterator[Finding]:
    """Flush; then test what is still dirty, and the list of files against the disk."""
    trials = table.trials
    table.vacuum()
    trials.attempt("flush")
    trials.attempt("dirty", {"schema": schema})
    trials.attempt("buffered", {"schema": schema})
    trials.attempt("evict", {"schema": schema})
    trials.attempt("files")
    folder = server.data_directory()
    if folder is None:
        why = server.explain_missing_files().why
        for name in ("flush", "files"):
            yield Finding(name=name, proven=None, found=why)
        return
    yield _guarded("flush", trials, lambda: _clean(trials.database, folder))
    yield _guarded("files", trials, lambda: _files(trials.database, folder))


def _clean(database: Database, folder: Path) -> Finding:
    """Test that nothing of the table is dirty, in the server or in the page cache."""
    files = relations.files(database, folder)
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    own, why = buffers.counted(database, VerbName(table_trials.DIRTY), "dirty")
    seen = residency(files)
    if seen.dirty_bytes is None:
        return Finding(name="flush", proven=None, found=seen.why or "no dirty pages can be counted")
    pages = seen.dirty_bytes + (seen.writeback_bytes or 0)
    said = f"{own} dirty buffers in the server" if own is not None else why
    found = f"{said}; {pages:,} dirty bytes in the page cache, in {len(files)} files"
    proven = not pages and not own if own is not None else (None if not pages else False)
    return Finding(name="flush", proven=proven, found=found)


def _files(database: Database, folder: Path) -> Finding:
    """Compare the files that the server lists with those that are there, and with its bytes."""
    files = relations.files(database, folder)
    there = [path for path in files if path.is_file()]
    size = sum(path.stat().st_size for path in there)
    reported = persons.bytes_(database)
    found = (
        f"{len(there)} of {len(files)} listed files are there, with {show_size(size)}; table/bytes "
        f"says {show_size(reported)}"
    )
    # Its own files of free space and visibility, or of a database, add to a small table.
    return Finding(name="files", proven=bool(there) and size >= 0.9 * reported, found=found)


def _read_cold(server: Server, trials: VerbTrials) -> Finding:
    """Make the table cold, count it, and see what its server read of the device meanwhile."""
    folder = server.data_directory()
    if folder is None:
        why = server.explain_missing_files().why
        return Finding(name="table/count reads", proven=None, found=why)
    host = Host()
    files = relations.files(trials.database, folder)
    left = residency(files)
    if server.can_stop:
        trials.database.close()
    cold = temperature.make(Temperature.COLD, server, files, host)
    if server.can_stop:
        trials.database = Database(server.engine, server.start())
    temperature.forget(files)
    resident = residency(files).resident_bytes
    before = interference.point(host, interference.pids_of(server))
    trials.attempt("table/count")
    own = interference.server_moved(before, interference.point(host, interference.pids_of(server)))
    after = residency(files).resident_bytes
    if own is None and (resident is None or after is None):
        return Finding(name="table/count reads", proven=None, found="no account of reads is here")
    device = own.read_bytes if own is not None else 0
    grew = (after or 0) - (resident or 0)
    stored = cold.stored_bytes or sum(path.stat().st_size for path in files if path.is_file())
    found = (
        f"of {show_size(stored)} in its files the server read {show_size(device)} of the device "
        f"(/proc/PID/io), and {show_size(max(0, grew))} came into the page cache"
    )
    # A server that starts reads its own programs of the device, too: that does not count.
    around = left.share is None or left.share <= _BYPASSED
    proven = max(grew, device if around else 0) >= _READ_SHARE * stored
    return Finding(name="table/count reads", proven=proven, found=found)


def _summed_up(server: Server, trials: VerbTrials, findings: Sequence[Finding]) -> EngineProof:
    engine = server.engine
    rights: list[str] = []
    with contextlib.suppress(ReplayerError):
        rights = [str(row["what"]) for row in trials.database.rights() if not row["allowed"]]
    rows = trials.attempt("version")
    return EngineProof(
        replayer=__version__,
        engine=engine.name,
        title=engine.title,
        version=one_line(rows[0]["version"], 80) if rows else "unknown",
        place="started by replayer" if server.kind == "private" else "at a URL",
        kernel=f"{platform.system()} {platform.release().partition('-')[0]}",
        when=datetime.now(UTC).date().isoformat(),
        rows=table_trials.FEW,
        unverified=" ".join(engine.spec.unverified.split()),
        findings=tuple(findings),
        trials=trials.all(_WHY_NOT),
        missing_rights=tuple(rights),
    )
