"""The forecast of a run: its steps, the disk of their data, the bytes on it, and the duration.

Nothing is started and nothing is written, not even replayer's own folder. A server at a URL is
asked for the folder of its files.
"""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from replayer import journal, registry, trusted_path
from replayer.analysis.advice import estimates
from replayer.analysis.advice.estimates import Expectation, Known
from replayer.errors import Impossible, ReplayerError
from replayer.machine.free_space import NO_LIMIT, free_bytes, nearest_folder
from replayer.machine.host import Host
from replayer.model import Run, StepSpec, Workload
from replayer.run import step_plugin
from replayer.run.event_stream.events import Planned, PlannedSteps
from replayer.run.plan import footprint, workload
from replayer.run.plan.workload import turns
from replayer.run.runner import RunRequest
from replayer.servers import programs, remote, setting_names
from replayer.servers.data_folder import DataFolder
from replayer.storage.files import check_parent

_SAID = frozenset({"step", "name", "once", "probe"})
"""Keys of a step that are not listed again, as another part of the step's line shows them."""


@dataclass(frozen=True)
class StepForecast:
    """One step: what it does, how often, what its data takes on disk, how long it takes.

    `times` is the number of its executions in the run.
    """

    name: str
    step: str
    about: str
    keys: dict[str, Any]
    """The keys that the workload sets."""
    times: int
    disk_bytes: int
    known: Known
    """The seconds of one execution, and their source."""


@dataclass(frozen=True)
class Disk:
    """The disk that the data is or will be on: its folder, device, file system and free bytes.

    The free bytes are None if they are not known or not limited.
    """

    where: str
    device: str = ""
    file_system: str = ""
    free_bytes: int | None = None


@dataclass(frozen=True)
class Forecast:
    """The expected steps, disk space and duration of one run, or of one boot in a plan of boots.

    `repeat` is how often the steps run. `disk_bytes` is of all steps together: data that steps
    share counts once.
    """

    workload: str
    server: str
    repeat: int
    disk: Disk
    parts: tuple[StepForecast, ...]
    disk_bytes: int
    expected: Expectation

    def as_json(self) -> dict[str, Any]:
        """Return the forecast as a dictionary for JSON."""
        return asdict(self)


def forecast(order: RunRequest, folders: Sequence[Path]) -> Forecast:
    """Return the forecast of a run; the durations follow from earlier runs in `folders`.

    Raises ReplayerError for a server at a URL that does not answer, and Impossible if a step cannot
    be done with the files that it names.
    """
    asked = order.workload
    for spec in asked.steps:
        step_plugin.load(spec.step).check_files(spec)
    if order.needs_database and order.url is None:
        engine = order.engine
        programs.refuse_missing(engine.title, engine.spec.server, order.bindir)
        setting_names.refuse_mistyped_before(
            engine.title, engine.spec.server, order.bindir, asked.settings
        )
    runs = _here(estimates.earlier(folders, asked.name))
    prints = [footprint.estimate(spec, order.engine.block_size) for spec in asked.steps]
    parts = tuple(
        _part(asked, number, 0 if taken is None else taken.disk_bytes, runs)
        for number, taken in enumerate(prints)
    )
    return Forecast(
        workload=asked.name,
        server=_server(order),
        repeat=asked.repeat,
        disk=_disk(order),
        parts=parts,
        disk_bytes=footprint.disk_bytes(filter(None, prints)),
        expected=_expected(asked, runs),
    )


def check_folders(order: RunRequest) -> None:
    """Raise Impossible if the run would refuse replayer's own folder or the folder of its data.

    Nothing is made, also not to try it.  A run without steps uses no data.
    """
    journal.check_home()
    if order.data_dir is None or order.url is not None or not order.workload.steps:
        return
    if not order.needs_database:
        check_parent(order.data_dir)
        return
    DataFolder(trusted_path.real(order.data_dir)).check(None)


