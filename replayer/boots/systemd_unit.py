"""The service that continues a plan after each boot: a unit of systemd, else an init script.

Before the service is made, a note of it is written to the journal, because the service outlives the
process that makes it. `remove` does not trust the path in that note: it removes only files with the
names in this module, and only if they begin with replayer's mark.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import TYPE_CHECKING

from replayer import journal, signals, trusted_path
from replayer.cli import argv_secrets
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from replayer.boots.system import System

NOTE = "boots"
NAME = "replayer-boots"
_SERVICE = f"{NAME}.service"
_UNITS, _WANTS = "etc/systemd/system", "multi-user.target.wants"
_SCRIPTS, _LEVELS = "etc/init.d", ("etc/rc2.d", "etc/rc3.d", "etc/rc4.d", "etc/rc5.d")
_LINK = f"S99{NAME}"
_MARK = "# Made by replayer for a plan of boots; `replayer boots stop` removes it."
_KEPT = ("HOME", "PATH", "LANG", "TMPDIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "COLUMNS")
_PREFIXES = ("REPLAYER_", "LC_")
_UNIT = """\
{mark}
[Unit]
Description=replayer: the plan of boots {plan}
After=multi-user.target network-online.target remote-fs.target{mounts}
# Replayer's own disk may come later than this: it is tried again until then.
StartLimitIntervalSec=0

[Service]
Type=simple
ExecStart={command}
{environment}
WorkingDirectory=/
Restart=on-failure
RestartSec=10
SuccessExitStatus=130
# A measured server that is killed for memory ends its step, not the plan.
OOMPolicy=continue
TasksMax=infinity
KillMode=mixed
TimeoutStopSec=120

[Install]
WantedBy=multi-user.target
"""
_SCRIPT = """\
#!/bin/sh
{mark}
### BEGIN INIT INFO
# Provides:          {name}
# Required-Start:    $all
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:
# Short-Description: replayer: a plan of boots
### END INIT INFO
[ "$1" = start ] || exit 0
{environment}
setsid {command} </dev/null >/dev/null 2>&1 &
"""


def check(system: System) -> None:
    """Raise Impossible if the service that continues a plan of boots cannot be made.

    Reasons are that neither systemd nor init scripts start services here, or that a file of the
    service's name exists that replayer did not make.
    """
    folder, name = _place(system)
    with trusted_path.own(system.path(folder), "the folder") as inner:
        if inner.mode(name) and not _ours(inner, name):
            raise Impossible(f"/{folder}/{name} is there and was not made by replayer: remove it")


def install(system: System, plan: str, command: Sequence[str], mounts: Sequence[str] = ()) -> None:
    """Make the service that continues a plan of boots, and let each boot start it.

    `plan` is the path of the plan's file, and `command` the command that continues the plan. With
    systemd the service waits for the mount points `mounts`. Raises Impossible as `check` does, and
    ReplayerError if systemctl fails; the service is then removed.
    """
    check(system)
    folder, name = _place(system)
    with signals.shield():
        journal.take(NOTE, lasting=True, unit=f"/{folder}/{name}", plan=plan)
        try:
            with trusted_path.own(system.path(folder), "the folder") as inner:
                if system.systemd:
                    inner.replace(name, _unit(plan, command, kept(os.environ), mounts))
                    _enable(inner)
                else:
                    inner.replace(name, _script(command, kept(os.environ)), 0o755)
                    _link(system)
            if system.systemd:
                system.call("systemctl", "daemon-reload")
        except BaseException:
            remove(system)
            raise


def remove(system: System) -> None:
    """Remove the service that continues a plan of boots, and its notes in the journal.

    A service that replayer did not make stays.
    """
    with signals.shield():
        for folder, name in ((_UNITS, _SERVICE), (_SCRIPTS, NAME)):
            with contextlib.suppress(FileNotFoundError):
                with trusted_path.own(system.path(folder), "the folder") as inner:
                    if not inner.mode(name) or not _ours(inner, name):
                        continue
                    _disable(system, inner)
                    inner.forget(name)
                if system.systemd:
                    system.call("systemctl", "daemon-reload")
        for note in list(journal.notes(NOTE)):
            note.drop()


def installed(system: System) -> bool:
    """Return whether a service that continues a plan of boots exists and replayer made it."""
    for folder, name in ((_UNITS, _SERVICE), (_SCRIPTS, NAME)):
        with (
            contextlib.suppress(FileNotFoundError),
            trusted_path.own(system.path(folder), "the folder") as inner,
        ):
            if _ours(inner, name):
                return True
    return False


def kept(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the service gets, chosen from `variables`.

    Only known names are kept, without secrets and without values that cannot be printed.
    """
    return {
        name: value
        for name, value in sorted(variables.items())
        if (name in _KEPT or name.startswith(_PREFIXES))
        and value.isprintable()
        and not argv_secrets.SECRET.search(name)
    }


