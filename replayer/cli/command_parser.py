"""The parser with every command, each of which is imported when it is asked for."""

import argparse
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from replayer import __version__, registry
from replayer.errors import nearest

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


def parser() -> argparse.ArgumentParser:
    """Return the parser with every command of the commands package."""
    top = CommandParser(
        prog="replayer",
        description=ABOUT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"replayer {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
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


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, whose module is imported when the command is asked for."""

    load: Callable[[], ModuleType] | None = None

    def prepare(self) -> None:
        """Let the command add its arguments, if it did not yet."""
        if self.load is not None:
            module, self.load = self.load(), None
            module.configure(self)
            self.set_defaults(perform=module.run)  # "run" is what some arguments are called

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices, with the nearest instead of all of them."""
        if action.choices is not None and value not in action.choices:
            near = nearest(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"there is no {value!r}{near}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Let the command add its arguments, and parse."""
        self.prepare()
        return super().parse_known_args(args, namespace)


def every(parent: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command below a parser with its whole name; all of their modules are imported."""
    for action in parent._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for one in action.choices.values():
                if isinstance(one, CommandParser):
                    one.prepare()
                yield one.prog, one
                yield from every(one)
