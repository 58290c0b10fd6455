"""Print the script with which a shell completes commands, options and names at the Tab key.

The script holds all names: at a Tab no replayer is started.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import shtab

from replayer import assets
from replayer.cli import command_parser

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  replayer completion bash  > ~/.local/share/bash-completion/completions/replayer
  replayer completion zsh  > ~/.zfunc/_replayer
  replayer completion fish  > ~/.config/fish/completions/replayer.fish
"""
_FOLDERS = frozenset({"DIR"})
_FILES = frozenset({"FILE", "RUN", "A B", "PLAN", "LOG", "A", "B", "PROFILE"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell it is for")


def run(args: argparse.Namespace) -> int:
    """Print the script on stdout."""
    top = command_parser.parser()
    for _, command in command_parser.every(top):
        for action in command._actions:  # noqa: SLF001 - argparse has no public access to them
            completer = _completer(action)
            if completer is not None:
                action.complete = completer  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(top, shell=args.shell))
    return 0


def _completer(action: argparse.Action) -> object:
    """Return how an argument is completed, None if nothing is known of it."""
    if action.metavar == "WORKLOAD":
        return shtab.cmd(f"echo {' '.join(assets.workloads())}")
    if action.metavar == "NAME|URL":
        return shtab.cmd(f"echo {' '.join(assets.engines())}")
    if action.metavar in _FOLDERS:
        return shtab.DIRECTORY
    return shtab.FILE if action.metavar in _FILES or action.type is Path else None