def _place(system: System) -> tuple[str, str]:
    if system.systemd:
        return _UNITS, _SERVICE
    if system.path(_SCRIPTS).is_dir() and any(system.path(one).is_dir() for one in _LEVELS):
        return _SCRIPTS, NAME
    raise Impossible(
        "neither systemd nor init scripts start this machine's services, so no service can "
        "continue after a boot: use replayer step after each, or --via ssh"
    )


def _unit(
    plan: str, command: Sequence[str], variables: Mapping[str, str], mounts: Sequence[str]
) -> str:
    environment = "\n".join(
        f"Environment={_quoted(f'{name}={value}')}" for name, value in variables.items()
    )
    words = " ".join(_quoted(word.replace("$", "$$")) for word in command)
    shown = "".join(c if c.isprintable() else " " for c in plan).replace("%", "%%")
    after = "".join(f" {mount_unit(point)}" for point in mounts)
    return _UNIT.format(
        mark=_MARK, plan=shown, mounts=after, command=words, environment=environment
    )


def mount_unit(point: str) -> str:
    """Return systemd's name for the mount of a folder (systemd.unit(5), escaping)."""
    name = "".join(
        "-" if c == "/" else c if c.isascii() and (c.isalnum() or c in ":_.") else _hex(c)
        for c in point.strip("/")
    )
    return (f"\\x2e{name[1:]}" if name.startswith(".") else name) + ".mount"


def _hex(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _quoted(word: str) -> str:
    """Return a word in quotes, as systemd.syntax(7) defines them.

    A $ is not changed: it has a meaning only in the unit's commands.
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _script(command: Sequence[str], variables: Mapping[str, str]) -> str:
    environment = "\n".join(
        f"export {name}={shlex.quote(value)}" for name, value in variables.items()
    )
    words = shlex.join(command)
    return _SCRIPT.format(mark=_MARK, name=NAME, environment=environment, command=words)


def _enable(units: trusted_path.Folder) -> None:
    with contextlib.suppress(FileExistsError):
        units.make(_WANTS, 0o755)
    with units.below(_WANTS) as wants:
        wants.forget(_SERVICE)
        os.symlink(f"../{_SERVICE}", _SERVICE, dir_fd=wants.fd)


def _link(system: System) -> None:
    for level in _levels(system):
        with trusted_path.own(level, "the folder") as inner:
            inner.forget(_LINK)
            os.symlink(f"../init.d/{NAME}", _LINK, dir_fd=inner.fd)


def _disable(system: System, units: trusted_path.Folder) -> None:
    with contextlib.suppress(FileNotFoundError), units.below(_WANTS) as wants:
        wants.forget(_SERVICE)
    with contextlib.suppress(FileNotFoundError):
        units.rmdir(_WANTS)
    for level in _levels(system):
        with trusted_path.own(level, "the folder") as inner:
            inner.forget(_LINK)


def _levels(system: System) -> Iterator[Path]:
    yield from (system.path(level) for level in _LEVELS if system.path(level).is_dir())


def _ours(folder: trusted_path.Folder, name: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return _MARK in folder.read(name).splitlines()[:2]
    return False
