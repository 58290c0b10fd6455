"""Stop replayer's own server in any state, and clean up after a killed one.

The server gets the signals of its engine.toml, from the gentlest to the hardest, and is killed in
the end.  It may take its time as long as it works: a checkpoint of a large buffer pool takes
minutes on a slow disk.  A server that neither computes nor reads nor writes for some seconds hangs:
PostgreSQL does so if it is stopped in the middle of a crash recovery, and any server may do so on a
full disk.  The work that remains then is done by the recovery at its next start.
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
from replayer.servers import programs
from replayer.servers.data_folder import DataFolder
from replayer.shell import User

PATIENCE = 600.0
"""Seconds that a start, or a stop that makes progress, may take."""
_PAUSE = 0.02
_LOOK = 0.25
"""Seconds between two checks whether a server works."""
_HASTE = 1.5
"""Seconds to wait after each signal if a user waits for replayer to end upon Ctrl-C: the data are
replayer's own, and the recovery at the next start does the rest."""
_IDLE = 5.0
"""Seconds without work after which a server that is stopping gets the next harder signal."""
_ORPHANS = 1.0
"""Seconds for processes without a main process to end by themselves."""
_STUBBORN = 5.0
"""Seconds between the signal to end and the kill, for processes without a main process."""
_DEAD = 10.0
"""Seconds for the kernel to end a killed process."""
_RELEASE = 30.0


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed server: [server] of its engine.toml, and its data, programs and user.

    `data` is its data directory, `bindir` the folder of its programs.  It runs as `user`; None
    means the user who runs replayer.
    """

    keys: ServerSpec
    data: Path
    bindir: Path
    user: User | None

    @property
    def pid_file(self) -> Path:
        """Return the file in which the server writes its main process's id."""
        return self.data / self.keys.pid_file

    def processes(self) -> list[int]:
        """Return the ids of living processes that serve, make or repair this data directory."""
        return processes.serving(self.data, self.bindir, self.user, programs.word_of(self.keys))

    def arguments(self, command: Sequence[str]) -> list[str]:
        """Return a command of engine.toml with paths in place of `{bin}`, `{data}` and `{log}`."""
        return [argument.format(**self._words()) for argument in command]

    def environment(self) -> dict[str, str]:
        """Return the variables that engine.toml adds to the environment of server programs."""
        words = self._words()
        return {name: value.format(**words) for name, value in self.keys.environment.items()}

    def run(self, command: Sequence[str], timeout: float = PATIENCE + 30) -> None:
        """Run a command of engine.toml as the server's user, and wait until it ends.

        Raises ReplayerError if it fails or takes longer than `timeout` seconds.
        """
        shell.run(
            self.arguments(command),
            user=self.user,
            environment=self.environment(),
            # The server's user may lack the right to enter replayer's working directory.
            folder=Path("/"),
            timeout=timeout,
        )

    def _words(self) -> dict[str, Path]:
        return {"bin": self.bindir, "data": self.data, "log": DataFolder(self.data.parent).log}


def end(server: Installation, identity: str) -> None:
    """Stop a server; wait until all its processes and its shared memory are gone.

    `identity` identifies the main process, as the journal recorded it; "" if not known.  Only
    processes that run a program of this installation, as its user and on its data directory, get a
    signal.  Raises ReplayerError if a process cannot be ended.
    """
    ending = _Ending(server)
    while left := server.processes():
        main = journal.pid_of(identity) if journal.alive(identity) else read_pid(server.pid_file)
        ending.go_on(left, main)
        time.sleep(_PAUSE)
    _release(server)


def end_child(child: shell.Conversation, asked_by: Sequence[str], *, after: float = 0.0) -> None:
    """End a child process of replayer; it is gone on return.

    The child has `after` seconds to end by itself, and some seconds after each signal of
    `asked_by`.  Then its whole process group is killed.  The child must not have been waited for
    (wait(2)) before: so its process id cannot belong to another process.
    """
    if shell.wait_until_ended(child, within=after):
        return
    for name in asked_by:
        child.send_signal(signal.Signals[name])
        if shell.wait_until_ended(child, within=_STUBBORN):
            return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


class _Ending:
    """The progress of stopping one server: the signals sent so far, and the times."""

    def __init__(self, server: Installation) -> None:
        self._server = server
        self._begin = time.monotonic()
        self._manners = [
            *(signal.Signals[name] for name in server.keys.stop_signals),
            signal.SIGKILL,
        ]
        self._asked = ""
        """Identity of the main process that got the signal to stop."""
        self._manner = -1
        self._work = _Work()
        self._killed = 0.0

    def go_on(self, left: Sequence[int], main: int) -> None:
        """Take the next action, if one is due, to end the processes `left`.

        `main` is the main process; it is not in `left` if it has ended.
        """
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
        # A halted process handles no signal until it continues.
        self._signal(left, signal.SIGCONT)

    def _stuck(self, left: Sequence[int]) -> bool:
        idle = self._work.idle_seconds(left)
        patience = _HASTE * (self._manner + 1) if signals.raised() else PATIENCE
        return idle > _IDLE or time.monotonic() - self._begin > patience

    def _end_orphans(self, left: Sequence[int]) -> None:
        """End the processes that outlived their main process.

        Such processes should end by themselves.  Those that have not ended get a signal to end, and
        some seconds later they are killed.
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
    """The activity of processes: whether they use a CPU, read or write, or wait for a disk."""

    def __init__(self) -> None:
        self._looked = 0.0
        self._seen: object = None
        self._since = time.monotonic()

    def idle_seconds(self, pids: Sequence[int]) -> float:
        """Return the seconds since the last activity of the processes.

        The activity is measured again a few times a second, at most.
        """
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            seen = [(pid, processes.work_done(pid)) for pid in pids]
            if seen != self._seen or any(map(processes.waits_for_disk, pids)):
                self._seen, self._since = seen, now
        return now - self._since


def _release(server: Installation) -> None:
    """Run the server's own program that removes the shared memory of a killed server.

    A killed server leaves its pid file and its shared memory segments.  Only the server program
    knows which segments belong to a data directory: at every start, it removes those that an
    earlier server left for that directory.
    """
    if not server.pid_file.is_file():
        return
    # No server runs on the folder.  The pid in its file may by now be another process's, or that of
    # a zombie that is not reaped yet, and a starting server would take either for a running server.
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
