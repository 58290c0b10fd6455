"""GRUB's environment block, and the file systems on which GRUB can write it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from replayer.boots.system import System

NEXT = "next_entry"
_READ_ONLY = ("btrfs", "zfs", "f2fs", "bcachefs", "squashfs", "iso9660", "overlay")
"""File systems on which GRUB cannot write (its manual, "Environment block")."""


def environment(system: System, editor: str, block: str) -> dict[str, str]:
    """Return name -> value of the variables in GRUB's environment block, the file `block`.

    `editor` is the name of GRUB's tool that lists them. Returns {} if the file does not exist.
    """
    path = system.path(block)
    if not path.exists():
        return {}
    lines = system.call(editor, path, "list").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def forget(system: System, editor: str, block: str) -> None:
    """Remove GRUB's choice for the next boot from the environment block, the file `block`.

    GRUB may leave the variable of the choice without a value, and its own menu treats that like no
    choice. The variable is removed in this case, too. `editor` is the name of GRUB's tool.
    """
    if NEXT in environment(system, editor, block):
        system.call(editor, system.path(block), "unset", NEXT)


def kept_for_ever(system: System, block: str) -> str:
    """Return why GRUB would repeat a choice for one boot at every boot; "" if it would not.

    After a boot, GRUB must remove the choice from its environment block, the file `block`. It
    cannot write that file on some file systems, on LVM, on an encrypted disk or on software RAID.
    The choice would then stay for ever, even if the chosen kernel panics.
    """
    inside = system.path(block).resolve().relative_to(system.root.resolve())
    mount = system.host.mount_of(Path("/") / inside)
    if mount is None:
        return ""
    if mount.type in _READ_ONLY:
        return f"{mount.point} is {mount.type}, where GRUB cannot forget a choice once followed"
    folder = f"sys/dev/block/{mount.device}"
    if system.host.exists(f"{folder}/partition"):
        # A partition's folder is in that of its disk; md/ and dm/ are only there.
        folder += "/.."
    # A partition that the device mapper made has a uuid such as part2-LVM-abcd.
    layer = re.sub(r"^part\d+-", "", system.host.read(f"{folder}/dm/uuid")).partition("-")[0]
    if layer in {"LVM", "CRYPT"} or system.path(f"{folder}/md").exists():
        return (
            f"{mount.point} is on {'software RAID' if layer == '' else layer}, where GRUB cannot "
            f"forget a choice once followed: it would stay the default"
        )
    return ""


def text(system: System, *paths: str) -> str:
    """Return the text of GRUB's menu: the first file of `paths` that exists and is not empty.

    Raises ReplayerError if there is no such file.
    """
    for path in paths:
        found = system.host.read(path)
        if found:
            return found
    raise ReplayerError(f"GRUB's menu {paths[0]} cannot be read")
