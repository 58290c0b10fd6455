"""The request of a run, as sent to the database's host, with checks that both hosts do the same."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from replayer import __version__
from replayer.engines import engine as engines
from replayer.engines.engine import Engine
from replayer.errors import Impossible, ReplayerError
from replayer.model import Noun, StepSpec, WorkloadFacts
from replayer.run import step_plugin
from replayer.run.plan import workload as workload_file
from replayer.run.runner import RunRequest


class OrderMessage(Noun):
    """The request of a run, as sent to the agent (replayer process) on the database's host.

    `watched` is the name of that host.
    """

    version: str
    engine: str
    schemas: str
    """A digest of the files of this engine and of others that the server may turn out to be."""
    url: str
    """Contains the password: it travels only inside TLS."""
    workload: WorkloadFacts
    label: str
    notes: tuple[str, ...]
    tags: dict[str, str]
    watched: str
    sizing: dict[str, Any] | None
    collectors: tuple[str, ...]

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Return (name, value) of the fields to print; the password must not be printed."""
        return [("workload", self.workload.name), ("watched", self.watched)]


def written(order: RunRequest) -> bytes:
    """Return a request as the bytes to send; raise Impossible if only this host can do the run."""
    assert order.url is not None, "only a server at a URL has another host"
    refuse_staying(order)
    letter = OrderMessage(
        version=__version__,
        engine=order.engine.name,
        schemas=schemas(order.engine, order.url),
        url=order.url,
        workload=workload_file.facts(order.workload),
        label=order.label,
        notes=order.notes,
        tags=dict(order.tags),
        watched=order.watched,
        sizing=None if order.sizing is None else dict(order.sizing),
        collectors=order.collectors,
    )
    return letter.model_dump_json().encode()


def read(data: bytes) -> RunRequest:
    """Return the request of a run from the bytes of a message; it has no client hosts yet.

    Raises Impossible if this host would do something else than the asking host: because of another
    version, other files of the engine, a workload that is read differently, or a step that needs
    files which are not the server's.
    """
    try:
        keys = json.loads(data)
        _same_version(keys)
        letter = OrderMessage.model_validate(keys)
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise Impossible("the request to this host is not an order of a run") from error
    engine = engines.load(letter.engine)
    where = letter.watched
    _same("the schemas of " + engine.title, where, letter.schemas, schemas(engine, letter.url))
    workload = workload_file.of_facts(letter.workload)
    digest = workload_file.facts(workload).digest
    _same(f"the workload {workload.name}", where, letter.workload.digest, digest)
    order = RunRequest(
        workload=workload,
        engine=engine,
        label=letter.label,
        notes=letter.notes,
        tags=letter.tags,
        url=letter.url,
        sizing=letter.sizing,
        collectors=letter.collectors,
        watched=where,
    )
    refuse_staying(order)
    return order


def refuse_staying(order: RunRequest) -> None:
    """Raise Impossible if only the host where the user called replayer can do the request.

    That is so for some steps, and if the request names a data folder of this host.
    """
    for spec in order.workload.steps:
        reason = run_here_reason(spec)
        if reason:
            raise Impossible(f"{spec.name} cannot be run on {order.watched}: {reason}")
    if order.data_dir is not None:
        raise Impossible(
            f"--data-dir {order.data_dir} is a folder of this host, and the run works on "
            f"{order.watched}: leave out one of the two"
        )


def schemas(engine: Engine, url: str) -> str:
    """Return a digest of the engine's files, by which two hosts see that theirs are the same.

    The files of engines that the server at `url` may turn out to be are included. The digest has 16
    hexadecimal digits of SHA-256 over names and contents, sorted.
    """
    known = {one.name: one for one in (engine, *engines.alike(url, engine))}
    digest = hashlib.sha256()
    for name, one in sorted(known.items()):
        for level, folder in enumerate(one.folders):
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                where = f"{name}/{level}/{path.relative_to(folder)}"
                digest.update(json.dumps([where, _content(path)]).encode())
    return digest.hexdigest()[:16]


def run_here_reason(spec: StepSpec) -> str:
    """Return the reason why a step can run only on the host where the user started replayer.

    Returns "" if another host can run it.
    """
    return step_plugin.load(spec.step).run_here_reason(spec)


def _same_version(keys: Mapping[str, Any]) -> None:
    """Raise Impossible if another version of replayer wrote the message: its keys may differ."""
    version, where = str(keys["version"]), str(keys["watched"])
    if version != __version__:
        raise Impossible(
            f"{where} has replayer {__version__}, and the host that asks {version}: install the "
            f"same version on both"
        )


def _same(what: str, where: str, asked: str, here: str) -> None:
    if asked != here:
        raise Impossible(
            f"{what} on {where} (digest {here}) is not that of the host that asks ({asked}): "
            f"install the same replayer on both"
        )


def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ReplayerError(f"{path} cannot be read: {error.strerror}") from error
