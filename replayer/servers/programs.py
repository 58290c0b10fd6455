"""The programs of a server: their folder, their version, and the user who runs them.

With `--pg-bindir` only that folder is searched.  Without it, the programs are searched in a Python
package that contains them, in the system's folders (newest version first), and in PATH; engine.toml
names the package and the folders.  Programs that an unprivileged user cannot reach, such as a
package in a virtual environment under /root, are copied into replayer's own folder.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from replayer import assets, interpreter, journal, shell, trusted_path
from replayer.engines import engine, guests
from replayer.engines.engine import Engine
from replayer.engines.engine_spec import ServerSpec
from replayer.errors import Impossible, ReplayerError
from replayer.shell import User

_HOST = "replayer.engines.inprocess"
"""The module that is run as the server of a guest, which is an engine without a server program."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder of a server's programs, the server's version, and the user who runs it."""

    folder: Path
    program: str
    version: str
    major: int
    user: User | None
    """None means the user who runs replayer."""

    @property
    def server(self) -> Path:
        """Return the path of the server program."""
        return self.folder / self.program


def find(title: str, keys: ServerSpec, bindir: Path | None = None) -> Programs:
    """Return the server's programs, as [server] of engine.toml describes them.

    They are searched in `bindir` only, if that is given.  `title` names the engine in messages.
    Raises Impossible if there are none, they cannot run here, or they are too old.
    """
    user = server_user(keys.users)
    if keys.guest:
        return _guest(title, keys, user, bindir)
    refusals = []
    for folder in folders(keys, bindir):
        try:
            return _tried(title, keys, folder, user)
        except ReplayerError as error:
            refusals.append(str(error))
    advice = f"install {keys.package.replace('_', '-')} with pip" if keys.package else ""
    option = "--pg-bindir" if advice else "--bindir"
    advice = advice or keys.install
    ways = " or ".join(way for way in (advice, f"give {option}") if way)
    refusal = "; ".join(refusals) or "none is installed"
    if bindir:
        has_none = not os.path.isfile(bindir / keys.program)  # noqa: PTH113 - as in _tried
        remedy = f": give {option} the folder of the server's programs, or leave it out"
        raise Impossible(f"{refusal}{remedy if has_none else ''}")
    raise Impossible(f"no {title} server can be used", f"{refusal}; {ways}")


def refuse_missing(title: str, keys: ServerSpec, bindir: Path | None) -> None:
    """Raise Impossible, as `find` does, if there is no server program in `bindir`."""
    if bindir is not None and not os.path.isfile(bindir / keys.program):  # noqa: PTH113 - as in _tried
        find(title, keys, bindir)


def _guest(title: str, keys: ServerSpec, user: User | None, bindir: Path | None) -> Programs:
    """Return the Python interpreter as the server program of a library, such as DuckDB.

    Replayer itself serves such a library, in a Python process.  Raises Impossible if the library is
    not installed or too old, or if `bindir` is given.
    """
    if bindir is not None:
        raise Impossible(f"{title} is a Python package, so that there is no folder of programs")
    version = _guest_version(title, keys.guest)
    major = int(version.partition(".")[0])
    if major < keys.oldest:
        raise Impossible(f"{title} {version} is installed: replayer needs {keys.oldest} or later")
    python = Path(sys.executable).resolve()
    return Programs(python.parent, python.name, version, major, user)


def _guest_version(title: str, name: str) -> str:
    """Return the version of the library that the module `name` of engines/guests uses.

    Raises Impossible if the library is not installed or has no valid version.  `title` names the
    engine in messages.
    """
    guest = guests.load(name)
    refusal = f"no {title} can be used"
    try:
        version: object = guest.get_version()
    except ImportError as error:
        advice = f"'replayer[{guest.EXTRA}]'" if guest.EXTRA else guest.PACKAGE
        found = f"the package {guest.PACKAGE} is not installed" if guest.PACKAGE else str(error)
        raise Impossible(refusal, f"{found}: pip install {advice}" if advice else found) from None
    except ValueError:
        raise Impossible(refusal, f"the guest {name} has no PACKAGE and no get_version()") from None
    if not isinstance(version, str) or not version.partition(".")[0].isdecimal():
        raise Impossible(refusal, f"the guest {name} has the version {version!r}, which is not one")
    return version


