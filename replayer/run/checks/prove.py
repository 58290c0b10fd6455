"""Prove an engine on a real server: try its SQL files, and the properties that results need.

An SQL file of an engine is called a verb.  A table of 6,144 rows is made verb by verb, grown to
98,304 rows, hashed, flushed, read cold and removed.  A verb that fails does not end the proof: its
error is kept, and the next verb is tried.
"""

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from replayer import __version__
from replayer.engines.connection import Database
from replayer.engines.credentials import redact
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError, Skip, one_line
from replayer.run.checks import cold_count, marks, session_trials, table_trials
from replayer.run.checks.proof import EngineProof, Finding
from replayer.run.checks.table_trials import GROWN, TableTrials
from replayer.run.checks.verb_trials import VerbTrials
from replayer.servers.protocol import Server
from replayer.tables import checksum, persons, relations, unwritten
from replayer.units import show_size

_OF_STATISTICS = ("profile/calls", "profile/statements", "capture/statements", "watch/statements")
"""Verbs that need the server's extension that counts statements."""
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
    "profile/location", "profile/places", "profile/relations", "profile/rights", "profile/sessions",
    "profile/sizes", "profile/statements", "profile/transactions", "profile/wal",
    "profile/working_set", "profile/writers", "replay/blocked", "replay/effects",
    "replay/guarded", "replay/waits",
    "mix/activity", "mix/waits", "mix/others", "mix/ended", "mix/workers",
)  # fmt: skip
"""Verbs that need no table: they only ask the server for values."""
_MOST_PLACES = 5
_RANGES = "ranges by the sort key"


def prove(server: Server, say: Callable[[str], None], files: Path | None = None) -> EngineProof:
    """Return the proof of a server's engine; remove all tables that were made for the proof.

    `say` is called with a few words before each part of the proof.  `files` is the server's data
    directory as the user named it, None to look for it.  Raises Impossible if the table persons1
    exists already, unless an earlier proof that was killed left it.
    """
    trials = VerbTrials(Database(server.engine, server.start()))
    try:
        _refuse_table(trials.database)
        return _proof(server, trials, say, _place(server, files))
    finally:
        # A cold read may have needed another connection meanwhile.
        trials.database.close()


def _refuse_table(database: Database) -> None:
    """Raise Impossible if a run's table is there; remove the table of a proof that was killed."""
    there = persons.state(database)
    if there is None:
        return
    if there.shape.compression == table_trials.CHECKS_OWN:
        persons.drop(database, there.shape.layout)
        return
    raise Impossible(
        f"{persons.NAME} of an earlier run is there, and --prove makes its own: remove it with "
        f"`replayer clean`, or give another --data-dir or database"
    )


class DataPlace(NamedTuple):
    """The server's data directory on this machine, or the reason why it is not known."""

    folder: Path | None
    why: str
    """Why `folder` is None; "" if it is known."""
    location: Finding
    """The finding whether the server's own answers led to the data directory."""


def _place(server: Server, files: Path | None) -> DataPlace:
    """Return the data directory: `files`, which the user named, or else the one that was found.

    A directory counts as found if a file in it has the content that the server reports.  If `files`
    is None and no directory was found, `folder` of the result is None.
    """
    own = server.data_directory()
    why = "" if own else server.explain_missing_files().why
    proven = own is not None
    found = "a file of the server has the content that the server reports" if own else why
    if files is None:
        return DataPlace(own, why, Finding(name=marks.PLACE, proven=proven, found=found))
    found = f"{found}; --files names a folder, which was taken"
    return DataPlace(files, "", Finding(name=marks.PLACE, proven=proven, found=found))


def _proof(
    server: Server, trials: VerbTrials, say: Callable[[str], None], place: DataPlace
) -> EngineProof:
    layouts = _layouts(trials.database)
    table = TableTrials(trials, layouts[0])
    findings = [place.location] if server.kind == "url" else []
    began = time.time_ns()
    schema = _schema(trials)
    say("verbs that only ask")
    _ask(trials, schema)
    if server.kind == "private":
        _lock(trials)
    else:
        findings.append(_guarded("holder", trials, lambda: _held(server, trials)))
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
        if trials.database.engine.named("table/range") is not None:
            findings.append(_guarded(_RANGES, trials, lambda: _ranged(table)))
        say("flush, files, cold count")
        findings += _flushed(server, table, schema, place, began)
        findings += cold_count.attempt(server, trials, place.folder, place.why)
    finally:
        say("remove the table")
        _cleaned(table)
    return _summed_up(server, trials, findings)


