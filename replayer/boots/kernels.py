"""Installed kernels: find the one that fits each kernel named in a plan of boots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from replayer.analysis.differences import boot_plan
from replayer.errors import Impossible, NotFound
from replayer.machine.boot_line import split_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from replayer.analysis.differences.boot_plan import BootSchedule
    from replayer.boots.system import System

_IMAGE = re.compile(r"(?:.*/)?(?:vmlinuz|vmlinux|kernel|Image)-(.+?)(?:\.efi)?")
_RESCUE = ("single", "recovery", "rescue", "systemd.unit=rescue.target")
_NO_TIMEOUT = "0"


class KernelEntry(NamedTuple):
    """An installed kernel that the machine can be started with."""

    release: str
    name: str
    """The boot loader's name of this entry, or the path of the kernel's file."""
    arguments: str = ""
    """The kernel's command line, "" if that is not known."""


def release_of(image: str) -> str:
    """Return the release in the name of a kernel's file, such as `6.12.9`; "" if it has none."""
    named = _IMAGE.fullmatch(image)
    return named[1] if named else ""


def rescues(words: Sequence[str]) -> bool:
    """Return whether one of these words of a kernel's command line starts a rescue system."""
    return any(word in _RESCUE for word in words)


def resolved(
    schedule: BootSchedule, entries: Iterable[KernelEntry], where: str
) -> Mapping[str, KernelEntry]:
    """Return kernel as the plan names it -> its installed entry, for each kernel of a plan.

    If one release has several entries, the first is taken. `where` is the boot loader's title for
    error messages. Raises NotFound for a kernel that is not installed. Raises Impossible if several
    installed releases fit one kernel of the plan.
    """
    first: dict[str, KernelEntry] = {}
    for entry in entries:
        first.setdefault(entry.release, entry)
    named = [target.release for target in map(boot_plan.target_of, schedule.kernels)]
    fitting: dict[str, list[KernelEntry]] = {kernel: [] for kernel in schedule.kernels}
    for kernel, choice in fitting.items():
        target = boot_plan.target_of(kernel)
        choice += [
            entry
            for release, entry in first.items()
            if release == target.release
            or (release not in named and target.fits(release, target.words))
        ]
    for kernel, choice in fitting.items():
        if not choice:
            raise NotFound(
                f"the plan's kernel {kernel} is not installed: {where} has "
                f"{', '.join(sorted(first)) or 'none'}"
            )
        if len(choice) > 1:
            releases = " and ".join(sorted(entry.release for entry in choice))
            raise Impossible(
                f"the plan's kernel {kernel} is {releases} here: make a plan that names one of them"
            )
    return {kernel: choice[0] for kernel, choice in fitting.items()}


def halts_on_panic(system: System, entry: KernelEntry) -> bool:
    """Return whether a kernel stands still after a panic until a user restarts the machine.

    The last `panic=` on its command line decides, else its build configuration. Without both, True
    is assumed.
    """
    words, _ = split_line(entry.arguments)
    set_to = [word.partition("=")[2] for word in words if word[:6] == "panic="]
    if set_to:
        return set_to[-1] == _NO_TIMEOUT
    config = system.host.read(f"boot/config-{entry.release}")
    built = re.search(r"^CONFIG_PANIC_TIMEOUT=(-?\d+)$", config, re.MULTILINE)
    return built is None or built[1] == _NO_TIMEOUT
