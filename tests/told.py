"""What a process of replayer's that goes on says."""


def line_with(stream, pattern):
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
