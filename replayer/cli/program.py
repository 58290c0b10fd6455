"""The program: it runs one command, prints its error if it fails, and returns the exit status."""

import json
import sys
from collections.abc import Sequence

from replayer import errors, signals
from replayer.cli import argv_secrets, stdio
from replayer.cli.command_parser import parser
from replayer.errors import Interrupted


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
        status: int = args.perform(args)
    except SystemExit:  # the parser has printed the help, or an error
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


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
