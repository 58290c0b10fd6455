"""Uses and limits of a level's resources, as rows of a result's tables."""

import math
from typing import Any

from replayer.analysis.capacity.saturation import LevelPoint, Load
from replayer.load.level import LevelResult
from replayer.load.resources import LOCKS, LOG
from replayer.watch.histogram import Latencies


def level_columns(point: LevelPoint, level: LevelResult, times: Latencies | None) -> dict[str, Any]:
    """Return a level's throughput, times and uses as columns of a row.

    `times` has the times of its statements; None if they have no meaning, which leaves their
    columns empty.
    """
    use, device = level.use, level.use.device
    seconds = max(1e-9, device.seconds) if device else 1.0
    return {
        "throughput_per_second": round(point.throughput, 3),
        "p50_s": _time(times, 50),
        "p95_s": _time(times, 95),
        "p99_s": _time(times, 99),
        "processors": use.processors,
        "user_cores": round(use.user, 3),
        "system_cores": round(use.system, 3),
        "steal_cores": round(use.steal, 3),
        "server_cores": _rounded(use.server, 3),
        "client_cores": round(use.client, 3),
        "reads_per_second": None if device is None else round(device.reads / seconds, 1),
        "writes_per_second": None if device is None else round(device.writes / seconds, 1),
        "read_bytes_per_second": None if device is None else round(device.read_bytes / seconds),
        "write_bytes_per_second": None if device is None else round(device.write_bytes / seconds),
        "others_read_share": _others(level),
        "misses_per_second": _rounded(level.activity.rate("reads"), 1),
        "flushes_per_second": _rounded(level.activity.rate("wal_flushes"), 1),
        "log_share": _share(point, LOG),
        "row_lock_share": _share(point, LOCKS),
        "hit_share": _rounded(level.hit_ratio, 4),
        "memory_bytes": use.memory_bytes,
        "little_share": round(point.little, 4),
    }


def resource_columns(load: Load) -> dict[str, Any]:
    """Return columns of a resource: its demand, the throughput that it allows, and how busy it was.

    The demand is the amount of the resource that one statement uses.
    """
    busiest = load.busiest
    interval = busiest if busiest is not None and math.isfinite(busiest.high) else None
    return {
        "resource": load.name,
        "demand": load.demand.value if load.demand else None,
        "unit": f"{load.unit} / (1/s)" if load.demand else load.unit,
        "bound_per_second": load.bound,
        "busiest_share": busiest.value if busiest else None,
        "low_share": interval.low if interval else None,
        "high_share": interval.high if interval else None,
        "ceiling": load.ceiling or ("" if busiest else "not known"),
    }


def _others(level: LevelResult) -> float | None:
    """Return the share of the device's read bytes that other processes read; None if unknown."""
    others, device = level.use.foreign, level.use.device
    if others is None or others.read_bytes is None or device is None or not device.read_bytes:
        return None
    return round(min(1.0, others.read_bytes / device.read_bytes), 4)


def _time(times: Latencies | None, percent: float) -> float | None:
    return None if times is None else times.percentile_ns(percent) / 1e9


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _share(point: LevelPoint, name: str) -> float | None:
    use = point.uses.get(name)
    return None if use is None else round(use.busy, 4)
