"""Parse the words of a command line `replayer run` that plans of boots and experiments store.

A command's module is loaded by its name, because this module must not import commands.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from replayer import registry
from replayer.analysis.advice import estimates
from replayer.cli.command_parser import CommandParser
from replayer.model import Workload
from replayer.results import store
from replayer.run.plan import forecast, workload


def parse(words: Sequence[str], command: str = "run") -> argparse.Namespace:
    """Return the options in the words after a command's name; wrong words end the program."""
    parser = CommandParser(prog=f"replayer {command}", allow_abbrev=False)
    registry.load("commands", command).configure(parser)
    return parser.parse_args(words)


def workload_of(asked: argparse.Namespace) -> Workload:
    """Return the workload that the options `asked` of `replayer run` name, with its overrides.

    Raises NotFound or Impossible for a workload or a key that does not exist, or for a wrong value.
    """
    return workload.load(
        asked.workload, asked.overrides, repeat=asked.repeat, settings=asked.settings
    )


def time_of_boots(asked: argparse.Namespace, folder: Path, boots: int) -> str:
    """Return a sentence on the expected time of `boots` boots, based on earlier runs.

    Each boot makes one run with the options `asked`. The earlier runs are those in `folder`, which
    is the plan's folder, and those in the usual folder of results.
    """
    expected = forecast.expect(workload_of(asked), [folder, store.folder()])
    return estimates.time(expected, boots)
