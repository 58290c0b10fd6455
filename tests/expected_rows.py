"""The rows that a build step must make, in a few lines of plain Python."""

_NAMES = ("Jordan", "Kumar", "Duglas", "Johnson", "Petrov", "Hiraga")


def expected_rows(doublings: int) -> list[tuple[int, str]]:
    """Return the ids and last names after so many doublings, in their order."""
    rows = list(enumerate(_NAMES, 100))
    for _ in range(doublings):
        rows += [(id_ + n, name + str(n)) for n, (id_, name) in enumerate(rows, 1)]
    return rows
