"""systemd-boot: bootctl set-oneshot, which writes a variable of the firmware for one boot."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from replayer.boots import kernels
from replayer.boots.kernels import KernelEntry
from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from replayer.boots.system import System

TITLE = "systemd-boot, by bootctl set-oneshot"
PREFERENCE = 1
RESTART = ("systemctl", "reboot")
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
"""Vendor id of the variables that loader and system share (the Boot Loader Interface)."""


def refusal(system: System) -> str:
    """Return why this loader cannot be used, "" if it can."""
    if system.program("bootctl") is None:
        return "there is no bootctl"
    if not variable(system, "LoaderInfo").startswith("systemd-boot"):
        return "this kernel was not started by systemd-boot"
    try:
        listed = entries(system)
    except ReplayerError as error:
        return str(error)
    return "" if listed else "bootctl lists no kernels"


def entries(system: System) -> list[KernelEntry]:
    """Return the kernels that bootctl lists.

    Raises ReplayerError if the list is not JSON, as with systemd before version 250.
    """
    text = system.call("bootctl", "list", "--json=short")
    try:
        listed = json.loads(text)
        return [entry for one in listed if (entry := _entry(one))]
    except (ValueError, TypeError, AttributeError) as error:
        raise ReplayerError("bootctl's list of entries is not JSON, as of systemd 250") from error


def default(system: System) -> str:
    """Return the default entry in the firmware's variable, as `bootctl set-default` writes it.

    If the variable is not set, it returns a text that refers to the file loader.conf.
    """
    return variable(system, "LoaderEntryDefault") or "as loader.conf says"


def choose(system: System, entry: KernelEntry, arguments: str) -> None:  # noqa: ARG001 - the entry holds the arguments
    """Choose an entry for the next boot; `arguments` is not used: the entry has them."""
    system.call("bootctl", "set-oneshot", entry.name)


def pending(system: System) -> str:
    """Return the entry that is chosen for the next boot, "" if none is."""
    return variable(system, "LoaderEntryOneShot")


def clear(system: System) -> None:
    """Remove the choice for the next boot, if there is one."""
    if pending(system):
        system.call("bootctl", "set-oneshot", "")


def booted_as_chosen(system: System, entry: KernelEntry) -> bool | None:
    """Return whether the loader started this entry in this boot; None if it reports no entry."""
    selected = variable(system, "LoaderEntrySelected")
    return selected == entry.name if selected else None


def variable(system: System, name: str) -> str:
    """Return the text of a variable of the Boot Loader Interface, "" if it is not set."""
    path = system.path(f"sys/firmware/efi/efivars/{name}-{_VENDOR}")
    with contextlib.suppress(OSError):
        # Four bytes of attributes, then UTF-16 with a null at its end (efivarfs).
        return path.read_bytes()[4:].decode("utf-16-le", errors="replace").rstrip("\0")
    return ""


def _entry(keys: dict[str, Any]) -> KernelEntry | None:
    image = str(keys.get("linux") or "")
    release = kernels.release_of(image) or str(keys.get("version") or "")
    if not release or kernels.rescues(str(keys.get("options") or "").split()):
        return None
    return KernelEntry(release, str(keys["id"]), str(keys.get("options") or ""))
