"""Servers that are watched: a second watch of one ends without the first."""

from replayer.engines import watchdog

WHERE = ("unix", "/nowhere/of/this/test")


def test_an_earlier_watch_continues_after_a_later_one() -> None:
    """A server that replayer started is still watched after it was used by its URL, too."""
    watchdog.watch(WHERE, "own", lambda _: True)
    try:
        with watchdog.watching(WHERE, "by URL"):
            assert watchdog._watched[WHERE].title == "by URL"
        assert watchdog._watched[WHERE].title == "own"
    finally:
        watchdog.forget(WHERE)
    with watchdog.watching(WHERE, "by URL"):
        pass
    assert WHERE not in watchdog._watched
