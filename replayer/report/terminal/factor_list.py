"""The printed list of factors: what each is, its level here, whether it can be switched here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from replayer.report.sanitize import sanitize
from replayer.report.terminal.tables import indented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

_NEW = {
    "machine": "Settings of the machine: switched for each run, and given back",
    "server": "Settings of the server: each run starts its server with them",
    "table": "Settings with which a data directory is made: each level has its own",
    "boot": "Settings of a boot: each level takes a boot",
}
"""Scope of a factor -> the heading above the factors of that scope."""


def render(listed: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Yield a heading and a list of the factors for each scope: machine, server, table, boot.

    `listed` has an entry for each factor, with the keys `name`, `scope`, `about` (its
    description), `level` (the present one), `levels` (all), `reason` (why it cannot be switched
    here, "" if it can) and `right` (`root` if only root can switch it).
    """
    for scope, title in _NEW.items():
        chosen = [entry for entry in listed if entry["scope"] == scope]
        if not chosen:
            continue
        yield Text(title, style="bold")
        yield indented((sanitize(entry["name"]), _words(entry)) for entry in chosen)
        yield Text("")


def _words(entry: Mapping[str, Any]) -> str:
    """Return a factor's description, its level, and its other levels or why it cannot switch."""
    parts = [str(entry["about"]).rstrip(".")]
    if entry["level"]:
        parts.append(f"now {entry['level']}")
    if entry["reason"]:
        parts.append(f"not here: {entry['reason']}")
    else:
        levels = [level for level in entry["levels"] if level != entry["level"]]
        other = "or" if entry["level"] else "one of"
        parts += [f"{other} {', '.join(levels)}"] if levels else []
        parts += ["as root"] if entry["right"] == "root" else []
    return sanitize("; ".join(parts))
