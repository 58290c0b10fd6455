"""Runs that need a boot each: which kernel is due, and a plan with which the machine does them all.

An experiment over kernels or their command lines does one run at each boot.  The plan of boots
names the command that continues the experiment.  `replayer boots` runs that command after each
boot, and gets the next kernel from it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replayer import journal, trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import systemd_unit
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replayer.analysis.differences.boot_plan import BootSchedule
    from replayer.machine.host import Host


@dataclass(frozen=True)
class BootJob:
    """An experiment that needs a boot for each run."""

    path: Path
    """The file with the experiment's plan of boots."""
    kernels: tuple[str, ...]
    """All kernels that the experiment may need, as a plan of boots names them."""
    words: tuple[str, ...]
    """The words after `replayer` in the command that continues the experiment."""
    arguments: tuple[str, ...]
    """The words after `replayer run` that all runs of the experiment have."""

    @property
    def runs(self) -> Path:
        """Return the folder of the experiment's runs."""
        return boot_plan.folder(self.path)

    def write(self) -> None:
        """Write the plan of boots, unless its file has the same plan.

        A plan that was made with other options, such as another metric, is replaced. Raises
        Impossible if the machine does that plan now, or if the file is not a plan.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with trusted_path.Folder(self.path.parent) as folder:
            if folder.mode(self.path.name):
                earlier = boot_plan.load(self.path)
                if earlier == self._schedule():
                    return
                self._refuse_started(earlier)
                folder.forget(self.path.name)
        boot_plan.write(self.path, self._schedule())

    def _refuse_started(self, earlier: BootSchedule) -> None:
        path = trusted_path.real(self.path)
        if any(note.text("plan") == str(path) for note in journal.notes(systemd_unit.NOTE)):
            raise Impossible(
                f"other options are given than those of `replayer {shlex.join(earlier.job)}`, "
                f"whose plan {path} the machine does now: give the same, or end that plan with "
                f"`replayer boots stop`"
            )

    def _schedule(self) -> BootSchedule:
        return boot_plan.of_job(self.kernels, self.words, self.arguments)

    def is_here(self, host: Host, kernel: str, used: Sequence[str]) -> bool:
        """Return whether this boot has the kernel for the next run, and was not used for another.

        `kernel` is the due kernel as a plan of boots names it, and `used` are the ids of boots.
        """
        release, line = host.read("proc/sys/kernel/osrelease"), host.read("proc/cmdline")
        return (
            boot_plan.planned(self._schedule(), release, line) == kernel
            and host.boot_id() not in used
        )

    def what_next(self, kernel: str) -> str:
        """Return a sentence that asks the user to boot `kernel` and then to run `replayer step`."""
        return (
            f"next: boot {kernel}, then `replayer step {self.path}`; `replayer boots start "
            f"{self.path} --yes` lets the machine do all boots alone"
        )
