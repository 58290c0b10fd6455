"""The manual page, made from the output of --help, so that both have the same text."""

import argparse
import os
import re

from replayer import __version__
from replayer.cli import command_parser

_WIDTH = "80"


def commands(top: argparse.ArgumentParser) -> dict[str, str]:
    """Return command -> its one-line help, without importing the commands' modules.

    `top` is the parser of the program, which has all commands.
    """
    return {
        choice.dest: str(choice.help)
        for action in top._actions  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        for choice in action._choices_actions  # noqa: SLF001
    }


def page(top: argparse.ArgumentParser) -> str:
    """Return the manual page, section 1, in roff; this imports the modules of all commands.

    `top` is the parser of the program, which has all commands.
    """
    # argparse takes the width of a line from the environment.
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH
    try:
        about = " ".join((top.description or "").split())
        parts = [
            f'.TH REPLAYER 1 "" "replayer {__version__}" "User Commands"',
            f".SH NAME\nreplayer \\- {_roff(about.partition(':')[0])}",
            f".SH SYNOPSIS\n{_verbatim(top.format_usage().removeprefix('usage: '))}",
            f".SH DESCRIPTION\n{_verbatim(top.format_help().partition(chr(10) * 2)[2])}",
            ".SH COMMANDS",
        ]
        for name, command in command_parser.every(top):
            help_text = command.format_help().removeprefix("usage: ")
            parts.append(f'.SS "{_roff(name)}"\n{_verbatim(help_text)}')
        return "\n".join(parts) + "\n"
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _verbatim(text: str) -> str:
    return f".nf\n{_roff(text.rstrip())}\n.fi"


def _roff(text: str) -> str:
    """Return text with all requests and escapes of roff made literal."""
    plain = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha")
    )
    plain = plain.replace("~", "\\(ti").replace("…", "...")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)
