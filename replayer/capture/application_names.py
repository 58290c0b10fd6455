"""The application_name of sessions, which many clients set only after they have connected.

Among these clients are pgjdbc and PgBouncer.  The latter sets another name for each of its clients.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from replayer.capture.action import LoggedSession

_UNKNOWN = "[unknown]"
_LONGEST = 63
"""Characters, all of ASCII, to which the server cuts a name.

The name in its message of a connection is not cut.
"""


@dataclass(slots=True)
class NamedSession:
    """A session with the first name of its application that the log has, or "" if it has none."""

    session: LoggedSession
    is_renamed: bool = False
    """True if the log has a second name of the session."""


class ApplicationNames:
    """Finds the first name of each session, and counts the sessions that have several."""

    def __init__(self, announce: Callable[[LoggedSession], None]) -> None:
        """Begin; `announce` is called with each session, and again when its name is known."""
        self._announce = announce
        self._renamed = 0

    def begin(self, session: LoggedSession) -> NamedSession:
        """Announce a new session, and return it."""
        self._announce(session)
        return NamedSession(session)

    def follow(self, named: NamedSession, application: str) -> None:
        """Note the application_name of an entry of a session."""
        name, first = known_name(application), named.session.application
        if not name or name in (first, first[:_LONGEST]):
            return
        if not first:
            named.session = replace(named.session, application=name)
            self._announce(named.session)
        elif not named.is_renamed:
            named.is_renamed = True
            self._renamed += 1

    def note(self) -> str:
        """Return a sentence on the sessions with several names; "" if there are none."""
        if not self._renamed:
            return ""
        return (
            f"sessions that change their application_name: {self._renamed:,}. The first name of "
            f"each counts, as for the key applications of a replay"
        )


def known_name(text: str) -> str:
    """Return a logged name; "" if the server did not know it."""
    return "" if text == _UNKNOWN else text
