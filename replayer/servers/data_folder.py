"""The data folder of a private server: its owner, its lock and its contents.

<folder>/replayer.json   the marker: replayer made the folder, for this engine and version
<folder>/lock            locked by the replayer that uses the folder; has the id of that process
<folder>/data/           the server's own data directory
<folder>/server.log      the server's messages since its last start
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from replayer import __version__, journal, trusted_path
from replayer.errors import Impossible, ReplayerError
from replayer.machine.free_space import free_bytes
from replayer.servers.programs import blocked, own_folder
from replayer.shell import User
from replayer.units import show_size

_MARKER = "replayer.json"
_HOME = "replayer's own folder"
_ANOTHER = "give another --data-dir"


@dataclass(frozen=True, slots=True)
class Marker:
    """Content of the marker file, with which replayer marks a data folder as its own."""

    engine: str
    major: int
    init: Mapping[str, str]
    """Initial settings with which the data directory was made."""
    made_folder: bool
    """True if replayer made the folder itself too, and may remove it."""
    ready: bool = False
    """True if the making of the data directory was completed."""
    made_by: str = f"replayer {__version__}"


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder for a private server: it has replayer's marker, or is still empty or missing."""

    path: Path

    @property
    def data(self) -> Path:
        """Return the path of the server's own data directory, which is inside this folder."""
        return self.path / "data"

    @property
    def log(self) -> Path:
        """Return the path of the server's log file."""
        return self.path / "server.log"

    def marker(self) -> Marker | None:
        """Return the folder's marker; None if it has no valid marker.

        Raises Impossible if the folder cannot be read, or if other users own it or can write to it:
        they may have written the marker.
        """
        try:
            with self._own() as folder:
                return TypeAdapter(Marker).validate_json(folder.read(_MARKER))
        except PermissionError as error:
            raise Impossible(f"data folder {self.path} cannot be read: {error.strerror}") from error
        except (OSError, ValueError):
            return None

    def replayers(self) -> bool:
        """Return whether the folder has replayer's marker, which no other user can have written."""
        try:
            return self.marker() is not None
        except Impossible:
            return False

    def write(self, marker: Marker) -> Marker:
        """Write the marker file completely or not at all; return the marker.

        Raises Impossible if the folder cannot be written.
        """
        try:
            with self._own() as folder:
                folder.replace(_MARKER, json.dumps(asdict(marker)))
        except OSError as error:
            raise _unwritable(self.path, error) from error
        return marker

    def new_data(self, user: User | None) -> None:
        """Replace the data directory by an empty one that the server's user owns."""
        with self._own() as folder:
            folder.remove(self.data.name)
            folder.make(self.data.name, 0o700, user)

    def write_data(self, name: str, text: str, user: User | None) -> None:
        """Write a file into the data directory; the server's user owns the file.

        This user can write into the directory, too.  An existing file or link of that name is
        replaced, never followed.
        """
        with self._own() as folder, folder.below(self.data.name) as data:
            data.replace(name, text, 0o600, user)

    def add_to_data(self, name: str, line: str, user: User | None) -> None:
        """Add a line to a file in the data directory; the server's user owns that file."""
        with self._own() as folder, folder.below(self.data.name) as data:
            text = data.read(name, os.geteuid() if user is None else user.uid)
            data.replace(name, f"{text}\n{line}\n", 0o600, user)

    def forget_data(self, name: str) -> None:
        """Remove a file from the data directory, if it exists."""
        try:
            with self._own() as folder, folder.below(self.data.name) as data:
                data.forget(name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ReplayerError(
                f"{self.data / name} cannot be removed: {error.strerror}"
            ) from error

    def begin_log(self, user: User | None) -> None:
        """Rename the log to `server.log.1`; make an empty log that the server's user can write."""
        name = self.log.name
        with self._own() as folder:
            if folder.mode(name):
                folder.rename(name, f"{name}.1")
            os.close(folder.create(name, 0o600, user))

    def _own(self) -> trusted_path.Folder:
        return trusted_path.own(self.path, "data folder")

    def make(self) -> bool:
        """Make the folder if it is missing; return True if it was missing.

        Raises Impossible if the path is not a folder, or is a folder with files but without a
        marker.
        """
        if not os.path.lexists(self.path):
            own_folder(self.path)
            return True
        if self.marker() is not None:
            return False
        self._refuse_foreign()
        return False

    def claim(self, engine: str, major: int, init: Mapping[str, str], *, made: bool) -> Marker:
        """Return the folder's marker; write one first if the folder has none.

        `made` is True if replayer made the folder itself.  Raises Impossible if the data were made
        by another engine or major version, or with other initial settings.
        """
        marker = self.marker()
        _remember(self.path)
        if marker is None:
            marker = self.write(Marker(engine, major, dict(init), made_folder=made))
        if (marker.engine, marker.major) != (engine, major):
            raise Impossible(
                f"the data in {self.path} was made by {marker.engine} {marker.major}, and this is "
                f"{engine} {major}",
                self._ways(),
            )
        if marker.ready and dict(marker.init) != dict(init):
            raise Impossible(
                f"the data in {self.path} was made with {_settings(marker.init)}, and "
                f"{_settings(init)} was asked for",
                self._ways(),
            )
        return marker if marker.ready else self.write(replace(marker, init=dict(init)))

    def _ways(self) -> str:
        return f"give another --data-dir, or remove it with `replayer clean --data-dir {self.path}`"

    def _refuse_foreign(self) -> None:
        if not self.path.is_dir():
            raise Impossible(f"data folder {self.path} is not a folder")
        try:
            # A crash between the lock and the marker leaves only the lock; lost+found belongs to
            # ext4.
            names = set(os.listdir(self.path)) - {"lock", f"{_MARKER}.new", "lost+found"}  # noqa: PTH208
        except OSError as error:
            raise Impossible(f"data folder {self.path} cannot be read: {error.strerror}") from error
        if names:
            raise Impossible(
                f"data folder {self.path} is not empty and was not made by replayer "
                f"({min(names)} is in it)",
                "give an empty or a new one",
            )

    def check(self, user: User | None) -> None:
        """Raise Impossible if the folder cannot be made or used, by this user or the server's.

        `user` is the server's user; None if that is this user.  Nothing is made, also not to try
        it.
        """
        if any(c in '"$`\\' or not c.isprintable() for c in str(self.path)):
            raise Impossible(
                f"data folder {str(self.path)!r} has a quote, $, ` or \\ in its name, or a "
                f"character that cannot be printed, such as a line break: server programs misread "
                f"it; give a --data-dir without them"
            )
        there = self.path if os.path.lexists(self.path) else self.path.parent
        closed = blocked(there, user)
        if closed is None:
            self._refuse_shared()
            if reason := trusted_path.refusal(there):
                raise Impossible(f"data folder {self.path} cannot be written: {reason}", _ANOTHER)
            return
        if not os.path.lexists(closed):
            raise Impossible(f"data folder {self.path} cannot be made: {closed} is not there")
        if not closed.is_dir():
            raise Impossible(f"data folder {self.path} cannot be used: {closed} is not a folder")
        outside = "give a --data-dir outside of it"
        raise Impossible(
            f"the server runs as {user.name if user else 'you'}, who cannot enter {closed} on the "
            f"way to {self.path}",
            f"{outside}, or run `chmod o+x {closed}`" if user else outside,
        )

    def _refuse_shared(self) -> None:
        """Raise Impossible if other users could put a link where replayer will write."""
        there = os.path.lexists(self.path)
        try:
            if there:
                self._own().close()
            else:
                trusted_path.steady(self.path.parent, "data folder").close()
        except NotADirectoryError as error:
            raise Impossible(f"data folder {self.path} is not a folder") from error
        except OSError as error:
            cannot = "read" if there else f"made: {self.path.parent} cannot be opened"
            raise Impossible(
                f"data folder {self.path} cannot be {cannot}: {error.strerror}", _ANOTHER
            ) from error

    def free_bytes(self) -> int:
        """Return the bytes free on the folder's disk for ordinary users."""
        return free_bytes(self.path)

    def check_space(self, needed: int) -> None:
        """Raise Impossible if a new data directory would not fit; `needed` is in bytes."""
        free = self.free_bytes()
        if free < needed:
            raise Impossible(
                f"{self.path} has {show_size(free)} free, and a new data directory needs "
                f"{show_size(needed)}: give a --data-dir on a larger disk"
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other replayers for as long as the `with` block runs.

        Raises Impossible if another process holds the lock, with the id of that process.  The
        kernel releases the lock when the process that holds it ends in any way, so a lock is never
        stale.
        """
        descriptor = self._lock()
        try:
            yield
        finally:
            os.close(descriptor)

    def _lock(self) -> int:
        path = self.path / "lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            try:
                with self._own() as folder:
                    descriptor = os.open(path.name, flags, 0o644, dir_fd=folder.fd)
            except OSError as error:
                raise _unwritable(self.path, error) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                os.close(descriptor)
                raise Impossible(
                    f"data folder {self.path} is in use by another replayer"
                    f"{f' (process {holder})' if holder else ''}: wait for it, or give another "
                    f"--data-dir"
                ) from None
            except OSError as error:
                os.close(descriptor)
                raise Impossible(f"{path} cannot be locked: {error.strerror}") from error
            if _same(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)
                return descriptor
            # `replayer clean` removed the file between opening and locking it here.
            os.close(descriptor)

    def check_free(self) -> None:
        """Raise Impossible if another replayer uses the folder."""
        with self.locked():
            pass

    def remove(self) -> None:
        """Remove replayer's files in the folder, and the folder itself if replayer made it.

        Raises Impossible if the folder is not replayer's, is in use or cannot be removed.
        """
        marker = self.marker()
        inside = self.path.parent == _inside()
        if marker is None and not inside:
            raise Impossible(f"{self.path} was not made by replayer")
        with self.locked():
            try:
                self._empty()
                if inside or (marker and marker.made_folder):
                    with trusted_path.Folder(self.path.parent) as parent:
                        parent.rmdir(self.path.name)
            except OSError as error:
                raise Impossible(f"{self.path} cannot be removed: {error}") from error
        _note(self.path).unlink(missing_ok=True)

    def _empty(self) -> None:
        """Remove replayer's files in the folder, the marker and the lock last."""
        log = self.log.name
        with self._own() as folder:
            folder.remove(self.data.name)
            for name in (log, f"{log}.1", f"{_MARKER}.new", _MARKER, "lock"):
                folder.forget(name)


def standard(engine: str, major: int, init: Mapping[str, str]) -> Path:
    """Return the path of the data folder that is used without --data-dir; make the folder above it.

    Each engine, major version and choice of initial settings has its own folder.
    """
    return own_folder(_inside()) / standard_name(engine, major, init)


def standard_name(engine: str, major: int, init: Mapping[str, str]) -> str:
    """Return the name of the data folder that is used without --data-dir."""
    choices = [f"{name}-{value}" for name, value in sorted(init.items())]
    return "-".join([engine, str(major), *choices])


def every() -> list[DataFolder]:
    """Return all existing data folders that replayer made, sorted by path.

    Folders outside replayer's own folder, which a user gave with --data-dir, are included.
    """
    inside = {path for path in _inside().glob("*") if path.is_dir() and not path.is_symlink()}
    return [DataFolder(path) for path in sorted({*inside, *_outside()})]


def _outside() -> Iterator[Path]:
    """Yield the data folders that `_remember` recorded: those outside replayer's own folder.

    A folder without a trusted marker is left out, but its record stays: the folder may be on a disk
    that is not mounted now.
    """
    with contextlib.suppress(FileNotFoundError), trusted_path.own(_elsewhere(), _HOME) as notes:
        for name in notes.names():
            with contextlib.suppress(OSError, ValueError):
                path = Path(notes.read(name))
                if DataFolder(path).replayers():
                    yield path


def _inside() -> Path:
    return Path(os.path.realpath(journal.home() / "data"))


def _elsewhere() -> Path:
    return journal.home() / "elsewhere"


def _remember(path: Path) -> None:
    """Record a data folder for `replayer clean`, if it is outside replayer's own folder."""
    if not path.is_relative_to(journal.home()):
        own_folder(_elsewhere())
        with trusted_path.own(_elsewhere(), _HOME) as notes:
            notes.replace(_note(path).name, str(path))


def _note(path: Path) -> Path:
    return _elsewhere() / f"{hashlib.sha256(str(path).encode()).hexdigest()[:16]}.path"


def _same(descriptor: int, path: Path) -> bool:
    try:
        there, ours = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _settings(init: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(init.items())) or "the defaults"


def _unwritable(path: Path, error: OSError) -> Impossible:
    return Impossible(f"data folder {path} cannot be written: {error.strerror}")
