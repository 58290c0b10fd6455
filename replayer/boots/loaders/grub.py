"""GRUB with its own menu (Debian, Ubuntu, SUSE): grub-reboot chooses an entry for one boot."""

from __future__ import annotations

import contextlib
import re
import shlex
from typing import TYPE_CHECKING

from replayer.boots import grub_files, kernels
from replayer.boots.kernels import KernelEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replayer.boots.system import System

TITLE = "GRUB, by grub-reboot"
PREFERENCE = 3
RESTART = ("systemctl", "reboot")
_FLAVOURS = (
    ("grub-reboot", "grub-editenv", "boot/grub"),
    ("grub2-reboot", "grub2-editenv", "boot/grub2"),
)
_LOADS = re.compile(r"linux(?:16|efi)?")
_ID = ("$menuentry_id_option", "--id")


def refusal(system: System) -> str:
    """Return why this loader cannot be used, "" if it can."""
    reboot, editor, folder = _flavour(system)
    if system.program(reboot) is None or system.program(editor) is None:
        return f"there is no {reboot} and {editor}"
    menu = system.host.read(f"{folder}/grub.cfg")
    if not menu:
        return f"there is no menu {folder}/grub.cfg"
    if not any(_entries(menu)):
        return f"the menu {folder}/grub.cfg has no kernels"
    if grub_files.NEXT not in menu:
        return (
            f"the menu {folder}/grub.cfg does not ask for a next entry: make it anew (update-grub)"
        )
    if not any(word.startswith("BOOT_IMAGE=") for word in system.arguments):
        return "this kernel was not started by GRUB"
    return grub_files.kept_for_ever(system, f"{folder}/grubenv")


def entries(system: System) -> list[KernelEntry]:
    """Return the kernels in GRUB's menu.

    If one kernel has several entries, those whose name contains the release come first. Raises
    ReplayerError if the menu cannot be read.
    """
    menu = grub_files.text(system, f"{_flavour(system)[2]}/grub.cfg")
    return sorted(_entries(menu), key=lambda entry: entry.release not in entry.name)


def default(system: System) -> str:
    """Return the identifier or title of the default entry, as GRUB's files name it.

    That is the menu file, or the environment block if the menu refers to a saved entry. A number is
    replaced by the title of the entry at this place of the menu.
    """
    _, editor, folder = _flavour(system)
    menu = grub_files.text(system, f"{folder}/grub.cfg")
    named = [
        value for value in re.findall(r'set default="(.*?)"', menu) if "next_entry" not in value
    ]
    name = named[-1] if named else "0"
    if "saved_entry" in name:
        name = grub_files.environment(system, editor, f"{folder}/grubenv").get("saved_entry", "0")
    titles = list(_titles(menu))
    return titles[int(name)] if name.isdigit() and int(name) < len(titles) else name


def choose(system: System, entry: KernelEntry, arguments: str) -> None:  # noqa: ARG001 - the menu holds the arguments
    """Choose an entry of the menu for the next boot; `arguments` is not used: the menu has them."""
    reboot, _, folder = _flavour(system)
    boot = system.path(folder).parent
    system.call(reboot, f"--boot-directory={boot}", entry.name)


def pending(system: System) -> str:
    """Return the entry that is chosen for the next boot, "" if none is."""
    _, editor, folder = _flavour(system)
    return grub_files.environment(system, editor, f"{folder}/grubenv").get(grub_files.NEXT, "")


def clear(system: System) -> None:
    """Remove the choice for the next boot, if there is one."""
    _, editor, folder = _flavour(system)
    grub_files.forget(system, editor, f"{folder}/grubenv")


def _flavour(system: System) -> tuple[str, str, str]:
    return next((one for one in _FLAVOURS if system.program(one[0])), _FLAVOURS[0])


def _titles(menu: str) -> Iterator[str]:
    """Yield the titles of the entries and submenus on the first level of a menu."""
    for line in menu.splitlines():
        words = _words(line) if line.startswith(("menuentry ", "submenu ")) else []
        if len(words) > 1:
            yield words[1]


def _entries(menu: str) -> Iterator[KernelEntry]:
    """Yield the kernels of a menu.

    The name of each is the path to its entry: the identifiers of the submenus and of the entry,
    joined by ">".
    """
    path: list[str] = []
    for line in menu.splitlines():
        words = _words(line)
        if not words:
            continue
        if words[-1] == "{":
            path.append(_name(words))
        elif words == ["}"] and path:
            path.pop()
        elif _LOADS.fullmatch(words[0]) and len(words) > 1 and path:
            release = kernels.release_of(words[1])
            if release and not kernels.rescues(words):
                name = ">".join(part for part in path if part)
                yield KernelEntry(release, name, " ".join(words[2:]))


def _name(words: list[str]) -> str:
    """Return the identifier (else the title) of an entry or a submenu; "" for any other block.

    `words` are the words of the line that begins the block.
    """
    if words[0] not in {"menuentry", "submenu"}:
        return ""
    for option in _ID:
        if option in words[:-2]:
            return words[words.index(option) + 1]
    return next((word[5:] for word in words if word.startswith("--id=")), words[1])


def _words(line: str) -> list[str]:
    with contextlib.suppress(ValueError):
        return shlex.split(line.strip())
    return []
