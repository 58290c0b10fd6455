"""fio's JSON (--output-format=json or json+): every job is a step, reads and writes apart."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from replayer.errors import Impossible
from replayer.imports import Sheaf
from replayer.model import Better, Latency, Measurement, Status, StepResult
from replayer.results import imported
from replayer.results.imported import measured

_PERCENTILES = {"50": "p50", "95": "p95", "99": "p99", "99.9": "p999"}
_HIGHEST_NS = 3_600_000_000_000


def read(path: Path, label: str) -> Sheaf:
    """Return the file's run."""
    keys = _json(path)
    # From several hosts (--client) fio writes client_stats, with their sum after them.
    jobs = keys.get("jobs", keys.get("client_stats"))
    if not isinstance(jobs, list) or not jobs or "fio version" not in keys:
        raise Impossible(f"{path} is no output of fio: it needs --output-format=json")
    names: dict[str, int] = {}
    steps, unread = [], []
    for number, job in enumerate(jobs, start=1):
        if isinstance(job, dict) and job.get("jobname") == "All clients":
            continue
        try:
            steps.append(_step(job, names, keys))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            unread.append(f"{path}: job {number} cannot be read: {type(error).__name__} {error}")
    if not steps:
        raise Impossible(f"{path}: none of its jobs can be read ({unread[0]})")
    run = imported.run(
        "fio",
        path,
        label,
        1,
        steps=steps,
        name="fio",
        specs=[step.spec for step in steps],
        started=steps[0].started,
        finished=_stamp(keys.get("timestamp_ms"), keys.get("timestamp")) or "",
    )
    return Sheaf((run,), tuple(unread))


def _json(path: Path) -> dict[str, Any]:
    text = imported.text(path)
    # Captured from a terminal, warnings of fio come before the JSON.
    begin = re.search(r"^\{", text, re.MULTILINE)
    try:
        keys = json.loads(text[begin.start() :] if begin else text)
    except ValueError as error:
        raise Impossible(f"{path} is no JSON of fio, or it is cut off: {error}") from error
    if not isinstance(keys, dict):
        raise Impossible(f"{path} is no output of fio: it needs --output-format=json")
    return keys


def _step(job: Mapping[str, Any], names: dict[str, int], keys: Mapping[str, Any]) -> StepResult:
    """Return a job's step; jobs that run side by side under one name are told apart by a number."""
    name = str(job["jobname"])
    names[name] = names.get(name, 0) + 1
    if names[name] > 1:
        name = f"{name}-{names[name]}"
    error = int(job.get("error", 0))
    latency = dict(_latencies(job))
    return StepResult(
        step="fio",
        name=name,
        repeat=1,
        status=Status.FAILED if error else Status.DONE,
        reason=f"fio's job {name} ended with error {error}" if error else "",
        started=_stamp(job.get("job_start"), None) or "",
        elapsed=float(job.get("job_runtime", 0)) / 1000,
        spec={"step": "fio", "name": name, **_options(keys, job)},
        measurements=tuple(_measurements(job)),
        latency=latency,
        facts={"version": str(keys["fio version"])},
    )


def _options(keys: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    options = {**keys.get("global options", {}), **job.get("job options", {})}
    return {key: str(value) for key, value in options.items() if key not in ("name", "step")}


def _measurements(job: Mapping[str, Any]) -> Iterator[Measurement]:
    for kind in ("read", "write", "trim"):
        side = job.get(kind, {})
        if not side.get("total_ios"):
            continue
        yield measured(f"fio.{kind}.iops", float(side["iops"]), "1/s")
        yield measured(f"fio.{kind}.throughput", float(side["bw_bytes"]), "bytes/s")
        latency = side.get("clat_ns", {})
        known = {f"{float(p):g}": ns for p, ns in latency.get("percentile", {}).items()}
        for percent, name in _PERCENTILES.items():
            if percent in known:
                value = float(known[percent]) / 1e9
                yield measured(f"fio.{kind}.latency.{name}", value, "s", Better.LESS)
        if latency.get("N"):
            yield measured(f"fio.{kind}.latency.max", float(latency["max"]) / 1e9, "s", Better.LESS)
    for kind, key in (("user", "usr_cpu"), ("system", "sys_cpu")):
        if key in job:
            yield measured(f"fio.cpu.{kind}", float(job[key]), "%", Better.LESS)


def _latencies(job: Mapping[str, Any]) -> Iterator[tuple[str, Latency]]:
    """Yield the histograms of json+, whose bins are nanoseconds and how often."""
    for kind in ("read", "write", "trim"):
        bins = job.get(kind, {}).get("clat_ns", {}).get("bins")
        if bins:
            histogram = HdrHistogram(1, _HIGHEST_NS, 3)
            for value, count in bins.items():
                histogram.record_value(max(1, int(value)), int(count))
            payload = histogram.encode().decode("ascii")
            yield kind, Latency(payload=payload, operations=int(histogram.get_total_count()))


def _stamp(milliseconds: object, seconds: object) -> str | None:
    if isinstance(milliseconds, int):
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    if isinstance(seconds, int):
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    return None
