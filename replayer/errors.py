"""Every error that a user or a machine can cause, and the exit status each one stands for.

ReplayerError           1  failed while running
├── Impossible          2  asked for what cannot be: bad argument, missing right, wrong machine
│   └── NotFound        2  a name that is not there, with the nearest one that is
├── HostLost              1  a client host, or the database's, was lost: the run is partial
├── Worse               3  `compare --fail-if-worse` found worse
└── Skip                -  not a failure: this step cannot be done here, and the report says why
    └── Denied          -  as a right is missing on the database server
Interrupted           130  Ctrl-C or SIGTERM; no ReplayerError, so that code which goes on after
                           an error does not go on after it

A message is one sentence: what was asked, what was found, what to do.
"""

import difflib
from collections.abc import Iterable


class ReplayerError(Exception):
    """Something went wrong while running; the steps already done are kept.

    Its sentence is what was found and, where there is more to say than that, what to do about it.
    """

    status = 1

    def __init__(self, found: str, todo: str = "") -> None:
        super().__init__(f"{found}: {todo}" if todo else found)
        self.found, self.todo = found, todo


class Impossible(ReplayerError):
    """What was asked for cannot be done, known before anything was done."""

    status = 2


class NotFound(Impossible):
    """A name that is not there."""


class HostLost(ReplayerError):
    """A host on which a part of the run was done is gone; what was measured by then is kept."""


class Worse(ReplayerError):
    """A comparison found worse where that was to be a failure."""

    status = 3


class Interrupted(KeyboardInterrupt):
    """The user or the system asked replayer to stop; the steps already done are kept.

    It is a KeyboardInterrupt, so that a driver that waits for its server cancels the statement.
    """

    status = 130


class Skip(ReplayerError):
    """This step cannot be done here; its message is the reason that the report shows."""


class Denied(Skip):
    """This step cannot be done here, as the database user lacks a right that it needs."""


UNKNOWN_STATE = "?????"
"""The SQLSTATE of an error of which a log has none: any error may be it."""


def one_line(text: object, most: int = 400) -> str:
    """Return what a stranger has said as part of a sentence: nothing in it steers a terminal."""
    words = "".join(c if c.isprintable() else " " for c in str(text)[: most + 1])
    return words if len(words) <= most else f"{words[:most]}…"


def nearest(asked: str, known: Iterable[str]) -> str:
    """Return ' - did you mean X?' or ' (there are: …)', to end the sentence of a NotFound."""
    names = sorted(known)
    close = difflib.get_close_matches(asked, names, n=1, cutoff=0.6)
    if close:
        return f" - did you mean {close[0]}?"
    return f" (there are: {', '.join(names)})" if names else " (there are none)"


def expected(error: BaseException) -> ReplayerError | Interrupted | None:
    """Return what to tell the user of an error that a user or a machine can cause, else None."""
    if isinstance(error, ReplayerError | Interrupted):
        return error
    if isinstance(error, OSError) and error.strerror:
        of_what = f"{error.filename}: " if error.filename else ""
        return ReplayerError(f"the system refused: {of_what}{error.strerror}")
    if isinstance(error, MemoryError):
        return ReplayerError("there is not enough memory for this")
    return None
