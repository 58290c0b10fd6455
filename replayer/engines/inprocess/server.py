"""A library as a server: a thread for each client, the library's own threads for the work."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import itertools
import os
import re
import secrets
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import replayer
from replayer import own_plugins, registry
from replayer.engines import guests
from replayer.engines.inprocess import messages
from replayer.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replayer.engines.guests import Guest, GuestSession, OpenGuest

SETTINGS = "replayer.conf"
"""The file of settings in the data folder: a line `name = 'value'` each."""
_SETTING = re.compile(r"(\w+) = '((?:[^'\\]|\\.)*)'")
_PACKAGE = Path(replayer.__file__).parent
_LOOK_SECONDS = 0.5
_SET_DUMPABLE = 4
"""PR_SET_DUMPABLE of prctl(2)."""
_GOODBYE_SECONDS = 5.0


class ServedFiles(NamedTuple):
    """The data directory, the socket and the pid file of a server process."""

    data: Path
    """The data directory, which exists already."""
    socket: Path
    pid_file: Path


def serve(name: str, places: ServedFiles, uid: int, gid: int) -> int:
    """Serve the database library of the module `name` in engines/guests.

    It ends at SIGTERM, or when the parent process is gone.  Returns the exit status.
    """
    caller = os.getppid()
    guest = guests.load(name)
    try:
        # Python loads these late, from files that the server's user may not be able to read.
        for encoding in ("ascii", "latin-1", "utf-8"):
            codecs.lookup(encoding)
        guest.load()
        _give_up_rights(uid, gid)
        os.chdir(places.data)
        opened = guest.open(places.data, _settings(places.data))
        _check_members(guest, opened, guests.OpenGuest, "what its open returned")
    except Exception as error:  # noqa: BLE001 - a library raises what it likes
        sys.stderr.write(f"FATAL: {one_line(_explain(error))}\n")
        return 1
    with contextlib.closing(opened):
        _take_clients(_Server(guest, opened), places, caller)
    return 0


def _check_members(guest: Guest, found: object, face: type, what: str) -> None:
    """Raise TypeError if the object `found` of a guest lacks a member of the class `face`.

    A guest is an engine that is a library.  `what` describes the object in the message.
    """
    wanted = getattr(face, "_fields", None) or sorted(registry.members(face))
    missing = [name for name in wanted if not hasattr(found, name)]
    if missing:
        raise TypeError(
            f"the guest {type(guest).__name__}: {what} is {type(found).__name__!r}, which has no "
            f"{' and no '.join(missing)}"
        )


def _explain(error: Exception) -> str:
    """Return an error as text; a mistake in the code of a guest is shown with its file and line.

    A guest is an engine that is a library.  A mistake is an error of Python itself, such as
    TypeError.  An error class of the library, or RuntimeError or OSError, is about the statement.
    """
    mistake = type(error).__module__ == "builtins" and not isinstance(error, RuntimeError | OSError)
    frames = traceback.extract_tb(error.__traceback__)
    if mistake and frames and not frames[-1].filename.startswith(str(_PACKAGE)):
        return f"{frames[-1].filename}: {own_plugins.explain(error, frames[-1].filename)}"
    return str(error) or type(error).__name__


def _take_clients(server: _Server, places: ServedFiles, caller: int) -> None:
    with _listening(places.socket) as listener, _stopping() as stopped:
        places.pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
        # A caller that was killed cannot stop its server: the server sees it itself.
        while os.getppid() == caller:
            waited: list[int] = [listener.fileno(), stopped]
            ready, _, _ = select.select(waited, [], [], _LOOK_SECONDS)
            if stopped in ready:
                break
            if ready:
                server.take(listener.accept()[0])
        server.end()
    places.pid_file.unlink(missing_ok=True)


def _give_up_rights(uid: int, gid: int) -> None:
    """Become the user `uid` if this is root; let that user's processes inspect this one."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # After a change of the user /proc/PID belongs to root, and replayer finds servers by owner.
        ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 1, 0, 0, 0)
    os.umask(0o077)


def _settings(data: Path) -> dict[str, str]:
    """Return name -> value from the settings file in a data folder; replayer wrote that file.

    Raises ValueError for a line that is not `name = 'value'`.
    """
    settings = {}
    for line in (data / SETTINGS).read_text(encoding="utf-8").splitlines():
        found = _SETTING.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} is no setting, which is name = 'value'")
        settings[found[1]] = re.sub(r"\\(.)", r"\1", found[2])
    return settings


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(128)
        yield listener
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def _stopping() -> Iterator[int]:
    """Yield a descriptor that becomes readable at SIGTERM."""
    here, there = os.pipe()
    os.set_blocking(there, False)
    signal.set_wakeup_fd(there)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield here


class _Server:
    """The sessions of all clients of the in-process server."""

    def __init__(self, guest: Guest, opened: OpenGuest) -> None:
        self._guest, self._opened = guest, opened
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._sessions: dict[int, tuple[int, GuestSession]] = {}
        """Number of a session -> the secret that a request to cancel must have, and the session."""
        self._threads: list[threading.Thread] = []

    def take(self, end: socket.socket) -> None:
        """Serve the client at the other end of the socket `end`, in a new thread."""
        thread = threading.Thread(target=self._serve, args=(end,), daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        """Interrupt every statement, and wait some seconds for the sessions to end."""
        with self._lock:
            for _, session in self._sessions.values():
                session.interrupt()
        for thread in self._threads:
            if self._sessions:
                thread.join(_GOODBYE_SECONDS / len(self._threads))

    def _serve(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), end:
            try:
                wish = messages.begin(end)
                if wish is not None:
                    self._cancel(wish)
                    return
                self._talk(end)
            except messages.ProtocolError as error:
                end.sendall(messages.refuse("08P01", str(error), severity="FATAL"))

    def _talk(self, end: socket.socket) -> None:
        number, secret = next(self._numbers), secrets.randbits(31)
        try:
            session = self._opened.connect()
            _check_members(self._guest, session, guests.GuestSession, "what its connect returned")
        except Exception as error:  # noqa: BLE001 - a library raises what it likes
            end.sendall(messages.refuse("XX000", _explain(error), severity="FATAL"))
            return
        with self._lock:
            self._sessions[number] = secret, session
        try:
            end.sendall(messages.greet(number, secret))
            for text in messages.queries(end):
                self._answer(end, session, text)
        finally:
            with self._lock:
                del self._sessions[number]
            session.close()

    def _answer(self, end: socket.socket, session: GuestSession, text: str) -> None:
        if not text.strip():
            end.sendall(messages.EMPTY + messages.READY)
            return
        for piece in self._pieces(session, text):
            end.sendall(piece)
        end.sendall(messages.READY)

    def _pieces(self, session: GuestSession, text: str) -> Iterator[bytes]:
        """Yield the bytes of the answer to a statement; after a failure, an error comes last."""
        try:
            found = session.execute(text)
            _check_members(self._guest, found, guests.GuestRows, "what its execute returned")
            yield from messages.answer(found)
        except Exception as error:  # noqa: BLE001 - a library raises what it likes
            yield messages.refuse("XX000", _explain(error))

    def _cancel(self, wish: messages.Cancel) -> None:
        with self._lock:
            secret, session = self._sessions.get(wish.session, (None, None))
            if session is not None and secret == wish.secret:
                session.interrupt()
