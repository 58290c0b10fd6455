"""Logging settings of a server: set for a while, and restored in any case, even after a kill.

Only settings that differ from the wanted values are set, by ALTER SYSTEM or SET GLOBAL. The
previous values are recorded first.  If another user changes a setting meanwhile, that change stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from replayer import journal
from replayer.engines import credentials, engine, watchdog
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Denied, Impossible, ReplayerError
from replayer.journal import Untrusted
from replayer.servers import remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import URL

    from replayer.engines.engine import Engine
    from replayer.journal import Note

NOTES = frozenset({"log_settings"})
"""Kinds of notes that `recover` handles."""
WANTED = VerbName("capture/settings")
_KEPT = VerbName("capture/kept")
_SET = VerbName("capture/set")
_RELOAD = VerbName("capture/reload")
_GRANTS = VerbName("capture/grants")
_QUIET = VerbName("capture/quiet")

Changes = Mapping[str, str]
"""Setting -> its new value, in the order in which they are set."""


@contextlib.contextmanager
def asking(chosen: Engine, url: URL) -> Iterator[Database]:
    """Yield a connection for short statements, with a fixed time limit for each of them.

    The server does not log these statements if the user has the right to switch that off.
    Otherwise they would be captured, and replayed with the statements of the server's clients.
    """
    title = f"{chosen.title} at {credentials.show(url)}"
    with (
        watchdog.watching(watchdog.address(url), title),
        contextlib.closing(Database(chosen, url, first=())) as database,
    ):
        if chosen.verb(_QUIET) is not None:
            with contextlib.suppress(ReplayerError):
                database.execute(_QUIET)
        yield database


def statement(database: Database, name: str, value: str | None) -> str:
    """Return the SQL statement that sets the setting `name`; the value None resets it."""
    return str(database.value(_SET, name=name, value=value))


@contextlib.contextmanager
def apply_settings(
    chosen: Engine, url: URL, changes: Changes, say: Callable[[str], None]
) -> Iterator[None]:
    """Set the logging settings `changes` (name -> value) for as long as the `with` block runs.

    At the end, the earlier values are restored.  If that fails, the function that is the last
    argument gets a message for the user, and the error is raised.  Raises Impossible if another
    replayer records statements on the server, or if the user lacks the right; then all settings are
    as before.
    """
    _refuse_another(url)
    with asking(chosen, url) as database:
        kept = _kept(database)
    settings = {name: [kept.get(name), value] for name, value in changes.items()}

    def give_back() -> None:
        try:
            _give_back(chosen, url, settings)
        except ReplayerError as error:
            say(
                f"the log settings {', '.join(settings)} of {credentials.show(url)} could not be "
                f"given back ({error}): the next replayer does it, as `replayer clean`"
            )
            raise

    shown = _without_secrets(url)
    details = {"url": shown, "engine": chosen.name, "settings": settings}
    with journal.held("log_settings", give_back, **details):
        with asking(chosen, url) as database:
            _set(database, changes)
        yield


def undoing(database: Database, changes: Changes) -> list[str]:
    """Return the statements that restore the present values of the settings in `changes`.

    The last setting comes first.  Returns [] if the present values cannot be read.
    """
    try:
        kept = _kept(database)
    except Impossible:
        return []
    return [statement(database, name, kept.get(name)) for name in reversed([*changes])]


def reloading(database: Database) -> list[str]:
    """Return the statements that make the server's processes reload their settings."""
    verb = database.engine.verb(_RELOAD)
    return [] if verb is None else list(verb.statements())


def _set(database: Database, changes: Mapping[str, str | None]) -> None:
    try:
        for name, value in changes.items():
            # A colon in a statement would begin a parameter.
            database.query(statement(database, name, value).replace(":", "\\:"))
        for one in reloading(database):
            database.query(one)
    except Denied as error:
        raise _without_right(database, error) from error


def _kept(database: Database) -> dict[str, str]:
    """Return setting -> its present value, of those set by ALTER SYSTEM or SET GLOBAL.

    Raises Impossible if the user may not read them.
    """
    try:
        return {str(row["name"]): str(row["value"]) for row in database.execute(_KEPT)}
    except Denied as error:
        raise _without_right(database, error) from error


def _without_right(database: Database, error: Denied) -> Impossible:
    return Impossible(f"{error} ({database.value(_GRANTS)})")


def _give_back(
    chosen: Engine, url: URL, settings: Mapping[str, list[str | None]]
) -> tuple[list[str], list[str]]:
    """Restore the settings that still have the value which replayer set.

    `settings` is name -> [value before, or None; replayer's value].  A setting that now has any
    other value was changed by another user, and stays.  Returns the names of the restored settings,
    and of those that stay.
    """
    with asking(chosen, url) as database:
        kept = _kept(database)
        ours = [name for name, (_, value) in settings.items() if kept.get(name) == value]
        _set(database, {name: settings[name][0] for name in reversed(ours)})
    return ours, [name for name in settings if name not in ours]


def _refuse_another(url: URL) -> None:
    mine = _without_secrets(url)
    for note in journal.notes(*NOTES):
        if note.details.get("url") == mine:
            pid = journal.pid_of(note.owner)
            raise Impossible(
                f"{credentials.show(url)} is being captured by another replayer (process {pid})"
            )


def give_back_left(chosen: Engine, url: URL) -> Iterator[str]:
    """Restore the log settings that killed replayers changed on the server at a URL.

    Yields a message for each replayer that was killed.
    """
    mine = _without_secrets(url)
    for note in list(journal.notes(*NOTES)):
        if note.abandoned and note.details.get("url") == mine:
            yield _recovered(note, chosen, url)


def recover(note: Note) -> str:
    """Restore the settings that a killed replayer changed, and return a short message on that.

    The password is not in the note: it is looked up where the engine's own clients look it up.
    Raises Untrusted for settings that replayer never sets, ReplayerError if the server cannot be
    reached.
    """
    settings = _believed(note)
    try:
        chosen, url = remote.identified(engine.load(note.text("engine")), note.text("url"))
        return _recovered(note, chosen, url)
    except ReplayerError as error:
        raise ReplayerError(
            f"the log settings {', '.join(settings)} of {note.text('url')} could not be given back "
            f"({error})",
            f"`replayer capture URL` gives them back with the URL's password; if that server is "
            f"gone for good, remove {note.path}",
        ) from error


def _recovered(note: Note, chosen: Engine, url: URL) -> str:
    given, others = _give_back(chosen, url, _believed(note))
    note.drop()
    rest = f"; {', '.join(others)} had not been set, or others changed it" if others else ""
    return f"log settings of {note.text('url')} were given back: {', '.join(given) or 'none'}{rest}"


def _believed(note: Note) -> dict[str, list[str | None]]:
    """Return a note's settings: name -> [value before, or None; replayer's value].

    Raises Untrusted if the note contains anything that replayer would not have written there.
    """
    settings = note.details.get("settings")
    if not isinstance(settings, Mapping):
        raise Untrusted(note, "it has no settings")
    for name, pair in settings.items():
        plain = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str)
        if not plain or not (pair[0] is None or isinstance(pair[0], str)):
            raise Untrusted(note, "its settings are not two values each")
        if not name.startswith(("log_", "general_log")):
            raise Untrusted(note, f"replayer does not set {name[:50]!r}")
    return dict(settings)


def _without_secrets(url: URL) -> str:
    """Return a URL as text, without its password and other secrets."""
    return credentials.show(url._replace(password=None))
