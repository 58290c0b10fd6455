"""Lines that a command prints in addition to its report: remarks on stderr, results on stdout."""

import sys

from replayer.report.sanitize import sanitize


def say(text: str) -> None:
    """Print a text on stderr as one line; its control characters are made visible."""
    print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201


def note(text: str) -> None:
    """Print a remark on stderr as one line that begins with `note: `."""
    say(f"note: {text}")


def show(text: str) -> None:
    """Print a text on stdout as one line; its control characters are made visible."""
    print(sanitize(text))  # noqa: T201
