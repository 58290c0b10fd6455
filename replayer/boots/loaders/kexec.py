"""kexec: the running kernel starts the next one, without firmware and boot loader.

The default kernel of firmware and boot loader stays as it is: after any failure it is started.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from replayer.boots import kernels
from replayer.boots.kernels import KernelEntry
from replayer.errors import ReplayerError
from replayer.machine.boot_line import join_line, split_line

if TYPE_CHECKING:
    from replayer.boots.system import System

TITLE = "kexec"
PREFERENCE = 9
RESTART = ("systemctl", "kexec")
PANIC_SECONDS = 30
MARK = "replayer.boots=kexec"
"""Mark on the command line of a kernel that kexec started. The kernel ignores such a word."""
_LOADED = "sys/kernel/kexec_loaded"
_OWN = re.compile(r"(?:BOOT_IMAGE|initrd|panic|replayer\.boots)=.*")
_INITRAMFS = ("initrd.img-{}", "initramfs-{}.img", "initrd-{}")


def refusal(system: System) -> str:
    """Return why kexec cannot be used, "" if it can."""
    if not system.host.exists(_LOADED):
        return "this kernel has no kexec"
    if system.host.read("proc/sys/kernel/kexec_load_disabled") == "1":
        return "kernel.kexec_load_disabled is 1, which only a restart undoes"
    if system.program("kexec") is None:
        return "there is no program kexec (kexec-tools)"
    if not system.systemd:
        return "without systemd a machine is not shut down in order before kexec"
    if MARK in system.arguments:
        return (
            "this kernel was started by kexec for an earlier plan, whose words on its command line "
            "the next kernels would get, too: restart first"
        )
    return "" if entries(system) else "there are no kernels in /boot"


def entries(system: System) -> list[KernelEntry]:
    """Return the kernels in /boot, each with the command line of the running kernel."""
    words = " ".join(plain(system))
    return [
        KernelEntry(release, f"/boot/{name}", words)
        for name in system.host.entries("boot")
        if name.startswith(("vmlinuz-", "vmlinux-"))
        and (release := kernels.release_of(name))
        and "rescue" not in release
    ]


def plain(system: System) -> list[str]:
    """Return the words of the running kernel's command line that the next kernel gets, too.

    Left out are words that a boot loader adds (BOOT_IMAGE=, initrd=), and those that replayer adds
    for one boot (panic=, and its mark).
    """
    words, others = split_line(system.host.read("proc/cmdline"))
    return [*(word for word in words if not _OWN.fullmatch(word)), *others]


def default(system: System) -> str:  # noqa: ARG001 - kexec does not know the default
    """Return a text that stands for the default entry, which kexec neither knows nor changes."""
    return "what the machine's own boot loader starts"


def check(system: System, entry: KernelEntry) -> None:
    """Check that this machine can load the kernel, by an attempt: load it, and unload it again.

    Raises ReplayerError if that fails, or if the kernel was built without kexec: it could not start
    the next kernel of a plan.
    """
    config = system.host.read(f"boot/config-{entry.release}")
    if config and not re.search(r"^CONFIG_KEXEC(?:_FILE)?=y$", config, re.MULTILINE):
        raise ReplayerError(f"{entry.release} has no kexec, so it could not start the next kernel")
    try:
        choose(system, entry, entry.arguments)
    finally:
        with contextlib.suppress(ReplayerError):
            clear(system)


def choose(system: System, entry: KernelEntry, arguments: str) -> None:
    """Load a kernel for the next restart, with `arguments` as its command line.

    Two words are added: `panic=`, so that the kernel restarts after a panic, and replayer's mark,
    by which the boot is recognized.
    """
    words = join_line(arguments, f"panic={PANIC_SECONDS}", MARK)
    initramfs = _initramfs(system, entry.release)
    loaded = ("--initrd", system.path(initramfs)) if initramfs else ()
    try:
        system.call("kexec", "--load", system.path(entry.name), *loaded, f"--command-line={words}")
    except ReplayerError as error:
        raise ReplayerError(_explained(system, entry, error)) from error


def pending(system: System) -> str:
    """Return a text for reports if a kernel is loaded for the next restart, "" if none is."""
    return "a kernel for kexec" if system.host.read(_LOADED) == "1" else ""


def clear(system: System) -> None:
    """Unload the kernel that is loaded for the next restart, if there is one."""
    if pending(system):
        system.call("kexec", "--unload")


def booted_as_chosen(system: System, entry: KernelEntry) -> bool | None:  # noqa: ARG001 - the sequence compares the release
    """Return True if replayer started the running kernel with kexec, else False.

    Such a kernel has replayer's mark on its command line.  `entry` is not used: the caller compares
    the release.
    """
    return MARK in system.arguments


def halts_on_panic(system: System, entry: KernelEntry) -> bool:  # noqa: ARG001 - each kernel gets panic=
    """Return False: each kernel gets `panic=30` for its boot, and so restarts after a panic."""
    return False


def _initramfs(system: System, release: str) -> str:
    paths = [f"boot/{name.format(release)}" for name in _INITRAMFS]
    return next((path for path in paths if system.path(path).is_file()), "")


def _explained(system: System, entry: KernelEntry, error: ReplayerError) -> str:
    lockdown = re.search(r"\[(\w+)\]", system.host.read("sys/kernel/security/lockdown"))
    locked = lockdown is not None and lockdown[1] != "none"
    if locked or secure(system):
        why = "secure boot" if secure(system) else "the kernel's lockdown"
        return (
            f"kexec of {entry.release} is refused, as {why} lets only signed kernels through "
            f"({error}): let the boot loader choose, or switch it off"
        )
    return f"{entry.release} cannot be loaded for kexec: {error}"


def secure(system: System) -> bool:
    """Return whether the firmware started with secure boot (its variable SecureBoot)."""
    path = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    with contextlib.suppress(OSError):
        return system.path(path).read_bytes()[-1:] == b"\x01"
    return False
