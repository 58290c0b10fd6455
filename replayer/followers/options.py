"""The options by which a command lets its run be followed, and how long it may take."""

import argparse
import functools

from replayer.report.terminal import run_output

_GIVEN = ("progress", "timeout", "metrics", "metrics_public", "live", "live_token", "live_for")
"""The names under which `configure_followers` stores the options."""


def configure_followers(parser: argparse.ArgumentParser) -> None:
    """Add the options that `followed_run` reads."""
    add = parser.add_argument_group("how it is followed, and for how long").add_argument
    add(
        "--progress",
        choices=sorted(run_output.FORMS),
        default="auto",
        help="how progress is printed on stderr: bars, lines, one JSON object a line, or not at "
        "all (default: bars on a terminal, else lines)",
    )
    add(
        "--timeout",
        type=run_output.seconds,
        metavar="TIME",
        help="stop after so long, such as 2h: what was measured by then is kept",
    )
    add(
        "--metrics",
        metavar="ADDR:PORT",
        help="let Prometheus have what was measured by then, over HTTP, from a process beside the "
        "run; port 0 is a free one (after the run: `replayer metrics`)",
    )
    add(
        "--metrics-public",
        action="store_true",
        help="let --metrics be another address than a loopback one, where others can read it",
    )
    add(
        "--live",
        nargs="?",
        const="",
        metavar="ADDR:PORT",
        help="serve a page that follows the run (default: 127.0.0.1 and a free port); the link "
        "that is printed opens it in one browser, the next link in the next one",
    )
    add(
        "--live-token",
        metavar="TOKEN",
        help="what opens it in any browser, by /?token=TOKEN: needed where others reach it",
    )
    add(
        "--live-for",
        type=functools.partial(run_output.seconds, option="--live-for"),
        metavar="TIME",
        help="how long it stays with the finished report, such as 10m (default: on a terminal "
        "until Ctrl-C, else not at all)",
    )


def pass_followers_on(given: argparse.Namespace, asked: argparse.Namespace) -> None:
    """Replace the options of a run by those that were given to its caller."""
    default = argparse.ArgumentParser()
    configure_followers(default)
    for name in _GIVEN:
        value = getattr(given, name)
        if value != default.get_default(name):
            setattr(asked, name, value)
