"""The part of a remote run on the database's host: do the run, send Runs and progress back."""

import contextlib
import functools
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from replayer import errors, signals
from replayer.engines import engine
from replayer.errors import Interrupted, ReplayerError
from replayer.lazy_import import Later
from replayer.results import store
from replayer.run.recovery import give_back
from replayer.run.remote import framing, order_message
from replayer.run.remote.progress_proxy import Post, ProgressSender
from replayer.run.runner import execute
from replayer.servers import remote
from replayer.servers.remote import Whereabouts
from replayer.watch.client_pools import LOCAL_CLIENTS, Clients
from replayer.watch.workers import distributable

if TYPE_CHECKING:
    from replayer.cluster import hosts
else:
    # A run on one host does without msgpack.
    hosts = Later("replayer.cluster.hosts")


class Asking(Protocol):
    """The connection to the host that sent the request of the run."""

    def say_bytes(self, data: bytes) -> None:
        """Send bytes to the host that sent the request, after the bytes of earlier calls."""
        ...


@dataclass(frozen=True, slots=True)
class Sent:
    """The request (`letter`) and the access to the client hosts, as sent to the database's host.

    Both contain secrets, such as a password, and are never printed.
    """

    letter: bytes = field(repr=False)
    passport: Any = field(repr=False)
    """The data with which the database's host connects to the clients; None without clients."""


@distributable
def perform(sent: Sent, asking: Asking) -> None:
    """Do the run that a message requests; send every Run, all progress, and at last its end.

    `asking` sends them to the host that sent the request. The caller is the main thread of a
    separate process in which `signals` are installed. An error is not raised, but sent in the last
    message.
    """
    post = functools.partial(framing.send, out=asking.say_bytes)
    try:
        _run(sent, post)
    except (Exception, Interrupted) as error:  # noqa: BLE001 - the caller must learn of it
        post(_last_words(signals.interruption() or errors.expected(error) or error))
    else:
        post({"kind": "ended", "error": None})


def _run(sent: Sent, post: Post) -> None:
    asked = order_message.read(sent.letter)
    told = ProgressSender(post)
    with _clients(sent.passport) as clients:
        give_back(told.say)
        known = 0
        for run in execute(replace(asked, clients=clients), told):
            new = run.model_copy(update={"steps": run.steps[known:]})
            post({"kind": "run", "before": known, "run": store.text(new)})
            known = len(run.steps)


@contextlib.contextmanager
def _clients(passport: Any) -> Iterator[Clients]:
    """Yield the client hosts, reached with `passport`, the data for access to them.

    If `passport` is None, there are none: this host does all the work.
    """
    if passport is None:
        yield LOCAL_CLIENTS
        return
    with hosts.rejoined(passport) as clients:
        yield clients


@distributable
def owns(asked: tuple[str, str], _: Asking) -> Whereabouts:
    """Return whether the data of a server is on this host, and whether the server runs here.

    `asked` is the name of an engine and the URL of the server.
    """
    name, url = asked
    return remote.whereabouts(engine.load(name), url)


def _last_words(error: BaseException) -> dict[str, Any]:
    """Return the last message of a run that failed: its error, with a trace if not expected."""
    known = isinstance(error, ReplayerError | Interrupted)
    trace = "" if known else "".join(traceback.format_exception(error))
    what = {
        "kind": type(error).__name__ if known else ReplayerError.__name__,
        "found": str(error) if known else f"the run failed: {type(error).__name__}: {error}",
        "todo": "",
        "trace": trace,
    }
    if isinstance(error, ReplayerError):
        what |= {"found": error.found, "todo": error.todo}
    return {"kind": "ended", "error": what}
