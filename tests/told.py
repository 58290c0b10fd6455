"""What a process of replayer's that goes on says."""

import re
from collections.abc import Iterable


def line_with(stream: Iterable[str] | None, pattern: re.Pattern[str]) -> str:
    """Return the next line in which a compiled pattern is found.

    Another test's killed run may have left something, and whoever comes next says first that it
    was given back.
    """
    passed = []
    for line in stream or ():
        if pattern.search(line):
            return line
        passed.append(line)
    raise AssertionError(f"nothing was said of {pattern.pattern!r}, but: {''.join(passed)}")


def matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    """Return where a compiled pattern is found first in a text."""
    match = pattern.search(text)
    assert match is not None, f"there is no {pattern.pattern!r} in {text!r}"
    return match
