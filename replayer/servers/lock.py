"""The lock that keeps other replayers out of a remote server, and the identity of its holder.

The lock belongs to a session of the server and ends with that session.  The server itself has to
notice that the client host is gone: lock.sql makes the server send keepalives, or end a session
that is silent.  The holder sends a heartbeat every few seconds.

The session's name identifies the process that holds the lock: process id, host, boot, start time.
If that process ran on this machine and is gone, its session is ended and the lock is free.  If it
ran on another host, replayer waits until the server must have noticed that this host is gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer import journal
from replayer.engines import watchdog
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, Interrupted, ReplayerError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replayer.engines.connection import Database

_LOCK = VerbName("lock")
_LOCK_DATABASE = VerbName("lock_database")
"""Locks one database, for a run that does not measure the machine: other databases stay free."""
_UNLOCK = VerbName("unlock")
_HOLD = VerbName("hold")
"""Records the holder's name, on a server whose sessions have no name."""
_HOLDER = VerbName("holder")
"""Reads the holder of the lock: rows of session, name, account, address, since and heard.

`since` is when the session began; `heard` are the seconds since the server received anything from
it.
"""
_END = VerbName("end_holder")
_MEASURED = "two runs at once would measure each other"
_AGAIN_SECONDS = 0.5
_MARGIN_SECONDS = 5.0
_ENDING_SECONDS = 10.0
_JOIN_SECONDS = 1.0
_NAME = re.compile(r"replayer (\d{1,9})@(\S{1,24}) ([0-9a-f]{8})\.(\d{1,20})")
_LONGEST_HOST = 24
"""Most characters of the host in a session's name: PostgreSQL keeps 63 characters of the name."""


class _Process(NamedTuple):
    """A process that holds a lock, as read from its session's name."""

    pid: int
    host: str
    place: str
    """Digest of the boot id and of the process id namespace to which `pid` belongs."""
    start: int
    """Start time in kernel clock ticks since the boot."""

    @property
    def is_of_here(self) -> bool:
        """Return whether the process runs in this process's boot and process id namespace."""
        return self.place == _place()

    @property
    def is_gone(self) -> bool:
        """Return True if the process has certainly ended, False if it runs or that is not known."""
        if not self.is_of_here:
            return False
        start = _start(self.pid)
        if start is not None:
            return start != self.start
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it exists, but belongs to a user whose processes may not be signalled
        return False


class _Holder(NamedTuple):
    """The session that holds the lock."""

    session: int
    process: _Process | None
    account: str
    address: str
    since: str
    heard: float | None
    """Seconds since the server last received anything from the session; None if not known."""

    def __str__(self) -> str:
        one = self.process
        process = f"process {one.pid} on {one.host}, " if one else ""
        since = f" since {self.since} UTC" if self.since else ""
        account = f" of {self.account}" if self.account else ""
        address = f" from {self.address}" if self.address else ""
        return f"{process}session {self.session}{account}{address}{since}"


def take(database: Database, *, alone: bool, why: str = _MEASURED) -> None:
    """Take replayer's lock on the server, so that no other replayer uses it meanwhile.

    The whole server is locked if `alone`, or if the engine cannot lock a database.  Otherwise only
    the database of this connection is locked.  If the process that holds the lock has ended, its
    session is ended too.  Raises Impossible if the lock stays held; the message names the holder
    and ends with `why`, a reason to wait for it.
    """
    verb = _LOCK
    if not alone and database.engine.verb(_LOCK_DATABASE) is not None:
        verb = _LOCK_DATABASE
    if _taken(database, verb):
        return
    holder = _held_by(database)
    refused, patience = _removed(database, holder)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        time.sleep(_AGAIN_SECONDS)
        if _taken(database, verb):
            return
        now = _held_by(database)
        if _is_there(holder, now):
            break
        holder = now or holder
    who = f" ({holder})" if holder else ""
    words = f"the server is in use by another replayer{who}: {why}"
    raise Impossible(f"{words}{_advice(database, holder, refused)}")


def hold(database: Database) -> None:
    """Record this process as the lock's holder on the server, if the engine can do that.

    An engine has an SQL file (verb) for that if its sessions have no name, by which the holder
    could be identified.
    """
    if database.engine.verb(_HOLD) is not None:
        database.execute(_HOLD, holder=_own_name())


def release(database: Database) -> None:
    """Release the lock at once, if the engine has an SQL file (verb) for that.

    The lock would end with its session, but a pooler may keep the session open for longer.
    """
    if database.engine.verb(_UNLOCK) is not None:
        with contextlib.suppress(ReplayerError):  # a server that is gone holds no lock any more
            database.execute(_UNLOCK)


