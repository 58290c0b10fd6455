"""Factors of an experiment: one file each, whose name is the factor's name.

A factor is a thing that can have several levels while the work stays the same: a setting of the
kernel, of the disk, of the server, or of the boot.  A factor module has a docstring and `SCOPE`.
Most have only one more member, `FILE` (a file of the kernel) or `SETTING` (a setting of the
server): the defaults of all other members work on these.

A change of the machine is first noted in the journal, so that it is undone even after a kill.
After the change the setting is read again, to check it.  The journal is the folder with replayer's
notes of everything that it has changed on the machine and not yet given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from replayer import registry
from replayer.conditions import kernel_settings
from replayer.engines import engine as engines
from replayer.errors import Impossible, NotFound, nearest
from replayer.machine.boot_line import split_line
from replayer.machine.host import Host
from replayer.machine.machine_facts import read_ahead_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

Scope = Literal["machine", "server", "table", "boot"]
"""The thing to make anew when a factor gets another level.

`machine`: nothing, the running system is changed.  `server`: the server is started anew.  `table`:
the server and its table are made anew.  `boot`: the machine is booted.
"""
KIND = "factors"
_PREFIXES = ("disk.", "kernel.")


@dataclass(frozen=True)
class FactorPlace:
    """The machine, disk and engine on which a factor would be switched.

    `wire` is the client protocol of the engine's servers, such as `postgresql`.
    """

    disk: Path | None = None
    """The folder in /sys of the disk under test; None for a tmpfs or several disks."""
    read_ahead: Path | None = None
    """The folder in /sys with the read-ahead that is in force for the data's file system.

    It is of btrfs itself, or of the device with the file system, such as a volume of LVM.  None if
    there is no such device."""
    data_dir: Path | None = None
    engine: str = "postgres"
    wire: str = "postgresql"
    host: Host = field(default_factory=Host)


@dataclass(frozen=True)
class KernelFile:
    """A setting of the kernel that is one file, or the same file for each processor.

    Paths have no leading slash: they are relative to the root folder of the machine.  `{disk}` and
    `{read_ahead}` in a path stand for the folders of these names in a FactorPlace; a `*` stands for
    every name.
    """

    path: str
    also: tuple[str, ...] = ()
    """Other files that the kernel changes when this one is set; they are restored, too."""
    unless: str = ""
    """Another file, which the kernel uses instead of this one as long as its number is not 0."""
    needs: str = ""
    """The end of the error message on a machine that lacks the file: how to get it."""
    refused: tuple[str, ...] = ()
    """Texts of the file by which the kernel shows that the machine does not have the setting."""

    def paths(self, place: FactorPlace) -> list[str]:
        """Return the paths of the setting's files that exist on this machine, below its root."""
        return _there(self.path, place)

    def in_force(self, place: FactorPlace) -> dict[str, str]:
        """Return path -> level of the setting's files that show one.

        The file of a processor that is offline exists, and can be neither read nor written.
        """
        levels = {path: kernel_settings.level(place.host.read(path)) for path in self.paths(place)}
        return {path: one for path, one in levels.items() if one not in ("", *self.refused)}

    def text(self, place: FactorPlace) -> str:
        """Return the text of the setting's first file, of those that show a level if there are any.

        Returns "" if there is no file, or if it cannot be read.
        """
        paths = [*self.in_force(place), *self.paths(place)]
        return place.host.read(paths[0]) if paths else ""

    def current(self, place: FactorPlace) -> str | None:
        """Return the present level (value) of the setting.

        It is `mixed` if the setting's files differ, and None if no file shows a level.
        """
        texts = set(self.in_force(place).values())
        return None if not texts else texts.pop() if len(texts) == 1 else "mixed"

    def unavailable(self, place: FactorPlace) -> str:
        """Return the reason why this machine cannot switch the setting; "" if it can."""
        if "{" in self.path and place.disk is None:
            return "the folder for the data is on no disk, or on several"
        paths = [*self.in_force(place), *self.paths(place)]
        if not paths:
            return f"this kernel has no /{_filled(self.path, place)}{self.needs}"
        denied = place.host.cannot_write(paths[0])
        if denied:
            return f"/{paths[0]} cannot be written ({denied})"
        if self.current(place) is None:
            state = self.text(place)
            return f"/{paths[0]} {f'is {state!r}' if state else 'cannot be read'}"
        return self._overruled(place)

    def _overruled(self, place: FactorPlace) -> str:
        other = place.host.read(self.unless) if self.unless else ""
        return f"/{self.unless} is {other}, and takes its place" if other not in ("", "0") else ""

    def change(self, name: str, place: FactorPlace, level: str) -> None:
        """Write the level into the setting's files that show one; check that the kernel took it.

        The earlier values are noted in the journal, so that the change is undone at the end, or
        after a kill.  `name` is the factor's name, for the note and for messages.
        """
        files = dict.fromkeys(self.in_force(place), level)
        if not files:
            raise Impossible(f"{name} cannot be switched here: {self.unavailable(place)}")
        also = [path for pattern in self.also for path in _there(pattern, place)]
        kernel_settings.change(place.host, name, files, also)