def guest_command(keys: ServerSpec, data: Path, socket: Path, user: User | None) -> list[str]:
    """Return the command with which replayer serves a library, such as DuckDB, in a Python process.

    That process serves the data directory `data` on a socket in the folder `socket`.  It runs as
    `user`; None means the user that runs replayer.
    """
    uid, gid = (os.geteuid(), os.getegid()) if user is None else (user.uid, user.gid)
    places = (data, socket / keys.socket_name, data / keys.pid_file)
    return [*interpreter.module(_HOST), keys.guest, *map(str, places), str(uid), str(gid)]


def word_of(keys: ServerSpec) -> str:
    """Return a word by which a server's command line is recognised, "" if the program is enough.

    A library is served by the Python interpreter, which has other uses too: so the command line of
    its server must contain this word.
    """
    return _HOST if keys.guest else ""


def server_user(names: Iterable[str]) -> User | None:
    """Return the user that runs the server; None means the user who runs replayer.

    If that is root, it is the first user of `names` that exists.  Raises Impossible if none does:
    replayer never makes a user.
    """
    if os.geteuid() != 0:
        return None
    user = ordinary_user(names)
    if user is None:
        raise Impossible(
            f"a database server does not run as root, and none of the users {', '.join(names)} "
            f"exists here",
            "add one, or run replayer as an ordinary user",
        )
    return user


def ordinary_user(names: Iterable[str]) -> User | None:
    """Return the first user of `names` that exists and is not root; None if there is none."""
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return User(name, entry.pw_uid, entry.pw_gid)
    return None


def with_a_name(title: str, keys: ServerSpec, user: User | None) -> list[str]:
    """Return the beginning of a command that gives the user a name; [] if the user has one.

    Some programs refuse to run as a user id without an entry in /etc/passwd.  Such a program is run
    in a user namespace, where the id has the name of another user; its files still belong to the
    user that runs replayer.  Raises Impossible if there is no other user, or no program `unshare`.
    """
    if user is not None or has_name(os.geteuid()):
        return []
    other = ordinary_user(keys.users)
    unshare = shell.find("unshare")
    if other is None or unshare is None:
        raise Impossible(
            f"the user id {os.geteuid()} has no name, and {title} wants one: add it to "
            f"/etc/passwd, or run replayer as another user"
        )
    return [str(unshare), "--user", f"--map-user={other.uid}", f"--map-group={other.gid}", "--"]


