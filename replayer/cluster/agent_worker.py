"""A worker of Dask's distributed that has one handler, replayer's."""

from typing import Any

from distributed import Worker

from replayer.cluster import remote_calls
from replayer.cluster.lease import Lease

_NEVER_MS = 3_600_000.0
_HANDLERS = {"identity", "terminate"}
_STREAMED = {"close", "worker-status-change", "remove-worker"}


class AgentWorker(Worker):  # type: ignore[misc]
    """A worker with one handler."""

    working: Lease
    handlers: dict[str, Any]
    stream_handlers: dict[str, Any]

    def take_up(self, leave: Any) -> None:
        """Have one handler, and be quiet: no tick, no heartbeat, no search for lost data."""
        self.working = Lease(leave)
        for name in self.handlers.keys() - _HANDLERS:
            del self.handlers[name]
        self.handlers["replayer"] = self.replayer
        for name in self.stream_handlers.keys() - _STREAMED:
            self.stream_handlers[name] = _ignored
        for callback in self.periodic_callbacks.values():
            callback.callback_time = _NEVER_MS

    async def replayer(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer one of replayer's calls."""
        return await remote_calls.answer(self.working, call, arguments)

    def start_http_server(self, *_: object, **__: object) -> None:
        """Start none: whoever asks would be answered, without TLS."""


def _ignored(**_: object) -> None:
    """Do not do what a scheduler asks that has tasks."""
