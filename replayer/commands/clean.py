"""Remove what replayer made on this machine: servers, data, copied programs; never results.

It lists what it will remove and asks. Leftovers of a killed run - a running server, a cgroup,
reserved huge pages - are given back first. Things that a running replayer uses are not touched.
With --engine it removes what replayer made on a running server, from the list that replayer keeps
in that database.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer import journal, trusted_path
from replayer.engines import credentials, engine, environment
from replayer.errors import Impossible, ReplayerError
from replayer.report.messages import say
from replayer.report.sanitize import sanitize
from replayer.run.plan.request import asker
from replayer.run.recovery import await_killed, give_back_note
from replayer.servers import data_folder, leftovers, remote
from replayer.tables import cleanup
from replayer.units import show_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from replayer.servers.data_folder import DataFolder

EPILOG = """\
examples:
  replayer clean                    list what is there, and ask
  replayer clean --yes              do not ask
  replayer clean --data-dir /mnt/nvme/replayer
  replayer clean --engine postgresql://app@db/shop
"""


_FEW = 5


class _Thing(NamedTuple):
    """Something to remove: its kind, its place, its size, and the function that removes it.

    The size is in bytes, or None if it is not known.
    """

    what: str
    where: str
    size: int | None
    remove: Callable[[], object]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="remove the data in this folder only"
    )
    parser.add_argument(
        "--engine",
        metavar="URL",
        help="remove what replayer made on the server at this URL, and only there",
    )


def run(args: argparse.Namespace) -> int:
    """List what will be removed, ask, and remove it; return 1 if the user answered no, else 0."""
    if args.engine:
        return _on_server(args)
    things = list(_one(args.data_dir) if args.data_dir else _everything())
    if not things:
        _remove_home()
        say("there is nothing of replayer's to remove")
        return 0
    _list(things)
    if not _wanted(args):
        return 1
    _removed(things)
    _remove_home()
    say("removed")
    return 0


def _wanted(args: argparse.Namespace) -> bool:
    """Ask the user whether to remove the listed things, unless --yes is given; return the answer.

    Raises Impossible without --yes if there is no terminal on which to ask.
    """
    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise Impossible("nothing was removed: give --yes to remove without being asked")
    if _agreed():
        return True
    say("nothing was removed")
    return False


def _on_server(args: argparse.Namespace) -> int:
    """List what replayer made on the server of --engine, ask, and remove it.

    Returns 1 if the user answered no, else 0.
    """
    if args.data_dir is not None:
        raise Impossible("--data-dir is on this machine and --engine on a server: give one of them")
    url = args.engine if "://" in args.engine else environment.url(args.engine)
    if url is None:
        raise Impossible(
            f"{args.engine} is not a URL of a server: what is private, `replayer clean`s"
        )
    kind = engine.of_url(url) if "://" in args.engine else engine.load(args.engine)
    leftovers.refuse_unknown(kind)
    with remote.emptying(kind, url, ask=asker()) as database:
        if database is None:
            say("there is nothing of replayer's on the server")
            return 0
        left = leftovers.things(database)
        where = credentials.show(database.url)
        things = [
            _Thing(one.kind, one.name, one.bytes, lambda one=one: cleanup.remove(database, one))  # type: ignore[misc]
            for one in left
        ]
        _list([*things, _Thing("schema", f"replayer, in {where}", None, lambda: None)])
        if not _wanted(args):
            return 1
        _removed(things)
        strange = leftovers.others(database)
        if strange:
            some = ", ".join(map(sanitize, strange[:_FEW])) + (", …" if len(strange) > _FEW else "")
            say(f"removed; the schema replayer stays for what replayer did not make: {some}")
            return 0
        leftovers.leave(database)
    say("removed")
    return 0


def _removed(things: list[_Thing]) -> None:
    """Remove each thing; raise ReplayerError at the end if some could not be removed."""
    errors = []
    for thing in things:
        try:
            thing.remove()
        except ReplayerError as error:
            named = thing.where in str(error)
            errors.append(str(error) if named else f"{thing.where}: {error}")
    if errors:
        gone = len(things) - len(errors)
        raise ReplayerError(f"{gone} of {len(things)} were removed; {'; '.join(errors[:_FEW])}")


def _everything() -> Iterator[_Thing]:
    """Yield each thing that replayer made on this machine, with the function that removes it.

    Raises Impossible if a running replayer uses some of it.
    """
    used = next((note for note in journal.notes() if not note.abandoned), None)
    if used is not None and used.lasting:
        raise Impossible(
            f"the plan of boots {used.text('plan')} runs on this machine: `replayer boots stop` "
            f"ends it, and nothing is removed until then"
        )
    if used is not None:
        raise Impossible(
            f"replayer runs (process {used.owner.split(':')[1]}): nothing is removed until it ends"
        )
    yield from _leftovers()
    for folder in data_folder.every():
        yield _data(folder)
    home = journal.home()
    boots = home / "boots"
    if boots.is_dir() and not boots.is_symlink():
        yield _Thing("record of a plan of boots", str(boots), _size(boots), lambda: _remove(boots))
    for copy in sorted((home / "programs").glob("*")):
        yield _Thing("copied programs", str(copy), _size(copy), lambda copy=copy: _remove(copy))  # type: ignore[misc]
    for note, _ in journal.unusable():
        yield _Thing("no note of replayer's", str(note), None, lambda n=note: journal.forget(n))  # type: ignore[misc]
    for draft in sorted((home / "taken").glob("*.new")):
        yield _Thing("unfinished note", str(draft), _size(draft), draft.unlink)


def _one(path: Path) -> Iterator[_Thing]:
    """Yield what killed runs left in one data folder, then the folder itself.

    Raises Impossible if replayer did not make the folder, or if the folder is in use.
    """
    folder = data_folder.DataFolder(trusted_path.real(Path(path)))
    if folder.marker() is None:
        raise Impossible(f"{path} was not made by replayer, and is not removed by it")
    yield from _leftovers(lambda note: note.details.get("data") == str(folder.data))
    yield _data(folder)


def _leftovers(wanted: Callable[..., bool] = lambda _: True) -> Iterator[_Thing]:
    await_killed()
    for note in journal.left():
        if wanted(note):
            yield _Thing(
                f"{note.kind} left by a killed run",
                str(next(iter(note.details.values()), ""))[:200],
                None,
                lambda note=note: say(give_back_note(note)),  # type: ignore[misc]
            )


def _data(folder: DataFolder) -> _Thing:
    folder.check_free()
    return _Thing("data of a server", str(folder.path), _size(folder.path), folder.remove)


def _list(things: list[_Thing]) -> None:
    print("replayer made this, and will remove it:")  # noqa: T201
    width = max(len(thing.what) for thing in things)
    for thing in things:
        size = "" if thing.size is None else show_size(thing.size)
        print(f"  {sanitize(thing.what):{width}}  {size:>10}  {sanitize(thing.where)}")  # noqa: T201


def _agreed() -> bool:
    print("Remove all of it? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _size(path: Path) -> int:
    """Return the bytes that a file or folder takes on disk."""
    total = 0
    for part in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):
            total += part.lstat().st_blocks * 512
    return total


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise ReplayerError(f"{path} cannot be removed: {error.strerror or error}") from error


def _remove_home() -> None:
    """Remove the folder for replayer's data, if it is empty and replayer made it."""
    journal.leave()
