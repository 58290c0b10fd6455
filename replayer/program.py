"""argv -> the one command asked for -> exit status; the only place that catches ReplayerError."""

import json
import sys
from collections.abc import Sequence

from replayer import errors, signals
from replayer.cli import argv_secrets, stdio
from replayer.cli.command_parser import parser
from replayer.errors import Interrupted


def run(argv: Sequence[str]) -> int:
    """Run replayer with these arguments, and return its exit status."""
    # Before a command's module is loaded, which takes its time: `ps` shows what stands there.
    arguments = argv_secrets.hidden(argv)
    # Before anything is opened: it would take the place of a stream that is closed.
    with stdio.guarded():
        try:
            signals.install()
            return _performed(arguments)
        except BrokenPipeError:
            # The reader of our output went away (`| head`): nothing is left to say to it.
            return 0
        except (Exception, Interrupted) as error:
            reason = signals.interruption() or errors.expected(error)
            if reason is None:
                raise
            _complain(printable(str(reason)), reason.status, arguments)
            return reason.status


def _performed(arguments: Sequence[str]) -> int:
    try:
        # Alone it says what one can do.
        args = parser().parse_args(arguments or ["help"])
        status: int = args.perform(args)
    except SystemExit:  # the parser has printed help, or what is wrong
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _complain(sentence: str, status: int, arguments: Sequence[str]) -> None:
    """Print what went wrong, as JSON where all else on stderr is."""
    pairs = zip(("", *arguments), arguments, strict=False)
    if any(pair == ("--progress", "json") or pair[1] == "--progress=json" for pair in pairs):
        sentence = json.dumps({"event": "error", "text": sentence, "status": status})
    else:
        sentence = f"replayer: error: {sentence}"
    print(sentence, file=sys.stderr)  # noqa: T201


def printable(text: str) -> str:
    """Return text in which no control character can reach a terminal, on one line."""
    return "".join(c if c.isprintable() else " " for c in text)
