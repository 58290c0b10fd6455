"""Lines that a command prints in addition to its report: remarks on stderr, results on stdout."""

import sys

from replayer.report.sanitize import sanitize


def say(text: str) -> None:
    """Print a sentence on stderr."""
    print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201


def note(text: str) -> None:
    """Print a remark on the result on stderr."""
    say(f"note: {text}")


def show(text: str) -> None:
    """Print a line of the result on stdout."""
    print(sanitize(text))  # noqa: T201
