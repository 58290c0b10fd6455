"""Words of `replayer run` that plans and variants pass on: parsed, their workload, their time.

A command's module is loaded by its name: it is above this one.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from replayer import registry
from replayer.analysis.advice import estimates
from replayer.model import Workload
from replayer.results import store
from replayer.run.plan import forecast, workload


def parse(words: Sequence[str], command: str = "run") -> argparse.Namespace:
    """Return the options of a command; the parser ends the program for words that are wrong."""
    parser = argparse.ArgumentParser(prog=f"replayer {command}", allow_abbrev=False)
    registry.load("commands", command).configure(parser)
    return parser.parse_args(words)


def workload_of(asked: argparse.Namespace) -> Workload:
    """Return the workload of parsed words; raise what `replayer run` would refuse."""
    return workload.load(
        asked.workload, asked.overrides, repeat=asked.repeat, settings=asked.settings
    )


def time_of_boots(asked: argparse.Namespace, folder: Path, boots: int) -> str:
    """Return a sentence about how long the boots take, by earlier runs in the plan's folder."""
    expected = forecast.expect(workload_of(asked), [folder, store.folder()])
    return estimates.time(expected, boots)
