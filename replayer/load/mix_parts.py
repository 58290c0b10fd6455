"""The parts of a mix that its client processes need: no pydantic model is here."""

from typing import NamedTuple

KINDS = ("point", "range", "update", "insert", "scan", "compute")
"""The kinds of statements of a mix."""


class Hot(NamedTuple):
    """The share of the rows that is used more often, and the share of accesses that go to it.

    Both are fractions between 0 and 1.
    """

    rows: float
    accesses: float