@dataclass(frozen=True)
class ServerSetting:
    """A setting of the database server; `name` is the server's own name for it.

    `levels` are the values that it can have; () if any text may be a value.
    """

    name: str
    wires: tuple[str, ...] = ("postgresql",)
    """The wires of the engines that have the setting: `postgresql` or `mysql`."""
    levels: tuple[str, ...] = ()


class Factor(Protocol):
    """The members of a factor module; those with a default here may be left out.

    A factor is a thing that an experiment switches, such as the read-ahead of a disk.  Its possible
    values are levels.
    """

    SCOPE: Scope
    NEEDS_ROOT: bool = False
    FILE: KernelFile | None = None
    """The setting of the kernel that the factor switches."""
    SETTING: ServerSetting | None = None
    """The setting of the server that the factor switches."""

    def levels(self, place: FactorPlace) -> tuple[str, ...]:
        """Return the levels (values) that can be set on this machine; () if any text may be one."""
        if self.SETTING is not None:
            return self.SETTING.levels
        return () if self.FILE is None else kernel_settings.choices(self.FILE.text(place))

    def current(self, place: FactorPlace) -> str | None:
        """Return the present level of a factor of the machine; None if it is not known.

        The level of a server's setting is not known, because no server is asked.
        """
        return None if self.FILE is None else self.FILE.current(place)

    def unavailable(self, place: FactorPlace) -> str:
        """Return in words why `place` does not allow to switch the factor; "" if it does."""
        if self.SETTING is not None and place.wire not in self.SETTING.wires:
            return f"{place.engine} has no such setting"
        return "" if self.FILE is None else self.FILE.unavailable(place)

    def check_level(self, level: str) -> None:
        """Raise Impossible for a level that no machine can have; by default accept any level."""

    def set_level(self, place: FactorPlace, level: str) -> None:
        """Set the factor's level on this machine, and check that the machine took it.

        The earlier values are noted in the journal, so that the change is undone at the end, or
        after a kill.  This is only for factors of the scope `machine`: Impossible is raised for
        others.  Raises ReplayerError if the machine refuses.
        """
        if self.FILE is None:
            raise Impossible(f"{_name(self)} is not a setting of the machine: a run is given it")
        self.FILE.change(_name(self), place, level)

    def boot_words(self, level: str) -> tuple[str, ...]:  # noqa: ARG002 - most need no boot
        """Return the words that set a level on the kernel's command line.

        Only a factor of the scope `boot` has such words; by default there are none.
        """
        return ()

    def run_arguments(self, level: str) -> tuple[str, ...]:
        """Return the arguments of `replayer run` for a level; () if no argument sets it."""
        return () if self.SETTING is None else ("--pg-set", f"{self.SETTING.name}={level}")


FACE = Factor


def names() -> list[str]:
    """Return the sorted names of all factors."""
    return registry.names(KIND)


def load(name: str) -> Factor:
    """Return the factor with a name as a user may type it, such as `disk.read-ahead-kb`.

    Raises NotFound, with the nearest name, if there is none.
    """
    plain = plain_name(name)
    if plain not in names():
        raise NotFound(
            f"there is no factor {name!r}{nearest(plain, names())}; `replayer list factors` lists "
            f"them"
        )
    return cast("Factor", registry.plugin(KIND, plain))


def describe(name: str, place: FactorPlace) -> dict[str, Any]:
    """Return name -> value of the facts about a factor, such as its scope and its present level.

    The fact `reason` is why the factor cannot be switched at `place`; it is "" if it can.
    """
    factor = load(name)
    reason = factor.unavailable(place)
    return {
        "scope": factor.SCOPE,
        "level": factor.current(place) or "",
        "levels": list(factor.levels(place)),
        "right": "root" if factor.NEEDS_ROOT else "any user",
        "switchable": "no" if reason else "yes",
        "reason": reason,
    }


