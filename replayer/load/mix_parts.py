"""The parts of a mix that its client processes need: no pydantic model is here."""

from typing import NamedTuple

KINDS = ("point", "range", "update", "insert", "scan", "compute")
"""The kinds of statements of a mix."""


class Hot(NamedTuple):
    """The hot share of the rows, and the share of all accesses that go to these rows."""

    rows: float
    accesses: float
