"""An event loop in a thread, for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from replayer import signals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence
    from typing import TypeVar

    Result = TypeVar("Result")

_LEAVE_SECONDS = 3.0
_CLEAN_SECONDS = 8.0


class EventLoop:
    """An event loop in its own thread, with a bell (an eventfd) that wakes the waiting caller."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="replayer-hosts", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result], *, patient: bool = False) -> Result:
        """Run a coroutine in the loop, and return its result.

        If the caller is interrupted, the coroutine is cancelled. If `patient` is true, the caller
        then waits for at most 8 s until the coroutine has cleaned up.
        """
        ended = threading.Event()

        async def watched() -> Result:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(watched(), self._loop)
        try:
            return future.result()
        except BaseException:
            if future.cancel() and patient:
                with signals.shield():
                    ended.wait(_CLEAN_SECONDS)
            raise

    def begin(self, work: Coroutine[Any, Any, Result]) -> Any:
        """Start a coroutine in the loop, and return its concurrent.futures.Future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def together(self, works: Sequence[Awaitable[Result]]) -> list[Result]:
        """Run several awaitables at the same time, and return their results in the same order.

        If any of them failed, raises the first error after all have ended.
        """

        async def gathered() -> list[Any]:
            return await asyncio.gather(*works, return_exceptions=True)

        results = self.run(gathered())
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def ring(self) -> None:
        """Wake the thread that is in `wait`; this is called in the loop's thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.eventfd_write(self._bell, 1)

    def wait(self, timeout: float | None, *others: int) -> list[Any]:
        """Wait until `ring` is called or one of the descriptors `others` is readable.

        Returns the readable descriptors of `others`, and also the bell's if `ring` was called. The
        list is empty if `timeout` seconds passed before. If `timeout` is None, there is no limit.
        """
        happened = connection.wait([self._bell, *others], timeout)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        return happened

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LEAVE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
            os.close(self._bell)