def word_on_line(place: FactorPlace, key: str, default: str) -> str:
    """Return the value of `key` on the kernel's command line of this boot, else `default`.

    If `key=value` is there several times, the last one counts.
    """
    line, _ = split_line(place.host.read("proc/cmdline"))
    words = [word.partition("=") for word in line]
    return next((value for name, _, value in reversed(words) if name == key), default)


def need_huge_pages(word: str, host: Host | None = None) -> None:
    """Raise Impossible if this machine has reserved no huge pages.

    `word` is the NAME=LEVEL that needs them, for the message.  Without huge pages one server does
    not start, and another one uses small pages without a warning.
    """
    if (host or Host()).read("proc/sys/vm/nr_hugepages") in {"", "0"}:
        raise Impossible(
            f"{word} needs huge pages, and this machine has reserved none: reserve as many as the "
            f"server's cache takes (up to 1 GB until a step sets it), and some more, with "
            f"`sysctl vm.nr_hugepages=N`"
        )


def plain_name(name: str) -> str:
    """Return a factor's name as its file has it: `disk.read-ahead-kb` becomes `read_ahead_kb`."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace("-", "_")


def check_level(name: str, place: FactorPlace, level: str) -> None:
    """Raise Impossible if the factor `name` cannot have that level (value) at `place`."""
    factor = load(name)
    reason = factor.unavailable(place)
    if reason:
        raise Impossible(f"{name} cannot be switched here: {reason}")
    known = factor.levels(place)
    if known and level not in known:
        raise Impossible(f"{name} has no level {level!r}{nearest(level, known)}")
    if not level:
        raise Impossible(f"{name}= has no level: it must be such as {name}={known or '1'}")
    factor.check_level(level)


def place_of(
    data_dir: Path | None, engine: str, wire: str, host: Host | None = None
) -> FactorPlace:
    """Return the place where the factors of a run are switched: its machine, disk and engine.

    `data_dir` is the folder of the run's data, which need not exist yet; None if there is none.
    `wire` is the client protocol of the engine's servers, such as `postgresql`.
    """
    host = host or Host()
    below = None if data_dir is None else host.device_of(data_dir)
    above = None if data_dir is None else host.block_device(data_dir)
    return FactorPlace(
        disk=_block(host, below),
        read_ahead=Path("/", read_ahead_folder(host, above)) if above else None,
        data_dir=data_dir,
        engine=engine,
        wire=wire,
        host=host,
    )


def place_at(data_dir: Path | None, named: str, host: Host | None = None) -> FactorPlace:
    """Return the place where the factors of a run are switched: its machine, disk and engine.

    `data_dir` is the folder of the run's data, None if there is none.  `named` is the name of an
    engine, the URL of a server, or "" for the default engine.  Raises NotFound for an engine that
    does not exist.
    """
    own = engines.of_url(named) if "://" in named else engines.load(named or engines.default())
    return place_of(data_dir, own.name, own.spec.wire.partition("+")[0], host)


def _block(host: Host, device: str | None) -> Path | None:
    """Return the folder /sys/block/NAME of a disk; None without a disk or such a folder."""
    folder = Path("/sys/block", device.replace("/", "!")) if device else None
    return folder if folder and host.exists(str(folder)) else None


def _there(pattern: str, place: FactorPlace) -> list[str]:
    """Return the existing files that fit a pattern such as `{disk}/queue/*`.

    Their paths have no leading slash.  Returns [] if the pattern needs a disk that `place` has not.
    """
    text = _filled(pattern, place)
    if "{" in text:
        return []
    if "*" not in text:
        return [text] if place.host.exists(text) else []
    root = place.host.path("")
    return sorted(str(path.relative_to(root)) for path in root.glob(text))


def _filled(pattern: str, place: FactorPlace) -> str:
    folders: Mapping[str, Path | None] = {"{disk}": place.disk, "{read_ahead}": place.read_ahead}
    for hole, folder in folders.items():
        if folder is not None:
            pattern = pattern.replace(hole, str(folder).lstrip("/"))
    return pattern


def _name(factor: object) -> str:
    return type(factor).__name__
