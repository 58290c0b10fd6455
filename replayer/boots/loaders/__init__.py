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
    """The functions of a boot loader that the sequence of boots needs."""

    TITLE: str
    PREFERENCE: int
    RESTART: tuple[str, ...]

    @abstractmethod
    def refusal(self, system: System) -> str:
        """Return why this machine cannot be started in this way, "" if it can."""

    @abstractmethod
    def entries(self, system: System) -> Sequence[KernelEntry]:
        """Return the kernels that it can start."""

    @abstractmethod
    def default(self, system: System) -> str:
        """Return the default entry of the machine, in the loader's words."""

    def check(self, system: System, entry: KernelEntry) -> None:
        """Raise ReplayerError if the machine refuses this kernel; leave everything as it was.

        By default each of the entries can be chosen.
        """

    @abstractmethod
    def choose(self, system: System, entry: KernelEntry, arguments: str) -> None:
        """Choose a kernel for the next boot only.

        `arguments` is the command line that the kernel had when the plan was started.
        """

    @abstractmethod
    def pending(self, system: System) -> str:
        """Return the entry that is chosen for the next boot, "" if none is."""

    @abstractmethod
    def clear(self, system: System) -> None:
        """Take the choice for the next boot back; do nothing if there is none."""

    def booted_as_chosen(self, system: System, entry: KernelEntry) -> bool | None:  # noqa: ARG002
        """Return whether this boot is the chosen one; None if the loader does not show it.

        By default it keeps no record: the choice was not followed yet as long as it is pending.
        """
        return False if self.pending(system) else None

    def halts_on_panic(self, system: System, entry: KernelEntry) -> bool:
        """Return whether this kernel would stand still after a panic until a user restarts it.

        By default that follows from its options or its configuration.
        """
        return kernels.halts_on_panic(system, entry)


FACE = BootLoader


def load(name: str) -> BootLoader:
    """Return the boot loader of that name."""
    return cast("BootLoader", registry.plugin(KIND, name))


def chosen(system: System, asked: str = "") -> str:
    """Return the loader that was asked for, else the usable one with the lowest PREFERENCE.

    Raises Impossible if it cannot be used, or if none can, with the reason of each.
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