def _ask(trials: VerbTrials, schema: str) -> None:
    """Execute the verbs (SQL files of the engine) that only query and change nothing.

    Verbs of the extension for statement statistics are left out if the server lacks it.  `schema`
    is used for the extension if the server does not name another one.
    """
    statistics = trials.attempt("profile/extension")
    there = trials.database.engine.named("profile/extension") is None or bool(statistics)
    if statistics:
        schema = str(statistics[0].get("schema", schema))
    for name in _ASK:
        if there or name not in _OF_STATISTICS:
            trials.attempt(name, {"schema": schema})


def _held(server: Server, trials: VerbTrials) -> Finding:
    """Test the SQL file `holder`, which lists the sessions that hold replayer's lock.

    This check holds the lock, so at least one session must be listed.  The test does not check
    which one.  Without such a file the finding is neither proven nor refuted.
    """
    if trials.database.engine.named("holder") is None:
        return Finding(name="holder", proven=None, found="the engine has no verb `holder`")
    # Another connection, so that there is one to be seen if the lock's is not.
    with contextlib.closing(Database(server.engine, server.start())):
        rows = trials.attempt("holder")
    found = f"{len(rows):,} sessions are listed as holders of the lock that this check holds"
    return Finding(name="holder", proven=bool(rows), found=found)


def _lock(trials: VerbTrials) -> None:
    """Try the verbs that take and release replayer's lock on the database.

    This happens only on a server that was started for this check.
    """
    holder = f"replayer {__version__} --prove"
    for name in ("lock_database", "lock", "hold", "unlock"):
        trials.attempt(name, holder=holder)


def _layouts(database: Database) -> list[str]:
    """Return the names of the engine's table layouts, the default first."""
    first = database.engine.spec.layout
    return sorted(database.engine.layouts(), key=lambda name: name != first) or [first]


def _other_layout(table: TableTrials, say: Callable[[str], None]) -> Finding:
    """Make a small table in another layout than the engine's default, test it and remove it.

    Returns the finding on its row count and checksums.
    """
    say(f"{table_trials.FEW:,} rows as {table.layout}")
    try:
        table.make()
        table.vacuum()
        return _tested(table)
    finally:
        _cleaned(table)


def _cleaned(table: TableTrials) -> None:
    """Remove the table with the verbs that a run uses, each as a trial.

    Then drop all that is left of the table, as the step `build` does.
    """
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
    """Return the finding of a test; if the test raises an error, a finding that has the error.

    Such a finding is neither proven nor refuted: `proven` is None.
    """
    try:
        return test()
    except ReplayerError as error:
        found = one_line(redact(str(error), trials.database.url), 400)
        return Finding(name=name, proven=None, found=found)
    except (KeyError, TypeError, ValueError, OSError) as error:
        return Finding(name=name, proven=None, found=f"no answer that can be used: {error!r}")


def _tested(table: TableTrials) -> Finding:
    """Test whether the table of 6,144 rows has the right row count and checksums."""
    return _guarded(
        f"doubling, {table.layout}", table.trials, lambda: _counted(table, table_trials.FEW)
    )


def _counted(table: TableTrials, rows: int) -> Finding:
    """Compare the rows and checksums that the server counts in the table with the expected ones.

    `rows` is the expected number of rows; the checksums follow from the number of doublings.
    """
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
    """Compare the SHA-256 of all stored rows with that of the expected rows."""
    stored = [
        (int(row["id"]), str(row["lastname"]))
        for row in database.query(f"SELECT id, lastname FROM {persons.NAME}")  # noqa: S608
    ]
    own, rule = hash_of(stored), hash_of(list_rows(GROWN))
    found = f"{len(stored):,} rows, sha256 of the sorted rows {own}"
    if own != rule:
        found += f", where the rule gives {rule}"
    return Finding(name="same rows", proven=own == rule, found=found)