def has_name(uid: int) -> bool:
    """Return whether a user id has a name, which means an entry in the system's list of users."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def blocked(path: Path, user: User | None) -> Path | None:
    """Return the topmost folder, of `path` and its parents, that `user` cannot enter.

    Returns None if the user can enter all of them.
    """
    if _may(user, "-x", path):
        return None
    way = [*reversed(path.parents), path]
    return next((folder for folder in way if not _may(user, "-x", folder)), path)


def _may(user: User | None, right: str, path: Path) -> bool:
    """Return whether a user has a right on a path; `right` is an option of test(1), such as -x.

    The kernel is asked, so that access control lists and mount options count.
    """
    if user is None:
        return os.access(path, os.X_OK)
    try:
        shell.run(["test", right, path], user=user, folder=Path("/"))
    except ReplayerError:
        return False
    return True


def folders(keys: ServerSpec, bindir: Path | None) -> Iterator[Path]:
    """Yield the folders that may have a server's programs, the first choice first.

    If `bindir` is given, only that folder is yielded.
    """
    if bindir is not None:
        yield bindir.absolute()
        return
    carried = _package(keys)
    if carried is not None:
        yield carried / keys.package_folder
    for pattern in keys.folders:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), key=_numbers, reverse=True)
    program = shell.find(keys.program)
    if program is not None:
        yield program.resolve().parent


def _package(keys: ServerSpec) -> Path | None:
    """Return the folder of the Python package with the programs; None if it is not installed.

    The package is not imported.
    """
    spec = importlib.util.find_spec(keys.package) if keys.package else None
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _called(keys: ServerSpec) -> list[str]:
    """Return the names of the programs that the commands `init` and `start` of engine.toml run."""
    firsts = (words[0] for words in (keys.init, keys.start) if words)
    return [first.removeprefix("{bin}/") for first in firsts if first.startswith("{bin}/")]


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _tried(title: str, keys: ServerSpec, folder: Path, user: User | None) -> Programs:
    """Return the programs in a folder; the server program is run to learn its version.

    Raises Impossible if a program is missing, is of another engine or is too old.
    """
    program = keys.program
    for name in (program, *_called(keys)):
        if not os.path.isfile(folder / name):  # noqa: PTH113 - also False in an unreadable folder
            raise Impossible(f"there is no {name} in {folder}")
    if blocked(folder, user) is not None:
        folder = _reachable(keys, folder, user)
    answer = shell.run([folder / program, "--version"], user=user, folder=Path("/"), timeout=60)
    numbers = keys.version.search(answer)
    if numbers is None:
        other = _of_another(answer)
        if other is not None:
            raise Impossible(
                f"{folder / program} is {other.title}, not {title}: give --engine {other.name}"
            )
        raise Impossible(f"{folder / program} prints {answer.strip()!r}, which is not a version")
    major = int(numbers[1])
    if major < keys.oldest:
        raise Impossible(
            f"{folder / program} is {title} {numbers[0]}: replayer needs {keys.oldest} or later"
        )
    return Programs(folder, program, numbers[0], major, user)


def _of_another(answer: str) -> Engine | None:
    """Return the engine of a server program; `answer` is the version that the program printed.

    Returns None if this is the version of no known engine.
    """
    fitting = []
    for name in assets.engines():
        # Another engine's error is not the one to report here.
        with contextlib.suppress(ReplayerError):
            one = engine.load(name)
            if one.spec.server.version.search(answer):
                fitting.append(one)
    # Engines that are like another one have its server: the first of them has no other above it.
    return min(fitting, key=lambda one: len(one.folders), default=None)


def _reachable(keys: ServerSpec, folder: Path, user: User | None) -> Path:
    """Copy the Python package with the programs to a place that the server's user can reach.

    Returns the copy of `folder`.  Raises Impossible if `folder` is not in such a package, or if the
    user cannot reach the copy either.
    """
    package = _package(keys)
    if package is None or not folder.is_relative_to(package):
        raise Impossible(
            f"the server runs as {user.name if user else 'you'}, who cannot enter "
            f"{blocked(folder, user)}: use programs in a folder that everyone can enter"
        )
    # A wheel's shared libraries lie next to the package, and are found by relative path.
    parts = [package, package.with_name(f"{package.name}.libs")]
    copy = _copied(package.name, [part for part in parts if part.is_dir()])
    copied = copy / folder.relative_to(package.parent)
    closed = blocked(copied, user)
    if closed is not None:
        raise Impossible(
            f"the server runs as {user.name if user else 'you'}, who cannot enter {closed}: "
            f"set REPLAYER_HOME to a folder that everyone can enter"
        )
    return copied


def _copied(name: str, parts: list[Path]) -> Path:
    target = own_folder(journal.home() / "programs") / f"{name}-{_digest(parts)}"
    if target.is_dir():
        return target
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        own_folder(draft)
        for part in parts:
            shutil.copytree(part, draft / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        _open_up(draft)
        draft.rename(target)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        if target.is_dir():
            return target
        raise Impossible(
            f"the server's programs cannot be copied to {target}: {error.strerror or error}"
        ) from error
    return target


def _open_up(folder: Path) -> None:
    """Make everything in a folder readable for all users, independent of the umask."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
            if path.stat().st_mode & 0o100:
                path.chmod(path.stat().st_mode | 0o111)


def _digest(parts: list[Path]) -> str:
    """Return a hash of the paths, sizes and modification times of all files in these folders."""
    seen = hashlib.sha256()
    for part in parts:
        for path in sorted(part.rglob("*")):
            if "__pycache__" not in path.parts and path.is_file():
                stat = path.stat()
                seen.update(
                    f"{path.relative_to(part)} {stat.st_size} {stat.st_mtime_ns}\n".encode()
                )
    return seen.hexdigest()[:12]


def own_folder(path: Path) -> Path:
    """Make a folder of replayer that all users can enter, independent of the umask; return it.

    Raises Impossible if it cannot be made, or if another user could replace it.
    """
    try:
        with trusted_path.steady(path.parent, "the folder") as parent:
            parent.make(path.name, 0o755)
    except FileExistsError:
        pass
    except OSError as error:
        raise Impossible(f"{path} cannot be made: {error.strerror}") from error
    return path
