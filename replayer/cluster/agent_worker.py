"""A worker of Dask's distributed with replayer's handler in place of Dask's own."""

from typing import Any

from distributed import Worker

from replayer.cluster import remote_calls
from replayer.cluster.lease import Lease

_NEVER_MS = 3_600_000.0
_HANDLERS = {"identity", "terminate"}
_STREAMED = {"close", "worker-status-change", "remove-worker"}


class AgentWorker(Worker):  # type: ignore[misc]
    """A Dask worker that answers replayer's calls only."""

    working: Lease
    handlers: dict[str, Any]
    stream_handlers: dict[str, Any]

    def take_up(self, leave: Any) -> None:
        """Install replayer's handler, and stop Dask's periodic work, such as heartbeats.

        `leave` is called to end the agent. Of Dask's handlers only "identity" and "terminate" stay.
        """
        self.working = Lease(leave)
        for name in self.handlers.keys() - _HANDLERS:
            del self.handlers[name]
        self.handlers["replayer"] = self.replayer
        for name in self.stream_handlers.keys() - _STREAMED:
            self.stream_handlers[name] = _ignored
        for callback in self.periodic_callbacks.values():
            callback.callback_time = _NEVER_MS

    async def replayer(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one call of the coordinator, the replayer that started the agent.

        `call` is the name of an operation in remote_calls, and `arguments` are its arguments.
        """
        return await remote_calls.answer(self.working, call, arguments)

    def start_http_server(self, *_: object, **__: object) -> None:
        """Start no HTTP server: it would answer any client, without TLS."""


def _ignored(**_: object) -> None:
    """Ignore a request that a scheduler sends to workers that have tasks."""