def _ranged(table: TableTrials) -> Finding:
    """Read the table in two ranges; compare the sum of ids of each range with the expected one."""
    made = [id_ for id_, _ in list_rows(table.rows)]
    sums = table.read_ranges()
    found = f"two ranges have the sums {' and '.join(f'{one:,}' for one in sums)} of their ids"
    rule = [sum(made[: len(made) // 3]), sum(made[len(made) // 3 :])]
    if sums != rule:
        found += f", where the rule gives {' and '.join(f'{one:,}' for one in rule)}"
    return Finding(name=_RANGES, proven=sums == rule, found=found)


def list_rows(rows: int) -> list[tuple[int, str]]:
    """Return the pairs (id, last name) that the table must hold, computed without the server.

    There are at least `rows` pairs: six are doubled until there are enough.
    """
    made = [(persons.FIRST_ID + n, name) for n, name in enumerate(persons.SEEDS)]
    while len(made) < rows:
        made += [(id_ + n, f"{name}{n}") for n, (id_, name) in enumerate(made, 1)]
    return made


def hash_of(rows: Sequence[tuple[int, str]]) -> str:
    """Return the SHA-256, in hexadecimal, of lines `id TAB name`, sorted by id, then by name."""
    text = "".join(f"{id_}\t{name}\n" for id_, name in sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest()


def _flushed(
    server: Server, table: TableTrials, schema: str, place: DataPlace, began: int
) -> Iterator[Finding]:
    """Flush the table; yield one finding on pages that are still unwritten, and one on its files.

    `schema` is the schema of the server's view of its buffers.  `began` is the time of day in
    nanoseconds at which this check began.  If the data directory is not known (`place`), neither
    finding is proven or refuted.
    """
    trials, folder = table.trials, place.folder
    table.vacuum()
    trials.attempt("flush")
    for name in ("dirty", "buffered", "evict"):
        trials.attempt(name, {"schema": schema})
    trials.attempt("files")
    if folder is None:
        for name in ("flush", "files"):
            yield Finding(name=name, proven=None, found=place.why)
        return
    yield _guarded("flush", trials, lambda: _clean(server, trials.database, folder))
    yield _guarded("files", trials, lambda: _files(trials.database, folder, began))


def _clean(server: Server, database: Database, folder: Path) -> Finding:
    """Test that no page of the table is dirty (not on disk yet), in the server or the page cache.

    `folder` is the server's data directory.
    """
    files = relations.files(database, folder)
    unwritten.sync(files)
    left, again = unwritten.settle(database, files, "", may_flush=server.can_stop)
    parts = [f"{left.buffers:,} dirty buffers in the server"] if left.buffers is not None else []
    if left.pages_bytes is not None:
        parts.append(f"{left.pages_bytes:,} dirty bytes in the page cache, in {len(files)} files")
    parts += left.why
    parts += [f"flushed {again} times more"] if again else []
    proven = left.proven if left.proven or not left.clean else None
    return Finding(name="flush", proven=proven, found="; ".join(parts))


def _files(database: Database, folder: Path, began: int) -> Finding:
    """Compare the size of the files that the server lists with the table size that it reports.

    If none of the files is there, the finding names the folders written to since `began`, which is
    the time of day in nanoseconds.
    """
    listed = database.execute(VerbName("files"))
    there: list[Path] = []
    with contextlib.suppress(Skip):  # not even the folders that it lists are there
        there = [path for path in relations.files(database, folder) if path.is_file()]
    size = sum(path.stat().st_size for path in there)
    reported = persons.bytes_(database)
    found = (
        f"the server lists {len(listed):,} files; with their pieces {len(there):,} are there, of "
        f"{show_size(size)}; table/bytes says {show_size(reported)}"
    )
    if not there:
        found += f"; {_written_since(folder, began)}"
    # Its own files of free space and visibility, or of a database, add to a small table.
    return Finding(name="files", proven=bool(there) and size >= 0.9 * reported, found=found)


def _written_since(folder: Path, began: int) -> str:
    """Return in words the folders with the most bytes in files written since `began`.

    `began` is the time in nanoseconds (time of day) at which this check began.
    """
    sizes: dict[str, int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                about = Path(parent, name).stat()
                if about.st_mtime_ns >= began:
                    place = os.path.relpath(parent, folder)
                    sizes[place] = sizes.get(place, 0) + about.st_size
    most = sorted(sizes, key=lambda place: -sizes[place])[:_MOST_PLACES]
    where = ", ".join(f"{show_size(sizes[place])} in {place}" for place in most)
    return f"under the folder this check made the server write {where or 'nothing'}"


def _summed_up(server: Server, trials: VerbTrials, findings: Sequence[Finding]) -> EngineProof:
    engine = server.engine
    rights: list[str] = []
    with contextlib.suppress(ReplayerError):
        rights = [str(row["what"]) for row in trials.database.rights() if not row["allowed"]]
    rows = trials.attempt("version")
    tried = trials.all(_WHY_NOT)
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
        trials=tried,
        missing_rights=tuple(rights),
        marks=marks.answer(engine, findings, tried),
    )
