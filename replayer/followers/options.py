"""The options for the followers of a run (terminal, live page, metrics), and its time limit."""

import argparse

from replayer.report.terminal import run_output

_GIVEN = ("progress", "timeout", "metrics", "metrics_public", "live", "live_token", "live_for")
"""The names under which `configure_followers` stores the options."""


def configure_followers(parser: argparse.ArgumentParser) -> None:
    """Add the options for the run's followers (terminal, live page, metrics) and its time limit."""
    add = parser.add_argument_group("progress, live page and time limit").add_argument
    add(
        "--progress",
        choices=sorted(run_output.FORMS),
        default="auto",
        help=(
            "the form of progress on stderr: bars, lines, one JSON object per line, or none "
            "(default: bars on a terminal, else lines)"
        ),
    )
    add(
        "--timeout",
        type=run_output.seconds,
        metavar="TIME",
        help="stop after this time, such as 2h; all measurements up to then are kept",
    )
    add(
        "--metrics",
        metavar="ADDR:PORT",
        help=(
            "serve the metrics of the run for Prometheus over HTTP, from a separate process; port"
            " 0 is any free port (after the run: `replayer metrics`)"
        ),
    )
    add(
        "--metrics-public",
        action="store_true",
        help="allow an address for --metrics that other hosts can reach",
    )
    add(
        "--live",
        nargs="?",
        const="",
        metavar="ADDR:PORT",
        help=(
            "serve a page that follows the run (default: 127.0.0.1 and a free port); the printed "
            "link opens it in one browser, and then a link for the next browser is printed"
        ),
    )
    add(
        "--live-token",
        metavar="TOKEN",
        help=(
            "a password for the page: /?token=TOKEN opens it in any browser; required if other "
            "hosts can reach the page"
        ),
    )
    add(
        "--live-for",
        type=run_output.seconds,
        metavar="TIME",
        help=(
            "how long the page stays with the finished report, such as 10m (default: on a "
            "terminal until Ctrl-C, else not at all)"
        ),
    )


def pass_followers_on(given: argparse.Namespace, asked: argparse.Namespace) -> None:
    """Copy the options of `configure_followers` that the user gave from `given` to `asked`.

    `given` are the arguments of a command that starts a run, and `asked` are the arguments of that
    run.
    """
    for name, value in given_followers(given).items():
        setattr(asked, name, value)


def given_followers(given: argparse.Namespace) -> dict[str, object]:
    """Return name -> value of the options of `configure_followers` that the user gave."""
    default = argparse.ArgumentParser()
    configure_followers(default)
    values = {name: getattr(given, name) for name in _GIVEN}
    return {name: value for name, value in values.items() if value != default.get_default(name)}
