"""What all imports have in common: other tools' files as text, and runs made of what they say."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from replayer import __version__
from replayer.errors import Impossible
from replayer.model import Better, Fact, Measurement, Run, Status, StepResult, WorkloadFacts
from replayer.results.store import FORMAT

_LARGEST = 256 << 20


def text(path: Path) -> str:
    """Return a file's text; raise Impossible if it cannot be read, is no text or too large."""
    try:
        if path.stat().st_size > _LARGEST:
            raise Impossible(
                f"{path} has {path.stat().st_size} bytes: no tool's report is so large"
            )
        data = path.read_bytes()
    except OSError as error:
        raise Impossible(f"{path} cannot be read: {error.strerror}") from error
    if b"\0" in data:
        raise Impossible(f"{path} is no text")
    return data.decode("utf-8", errors="replace")


def measured(metric: str, value: float, unit: str, better: Better = Better.MORE) -> Measurement:
    """Return a measurement."""
    return Measurement(metric=metric, value=value, unit=unit, better=better)


def run(
    tool: str,
    path: Path,
    label: str,
    number: int,
    *,
    steps: Sequence[StepResult],
    name: str,
    specs: Sequence[Mapping[str, Any]],
    host: Mapping[str, Fact] | None = None,
    started: str = "",
    finished: str = "",
    advice: Sequence[str] = (),
) -> Run:
    """Return a run made of a file; its id comes from the bytes, so that there is only one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:10]
    failed = [step for step in steps if step.status is Status.FAILED]
    return Run(
        format=FORMAT,
        id=f"import-{tool}-{digest}-{number}",
        version=__version__,
        label=label,
        started=started,
        finished=finished,
        status=Status.FAILED if failed else Status.DONE,
        error=failed[0].reason if failed else "",
        host=dict(host or {}),
        engine=None,
        workload=WorkloadFacts(
            name=name,
            source=f"imported from {tool}: {path.name}",
            digest="",
            repeat=max((step.repeat for step in steps), default=1),
            settings={},
            steps=tuple(dict(spec) for spec in specs),
        ),
        steps=tuple(steps),
        advice=tuple(advice),
    )


def quoted(line: str) -> str:
    """Return the start of a line, for a sentence about it."""
    words = " ".join(line.split())
    return words if len(words) <= 60 else f"{words[:59]}…"
