"""argv -> the one command asked for -> exit status; the only place that catches ReplayerError."""

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from replayer import __version__, command_line, errors, registry, signals, streams
from replayer.errors import Interrupted

ABOUT = """\
A database-realistic workload replayer: run the same database work on two machines and learn
whether the database will run the same there, with proof for every number.
"""
EPILOG = """\
examples:
  replayer check                    what this machine allows
  replayer run                      the main job, on a PostgreSQL that replayer brings along
  replayer run smoke                the same at small scale, in seconds
  replayer show latest              the report of the last run
  replayer size prod.profile        whether a database fits on this machine
exit status: 0 done, 1 failed while running, 2 impossible request, 3 compared and found worse or
sized and too small, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run replayer with these arguments, or the process's own, and return its exit status."""
    # Before a command's module is loaded, which takes its time: `ps` shows what stands there.
    arguments = command_line.hidden(sys.argv[1:] if argv is None else argv)
    # Before anything is opened: it would take the place of a stream that is closed.
    with streams.guarded():
        signals.install()
        try:
            return _performed(arguments)
        except BrokenPipeError:
            # The reader of our output went away (`| head`): nothing is left to say to it.
            return 0
        except (Exception, Interrupted) as error:
            reason = signals.interruption() or errors.expected(error)
            if reason is None:
                raise
            print(f"replayer: error: {printable(str(reason))}", file=sys.stderr)  # noqa: T201
            return reason.status


def _performed(arguments: Sequence[str]) -> int:
    try:
        args = parser().parse_args(arguments)
        status: int = args.perform(args)
    except SystemExit:  # the parser has printed help, or what is wrong
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def parser() -> argparse.ArgumentParser:
    """Return the parser with every command of the commands package."""
    top = argparse.ArgumentParser(
        prog="replayer",
        description=ABOUT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"replayer {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=_Command)
    for name in registry.names("commands"):
        about = registry.about("commands", name)
        command = commands.add_parser(
            name,
            help=about.splitlines()[0].rstrip("."),
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.load = functools.partial(registry.load, "commands", name)
    return top


class _Command(argparse.ArgumentParser):
    """The parser of a command, whose module is imported when the command is asked for."""

    load: Callable[[], ModuleType] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Let the command add its arguments, and parse."""
        if self.load is not None:
            module, self.load = self.load(), None
            module.configure(self)
            self.set_defaults(perform=module.run)  # "run" is what some arguments are called
        return super().parse_known_args(args, namespace)


def printable(text: str) -> str:
    """Return text in which no control character can reach a terminal, on one line."""
    return "".join(c if c.isprintable() else " " for c in text)


if __name__ == "__main__":
    sys.exit(main())
