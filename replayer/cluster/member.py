"""One host of a run, seen from the coordinator: calls to its agent, heartbeats, and its loss.

The agent's child is the process that does the work on the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from replayer.cluster import answers, host_clock, remote_calls
from replayer.cluster.dask_settings import CALL_SECONDS, START_SECONDS
from replayer.cluster.reply import InvalidReply
from replayer.errors import HostLost, ReplayerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replayer.cluster.host_clock import Offset
    from replayer.cluster.remote_calls import HostDescription

_PAUSE = 0.1
_LEAVE_SECONDS = 2.0
"""The time for an agent to answer that it ends; a hanging one ends with its ssh or its lease."""
_BEGIN_SECONDS = 4 * START_SECONDS
_SILENCE_SECONDS = CALL_SECONDS
_LATE_SECONDS = 1.0
"""If a timeout is noticed this many seconds too late, this process did not run meanwhile."""
_BUSY_SILENCE_SECONDS = 2 * CALL_SECONDS
"""Seconds of silence after which the child process of a whole run counts as lost.

It may hold Python's lock for a while, and cannot answer then.
"""


class Member:
    """A host whose agent answers at an address; all its coroutines run in one event loop."""

    def __init__(
        self,
        name: str,
        address: str,
        rpc: Any,
        *,
        changed: Callable[[], None],
        ended: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Take the host's name, the address of its agent, and Dask's connection to it.

        `changed` is called at each change of the member's state and after new reports.  `ended`
        returns the last line that ssh printed if the ssh process to the host has ended, else None.
        """
        self.name, self.address = name, address
        self.about: HostDescription | None = None
        self.lost = ""
        """The reason why the host is lost, as a sentence; "" as long as it is not lost."""
        self.heard_ns = time.monotonic_ns()
        self.state = "none"
        self.latest: dict[str, Any] = {}
        self.reports: deque[bytes] = deque()
        self._rpc, self._changed, self._ended = rpc, changed, ended
        self._child = self._taken = 0
        self._kind = ""
        self._beating: asyncio.Task[None] | None = None

    @property
    def host(self) -> str:
        """Return the name of the host: the member's name, without a prefix such as `database: `."""
        return self.name.rpartition(": ")[2]

    def failure(self, begin: str = "") -> ReplayerError:
        """Return the error with which the agent's child failed; its message starts with `begin`.

        The error is a HostLost if the child was killed and could not report the reason.
        """
        sentence = str(self.latest["sentence"])
        if not self.latest["trace"]:
            return HostLost(f"the host {self.host} is lost: {sentence}")
        error = ReplayerError(f"{begin}{sentence}")
        error.add_note(f"on the host {self.host}:\n{self.latest['trace']}")
        return error

    async def join(self) -> None:
        """Ask the host for its description and keep it in `about`; send heartbeats from then on.

        Raises HostLost if the host does not answer.
        """
        deadline = time.monotonic() + START_SECONDS
        while self.about is None:
            try:
                self.about = answers.about(await self.ask("about", timeout=START_SECONDS))
            except HostLost:
                # A host on which many agents start at once may be slow to accept a connection.
                if time.monotonic() > deadline:
                    raise
                self.lost = ""
                await asyncio.sleep(_PAUSE)
        self._beating = asyncio.create_task(self._beat())

    async def ask(self, op: str, *, timeout: float = CALL_SECONDS, **arguments: Any) -> Any:  # noqa: ASYNC109
        """Ask the host's agent to do the operation `op`, and return its answer, a dict.

        `op` is the name of an operation in remote_calls, such as `ping`, and `arguments` are its
        arguments.  Raises HostLost if there is no answer within `timeout` seconds, and
        ReplayerError with the host's message if the operation failed.
        """
        if self.lost:
            raise HostLost(self.lost)
        asked = time.monotonic()
        try:
            answer = await asyncio.wait_for(
                self._rpc.replayer(call=op, arguments=arguments), timeout
            )
        except (OSError, TimeoutError) as error:
            if time.monotonic() - asked > timeout + _LATE_SECONDS:
                # The answer may have come and lie in the socket: the host's silence begins now.
                self.heard_ns = time.monotonic_ns()
            if op != "beat":
                self._lose(f"the host {self.host} is lost: it does not answer")
            raise HostLost(f"the host {self.host} does not answer") from error
        except Exception as error:
            # Dask raises various errors if the answer is malformed.
            raise self._strange(op) from error
        self.heard_ns = time.monotonic_ns()
        try:
            answer = answers.checked(op, answer)
        except InvalidReply as error:
            raise self._strange(op) from error
        if "error" in answer:
            raise ReplayerError(f"the host {self.host}: {answer['error']}")
        return answer

    async def offset(self) -> Offset:
        """Measure and return the offset of the host's clock from this host's clock."""

        async def ping() -> int:
            answer = await self.ask("ping")
            return int(answer["ns"])

        return await host_clock.measured(ping)

    async def begin(self, kind: str, work: str, packed: bytes, processes: int) -> None:
        """Make the agent start its child process, which does the work.

        `kind` is `share` for a part of a pool's jobs, or `run` for a whole run. `work` is the name
        `module:function` of the function to call. `packed` is the list of jobs, or the run's order,
        as bytes. `processes` is the number of worker processes of a share.
        """
        answer = await self.ask(
            "begin",
            timeout=_BEGIN_SECONDS,
            kind=kind,
            work=work,
            packed=packed,
            processes=processes,
        )
        self.reports.clear()
        self.state, self.latest = "preparing", {}
        self._child, self._taken, self._kind = answer["child"], 0, kind

    async def collected(self) -> bytes:
        """Return the result of the agent's child as bytes of `packing`, fetched piece by piece."""
        data = b""
        while True:
            answer = await self.ask("collect", timeout=_BEGIN_SECONDS, offset=len(data))
            piece: bytes = answer["piece"]
            data += piece
            if len(data) >= answer["bytes"]:
                return data
            if not piece:
                raise self._strange("collect")

    async def release(self) -> None:
        """End the agent's child, if there is one and the host is not lost."""
        self._child, self.state = 0, "none"
        if not self.lost:
            with contextlib.suppress(ReplayerError):
                await self.ask("end")

    async def leave(self, *, agent: bool) -> None:
        """Stop the heartbeats and disconnect; if `agent` is true, also end the host's agent."""
        if self._beating is not None:
            self._beating.cancel()
        if agent and not self.lost:
            with contextlib.suppress(ReplayerError):
                await self.ask("end", timeout=_LEAVE_SECONDS, agent=True)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._rpc.close_rpc(), 1)

    async def _beat(self) -> None:
        while not self.lost:
            before = self.state
            try:
                self._take_in(
                    await self.ask("beat", child=self._child, seen=before, taken=self._taken)
                )
            except HostLost:
                self._doubt()
            except Exception as error:  # noqa: BLE001 - waiting code needs the reason
                self._lose(f"the host {self.name} is lost: {error}")
            if self.state == before and not self.latest.get("more"):
                await asyncio.sleep(_PAUSE)

    def _take_in(self, answer: dict[str, Any]) -> None:
        if not self._child or answer["child"] != self._child:
            return
        fresh = answer["reports"][max(0, self._taken - answer["first"]) :]
        self._taken += len(fresh)
        self.reports.extend(fresh)
        changed = answer["state"] != self.state
        self.latest, self.state = answer, answer["state"]
        limit = _SILENCE_SECONDS if self._kind == "share" else _BUSY_SILENCE_SECONDS
        if answer["silent"] > limit:
            self._lose(f"the host {self.host} is lost: its work has stood still for {limit:.0f} s")
        elif fresh or changed:
            self._changed()

    def _doubt(self) -> None:
        """Mark the host as lost if the ssh to it has ended, or if it was silent for too long."""
        silent = (time.monotonic_ns() - self.heard_ns) / 1e9
        words = self._ended()
        if words is not None:
            self._lose(f"the host {self.host} is lost: the ssh to it ended ({words})")
        elif silent >= CALL_SECONDS:
            self._lose(
                f"the host {self.host} is lost: it has not answered for {silent:.0f} s: check "
                f"that it still runs and that the network reaches it"
            )

    def _strange(self, op: str) -> ReplayerError:
        return ReplayerError(
            f"the host {self.host}: what it answered to {op!r} is not an answer of this replayer's"
        )

    def _lose(self, sentence: str) -> None:
        self.lost = sentence
        self._changed()


def refuse_other(here: HostDescription, there: HostDescription, name: str) -> None:
    """Raise ReplayerError if replayer on the host `name` differs from replayer on this host.

    `here` describes this host and `there` that one: their versions and files must be the same.
    """
    if (there.version, there.digest) == (here.version, here.digest):
        return
    raise ReplayerError(
        f"the host {name} has replayer {there.version} ({there.digest}), this one "
        f"{here.version} ({here.digest}): install the same on both, workloads and engines too"
    )


def own() -> HostDescription:
    """Return the description of this host."""
    return remote_calls.about()
