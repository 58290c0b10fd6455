"""The calling end of a run on another host: a request goes out, Runs and progress come back."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import ValidationError

from replayer import errors, signals
from replayer.errors import HostLost, Impossible, Interrupted, ReplayerError
from replayer.model import Run, Status, StepResult
from replayer.results import store
from replayer.run.context import Progress
from replayer.run.plan import workload as workload_file
from replayer.run.plan.workload import turns
from replayer.run.remote import executor, framing, order_message
from replayer.run.remote.progress_proxy import ProgressReceiver
from replayer.run.runner import RunRequest, ended
from replayer.servers import remote
from replayer.servers.remote import Whereabouts

_WAIT = 0.2
"""Seconds after which a Ctrl-C is passed on to the other host at the latest."""
_ASKED_AT_ONCE = 16
_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.ReplayerError,
        errors.Impossible,
        errors.NotFound,
        errors.HostLost,
        errors.Skip,
        errors.Denied,
    )
}


class Running(Protocol):
    """A function that runs on another host: read its messages, interrupt it, and get its result."""

    def receive_messages(self, timeout: float) -> Iterator[Any]:
        """Yield the function's messages, and None after each `timeout` seconds without one.

        Ends when the function has ended. Raises HostLost if its host is lost.
        """
        ...

    def interrupt(self, number: int) -> None:
        """Send the signal `number` to the process of the function."""
        ...

    def result(self) -> Any:
        """Return the result of the function; call this only after the function has ended."""
        ...


class Agents(Protocol):
    """The agents of a run: replayer processes on the client hosts and on the database's host."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the client hosts."""
        ...

    def passport(self) -> Any:
        """Return the data with which another host, if it does the run, connects to the clients."""
        ...

    def run(
        self, work: Callable[..., Any], order: Any, on: str = ""
    ) -> AbstractContextManager[Running]:
        """Run `work(order, ...)` on the client `on`; "" is the host of the database.

        At the end of the `with` block nothing of the work is left on that host.
        """
        ...


def found_database(order: RunRequest, agents: Agents) -> str:
    """Return the name of the client host that has the database's data and so should do the run.

    Returns "" if the run should be done on this host: the data is here, a step must stay here, or
    no client host has the data. Raises Impossible if several hosts have the data.
    """
    stays = any(map(order_message.run_here_reason, order.workload.steps))
    if order.url is None or stays or remote.whereabouts(order.engine, order.url).here:
        return ""
    asked = functools.partial(_owns, order, agents)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
        places = list(zip(agents.names, threads.map(asked, agents.names), strict=True))
    having = [(name, place) for name, place in places if place.here]
    running = [name for name, place in having if place.runs] or [name for name, _ in having]
    if len(running) > 1:
        raise Impossible(
            f"the data of the database is seen on {' and '.join(running)}: name the one that is "
            f"its host with --watch"
        )
    return running[0] if running else ""


def refuse_other(order: RunRequest, agents: Agents) -> None:
    """Raise Impossible if the host named with --watch is proven not to be the database's host."""
    place = _owns(order, agents, "")
    if place.proven and not place.here:
        raise Impossible(f"{order.watched} is not the host of the database: {place.why}")


def _owns(order: RunRequest, agents: Agents, name: str) -> Whereabouts:
    with agents.run(executor.owns, (order.engine.name, order.url), on=name) as running:
        for _ in running.receive_messages(_WAIT):
            pass
        place: Whereabouts = running.result()
        return place


def execute_there(order: RunRequest, agents: Agents, progress: Progress) -> Generator[Run]:
    """Run a request on the host of its database (`order.watched`); yield the Run after each step.

    The Run is also yielded at the begin and at the end. If a step fails, its error is raised after
    the Run that records it. If that host is lost, the last Run is `partial`, with the step that was
    under way, and HostLost is raised.
    """
    sent = executor.Sent(order_message.written(order), agents.passport() if agents.names else None)
    with agents.run(executor.perform, sent) as running, ProgressReceiver(progress) as shown:
        yield from _RemoteRun(order, running, shown).runs()


