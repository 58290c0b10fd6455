"""What somebody typed of an engine and its places -> the order of a run."""

import getpass
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from replayer.engines import engine, environment
from replayer.model import Workload
from replayer.run.runner import Order


def ordered(
    workload: Workload,
    named: str,
    *,
    label: str = "",
    bindir: Path | None = None,
    data_dir: Path | None = None,
    sizing: Mapping[str, Any] | None = None,
) -> Order:
    """Return the order of a run on an engine: its name, the URL of a server, or "" for the default.

    Raises NotFound or Impossible for an engine that is not there.
    """
    url = named if "://" in named else environment.url(named)
    chosen = engine.of_url(named) if "://" in named else engine.load(named or engine.default())
    return Order(
        workload=workload,
        engine=chosen,
        label=label,
        url=url,
        bindir=bindir,
        data_dir=data_dir,
        ask=asker(),
        sizing=sizing,
    )


def asker() -> Callable[[str], str] | None:
    """Return what asks for a password where somebody sits at a terminal, else None."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None
