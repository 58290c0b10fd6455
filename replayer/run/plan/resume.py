"""Resume an interrupted run: do its missing steps, and add their results to the same file.

Machine, boot and database must be the same as before: otherwise a difference between the two parts
of the run would look like random variation.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import __version__
from replayer.analysis.differences.environment import Sort, differences
from replayer.errors import Impossible
from replayer.model import Status
from replayer.run.plan import workload as workload_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replayer.model import EngineFacts, Fact, Run, StepSpec, Workload

_WHOLE = frozenset({Status.DONE, Status.SKIPPED})
_SAME_HOST = {
    "host.name": "the machine",
    "boot.id": "the boot",
    "data.directory": "the data folder",
    "fs.mount_point": "the file system",
    "device.name": "the disk",
}
_NEEDED = ("host.name", "boot.id")
_OF_THE_MOMENT = frozenset({"host.cpu.mhz"})
"""Facts that are read at one instant and change all the time, although comparisons show them."""
_MOST_NAMED = 3
_PLACES = {"private": "a server of replayer's own", "url": "the server at a URL"}
_ANOTHER_PLACE = "{id} cannot be taken up: its database was {place}, so give --engine as before"


def workload_of(run: Run) -> Workload:
    """Return the workload of a run to be resumed; raise Impossible if it cannot be resumed.

    That is so for a run that was imported, sized a machine, had several hosts, or was made by
    another version of replayer.
    """
    if run.sizing is not None:
        raise Impossible(
            f"{run.id} sized a machine, where each step follows from the last: size it again"
        )
    if run.cluster:
        raise Impossible(
            f"{run.id} had several hosts, and only a run on one is taken up: run it again"
        )
    if run.id.startswith("import-"):
        raise Impossible(
            f"{run.id} was imported: replayer did not run it, and cannot go on with it"
        )
    if run.version != __version__:
        raise Impossible(
            f"{run.id} is of replayer {run.version}, and this is {__version__}, which may measure "
            f"otherwise: run it again"
        )
    return workload_file.of_facts(run.workload)


def begun(run: Run) -> Run:
    """Return a run as it is when it is resumed: running, with only its done and skipped steps."""
    return run.model_copy(
        update={
            "status": Status.RUNNING,
            "error": "",
            "finished": None,
            "advice": (),
            "steps": tuple(step for step in run.steps if step.status in _WHOLE),
            "resumed": (*run.resumed, datetime.now(UTC).isoformat(timespec="seconds")),
        }
    )


def missing(run: Run, planned: Iterator[tuple[int, StepSpec]]) -> Iterator[tuple[int, StepSpec]]:
    """Yield those pairs (repeat, step) of `planned` that the run has neither done nor skipped."""
    done = {(step.repeat, step.name) for step in run.steps if step.status in _WHOLE}
    return ((repeat, spec) for repeat, spec in planned if (repeat, spec.name) not in done)


def data_folder(run: Run) -> Path | None:
    """Return the folder of a run's probes, or of its private server; None if it is not known.

    It is not known for a server at a URL, and in older results.
    """
    if run.engine is None:
        folder = run.host.get("data.directory")
        return Path(folder) if isinstance(folder, str) else None
    directory = run.engine.facts.get("data.directory")
    private = run.engine.place == "private" and isinstance(directory, str)
    # The server's own directory is inside the folder that --data-dir names.
    return Path(str(directory)).parent if private else None


def engine_name(run: Run, given: str) -> str:
    """Return the engine of a run to be resumed: `given`, or else that of the run; "" without one.

    Raises Impossible for the name of another engine, and without one if the run's database was at a
    URL: its password was not stored.
    """
    if run.engine is None or "://" in given:
        return given
    if not given and run.engine.place == "url":
        raise Impossible(_ANOTHER_PLACE.format(id=run.id, place=_PLACES["url"]))
    if given and given != run.engine.name:
        raise Impossible(
            f"{run.id} cannot be taken up: its database was {run.engine.name} and not {given}: "
            f"leave out --engine"
        )
    return run.engine.name


def refuse_other_host(run: Run, host: Mapping[str, Fact]) -> None:
    """Raise Impossible if this is not the machine of the run, or if the machine has changed.

    `host` has the facts of this machine and of the folder of the data. It must be the same machine,
    boot and disk, and every fact that may explain a difference of measured values must be the same,
    such as the governor or the mount options. What replayer itself changed in the run does not
    count, as it was changed back before. Results of older versions do not have the data's folder.
    """
    for key, what in _SAME_HOST.items():
        before, now = run.host.get(key), host.get(key)
        known = before is not None or key != "data.directory"
        if (known and before != now) or (now is None and key in _NEEDED):
            raise Impossible(
                f"{run.id} cannot be taken up: {what} is another one ({key} was {before} and is "
                f"{now}): run it again"
            )
    changed = _changed(run, run.model_copy(update={"host": dict(host)}), Sort.EXPLAINS)
    if changed:
        raise Impossible(
            f"{run.id} cannot be taken up: {'; '.join(changed)}: set the machine as it was, or run "
            f"it again"
        )


def _changed(run: Run, now: Run, sort: Sort) -> list[str]:
    """Return a text with both values for each fact of a sort that differs between `run` and `now`.

    Only the first three facts are in full; the last text has the number of all others.
    """
    changed = [
        one
        for one in differences([run], [now])
        if one.sort is sort and one.key not in _OF_THE_MOMENT
    ]
    named = [f"{one.key} was {one.base[0]} and is {one.other[0]}" for one in changed[:_MOST_NAMED]]
    more = len(changed) - len(named)
    return [*named, *([f"{more} more facts differ"] if more else [])]


def refuse_other_engine(run: Run, engine: EngineFacts | None) -> None:
    """Raise Impossible if the database is not the one that the run had before it was interrupted.

    Its version, place, settings and data must be the same. `engine` describes the present database,
    None if the run has none.
    """
    if run.engine is None:
        # It was cut before its server had started: nothing was measured there.
        return
    if engine is None or run.engine.place != engine.place:
        raise Impossible(_ANOTHER_PLACE.format(id=run.id, place=_PLACES[run.engine.place]))
    named = _changed(run, run.model_copy(update={"engine": engine}), Sort.REFUSED)
    before, after = run.engine.facts, engine.facts
    named += [
        f"{key} was {before.get(key)} and is {after.get(key)}"
        for key in ("data.directory", "server.host")
        if before.get(key) != after.get(key)
    ]
    if named:
        raise Impossible(
            f"{run.id} cannot be taken up: {'; '.join(named)}: use the server as it was, or run it "
            f"again"
        )