class _RemoteRun:
    """A run on another host: its messages are read, and its Runs are put together on this host."""

    def __init__(self, order: RunRequest, running: Running, shown: ProgressReceiver) -> None:
        self._order, self._running, self._shown = order, running, shown
        self._frames = running.receive_messages(_WAIT)
        self._unpacking = framing.FrameDecoder()
        self._facts = workload_file.facts(order.workload)
        self._id = ""
        self._run: Run | None = None
        self._heard = datetime.now(UTC)

    def runs(self) -> Iterator[Run]:
        try:
            while True:
                message = self._message()
                if message is None:
                    continue
                if message["kind"] == "ended":
                    break
                if message["kind"] == "run":
                    with self._passing_on():
                        self._run = self._received(message)
                    self._heard = datetime.now(UTC)
                    yield self._run
                else:
                    with self._passing_on():
                        self._show(message)
        except ReplayerError as error:
            if self._run is not None and self._run.status is Status.RUNNING:
                yield self._cut_short(self._run, error)
            raise
        failure = self._failure(message)
        if failure is not None:
            raise failure

    def _message(self) -> dict[str, Any] | None:
        """Wait for the next frame (a piece of a message), and return the message that it completes.

        Returns None if more frames must follow, or if none came for a while. Raises HostLost if the
        run ended without a result.
        """
        # A frame that was taken from the iterator must not be lost to a signal.
        with self._passing_on():
            frames = list(itertools.islice(self._frames, 1))
            message = self._unpacking.feed(frames[0]) if frames and frames[0] else None
        if not frames:
            raise HostLost(f"the run on {self._order.watched} ended without a result")
        return message

    @contextlib.contextmanager
    def _passing_on(self) -> Iterator[None]:
        """Pass a Ctrl-C on to the other host, and go on here until its last messages have come."""
        try:
            with signals.shield():
                yield
        except Interrupted:
            self._running.interrupt(signals.raised())

    def _received(self, message: Mapping[str, Any]) -> Run:
        """Return the Run in a message, with the steps of earlier messages before its new ones.

        Raises ReplayerError for a Run of another request.
        """
        before = () if self._run is None else self._run.steps
        try:
            new = Run.model_validate_json(message["run"], strict=True)
            fits = message["before"] == len(before) and new.workload.digest == self._facts.digest
        except (KeyError, TypeError, ValidationError) as error:
            raise self._strange() from error
        if not fits:
            raise self._strange()
        # The names of the file and of the run are given by this host.
        self._id = self._id or store.identify(
            datetime.now(UTC), self._order.workload.name, self._order.label
        )
        own = {"id": self._id, "label": self._order.label, "workload": self._facts}
        return new.model_copy(update={**own, "steps": (*before, *new.steps)})

    def _show(self, message: Mapping[str, Any]) -> None:
        try:
            self._shown.show(message)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._strange() from error

    def _failure(self, message: Mapping[str, Any]) -> BaseException | None:
        """Return the error that ended the run, to be raised on this host; None if it ended well.

        `message` is the last message of the run. If the user interrupted the run here, that is the
        error.
        """
        stopped = signals.interruption()
        try:
            what = message["error"]
            if what is None or stopped is not None:
                return stopped
            if what["kind"] == Interrupted.__name__:
                return HostLost(f"the run was ended on {self._order.watched}: {what['found']}")
            error = _KINDS[what["kind"]](str(what["found"]), str(what["todo"]))
            if what["trace"]:
                error.add_note(f"on {self._order.watched}:\n{what['trace']}")
        except (KeyError, TypeError) as error:
            raise self._strange() from error
        return error

    def _strange(self) -> ReplayerError:
        return ReplayerError(
            f"what the agent on {self._order.watched} sent is not of the run that was asked for"
        )

    def _cut_short(self, run: Run, error: ReplayerError) -> Run:
        """Return the Run as ended, with the step that was under way when it was cut short, if any.

        That step and the Run are `partial` if the host was lost, or else `failed`.
        """
        status = Status.PARTIAL if isinstance(error, HostLost) else Status.FAILED
        turn = next(itertools.islice(turns(self._order.workload), len(run.steps), None), None)
        if turn is not None and run.engine is not None:
            repeat, spec = turn
            step = StepResult(
                step=spec.step,
                name=spec.name,
                repeat=repeat,
                status=status,
                reason=str(error),
                started=self._heard.isoformat(timespec="milliseconds"),
                elapsed=(datetime.now(UTC) - self._heard).total_seconds(),
                spec=spec.model_dump(mode="json"),
                notes=(f"the last that was heard of it: {self._shown.last}",),
            )
            run = run.model_copy(update={"steps": (*run.steps, step)})
        return ended(run, status, str(error))
