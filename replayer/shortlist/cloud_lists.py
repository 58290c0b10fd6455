"""Read the JSON that the clouds' own tools print: lists of machines, of disks and of volumes.

The tools are `aws ec2 describe-instance-types`, `aws ec2 describe-volumes`, `az vm list-skus` and
`gcloud compute machine-types list --format json`.  None of them has prices.  A figure that an entry
does not have is left out, never guessed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from replayer.errors import Impossible
from replayer.shortlist import volumes
from replayer.shortlist.offers import Catalogue, DiskOffer, MachineOffer, Supply

Entry = Mapping[str, Any]
_MIB = 1 << 20
_GIB = 1 << 30
_BURST_SECONDS = 1800.0
"""Seconds for which an Amazon instance has its maximum for EBS, at least once a day."""
_LISTS = ("InstanceTypes", "Volumes", "value", "items")
"""Keys of a JSON object under which the tools put their list."""


def read_entries(name: str, parsed: Any) -> Catalogue:
    """Return the catalogue in a tool's parsed JSON; raise Impossible for any other JSON.

    `name` is the file's name, for messages.
    """
    entries = _entries(parsed)
    for key, make in _MAKERS.items():
        mine = [one for one in entries if key in one]
        if mine:
            return make(name, mine)
    raise Impossible(
        f"{name}: it is JSON, but not of aws ec2 describe-instance-types, aws ec2 "
        f"describe-volumes, az vm list-skus, gcloud compute machine-types list"
    )


def _entries(parsed: Any) -> list[Entry]:
    if isinstance(parsed, dict):
        parsed = next((parsed[key] for key in _LISTS if key in parsed), [])
    return [one for one in parsed if isinstance(one, dict)] if isinstance(parsed, list) else []


def _part(entry: Any, *path: str | int) -> Any:
    """Return the value at a path of keys in an entry; {} where it is missing or not reachable."""
    for key in path:
        try:
            entry = entry[key]
        except (KeyError, IndexError, TypeError):
            return {}
    return entry


def _number(entry: Any, *path: str | int) -> float | None:
    """Return the positive number at a path of keys in an entry; None where there is none."""
    try:
        value = float(_part(entry, *path))
    except (TypeError, ValueError, OverflowError):
        return None
    return value if 0 < value < 1e18 else None


def _machines(
    name: str, entries: Iterable[Entry], key: str, make: Callable[[Entry], dict[str, Supply]]
) -> tuple[list[MachineOffer], list[str]]:
    """Return the machines that a tool's entries describe, each name once, and notes for the user.

    `key` is the entry's key for the name of a machine.  `make` returns an entry's supplies.
    Entries without a name, cores or memory are left out, and a note counts them.
    """
    made: dict[str, MachineOffer] = {}
    unread = 0
    for entry in entries:
        title, supplies = str(entry.get(key, "")), make(entry)
        if not title or not {"cpu", "memory"} <= set(supplies):
            unread += 1
        elif title not in made:
            made[title] = MachineOffer(name=title, supplies=supplies, needs_disk=True)
    notes = (
        [f"{name}: {unread} entries have no readable name, processors or memory"] if unread else []
    )
    return list(made.values()), notes


# Amazon


def _amazon(name: str, entries: Iterable[Entry]) -> Catalogue:
    machines, notes = _machines(name, entries, "InstanceType", _instance)
    return Catalogue(machines=tuple(machines), notes=tuple(notes))


def _instance(entry: Entry) -> dict[str, Supply]:
    cores = _number(entry, "VCpuInfo", "DefaultVCpus")
    memory = _number(entry, "MemoryInfo", "SizeInMiB")
    ebs = _part(entry, "EbsInfo", "EbsOptimizedInfo")
    made = {
        # A burstable instance's share of its processors is not in this output.
        "cpu": _forever(cores)
        if cores is None or not entry.get("BurstablePerformanceSupported")
        else Supply(baseline=None, burst=cores),
        "memory": _forever(memory, _MIB),
        "iops": _half_an_hour(ebs, "BaselineIops", "MaximumIops"),
        "mbps": _half_an_hour(ebs, "BaselineThroughputInMBps", "MaximumThroughputInMBps"),
    }
    card = _part(entry, "NetworkInfo", "NetworkCards", 0)
    base = _number(card, "BaselineBandwidthInGbps")
    peak = _number(card, "PeakBandwidthInGbps") or base
    if base is not None and peak is not None:
        net = Supply(baseline=base * 125, burst=max(base, peak) * 125)
        made |= {"net_in": net, "net_out": net}
    return {key: one for key, one in made.items() if one is not None}


def _forever(amount: float | None, unit: float = 1.0) -> Supply | None:
    return None if amount is None else Supply.of(amount * unit)


def _half_an_hour(entry: Entry, base: str, most: str) -> Supply | None:
    """Return a supply whose maximum can be used for half an hour; None without a baseline.

    `base` and `most` are the entry's keys for the baseline, which can be used forever, and for the
    maximum.  Source: "Amazon EBS-optimized instances", Amazon EC2 User Guide.
    """
    baseline = _number(entry, base)
    if baseline is None:
        return None
    burst = max(baseline, _number(entry, most) or baseline)
    return Supply(baseline=baseline, burst=burst, credits=_BURST_SECONDS * (burst - baseline))


def _volumes(name: str, entries: Iterable[Entry]) -> Catalogue:
    disks: list[DiskOffer] = []
    notes: list[str] = []
    for entry in entries:
        kind, gib = str(entry["VolumeType"]), _number(entry, "Size")
        iops, mib = _number(entry, "Iops"), _number(entry, "Throughput")
        title = str(entry.get("VolumeId", "")) or kind
        try:
            disks.append(
                volumes.volume(kind, round((gib or 0.0) * _GIB), iops, mib, f"{kind} {title}")
            )
        except Impossible as error:
            notes.append(f"{name}: {title} is left out: {error}")
    return Catalogue(disks=tuple(disks), notes=tuple(notes))


# Azure


def _azure(name: str, entries: Iterable[Entry]) -> Catalogue:
    entries = [{**one, "known": _capabilities(one)} for one in entries]
    virtual = [one for one in entries if one["resourceType"] == "virtualMachines"]
    machines, notes = _machines(name, virtual, "name", _virtual_machine)
    shut = {str(one.get("name")) for one in virtual if one.get("restrictions")}
    if shut:
        notes.append(f"{name}: {len(shut)} machines are restricted there, such as {min(shut)}")
    disks = [one for one in entries if one["resourceType"] == "disks"]
    made = {one.name: one for one in map(_managed_disk, disks) if one.supplies}
    return Catalogue(machines=tuple(machines), disks=tuple(made.values()), notes=tuple(notes))


def _capabilities(entry: Entry) -> dict[str, str]:
    listed = entry.get("capabilities")
    pairs = listed if isinstance(listed, list) else ()
    return {str(one.get("name")): str(one.get("value")) for one in pairs if isinstance(one, dict)}


def _virtual_machine(entry: Entry) -> dict[str, Supply]:
    known = entry["known"]
    cores = _number(known, "vCPUsAvailable") or _number(known, "vCPUs")
    # The share of its processors that a machine of the B family keeps is not in this output.
    shares = str(entry.get("family", "")).lower().startswith("standardb")
    made = {
        "cpu": Supply(baseline=None, burst=cores) if shares and cores else _forever(cores),
        "memory": _forever(_number(known, "MemoryGB"), _GIB),
        "iops": _forever(_number(known, "UncachedDiskIOPS")),
        "mbps": _forever(_number(known, "UncachedDiskBytesPerSecond"), 1e-6),
    }
    return {key: one for key, one in made.items() if one is not None}


def _managed_disk(entry: Entry) -> DiskOffer:
    known = entry["known"]
    size = _number(known, "MaxSizeGiB")
    made = {
        "iops": _bucket(known, "MaxIOps", "MaxBurstIops", "BurstCreditBucketSizeInIO", 1.0),
        "mbps": _bucket(
            known, "MaxBandwidthMBps", "MaxBurstBandwidthMBps", "BurstCreditBucketSizeInGiB",
            _GIB / 1e6,
        ),
        "database": _forever(size, _GIB),
    }  # fmt: skip
    supplies = {key: one for key, one in made.items() if one is not None}
    title = " ".join(str(entry.get(key) or "") for key in ("name", "size")).strip()
    return DiskOffer(name=title, supplies=supplies if "iops" in supplies else {})


def _bucket(known: Entry, base: str, burst: str, bucket: str, unit: float) -> Supply | None:
    baseline, most, held = (_number(known, key) for key in (base, burst, bucket))
    if baseline is None or most is None or most <= baseline:
        return _forever(baseline)
    return Supply(baseline=baseline, burst=most, credits=None if held is None else held * unit)


# Google


def _google(name: str, entries: Iterable[Entry]) -> Catalogue:
    machines, notes = _machines(name, entries, "name", _machine_type)
    return Catalogue(machines=tuple(machines), notes=tuple(notes))


def _machine_type(entry: Entry) -> dict[str, Supply]:
    cores, memory = _number(entry, "guestCpus"), _number(entry, "memoryMb")
    shared = entry.get("isSharedCpu") is True
    made: Iterator[tuple[str, Supply | None]] = iter((
        ("cpu", Supply(baseline=None, burst=cores) if shared and cores else _forever(cores)),
        ("memory", _forever(memory, _MIB)),
    ))  # fmt: skip
    return {key: one for key, one in made if one is not None}


_MAKERS: Mapping[str, Callable[[str, Iterable[Entry]], Catalogue]] = {
    "InstanceType": _amazon,
    "VolumeType": _volumes,
    "resourceType": _azure,
    "guestCpus": _google,
}
"""A key that each entry of a tool has -> the function that reads the tool's entries."""
