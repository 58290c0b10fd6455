"""Stop a server of replayer's own, whatever state it is in, and remove what a killed one left.

A server is asked by the signals that its engine.toml names, from the politest to the roughest, and
killed in the end.  It may take its time as long as it works: a checkpoint of a large buffer pool
takes minutes on a slow disk.  One that neither computes nor reads nor writes for some seconds
hangs, as PostgreSQL does that is asked to stop in the middle of a crash recovery, or as a server
may on a full disk; and what it would still have to do, the recovery at its next start does.
"""

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replayer import journal, shell, signals, trusted_path
from replayer.engines.engine_spec import ServerSpec
from replayer.errors import ReplayerError
from replayer.machine import processes
from replayer.servers.data_folder import DataFolder
from replayer.shell import User

PATIENCE = 600.0
"""Seconds that a start, or a stop that makes progress, may take."""
_PAUSE = 0.02
_LOOK = 0.25
"""Seconds between two looks at whether a server works."""
_HASTE = 1.5
"""Seconds that it is given for each manner of being asked where somebody waits for replayer to end
upon Ctrl-C: its data are replayer's own, and the recovery at its next start does the rest."""
_IDLE = 5.0
"""Seconds without work after which a server that was asked to stop is asked more roughly."""
_ORPHANS = 1.0
"""Seconds that processes without a main process are given to end by themselves."""
_STUBBORN = 5.0
"""Seconds after which they are killed, if they did not end when they were asked to."""
_DEAD = 10.0
"""Seconds that the kernel is given to end a killed process."""
_RELEASE = 30.0


@dataclass(frozen=True, slots=True)
class Installation:
    """A server as it lies on the disk: [server] of its engine.toml, its data, programs and user."""

    keys: ServerSpec
    data: Path
    bindir: Path
    user: User | None

    @property
    def pid_file(self) -> Path:
        """Return the file in which the server writes its main process's id."""
        return self.data / self.keys.pid_file

    def processes(self) -> list[int]:
        """Return the living processes that serve, make or repair this data directory."""
        return processes.serving(self.data, self.bindir, self.user)

    def arguments(self, command: Sequence[str]) -> list[str]:
        """Return a command of engine.toml with its braces filled."""
        return [argument.format(**self._words()) for argument in command]

    def environment(self) -> dict[str, str]:
        """Return what engine.toml adds to the environment of the server's programs."""
        words = self._words()
        return {name: value.format(**words) for name, value in self.keys.environment.items()}

    def run(self, command: Sequence[str], timeout: float = PATIENCE + 30) -> None:
        """Run a command of engine.toml as the server's user to its end."""
        shell.run(
            self.arguments(command),
            user=self.user,
            environment=self.environment(),
            # The server's user may not be able to enter the folder that replayer was called in.
            folder=Path("/"),
            timeout=timeout,
        )

    def _words(self) -> dict[str, Path]:
        return {"bin": self.bindir, "data": self.data, "log": DataFolder(self.data.parent).log}


def end(server: Installation, identity: str) -> None:
    """Stop a server and wait until every process of it is gone, and what the kernel kept for it.

    `identity` is that of its main process, "" if none is known.  Only processes that run a program
    of this installation, as its user and on this data directory, are ever signalled.
    Raises ReplayerError when a process cannot be ended.
    """
    ending = _Ending(server)
    while left := server.processes():
        main = journal.pid_of(identity) if journal.alive(identity) else read_pid(server.pid_file)
        ending.go_on(left, main)
        time.sleep(_PAUSE)
    _release(server)


def end_child(child: shell.Conversation, asked_by: Sequence[str], *, after: float = 0.0) -> None:
    """End a process that replayer started itself, with all of its session; it is gone on return.

    It has `after` seconds to end by itself, and then some after each signal.  It has not been
    waited for before, so that its number can be nobody else's.
    """
    if shell.ended(child, within=after):
        return
    for name in asked_by:
        child.send_signal(signal.Signals[name])
        if shell.ended(child, within=_STUBBORN):
            return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


