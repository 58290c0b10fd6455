"""Every error that a user or a machine can cause, and the exit status of each.

ReplayerError           1  failed while running
├── Impossible          2  the request cannot be met: bad argument, missing right, wrong machine
│   └── NotFound        2  an unknown name; the message has the nearest known name
├── HostLost            1  a client host or the database's host was lost: the run is partial
├── Worse               3  --fail-if-worse was given, and something is worse
└── Skip                -  not a failure: this step cannot be done here; the report shows why
    └── Denied          -  the same, because a right is missing on the database server
Interrupted           130  Ctrl-C or SIGTERM; not a ReplayerError, so that code which continues
                           after an error does not continue after an interrupt

A message is one sentence: the request, what was found, what to do.
"""

import difflib
from collections.abc import Iterable


class ReplayerError(Exception):
    """A failure during a run; the steps that are already done are kept.

    Its message is `found` (the finding), followed by `todo` (the action to take) if there is one.
    """

    status = 1

    def __init__(self, found: str, todo: str = "") -> None:
        super().__init__(f"{found}: {todo}" if todo else found)
        self.found, self.todo = found, todo


class Impossible(ReplayerError):
    """A request that cannot be met; this is known before any work starts."""

    status = 2


class NotFound(Impossible):
    """A request with a name that does not exist, such as that of a workload."""


class HostLost(ReplayerError):
    """The loss of a host that did a part of the run; all measurements up to then are kept."""


class Worse(ReplayerError):
    """A worse result of a comparison, if the user asked to fail in that case."""

    status = 3


class Interrupted(KeyboardInterrupt):
    """A request of the user or the system to stop; the steps that are already done are kept.

    It is a KeyboardInterrupt: when a driver that waits for its server gets such an exception, it
    cancels the statement.
    """

    status = 130


class Skip(ReplayerError):
    """A step that cannot be done here; the message is the reason that the report shows."""


class Denied(Skip):
    """A step that cannot be done here, because the database user lacks a right for it."""


UNKNOWN_STATE = "?????"
"""Stands for the SQLSTATE of an error if a log does not show it: it may be any error."""


def one_line(text: object, most: int = 400) -> str:
    """Return foreign text on one line, of at most `most` characters and without control characters.

    It can stand in a sentence: nothing in it can control a terminal.
    """
    words = "".join(c if c.isprintable() else " " for c in str(text)[: most + 1])
    return words if len(words) <= most else f"{words[:most]}…"


def nearest(asked: str, known: Iterable[str]) -> str:
    """Return the end of a NotFound's message: ' - did you mean X?' or ' (there are: …)'.

    X is the name in `known` that is most similar to `asked`; if none is similar, all are listed.
    """
    names = sorted(known)
    close = [name for name in names if name.casefold() == asked.casefold()]
    close = close or difflib.get_close_matches(asked, names, n=1, cutoff=0.6)
    if close:
        return f" - did you mean {close[0]}?"
    return f" (there are: {', '.join(names)})" if names else " (there are none)"


def expected(error: BaseException) -> ReplayerError | Interrupted | None:
    """Return the error to show to the user if a user or a machine can cause `error`, else None.

    None means that `error` is a defect of replayer.
    """
    if isinstance(error, ReplayerError | Interrupted):
        return error
    if isinstance(error, OSError) and error.strerror:
        of_what = f"{error.filename}: " if error.filename else ""
        return ReplayerError(f"the system refused: {of_what}{error.strerror}")
    if isinstance(error, MemoryError):
        return ReplayerError("there is not enough memory for this")
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        limits = "ulimit -u, ulimit -v and the cgroup's pids.max"
        return ReplayerError(f"the system refused another thread: see {limits}")
    return None
