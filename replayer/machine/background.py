"""A program that runs next to a step: it never outlives replayer, and its CPU time is counted."""

import contextlib
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from replayer import shell, signals
from replayer.machine import processes

_END_SECONDS = 4.0


class Background:
    """A program that runs in the background; its output goes to a file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program, with its output in the file `log`; raise ReplayerError if it fails.

        `environment` has additional variables for the program.
        """
        self.log = log
        self._before: float | None = None
        self.process = shell.start(command, environment=environment, output=log, bound=True)

    @property
    def status(self) -> int | None:
        """Return the program's exit status, negative for a signal; None while it runs."""
        return self.process.poll()

    def early_end(self) -> str:
        """Return how the program ended by itself with an error, in words to put after its name.

        An example is `ended in the middle of the step`. "" if the program still runs or ended
        without an error.
        """
        status = self.status or 0
        if status < 0:
            return f"was ended in the middle of the step by {signals.name_of(-status)}"
        return "ended in the middle of the step" if status else ""

    def charge(self) -> None:
        """Count the program's CPU time as its cost from now on; a second call changes nothing."""
        if self._before is None:
            self._before = self._spent()

    def cost(self) -> float:
        """Return the CPU seconds that the program used since the first `charge`.

        The result is 0 without a `charge`. Call this before `stop`.
        """
        return 0.0 if self._before is None else max(0.0, self._spent() - self._before)

    def stop(self, within: float = _END_SECONDS) -> bool:
        """Send SIGINT to the program, and kill it if it still runs after `within` seconds.

        Returns False if it was killed.
        """
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGINT)
        if shell.wait_until_ended(self.process, within=within):
            return True
        self.process.kill()
        self.process.wait()
        return False

    def text(self) -> str:
        """Return the program's output so far; "" if it cannot be read."""
        with contextlib.suppress(OSError):
            return self.log.read_text(encoding="utf-8", errors="replace")
        return ""

    def _spent(self) -> float:
        """Return the CPU seconds of the program and of its ended children so far."""
        return sum(processes.cpu_seconds([self.process.pid]))
