"""The machine that restarts: its files and programs, below a root that tests may choose.

Below a root other than / only programs of that root are started. So a test that goes wrong finds no
program that could restart the machine on which it runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import shell
from replayer.errors import ReplayerError
from replayer.machine.boot_line import split_line
from replayer.machine.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = "REPLAYER_BOOTS_ROOT"
"""The environment variable with the machine's root folder, for tests; / if it is not set."""
_FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_SECONDS = 120.0
_MANAGER = "run/systemd/system"
"""This folder exists if systemd is the first process (sd_booted(3))."""


@dataclass(frozen=True)
class System:
    """A machine's files and programs, below `root`."""

    root: Path = Path("/")

    @cached_property
    def host(self) -> Host:
        """Return the reader of the files in which the kernel shows facts about the machine."""
        return Host(self.root)

    @property
    def release(self) -> str:
        """Return the release of the kernel that runs, as `uname -r` prints it."""
        return self.host.read("proc/sys/kernel/osrelease")

    @property
    def boot(self) -> str:
        """Return the id of this boot."""
        return self.host.boot_id()

    @property
    def arguments(self) -> list[str]:
        """Return the words of the command line that the kernel reads: those before `--`."""
        return split_line(self.host.read("proc/cmdline"))[0]

    @property
    def systemd(self) -> bool:
        """Return whether systemd is the first process, so that it manages services and restarts."""
        return self.path(_MANAGER).is_dir()

    def path(self, path: str | Path) -> Path:
        """Return a path such as `etc/fstab` or `/etc/fstab` below the root."""
        return self.root / str(path).lstrip("/")

    def program(self, name: str) -> Path | None:
        """Return the path of a program, None if it is not installed."""
        return next((path for path in self._candidates(name) if os.access(path, os.X_OK)), None)

    def _candidates(self, name: str) -> list[Path]:
        return [self.root / folder / name for folder in _FOLDERS]

    def call(
        self,
        name: str,
        *words: str | Path,
        timeout: float = _SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run one of the machine's programs to its end, and return its output.

        Raises ReplayerError if the program is not installed, fails or takes longer than `timeout`
        seconds.
        """
        program = self.program(name)
        if program is None:
            raise ReplayerError(f"there is no program {name} on this machine")
        return shell.run([program, *words], timeout=timeout, environment=environment)


def this() -> System:
    """Return this machine; in tests the one whose root is the folder $REPLAYER_BOOTS_ROOT."""
    return System(Path(os.environ.get(ROOT) or "/"))
