"""Which sessions of a server have worked in a window, and which have counted what they did."""

import pytest

from replayer.load.other_sessions import OthersActivity

SESSION = (1, 0.0)


def seen(
    at: float, quiet: float | None, reads: int = 0, *, is_open: bool = False
) -> OthersActivity:
    """Return a look at one session; `quiet` is None while it works."""
    return OthersActivity(
        {SESSION: (0, reads)},
        {} if quiet is None else {SESSION: quiet},
        frozenset({SESSION} if is_open else ()),
        at,
    )


@pytest.mark.parametrize(
    ("quiet", "busy"), [(None, True), (4.0, True), (6.0, False)], ids=["works", "inside", "before"]
)
@pytest.mark.parametrize("is_open", [False, True])
def test_who_did_nothing_in_the_window_is_not_waited_for(
    quiet: float | None, *, busy: bool, is_open: bool
) -> None:
    """An open transaction in which nothing was done is no work: many programs leave theirs open."""
    begin, end = seen(100.0, 50.0), seen(105.0, quiet, is_open=is_open)

    assert end.busy_since(begin) == ({SESSION} if busy else set())


@pytest.mark.parametrize(
    ("later", "counts"),
    [
        (seen(106.5, 0.2), True),
        (seen(106.5, 0.8), False),
        (seen(115.5, 11.0), True),
        (seen(115.5, 11.0, is_open=True), False),
        (seen(106.5, 0.2, is_open=True), False),
        (seen(115.5, None), False),
        (seen(105.2, None, 1), True),
        (seen(105.2, 0.1, 1, is_open=True), True),
        (OthersActivity({}, {}, frozenset(), 115.5), False),
    ],
    ids=[
        *("ended something a second later", "ended it too early", "idle for ten seconds"),
        *("idle in a transaction", "new transaction", "works on"),
        *("moved, works on", "moved, new transaction", "left"),
    ],
)
def test_what_a_session_did_is_counted(later: OthersActivity, *, counts: bool) -> None:
    """At the end of a transaction, once a second, or after ten idle seconds outside of one."""
    assert later.counts(SESSION, seen(105.0, 0.1)) is counts
