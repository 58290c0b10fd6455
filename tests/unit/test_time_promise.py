"""The promised time of a run: kept within 1.5 times, or said anew."""

from replayer.run.time_promise import NO_PROMISE, TimePromise


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the seconds that it was set to."""
        return self.now


def test_a_promise_is_kept_within_half_as_much_again() -> None:
    """60 s are kept with 90 s in all; with 91 s a new promise has the reason and both times."""
    clock = Clock()
    promise = TimePromise(60.0, clock)
    clock.now += 50

    assert promise.renewed(40.0, "why") == ""
    assert promise.spare(30.0) == 10
    words = promise.renewed(41.0, "loading takes so long")
    assert "longer than the about 60.0 s that were promised: loading takes so long" in words
    assert "about 41.0 s more, about 91.0 s in all" in words
    assert promise.renewed(41.0, "why") == ""
    assert promise.progress == "50.0 s of about 91.0 s"


def test_time_that_the_user_gave_belongs_to_the_promise() -> None:
    """`--wait` postpones it; without a promise nothing is ever said."""
    clock = Clock()
    promise = TimePromise(10.0, clock)
    promise.postpone(30.0)
    clock.now += 40

    assert promise.renewed(15.0, "why") == ""
    assert NO_PROMISE.renewed(1e9, "why") == ""
