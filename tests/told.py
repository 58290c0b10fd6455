"""What a process of replayer's that goes on says."""

import re
from collections.abc import Iterable


def line_with(stream: Iterable[str], pattern: re.Pattern[str]) -> str:
    """Return the next line in which a compiled pattern is found.

    Another test's killed run may have left something, and whoever comes next says first that it
    was given back.
    """
    passed = []
    for line in stream:
        if pattern.search(line):
            return line
        passed.append(line)
    raise AssertionError(f"nothing was said of {pattern.pattern!r}, but: {''.join(passed)}")