def is_lost(asking: Database, session: int) -> bool:
    """Return True if the server reports that the session with the id `session` has lost the lock.

    `asking` is another connection to the same server.  Returns False if the session has the lock,
    or if the engine cannot list the lock's holders.
    """
    verb = asking.engine.verb(_HOLDER)
    if verb is None:
        return False
    holders = asking.execute(verb)
    return all(row.number("session") != session for row in holders)


@contextlib.contextmanager
def keep_alive(database: Database) -> Iterator[Callable[[float], bool]]:
    """Send heartbeats on the session that holds the lock, for as long as the `with` block runs.

    Yields a function that takes a number of seconds, sends the server an empty request on this
    session, and returns whether the server answered within these seconds.
    """
    asking, over = threading.Lock(), threading.Event()
    every = database.engine.spec.lock.heard_every

    def answers(seconds: float) -> bool:
        with asking:
            return database.answers(seconds)

    def say() -> None:
        while not over.wait(every):
            answers(watchdog.PATIENCE)

    thread = threading.Thread(target=say, name="lock", daemon=True)
    if every:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        if every:
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                database.cut()
                thread.join()


def _taken(database: Database, verb: VerbName) -> bool:
    rows = database.execute(verb, holder=_own_name())
    taken = all(row["locked"] for row in rows)
    if not taken:
        # Release a part of the lock that was taken: it would block other waiting processes.
        release(database)
    return taken


def _held_by(database: Database) -> _Holder | None:
    """Return the session that has the lock; None if none has it or the server does not show it."""
    if database.engine.verb(_HOLDER) is None:
        return None
    try:
        rows = database.execute(_HOLDER)
        if not rows:
            return None
        row = rows[0]
        return _Holder(
            session=row.number("session"),
            process=_process(row["name"]),
            account=_word(row["account"]),
            address=_word(row["address"]),
            since=_word(row["since"]),
            heard=None if row["heard"] is None else row.real("heard"),
        )
    except Interrupted:
        raise
    except ReplayerError:
        # An older replayer made no list of holders, or this user may not read it.
        return None


def _removed(database: Database, holder: _Holder | None) -> tuple[str, float]:
    """End the session that holds the lock, if the process behind it has ended.

    Returns an error text and the seconds for which the caller should try to get the lock.  The text
    is "" unless the server refused to end the session.  The seconds are 0 if it is useless to
    wait, because the holder still runs, is not known, or could not be ended.
    """
    process = holder.process if holder else None
    if holder is None or process is None:
        return "", 0.0
    if process.is_gone and database.engine.verb(_END) is not None:
        try:
            database.execute(_END, {"session": holder.session})
        except Interrupted:
            raise
        except ReplayerError as error:
            return str(error), 0.0
        return "", _ENDING_SECONDS
    if process.is_of_here:
        return "", 0.0
    noticed = database.engine.spec.lock.noticed
    return "", noticed + _MARGIN_SECONDS if noticed else 0.0


def _is_there(before: _Holder | None, now: _Holder | None) -> bool:
    """Return whether the holder of the lock is alive, from two readings: `before` and `now`.

    This is so if the lock passed to another session, or if the same session sent a heartbeat in
    between.  Returns False if one of the two readings found no holder.
    """
    if before is None or now is None:
        return False
    if before.session != now.session:
        return True
    return before.heard is not None and now.heard is not None and now.heard < before.heard


def _advice(database: Database, holder: _Holder | None, refused: str) -> str:
    """Return advice for the user on the holder of the lock, as the end of a sentence; "" for none.

    `refused` is the server's error if it refused to end the session of a process that has ended, or
    "".
    """
    if refused:
        return f"; that process is gone, but its session could not be ended: {refused}"
    verb = database.engine.verb(_END)
    if holder is None or verb is None:
        return ""
    (statement,) = verb.statements(session=holder.session)
    return f"; wait for its end, or end it with `{statement}` on the server"


def _own_name() -> str:
    """Return the name that this process gives its session for the time in which it has the lock.

    The name identifies the process; `_process` reads it back.
    """
    pid = os.getpid()
    host = re.sub(r"[^\w.-]", "_", socket.gethostname(), flags=re.ASCII)[:_LONGEST_HOST] or "?"
    return f"replayer {pid}@{host} {_place()}.{_start(pid)}"


def _process(name: object) -> _Process | None:
    known = _NAME.fullmatch(str(name))
    return known and _Process(int(known[1]), one_line(known[2]), known[3], int(known[4]))


def _place() -> str:
    """Return a hash that identifies this boot of this machine and the process id namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return blake2b(f"{boot} {journal.namespace()}".encode(), digest_size=4).hexdigest()


def _start(pid: int) -> int | None:
    """Return a process's start time in clock ticks since the boot; -1 if it has ended.

    Returns None for a process that cannot be seen.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])


def _word(cell: object) -> str:
    return "" if cell is None else one_line(str(cell), 80)
