"""The command-line parser: it has every command, and imports a command's module on first use."""

import argparse
import difflib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from replayer import __version__, assets, registry
from replayer.cli import run_options
from replayer.errors import Impossible, nearest

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

_NUMBERS: dict[Any, str] = {int: "a whole number, such as 3", float: "a number, such as 1.5"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program `replayer`, which has a parser for each of its commands."""
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
            allow_abbrev=False,
        )
        command.load = functools.partial(registry.plugin, "commands", name)
    return top


class CommandParser(argparse.ArgumentParser):
    """The parser of one command; it imports the command's module only if the command is used."""

    load: Callable[[], Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a parser as argparse does; but a word such as -3s is a value, and no option."""
        super().__init__(*args, **kwargs)
        # Argparse takes only -3 or -0.5 for a value, and reports that of -3s as missing.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def prepare(self) -> None:
        """Import the command's module and add the command's arguments, unless that is done already.

        It does nothing for the parser of the whole program.
        """
        if self.load is not None:
            command, self.load = self.load(), None
            self.epilog = command.EPILOG
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            command.configure(self)
            self.set_defaults(perform=command.run)  # not "run": some arguments have that name

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and which command shows the help, in two lines, and exit with 2."""
        command = self.prog.removeprefix("replayer").strip()
        # `help` knows commands, not what stands below one.
        where = f"{self.prog} --help" if " " in command else f"replayer help {command}".rstrip()
        self.exit(2, f"{self.prog}: error: {message}\n`{where}` shows what it takes\n")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the converted values of an argument; raise Impossible if one of them is empty.

        A shell makes an empty value of a variable that is not set.  It must not be taken for an
        option that is not given, or for the current folder.  Choices are checked later, and the
        types in `run_options.MAY_BE_EMPTY` give an empty value a meaning.
        """
        types = run_options.MAY_BE_EMPTY
        if "" in arg_strings and action.choices is None and action.type not in types:
            reason = "it is empty"
            if action.option_strings:
                given = action.metavar or action.dest.upper()
                reason += f"; give {given if isinstance(given, str) else ' '.join(given)}"
                reason += "" if action.required else ", or leave it out"
            raise Impossible(f"{_name(action)} '': {reason}")
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return an argument's value, converted to its type.

        If the text is not a number but must be one, the error describes the expected number in
        plain words.  An Impossible of the argument's type is raised again with the option's name.
        """
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if action.type in _NUMBERS:
                error.message = f"{arg_string!r} must be {_NUMBERS[action.type]}"
            raise
        except Impossible as error:
            raise Impossible(f"{_name(action)} {arg_string}: {error}") from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError if `value` is not one of the argument's choices.

        Its message suggests only the most similar choice.  Any value is right for an argument
        without choices.
        """
        if action.choices is not None and value not in action.choices:
            if action.metavar == "COMMAND" and value in assets.workloads():
                raise argparse.ArgumentError(
                    action, f"{value!r} is a workload, and no command: `{self.prog} run {value}`"
                )
            near = nearest(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"there is no {value!r}{near}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Add the command's arguments if that is not done yet, then parse as argparse does.

        An unknown option ends the program with status 2 here, in the parser of the command, so that
        the message names that command's help.
        """
        self.prepare()
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return known, unknown

    def _meant(self, unknown: Sequence[str]) -> str:
        """Return a question that suggests options similar to the arguments `unknown`.

        It is "" if no option is similar.
        """
        options = [option for option in self._option_string_actions if option.startswith("--")]
        close = [
            match
            for one in unknown
            if one.startswith("-")
            for match in difflib.get_close_matches(one.partition("=")[0], options, n=1)
        ]
        return f" - did you mean {' '.join(close)}?" if close else ""


def _name(action: argparse.Action) -> str:
    return str((*action.option_strings, action.metavar)[0])


def every(parent: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield (full name, parser) of each command below a parser; import the modules of all."""
    for action in parent._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for one in action.choices.values():
                if isinstance(one, CommandParser):
                    one.prepare()
                yield one.prog, one
                yield from every(one)
