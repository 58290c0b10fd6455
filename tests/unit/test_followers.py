"""The options by which a command lets its run be followed."""

import argparse
import errno

import pytest

from replayer.cli import bind_address
from replayer.errors import Impossible
from replayer.followers.options import configure_followers, pass_followers_on


def test_what_was_given_replaces_what_a_plan_has_and_nothing_else() -> None:
    """As `replayer step PLAN --live` does with the options of the plan."""
    parser = argparse.ArgumentParser()
    configure_followers(parser)
    asked = parser.parse_args(["--timeout", "1h", "--metrics", "127.0.0.1:1", "--progress", "json"])

    pass_followers_on(parser.parse_args(["--timeout", "5min", "--live"]), asked)

    assert (asked.timeout, asked.live) == (300, "")
    assert (asked.metrics, asked.progress) == ("127.0.0.1:1", "json")
    assert (asked.live_token, asked.live_for, asked.metrics_public) == (None, None, False)


def test_a_port_that_only_root_may_take_names_one_for_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel says no more than that the permission is denied."""

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("socket.socket.bind", denied)
    with pytest.raises(Impossible, match="ports below 1024 are for root; name a higher one"):
        bind_address.bound(bind_address.parsed("80", "--live"), "--live")
