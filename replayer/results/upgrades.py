"""Upgrades of results from one format to the next: dicts of parsed JSON, in and out.

Older formats put some facts into names.  Upgrades move these into the fields that hold them now.
Names of steps appear here because the older files contain them.
"""

from collections.abc import Mapping
from typing import Any

_WROTE = ("build", "flush")


def from_1(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a result of format 1 as format 2.

    Facts whose key has a special ending, such as .steady, become fields.  Advice gets two parts.
    """
    steps = [_step_from_1(step, keys["host"]) for step in keys["steps"]]
    advice = [{"found": text, "todo": ""} for text in keys.get("advice", ())]
    return {**keys, "format": 2, "steps": steps, "advice": advice}


def _step_from_1(step: dict[str, Any], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step of format 1 as format 2; `host` are the facts of its machine."""
    facts, spec = dict(step.get("facts") or {}), step["spec"]
    printed: dict[str, list[str]] = {}
    steady = None
    for key, value in step.get("facts", {}).items():
        name, _, meaning = key.rpartition(".")
        if meaning == "line":
            printed[name] = [facts.pop(key)]
        elif meaning == "lines":
            printed[name] = facts.pop(key)
        elif meaning == "steady":
            settled = None if value.startswith("too short") else value == "steady"
            steady = {"settled": settled, "words": facts.pop(key)}
    wrote = bool(facts.pop("storage.writes", False)) or step["step"] in _WROTE
    updated = step["step"] == "sessions" and spec.get("update_pct") != 0
    return {
        **step,
        "measurements": [_measurement_from_1(one) for one in step["measurements"]],
        "facts": facts,
        "printed": printed,
        "steady": steady,
        "reads": _reads_from_1(step, host),
        "writes": wrote or updated,
    }


def _measurement_from_1(one: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement of format 1 as format 2.

    The passes of the probe `cpu` get the unit "passes/s"; format 1 counted them as sysbench's
    events.
    """
    passes = str(one.get("metric")).startswith("cpu.events.")
    return {**one, "unit": "passes/s"} if passes else one


def _reads_from_1(step: Mapping[str, Any], host: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the field `reads` of a step in format 2, which has the device's reads per second.

    Only two kinds of steps measured them: sessions whose reads came from the device, and walks with
    cold caches.  Returns None for other steps, and if the block size or the device is not known.
    """
    ledger, cold, spec = step.get("ledger") or {}, step.get("cold") or {}, step["spec"]
    values = {one["metric"]: one["value"] for one in step["measurements"]}
    block = step.get("facts", {}).get("block_size_bytes")
    device = ledger.get("device", host.get("device.name"))
    if not isinstance(block, int) or not isinstance(device, str):
        return None
    reads = {"block_bytes": block, "device": device}
    riops, iops = values.get("sessions.riops"), values.get("walk.iops")
    if riops and ledger.get("verdict") == "physical":
        depth = spec["num_schemas"] * spec["num_threads"]
        return {**reads, "per_second": riops, "depth": depth, "access": "random"}
    if iops and cold.get("got") == "cold":
        return {**reads, "per_second": iops, "depth": spec["threads"], "access": "sequential"}
    return None


def from_2(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a result of format 2 as format 3: the metrics in `headline` move to `leading`."""
    if isinstance(keys.get("headline", ()), str):
        return {**keys, "format": 3}
    metrics = {"leading": keys["headline"]} if "headline" in keys else {}
    others = {name: value for name, value in keys.items() if name != "headline"}
    return {**others, **metrics, "format": 3}
