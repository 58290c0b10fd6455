"""Ways to start a kernel for one boot only: one file each, found by what the machine has.

A way has a docstring, `TITLE`, `PREFERENCE` (the lowest that is usable is taken), `RESTART` (the
words that restart the machine into what was chosen) and the functions of `Way`.  None of them
changes what the machine starts by default.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol, cast

from replayer import registry
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.boots.kernels import KernelEntry
    from replayer.boots.system import System

KIND = "boots.loaders"


class BootLoader(Protocol):
    """What the sequence of boots needs of a way."""

    TITLE: str
    PREFERENCE: int
    RESTART: tuple[str, ...]

    @abstractmethod
    def refusal(self, system: System) -> str:
        """Return why the machine cannot be started in this way, "" if it can."""

    @abstractmethod
    def entries(self, system: System) -> Sequence[KernelEntry]:
        """Return the kernels that it can start."""

    @abstractmethod
    def default(self, system: System) -> str:
        """Return what the machine starts by default, in the loader's words."""

    @abstractmethod
    def check(self, system: System, entry: KernelEntry) -> None:
        """Raise ReplayerError if this kernel is refused, and leave all as it was."""

    @abstractmethod
    def choose(self, system: System, entry: KernelEntry, arguments: str) -> None:
        """Choose a kernel for the next boot only.

        `arguments` are the command line that it had when the plan was started.
        """

    @abstractmethod
    def pending(self, system: System) -> str:
        """Return what is chosen for the next boot, "" if nothing is."""

    @abstractmethod
    def clear(self, system: System) -> None:
        """Take such a choice back; fine if there is none."""

    @abstractmethod
    def booted_as_chosen(self, system: System, entry: KernelEntry) -> bool | None:
        """Tell whether this boot is the one that was chosen; None where nothing tells."""

    @abstractmethod
    def halts_on_panic(self, system: System, entry: KernelEntry) -> bool:
        """Tell whether this kernel would wait for somebody after a panic."""


FACE = BootLoader


def load(name: str) -> BootLoader:
    """Return the way of that name."""
    return cast("BootLoader", registry.plugin(KIND, name))


def chosen(system: System, asked: str = "") -> str:
    """Return the name of the way that was asked for, or of the best that the machine has.

    Raises Impossible, with each one's reason, when there is none.
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
