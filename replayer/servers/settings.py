"""Server settings: the requested values, an engine's format, and the settings file."""

import re
from collections.abc import Mapping

from replayer.engines.engine_spec import ServerSpec
from replayer.errors import Impossible, NotFound, nearest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MODIFIER = re.compile(r"(?:loose|skip|disable|enable|maximum|autoset)_")
"""Words before an option: the same option, or its opposite (MariaDB, "mariadbd options")."""


def split(
    keys: ServerSpec, major: int, asked: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Divide settings into those for making a data directory (initial settings) and all others.

    Returns both as name in lower case -> value.

    If the server takes shortened names, `-` is the same as `_` in a name.

    Raises Impossible for an invalid name, a value of several lines, or a setting that replayer sets
    itself; NotFound if an initial setting cannot have this value.
    """
    init: dict[str, str] = {}
    rest: dict[str, str] = {}
    for given, value in asked.items():
        name = given.strip().lower()
        if not _NAME.fullmatch(name):
            raise Impossible(f"{given!r} is not a name of a server setting")
        if not value.isprintable():
            raise Impossible(f"the value of {name} has a line break or a control character in it")
        name = name.replace("-", "_") if keys.abbreviates else name
        if fixed := _fixed(keys, name):
            short = "" if name == fixed else f" is one for {fixed}, and that"
            raise Impossible(
                f"the setting {name}{short} cannot be changed: replayer sets it itself"
            )
        if name in keys.init_settings:
            init_arguments(keys, {name: value}, major)
            init[name] = value
        else:
            rest[name] = value
    return init, rest


def _fixed(keys: ServerSpec, name: str) -> str | None:
    """Return the setting that replayer sets itself and that this name may set; None if none."""
    if name in keys.fixed or not keys.abbreviates:
        return name if name in keys.fixed else None
    names = [name]
    while modifier := _MODIFIER.match(names[-1]):
        names.append(names[-1][modifier.end() :])
    return next((one for one in keys.fixed for n in names if n and one.startswith(n)), None)


def init_arguments(keys: ServerSpec, init: Mapping[str, str], major: int) -> list[str]:
    """Return the arguments of the program that makes a data directory, for these initial settings.

    engine.toml lists the arguments for each value that an initial setting may have.  Its entry
    `<value>.NN` replaces the entry `<value>` from major version NN on.  Raises NotFound for a value
    without an entry.
    """
    arguments: list[str] = []
    for name, value in init.items():
        choices = keys.init_settings[name]
        plain = {choice.split(".")[0] for choice in choices}
        if value not in plain:
            raise NotFound(f"{name} cannot be {value!r}{nearest(value, plain)}")
        best, since = value, -1
        for choice in choices:
            base, _, number = choice.partition(".")
            if base == value and number and since < int(number) <= major:
                best, since = choice, int(number)
        arguments += choices[best]
    return arguments


def standard(keys: ServerSpec, major: int, memory_bytes: int) -> dict[str, str]:
    """Return replayer's default settings (name -> value) for a server of the major version `major`.

    Some depend on the machine's memory, which is `memory_bytes`.
    """
    return {
        name: setting.text(memory_bytes)
        for name, setting in keys.settings.items()
        if setting is not None and major >= setting.since
    }


def fixed(keys: ServerSpec, words: Mapping[str, object]) -> dict[str, str]:
    """Return the settings (name -> value) that replayer sets itself and users cannot change.

    `words` are the values that replace words in braces, such as `{data}`.
    """
    return {name: value.format(**words) for name, value in keys.fixed.items() if value is not None}


def text(keys: ServerSpec, settings: Mapping[str, str]) -> str:
    """Return the contents of the server's settings file with these settings."""
    file = keys.settings_file
    lines = [file.head] if file.head else []
    for name, value in settings.items():
        safe = "".join(file.escape.get(character, character) for character in value)
        lines.append(file.line.format(name=name, value=safe))
    return "\n".join([*lines, ""])


def named_in(lines: list[str], names: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first of the settings in `names` that a server's messages mention.

    `names` is name -> value, and `lines` are the messages.  Returns the setting's name and
    the message that mentions it; None if no message mentions any of the settings.  A message may
    have `-` for each `_` of a name.
    """
    for name in names:
        written = re.escape(name).replace("_", "[_-]")
        for line in lines:
            if re.search(rf"""(^|["'`\s]){written}($|["'`\s:=,])""", line, re.IGNORECASE):
                return name, line
    return None
