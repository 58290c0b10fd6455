"""stderr of PostgreSQL, also of RDS, with any log_line_prefix: given, or found automatically."""

from collections.abc import Iterable, Iterator

from replayer.capture import assembly, prefix
from replayer.capture.action import Action
from replayer.capture.entry import spread
from replayer.capture.inputs import Input
from replayer.capture.lines import Joiner, joined
from replayer.capture.logs import ReadRequest
from replayer.capture.stamps import StampReader
from replayer.errors import Impossible

ENGINE = "postgres"
RANK = 0
_SECOND = 10**9


def fits(head: str) -> bool:
    """Return whether `head`, the beginning of a log, has lines with a severity of PostgreSQL."""
    try:
        return prefix.guessed(head.split("\n")) is not None
    except Impossible:
        # Lines of PostgreSQL that lack a field: `find_start` reports which.
        return True


def find_start(head: str, order: ReadRequest) -> int | None:
    """Return the time of the first entry in `head`, the beginning of a log, in ns since 1970.

    Returns None if no prefix fits the lines, or if there is no entry.  Raises Impossible if the
    prefix has no time or does not identify sessions.
    """
    one = _prefix(head, order)
    if one is None:
        return None
    joiner = Joiner(one, StampReader(), order.reading, window=0)
    for line in head.split("\n"):
        joiner.add(line)
        if made := joiner.ready():
            return made[0].time_ns
    return None


def read(inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order of their ends.

    Raises Impossible if no prefix of lines is known.
    """
    clock, whole = StampReader(), assembly.SessionAssembly(order.reading, order.announce)
    one: prefix.Prefix | None = None
    for source in inputs:
        # A file may begin with lines from which no prefix can be found.
        one = _prefix(source.head(), order) or one
        if one is None:
            raise Impossible(
                f"{source.name} has lines of no log_line_prefix that is known: --prefix gives it"
            )
        joiner = Joiner(one, clock, order.reading)
        order.reading.coarse |= one.coarse
        for entries in joined(joiner, source, order.advance):
            yield whole.take(spread(entries, _SECOND) if one.coarse else entries)
    assembly.note_zones(clock, order.reading)
    yield whole.finish()


def _prefix(head: str, order: ReadRequest) -> prefix.Prefix | None:
    if order.prefix is not None:
        return prefix.compiled(order.prefix)
    return prefix.guessed(head.split("\n"))