def check_results(where: Path) -> None:
    """Raise Impossible if no result can be stored in a folder; the folder is not made."""
    there = where if os.path.lexists(where) else where.parent
    if reason := trusted_path.refusal(there):
        raise Impossible(
            f"the result cannot be stored in {where}: {reason}; "
            f"give a folder that you may write with --results"
        )


def expect(asked: Workload, folders: Iterable[Path]) -> Expectation:
    """Return the expected duration (in seconds) and number of metrics of one run of a workload.

    They follow from earlier runs, whose results are in `folders`, and from the steps' keys.
    """
    return _expected(asked, estimates.earlier(folders, asked.name))


def _expected(asked: Workload, runs: Sequence[Run]) -> Expectation:
    return estimates.expect(workload.facts(asked), runs, [spec.lasts() for spec in asked.steps])


def plan(order: RunRequest, folders: Sequence[Path]) -> PlannedSteps:
    """Return the steps of a run in order, each with its expected duration on this machine.

    The duration is that of the newest run in `folders` that did the same step.  Without such a run
    it follows from the keys of the step, or is None.  The programs that watch a run show this list.
    """
    workload = order.workload
    runs = _here(estimates.earlier(folders, workload.name))
    keys = [spec.model_dump(mode="json") for spec in workload.steps]
    known = {
        spec.name: estimates.took(keys[number], runs, spec.lasts(), keys[:number])
        for number, spec in enumerate(workload.steps)
    }
    planned = enumerate(turns(workload), 1)
    return PlannedSteps(
        steps=tuple(
            Planned(
                number=number,
                name=spec.name,
                repeat=repeat,
                step=spec.step,
                about=_about(spec),
                seconds=known[spec.name].seconds,
                source=known[spec.name].source,
            )
            for number, (repeat, spec) in planned
        )
    )


def _about(spec: StepSpec) -> str:
    kind, name = ("probes", str(spec.probe)) if hasattr(spec, "probe") else ("steps", spec.step)
    words = step_plugin.load(spec.step).describe(spec)
    return words or registry.about(kind, name.replace("-", "_")).partition("\n")[0].rstrip(".")


def _here(runs: Iterable[Run]) -> list[Run]:
    """Return only those runs that were made on this machine, known by its host name."""
    return [run for run in runs if run.host.get("host.name") == platform.node()]


def _part(asked: Workload, number: int, disk_bytes: int, runs: Sequence[Run]) -> StepForecast:
    spec = asked.steps[number]
    own, *before = (s.model_dump(mode="json") for s in (spec, *asked.steps[:number]))
    keys = spec.model_dump(mode="json", exclude_defaults=True)
    return StepForecast(
        name=spec.name,
        step=spec.step,
        about=_about(spec),
        keys={key: value for key, value in keys.items() if key not in _SAID},
        times=1 if spec.once else asked.repeat,
        disk_bytes=disk_bytes,
        known=estimates.took(own, runs, spec.lasts(), before),
    )


def _server(order: RunRequest) -> str:
    if not order.needs_database:
        return "no database"
    if order.url is None:
        return f"{order.engine.title}, a server of replayer's own"
    return f"{order.engine.title}, the server at the URL"


def _disk(order: RunRequest) -> Disk:
    if order.needs_database and order.url is not None:
        server = remote.located(order.engine, order.url, ask=order.ask)
        folder = server.data_directory()
        return (
            Disk(f"the server's disk ({server.explain_missing_files().why})")
            if folder is None
            else _on(folder)
        )
    named = (getattr(spec, "device", None) for spec in order.workload.steps)
    devices = {str(device) for device in named if device}
    if devices and not order.needs_database:
        return Disk(", ".join(sorted(devices)))
    return _on(order.data_dir or journal.place() / "data")


def _on(folder: Path) -> Disk:
    """Return the disk of a folder that need not exist yet."""
    host, there = Host(), nearest_folder(folder.absolute())
    mount = host.mount_of(there)
    try:
        free: int | None = free_bytes(there)
    except ReplayerError:
        free = None
    return Disk(
        where=str(folder),
        device=host.device_of(there) or "",
        file_system=mount.type if mount else "",
        free_bytes=None if free == NO_LIMIT else free,
    )
