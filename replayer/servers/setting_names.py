"""The names of a server's settings, as its programs list them while no server runs."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from replayer import shell
from replayer.engines.engine_spec import ServerSpec
from replayer.errors import NotFound, ReplayerError
from replayer.servers import programs
from replayer.shell import User

_NEAR = 0.85
"""Least similarity (0 to 1) of a mistyped name to a listed one.  The list is not complete, but no
setting that PostgreSQL 15 or 18 leaves out and that can be set is this similar to a listed one."""
_SECONDS = 5
"""The longest wait for the list, which usually takes 0.1 s.  Without the list, a mistyped name is
refused by the server itself, when it starts."""


def refuse_mistyped(
    title: str, keys: ServerSpec, folder: Path, user: User | None, names: Iterable[str]
) -> None:
    """Raise NotFound for a name that is similar, but not equal, to the name of a setting.

    Any other name passes: the server itself refuses unknown names when it starts.  Upper and lower
    case are equal.  The server's program in `folder`, which lists the settings, is run as `user`.
    `title` names the engine in the message.
    """
    names = [name.lower() for name in names if "." not in name]
    if keys.abbreviates:
        names = [name.replace("-", "_") for name in names]
    if not names:
        return
    known = _listed(keys, folder, user)
    for name in names:
        near = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
        if near and name not in known and not (keys.abbreviates and _begins_one(name, known)):
            raise NotFound(f"{title} has no setting {name!r} - did you mean {near[0]}?")


def _begins_one(name: str, known: Iterable[str]) -> bool:
    return any(one.startswith(name) for one in known)


def refuse_mistyped_before(
    title: str, keys: ServerSpec, bindir: Path | None, names: Iterable[str]
) -> None:
    """Raise NotFound for a mistyped name of a setting, before the server's programs are copied.

    The programs may have to be copied to a place that the server's user can reach.  For this early
    check, the first installed programs that need no copy list the settings.  If there are none, it
    does nothing.  Only programs in `bindir` are used, if that is given.
    """
    user = programs.server_user(keys.users)
    for folder in programs.folders(keys, bindir):
        if (folder / keys.program).is_file() and programs.blocked(folder, user) is None:
            refuse_mistyped(title, keys, folder, user, names)
            return


def _listed(keys: ServerSpec, folder: Path, user: User | None) -> list[str]:
    """Return the names of all settings, in lower case and with _ for -; [] if not known."""
    if not keys.list_settings:
        return []
    command = [word.format(bin=folder, data="", log="") for word in keys.list_settings]
    try:
        text = shell.run(command, user=user, folder=Path("/"), timeout=_SECONDS)
    except ReplayerError:
        return []
    found = map(keys.listed_setting.match, text.splitlines())
    return [one[1].lower().replace("-", "_") for one in found if one is not None]
