"""Boot loaders that start a kernel for one boot only: one file each, chosen by what is installed.

A boot loader has a docstring, `TITLE`, `PREFERENCE` (the lowest that is usable is taken), `RESTART`
(the words that restart the machine into the chosen kernel) and the functions of `BootLoader`. None
of them changes the kernel that the machine starts by default.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol, cast

from replayer import registry
from replayer.boots import kernels
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.boots.kernels import KernelEntry
    from replayer.boots.system import System

KIND = "boots.loaders"


class BootLoader(Protocol):
    """The functions of a boot loader that a plan of boots needs."""

    TITLE: str
    PREFERENCE: int
    RESTART: tuple[str, ...]

    @abstractmethod
    def refusal(self, system: System) -> str:
        """Return why this boot loader cannot be used on this machine, "" if it can."""

    @abstractmethod
    def entries(self, system: System) -> Sequence[KernelEntry]:
        """Return the installed kernels that this boot loader can start."""

    @abstractmethod
    def default(self, system: System) -> str:
        """Return the name of the machine's default entry, as this boot loader writes it."""

    def check(self, system: System, entry: KernelEntry) -> None:
        """Raise ReplayerError if the machine refuses to start this kernel; change nothing.

        The default of this function accepts every entry.
        """

    @abstractmethod
    def choose(self, system: System, entry: KernelEntry, arguments: str) -> None:
        """Choose a kernel for the next boot only.

        `arguments` is the command line for that boot. Only kexec can give a kernel other words than
        its entry has.
        """

    @abstractmethod
    def pending(self, system: System) -> str:
        """Return the entry that is chosen for the next boot, "" if none is."""

    @abstractmethod
    def clear(self, system: System) -> None:
        """Remove the choice for the next boot; do nothing if there is none."""

    def booted_as_chosen(self, system: System, entry: KernelEntry) -> bool | None:  # noqa: ARG002
        """Return whether this boot followed the choice of `entry`; None if that is not shown.

        The default is for a loader that keeps no record: it returns False as long as the choice is
        pending, else None.
        """
        return False if self.pending(system) else None

    def halts_on_panic(self, system: System, entry: KernelEntry) -> bool:
        """Return whether this kernel would stand still after a panic until a user restarts it.

        The default of this function decides it by the kernel's command line, or by its build
        configuration.
        """
        return kernels.halts_on_panic(system, entry)


FACE = BootLoader


def load(name: str) -> BootLoader:
    """Return the boot loader with the name `name`, such as `grub` or `kexec`."""
    return cast("BootLoader", registry.plugin(KIND, name))


def chosen(system: System, asked: str = "") -> str:
    """Return the name of the boot loader to use.

    It is `asked` if that is not "", else the usable loader with the lowest PREFERENCE. Raises
    Impossible if the loader that was asked for cannot be used, or if none can, with the reason of
    each.
    """
    if asked:
        refusal = load(asked).refusal(system)
        if refusal:
            raise Impossible(f"the kernel cannot be chosen by {asked}: {refusal}")
        return asked
    ranked = sorted(registry.names(KIND), key=lambda name: load(name).PREFERENCE)
    refusals = {name: load(name).refusal(system) for name in ranked}
    usable = [name for name, refusal in refusals.items() if not refusal]
    if not usable:
        reasons = "; ".join(f"{name}: {refusal}" for name, refusal in refusals.items())
        raise Impossible(
            f"no kernel can be chosen for one boot only on this machine ({reasons}): boot by hand, "
            f"with replayer step after each boot"
        )
    return usable[0]