class _Ending:
    """How far the stopping of one server has come."""

    def __init__(self, server: Installation) -> None:
        self._server = server
        self._begin = time.monotonic()
        self._manners = [
            *(signal.Signals[name] for name in server.keys.stop_signals),
            signal.SIGKILL,
        ]
        self._asked = ""
        """The identity of the main process that was asked."""
        self._manner = -1
        self._work = _Work()
        self._killed = 0.0

    def go_on(self, left: Sequence[int], main: int) -> None:
        """Do what is next, if anything is, to end these processes; `main` may be among them."""
        if main in left:
            self._end_main(left, main)
        elif time.monotonic() - self._begin > _ORPHANS:
            self._end_orphans(left)
        if self._killed and time.monotonic() - self._killed > _DEAD:
            raise ReplayerError(
                f"the server on {self._server.data} did not end when it was killed (process "
                f"{left[0]} is {processes.state(left[0])}): nothing but its disk, or a restart of "
                f"the machine, can end it"
            )

    def _end_main(self, left: Sequence[int], main: int) -> None:
        who = journal.identity(main)
        if who != self._asked:
            self._asked, self._manner = who, -1
        if self._manner < 0 or (self._manner + 1 < len(self._manners) and self._stuck(left)):
            self._manner += 1
            self._work = _Work()
            self._ask(left, main)

    def _ask(self, left: Sequence[int], main: int) -> None:
        manner = self._manners[self._manner]
        if manner is signal.SIGKILL:
            self._kill(left, manner)
            return
        self._signal([main], manner)
        # A process that was halted hears of nothing until it goes on.
        self._signal(left, signal.SIGCONT)

    def _stuck(self, left: Sequence[int]) -> bool:
        idle = self._work.idle_seconds(left)
        patience = _HASTE * (self._manner + 1) if signals.raised() else PATIENCE
        return idle > _IDLE or time.monotonic() - self._begin > patience

    def _end_orphans(self, left: Sequence[int]) -> None:
        """End what outlived its main process.

        It ends by itself when it notices; what is too busy to notice is asked to, and then killed.
        """
        stubborn = time.monotonic() - self._begin > _ORPHANS + _STUBBORN
        if stubborn:
            self._kill(left, signal.SIGKILL)
        else:
            self._signal(left, signal.SIGTERM)
            self._signal(left, signal.SIGCONT)

    def _kill(self, left: Sequence[int], manner: signal.Signals) -> None:
        self._killed = self._killed or time.monotonic()
        self._signal(left, manner)

    def _signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                try:
                    os.kill(pid, number)
                except PermissionError as error:
                    raise ReplayerError(
                        f"the server on {self._server.data} (process {pid}) may not be stopped: "
                        f"{error.strerror}"
                    ) from error


class _Work:
    """Whether processes do anything: use a CPU, read or write, or wait for a disk."""

    def __init__(self) -> None:
        self._looked = 0.0
        self._seen: object = None
        self._since = time.monotonic()

    def idle_seconds(self, pids: Sequence[int]) -> float:
        """Return for how long nothing was done, looking anew a few times a second."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            seen = [(pid, processes.work_done(pid)) for pid in pids]
            if seen != self._seen or any(map(processes.waits_for_disk, pids)):
                self._seen, self._since = seen, now
        return now - self._since


def _release(server: Installation) -> None:
    """Have the server's own program remove the shared memory of a server that was killed.

    Such a server leaves its pid file.  Its segments outlive it, and only the server knows which are
    its own: at every start it removes what an earlier one left of this data directory.
    """
    if not server.pid_file.is_file():
        return
    # Nothing serves the folder; its number may be another process's by now, or that of a zombie
    # that nobody has reaped yet, and a server would take either for itself.
    server.pid_file.unlink(missing_ok=True)
    for command in server.keys.release:
        with contextlib.suppress(ReplayerError):
            server.run(command, timeout=_RELEASE)
            return


def read_pid(path: Path) -> int:
    """Return the process id in the first line of a pid file, 0 if there is none."""
    try:
        return int(trusted_path.first_line(path))
    except ValueError:
        return 0
