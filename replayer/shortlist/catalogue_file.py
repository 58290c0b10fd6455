"""A catalogue's file: a CSV with the columns below, or the JSON of a cloud's own tool.

A row of a CSV has a machine, a disk, or a machine with one of the disks that it may have.  A row
with a disk and no machine is a disk that every machine may have.  Columns may stand in any order,
and an empty cell is known from another row or an earlier catalogue, or else not known.  `;` and
decimal commas are fine, but a file whose 1,234 or 1.234 may be thousands is refused.  Lines that
begin with # are remarks.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import NamedTuple

from replayer import assets, units
from replayer.errors import Impossible, NotFound, nearest
from replayer.shortlist import cloud_lists, offers
from replayer.shortlist.offers import HOURS_A_MONTH, Catalogue, DiskOffer, MachineOffer, Supply

_MOST_BYTES = 64 << 20
_MINUTE = 60.0


class CatalogueColumn(NamedTuple):
    """One column that a CSV may have."""

    name: str
    meaning: str


COLUMNS = tuple(
    CatalogueColumn(*row)
    for row in (
        ("machine", "the machine's name"),
        ("disk", "the disk's name; its limits are then the disk's, else the machine's"),
        ("cores", "processors that the system sees"),
        ("baseline_cores", "of those that may be used forever, where there are credits"),
        ("cpu_credits", "minutes of one core that a full bucket holds"),
        ("memory", "such as 16G"),
        ("iops", "reads and writes a second, together"),
        ("read_iops", "reads a second alone"),
        ("write_iops", "writes a second alone"),
        ("burst_iops", "reads and writes a second while there are credits"),
        ("iops_credits", "requests above iops that a full bucket pays for"),
        ("mbps", "10^6 bytes read and written a second, together"),
        ("read_mbps", "10^6 bytes read a second alone"),
        ("write_mbps", "10^6 bytes written a second alone"),
        ("burst_mbps", "10^6 bytes a second while there are credits"),
        ("mbps_credits", "10^6 bytes above mbps that a full bucket pays for"),
        ("request_size", "a larger request counts as several, such as 256k"),
        ("log_flushes", "syncs of the log a second, one after the other"),
        ("disk_size", "room for data, such as 500G"),
        ("network_mbps", "10^6 bytes a second, in each direction"),
        ("burst_network_mbps", "10^6 bytes a second while there are credits"),
        ("network_credits", "10^6 bytes above network_mbps that a full bucket pays for"),
        ("price_month", "price of the machine for a month"),
        ("price_hour", f"price of the machine for an hour; a month has {HOURS_A_MONTH:g}"),
        ("disk_price_month", "price of the disk for a month"),
        ("currency", "of the prices, such as USD"),
    )
)
"""All columns of a CSV, in the order in which they are documented."""

_KNOWN = frozenset(column.name for column in COLUMNS)
_TEXTS = frozenset({"machine", "disk", "currency"})
_SIZES = frozenset({"memory", "request_size", "disk_size"})


class _Bucket(NamedTuple):
    """The columns of a supply that may burst.

    `plain` is the column that gives a supply without bursts, and `unit` the unit of credits in
    units of the rate times seconds.
    """

    resources: tuple[str, ...]
    baseline: str
    burst: str
    credits: str
    plain: str
    unit: float


_BUCKETS = (
    _Bucket(("cpu",), "baseline_cores", "cores", "cpu_credits", "cores", _MINUTE),
    _Bucket(("iops",), "iops", "burst_iops", "iops_credits", "iops", 1.0),
    _Bucket(("mbps",), "mbps", "burst_mbps", "mbps_credits", "mbps", 1.0),
    _Bucket(("net_in", "net_out"), "network_mbps", "burst_network_mbps", "network_credits",
            "network_mbps", 1.0),
)  # fmt: skip
_PLAIN = {
    **{name: name for name in ("memory", "read_iops", "write_iops", "read_mbps", "write_mbps")},
    "wal_syncs": "log_flushes",
    "database": "disk_size",
}
"""Resource -> the column of a CSV that has its amount."""
_OF_THE_MACHINE = frozenset({"cpu", "memory", "net_in", "net_out"})


def load_catalogue(path: Path, earlier: Catalogue | None = None) -> Catalogue:
    """Return the catalogue in a file, which is a CSV or a tool's JSON.

    A CSV may add to the machines and disks of the `earlier` catalogue: a base rate, for example.
    Raise NotFound if the file does not exist, and Impossible, in a sentence with the file's name,
    if it cannot be read or has no machine and no disk.
    """
    text = _text(path)
    name = path.name
    if text.lstrip()[:1] in {"{", "["}:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError) as error:
            place = f" from line {error.lineno} on" if isinstance(error, JSONDecodeError) else ""
            raise Impossible(
                f"{name}: it begins like JSON, and is none{place}: save the tool's whole output"
            ) from error
        made = cloud_lists.read_entries(name, parsed)
    else:
        made = _of_rows(name, text, earlier or Catalogue())
    if not made.machines and not made.disks:
        why = made.notes[0].removeprefix(f"{name}: ") if made.notes else "its list is empty"
        raise Impossible(f"{name}: it has no machine and no disk: {why}")
    return made


def _text(path: Path) -> str:
    try:
        with assets.open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"the catalogue {path} is not there") from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise Impossible(f"{path}: it is too large for a catalogue")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Impossible(f"{path}: it is not UTF-8") from error


class _Row(NamedTuple):
    """The cells of a CSV's row that are not empty, by column, and the row's file and line."""

    where: str
    texts: Mapping[str, str]
    numbers: Mapping[str, float]


def _of_rows(name: str, text: str, earlier: Catalogue) -> Catalogue:
    remarks = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    notes = [f"{name}: {remark}" for remark in remarks if remark]
    machines: dict[str, MachineOffer] = {}
    disks: dict[str, DiskOffer] = {}
    currencies: set[str] = set()
    known_machines = {one.name: one for one in earlier.machines}
    known_disks = {one.name: one for one in earlier.disks}
    for row in _rows(name, text):
        machine, disk = row.texts.get("machine", ""), row.texts.get("disk", "")
        if not machine and not disk:
            raise Impossible(f"{row.where}: it has neither a machine nor a disk")
        currencies |= {row.texts.get("currency", "")} - {""}
        named = (
            *(known_disks.get(disk), disks.get(disk)),
            *(known_machines.get(machine), machines.get(machine)),
        )
        before = {key: one for offer in named for key, one in _known(offer, disk).items()}
        supplies = dict(_supplies(row, before))
        made = _disk(disk, row, supplies) if disk else None
        if machine:
            machines[machine] = offers.join_machine(
                machines.get(machine), _machine(machine, row, supplies, made)
            )
        elif made is not None:
            disks[disk] = offers.join_disk(disks.get(disk), made)
    if len(currencies) > 1:
        raise Impossible(f"{name}: prices are in {' and in '.join(sorted(currencies))}")
    return Catalogue(
        machines=tuple(machines.values()),
        disks=tuple(disks.values()),
        currency="".join(currencies),
        notes=tuple(notes),
    )


def _disk(name: str, row: _Row, supplies: Mapping[str, Supply]) -> DiskOffer:
    price = row.numbers.get("disk_price_month")
    return DiskOffer(
        name=name,
        supplies={key: one for key, one in supplies.items() if key not in _OF_THE_MACHINE},
        request_bytes=_request_bytes(row),
        price_month=price,
        with_machine_month=_machine_price(row) if price is None else None,
        currency=row.texts.get("currency", ""),
    )


def _machine(
    name: str, row: _Row, supplies: Mapping[str, Supply], disk: DiskOffer | None
) -> MachineOffer:
    """Return the machine of one row, with the `disk` of that row if it has one."""
    both = disk is not None and disk.with_machine_month is not None
    return MachineOffer(
        name=name,
        supplies={k: v for k, v in supplies.items() if disk is None or k in _OF_THE_MACHINE},
        disks=() if disk is None else (disk,),
        request_bytes=_request_bytes(row) if disk is None else None,
        price_month=None if both else _machine_price(row),
        currency=row.texts.get("currency", ""),
    )


def _request_bytes(row: _Row) -> int | None:
    size = row.numbers.get("request_size")
    return None if size is None else round(size)


def _machine_price(row: _Row) -> float | None:
    hour = row.numbers.get("price_hour")
    return row.numbers.get("price_month", None if hour is None else hour * HOURS_A_MONTH)


def _known(before: MachineOffer | DiskOffer | None, disk: str) -> Mapping[str, Supply]:
    """Return what earlier rows and catalogues know of a machine with a disk, or of a disk alone."""
    if before is None:
        return {}
    if isinstance(before, DiskOffer) or not disk:
        return before.supplies
    mine = (one.supplies for one in before.disks if one.name == disk)
    return {
        **{key: one for key, one in before.supplies.items() if key in _OF_THE_MACHINE},
        **next(mine, {}),
    }


def _supplies(row: _Row, before: Mapping[str, Supply]) -> Iterator[tuple[str, Supply]]:
    for bucket in _BUCKETS:
        if {bucket.baseline, bucket.burst, bucket.credits} & row.numbers.keys():
            for resource in bucket.resources:
                yield resource, _supply(row, bucket, before.get(resource))
    for resource, column in _PLAIN.items():
        if column in row.numbers:
            yield resource, Supply.of(row.numbers[column])


def _supply(row: _Row, bucket: _Bucket, before: Supply | None) -> Supply:
    """Return the supply of a row; values that the row does not give are those of `before`."""
    low, high, held = (
        row.numbers.get(column) for column in (bucket.baseline, bucket.burst, bucket.credits)
    )
    if low is not None and high is not None and high < low:
        raise Impossible(
            f"{row.where}: {bucket.burst} is below {bucket.baseline}, and is the higher rate"
        )
    held = None if held is None else held * bucket.unit
    unknown = low is None and before is not None and before.baseline is None
    if before is not None:
        low, high = _completed(bucket, low, high, before)
        held = before.credits if held is None and before.bursts else held
    if high is None and bucket.plain != bucket.burst:
        high = low
    if high is None:
        given = next(one for one in (bucket.baseline, bucket.credits) if one in row.numbers)
        raise Impossible(
            f"{row.where}: it has {given} and no {bucket.plain}: give {bucket.plain}, or a "
            f"catalogue that has it before this one"
        )
    if low is None and not unknown:
        low = high
    return Supply(baseline=low, burst=high, credits=0.0 if high == low else held)


def _completed(
    bucket: _Bucket, low: float | None, high: float | None, before: Supply
) -> tuple[float | None, float | None]:
    """Return the baseline and the higher rate, with those of `before` where they are None.

    Of a supply without bursts only the plain column is known.
    """
    base = before.baseline if before.bursts or bucket.plain == bucket.baseline else None
    most = before.burst if before.bursts or bucket.plain == bucket.burst else None
    if high is None and most is not None:
        high = max(most, low or 0.0)
    if low is None and base is not None:
        low = base if high is None else min(base, high)
    return low, high


def _rows(name: str, text: str) -> Iterator[_Row]:
    # A remark keeps its line, so that lines can be counted.
    lines = ["" if line.startswith("#") else line for line in text.splitlines()]
    head = next((number for number, line in enumerate(lines) if line.strip()), None)
    if head is None:
        raise Impossible(f"{name}: it is empty")
    separator = ";" if ";" in lines[head] else ","
    separators = units.NumberSeparators(separator) if separator == ";" else None
    try:
        reader = csv.reader(lines[head:], delimiter=separator)
        columns = [cell.strip().lower() for cell in next(reader)]
        _check_columns(name, columns)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield _row(f"{name}: line {head + reader.line_num}", columns, cells, separators)
    except csv.Error as error:
        raise Impossible(f"{name}: {error}") from error
    if separators:
        separators.check(name)


def _check_columns(name: str, columns: Iterable[str]) -> None:
    columns = list(columns)
    unknown = next((one for one in columns if one not in _KNOWN), None)
    if unknown is not None:
        raise Impossible(f"{name}: there is no column {unknown!r}{nearest(unknown, _KNOWN)}")
    twice = next((one for one in columns if columns.count(one) > 1), None)
    if twice is not None:
        raise Impossible(f"{name}: the column {twice} stands there twice")


def _row(
    where: str, columns: list[str], cells: list[str], separators: units.NumberSeparators | None
) -> _Row:
    if len(cells) > len(columns):
        raise Impossible(f"{where}: it has {len(cells)} cells for {len(columns)} columns")
    filled = {
        column: cell.strip() for column, cell in zip(columns, cells, strict=False) if cell.strip()
    }
    numbers = {
        column: _number(where, column, text, separators)
        for column, text in filled.items()
        if column not in _TEXTS
    }
    texts = {column: text for column, text in filled.items() if column in _TEXTS}
    if "currency" in texts:
        texts["currency"] = texts["currency"].upper()
    return _Row(where, texts, numbers)


def _number(where: str, column: str, text: str, separators: units.NumberSeparators | None) -> float:
    plain = separators.plain(text) if separators else text
    read: Callable[[str], float] = units.size if column in _SIZES else float
    try:
        value = read(plain)
    except (ValueError, Impossible):
        value = -1.0
    if not (0 <= value < 1e18) or (value == 0 and "price" not in column):
        what = "a size such as 16G" if column in _SIZES else "a number above 0, such as 3000"
        raise Impossible(f"{where}: {column} is {text!r}: it must be {what}")
    return value
