"""Print the script with which a shell completes commands, options and names at the Tab key.

The script holds all names of what is installed. Runs, labels and metrics are looked up in the
results folder (`$REPLAYER_RESULTS`, else ./results). At a Tab no replayer is started.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import shtab

from replayer import assets, registry
from replayer.cli import command_parser
from replayer.errors import ReplayerError
from replayer.model import StepSpec
from replayer.run.plan import workload

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

EPILOG = """\
examples:
  replayer completion bash  > ~/.local/share/bash-completion/completions/replayer
  replayer completion zsh  > ~/.zfunc/_replayer
  replayer completion fish  > ~/.config/fish/completions/replayer.fish
"""
_REPEATED = re.compile(r'(?m)(?<=^  )"\(\*\)::?')
_FOLDERS = frozenset({"DIR"})
_FILES = frozenset({"FILE", "PLAN", "LOG", "PROFILE"})
_RUNS = frozenset({"RUN", "A B", "A", "B"})
_IDS = (
    "ls -- *.json | sed 's/[.]json$//'; "
    'head -q -n 6 -- *.json | sed -n \'s/^ "label": "\\(..*\\)",*$/\\1/p\' | sort -u'
)
"""The command that prints the ids of runs, from file names, and labels, from the first lines."""
_METRICS = 'sed -n \'s/.*"metric": "\\([^"]*\\)".*/\\1/p\' -- *.json | sort -u'


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "shell", choices=["bash", "zsh", "fish"], help="the shell that will use the script"
    )


def run(args: argparse.Namespace) -> int:
    """Print the completion script for the shell `args.shell` on stdout; return 0."""
    top = command_parser.parser()
    for _, command in command_parser.every(top):
        for action in command._actions:  # noqa: SLF001 - argparse has no public access to them
            completer = _completer(action)
            if completer is not None:
                action.complete = completer  # type: ignore[attr-defined]
    script = shtab.complete(top, shell=args.shell)
    if args.shell == "zsh":
        # As shtab writes an argument that may be repeated, zsh completes only the first one.
        script = _REPEATED.sub('"*:', script)
    sys.stdout.write(script)
    return 0


def _stored(command: str) -> str:
    """Return a shell command that runs `command` in the results folder and hides its errors."""
    return f'(cd "${{REPLAYER_RESULTS:-results}}" && {{ {command}; }}) 2>/dev/null'


def _keys() -> list[str]:
    """Return `STEP.KEY=` for every key of every step of the installed workloads, sorted."""
    found = set()
    for name in assets.workloads():
        with contextlib.suppress(ReplayerError):
            for spec in workload.load(name).steps:
                own = type(spec).model_fields.keys() - StepSpec.model_fields.keys()
                found |= {f"{spec.name}.{key}=" for key in own}
    return sorted(found)


def _completer(action: argparse.Action) -> object:
    """Return the way in which an argument is completed, as shtab expects it in `complete`.

    shtab is the library that makes the script. Returns None if the argument cannot be completed.
    """
    if str(action.metavar) in _STORED:
        return _looked_up(*_STORED[str(action.metavar)])
    wanted = _NAMES.get(str(action.metavar))
    if wanted is not None and not (action.metavar == "COMMAND" and action.option_strings):
        name = re.sub(r"\W+", "_", f"_replayer_{action.metavar}".lower())
        return _looked_up(name, f"printf '%s\\n' {' '.join(wanted())}")
    if action.metavar in _FOLDERS:
        return shtab.DIRECTORY
    return shtab.FILE if action.metavar in _FILES or action.type is Path else None


def _looked_up(name: str, command: str) -> dict[str, object]:
    """Return the completion of an argument whose words the shell command `command` prints.

    The result is for the attribute `complete` that shtab reads. The script gets a function called
    `name` for each shell, which runs the command at each Tab. Without this function, shtab would
    put the command into quoted text. zsh and fish cannot read that if the command has quotes or
    parentheses.
    """
    glued = "-S '' " if "=" in command.rsplit(maxsplit=1)[-1] else ""
    quoted = command.replace("\\", "\\\\").replace("'", "\\'")
    return {
        "bash": name,
        "zsh": name,
        "fish": f"({name})",
        "preamble": {
            "bash": f'{name}() {{\n  compgen -W "$({command})" -- $1\n}}',
            "zsh": f'{name}() {{\n  local -a known\n  known=(${{(f)"$( {command} )"}})\n'
            f'  compadd "$@" {glued}-a known\n}}',
            "fish": f"function {name}\n  sh -c '{quoted}'\nend",
        },
    }


_NAMES: Mapping[str, Callable[[], Iterable[str]]] = {
    "WORKLOAD": assets.workloads,
    "NAME|URL": assets.engines,
    "STEP.KEY=VALUE": _keys,
    "COMMAND": lambda: registry.names("commands"),
}
"""The metavar of an argument -> a function that returns the argument's values."""
_STORED = {
    **dict.fromkeys(_RUNS, ("_replayer_runs", f"echo latest; {_stored(_IDS)}")),
    **dict.fromkeys(("METRIC", "PATTERN"), ("_replayer_metrics", _stored(_METRICS))),
}
"""The metavar of an argument -> the name of a shell function, and the command in that function."""
