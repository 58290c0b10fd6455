"""The program: it runs one command, prints its error if it fails, and returns the exit status."""

import argparse
import json
import sys
from collections.abc import Sequence

from replayer import errors, signals
from replayer.cli import argv_secrets, stdio
from replayer.cli.command_parser import parser
from replayer.errors import Impossible, Interrupted

_PRINTED = ("json", "text")
"""Options of commands whose output is on stdout."""
_FORMS = ("summary", "html", "csv", "markdown")
"""Options of commands that name a file for their output; `-` is stdout."""


def run(argv: Sequence[str]) -> int:
    """Run replayer with the command-line arguments `argv`, and return its exit status.

    `argv` is without the program's name.  An expected error is printed on stderr as a sentence; a
    defect of replayer raises its exception.
    """
    # Hide secrets before a command's module is loaded, which takes time: `ps` shows arguments.
    arguments = argv_secrets.hidden(argv)
    # Do this before any file is opened: it would get the descriptor of a closed standard stream.
    with stdio.guarded():
        try:
            signals.install()
            return _performed(arguments)
        except BrokenPipeError:
            # The reader of our output went away (`| head`): nothing more can be printed to it.
            return 0
        except (Exception, Interrupted) as error:
            reason = signals.interruption() or errors.expected(error)
            if reason is None:
                raise
            _complain(printable(str(reason)), reason.status, arguments)
            return reason.status


def _performed(arguments: Sequence[str]) -> int:
    try:
        # Without arguments it prints the help.
        args = parser().parse_args(arguments or ["help"])
        _check_stdout(args)
        status: int = args.perform(args)
    except SystemExit:  # the parser has printed the help, or an error
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _check_stdout(args: argparse.Namespace) -> None:
    """Raise Impossible if two outputs would be joined on stdout, which no program could read."""
    printed = [f"--{name}" for name in _PRINTED if getattr(args, name, None) is True]
    printed += [f"--{name} -" for name in _FORMS if getattr(args, name, None) == "-"]
    if len(printed) > 1:
        raise Impossible(
            f"{printed[0]} and {printed[1]} both write to stdout: give one of them a file"
        )


def _complain(sentence: str, status: int, arguments: Sequence[str]) -> None:
    """Print an error on stderr as a sentence, or as JSON if the arguments have `--progress json`.

    With that option, all output on stderr is JSON.  `status` is the exit status, which the JSON
    has, too.
    """
    pairs = zip(("", *arguments), arguments, strict=False)
    if any(pair == ("--progress", "json") or pair[1] == "--progress=json" for pair in pairs):
        sentence = json.dumps({"event": "error", "text": sentence, "status": status})
    else:
        sentence = f"replayer: error: {sentence}"
    print(sentence, file=sys.stderr)  # noqa: T201


def printable(text: str) -> str:
    """Return a text on one line, with a space for each character that is not printable."""
    return "".join(c if c.isprintable() else " " for c in text)
