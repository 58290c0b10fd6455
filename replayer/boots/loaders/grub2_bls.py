"""GRUB with Boot Loader Specification entries (Oracle Linux, Red Hat, Fedora): grub2-reboot.

The entries are the files of /boot/loader/entries, which grubby edits; an entry's name is its
file's.  They are read here and never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.boots import grub_files, kernels
from replayer.boots.kernels import KernelEntry

if TYPE_CHECKING:
    from replayer.boots.system import System

TITLE = "GRUB with entries in /boot/loader, by grub2-reboot"
PREFERENCE = 2
RESTART = ("systemctl", "reboot")
_EDITOR, _BLOCK, _ENTRIES = "grub2-editenv", "boot/grub2/grubenv", "boot/loader/entries"
_MENU = "boot/grub2/grub.cfg"


def refusal(system: System) -> str:
    """Return why this loader cannot be used, "" if it can."""
    missing = [name for name in ("grub2-reboot", _EDITOR) if system.program(name) is None]
    if missing:
        return f"there is no {' and '.join(missing)}"
    menu = _menu(system)
    if "blscfg" not in menu:
        return "GRUB's menu does not use entries in /boot/loader (blscfg)"
    if grub_files.NEXT not in menu:
        return "GRUB's menu does not ask for a next entry: make it anew (grub2-mkconfig)"
    if not entries(system):
        return f"there are no kernels in /{_ENTRIES}"
    return grub_files.kept_for_ever(system, _BLOCK)


def entries(system: System) -> list[KernelEntry]:
    """Return the kernels for which an entry's file exists, without those for repairs.

    The name of an entry is its file's name without .conf.
    """
    found = []
    for name in system.host.entries(_ENTRIES):
        if not name.endswith(".conf"):
            continue
        keys = _keys(system.host.read(f"{_ENTRIES}/{name}"))
        release = kernels.release_of(keys.get("linux", "")) or keys.get("version", "")
        arguments = _expanded(system, keys.get("options", ""))
        if release and "rescue" not in release and not kernels.rescues(arguments.split()):
            found.append(KernelEntry(release, name.removesuffix(".conf"), arguments))
    return found


def default(system: System) -> str:
    """Return the entry that is saved as default; if none is, the default kernel that grubby prints.

    Returns "" if no entry is saved and grubby is not installed.
    """
    saved = grub_files.environment(system, _EDITOR, _BLOCK).get("saved_entry", "")
    if not saved and system.program("grubby") is not None:
        return system.call("grubby", "--default-kernel").strip()
    return saved


def choose(system: System, entry: KernelEntry, arguments: str) -> None:  # noqa: ARG001 - the entry holds the arguments
    """Choose an entry for the next boot; `arguments` is not used: the entry has them."""
    system.call("grub2-reboot", f"--boot-directory={system.path('boot')}", entry.name)


def pending(system: System) -> str:
    """Return the entry that is chosen for the next boot, "" if none is."""
    return grub_files.environment(system, _EDITOR, _BLOCK).get(grub_files.NEXT, "")


def clear(system: System) -> None:
    """Remove the choice for the next boot, if there is one."""
    grub_files.forget(system, _EDITOR, _BLOCK)


def _menu(system: System) -> str:
    menus = [
        _MENU,
        *(f"boot/efi/EFI/{name}/grub.cfg" for name in system.host.entries("boot/efi/EFI")),
    ]
    return "\n".join(system.host.read(menu) for menu in menus)


def _keys(text: str) -> dict[str, str]:
    """Return key -> value from the text of an entry's file; values of one key are joined by blanks.

    The format is the Boot Loader Specification, type 1.
    """
    keys: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name and not name.startswith("#"):
            keys[name] = f"{keys[name]} {value.strip()}" if name in keys else value.strip()
    return keys


def _expanded(system: System, options: str) -> str:
    """Return the options with GRUB's variables, such as $kernelopts, replaced by their values."""
    if "$" not in options:
        return options
    variables = grub_files.environment(system, _EDITOR, _BLOCK)
    return " ".join(
        variables.get(word[1:].strip("{}"), "") if word.startswith("$") else word
        for word in options.split()
    )
