"""Machines and disks that a catalogue offers: how much of each resource they have, and prices."""

from collections.abc import Iterable, Mapping
from typing import Self

from replayer.errors import Impossible
from replayer.model import Noun

HOURS_A_MONTH = 730.0
"""Hours by which clouds turn a price an hour into a price a month: 365 * 24 / 12."""


class Supply(Noun):
    """An amount of one resource: what may be used forever, and what may be used for a while."""

    baseline: float | None
    """The amount to use forever, in the resource's unit; None if the catalogue does not have it."""
    burst: float
    """The amount to use while credits last; the same as the baseline where there are no credits."""
    credits: float | None = None
    """Credits of a full bucket, in units of the rate times seconds; None where not known."""

    @classmethod
    def of(cls, amount: float) -> Self:
        """Return a supply without bursts: `amount` is available at any time, for any duration."""
        return cls(baseline=amount, burst=amount, credits=0.0)

    @property
    def bursts(self) -> bool:
        """Return whether more may be used for a while than forever; True if that is not known."""
        return self.baseline is None or self.burst > self.baseline


class DiskOffer(Noun):
    """A disk that a machine may be rented with."""

    name: str
    supplies: Mapping[str, Supply] = {}
    """Name of a resource in profiles.usage, such as iops -> how much of it the disk has.  The
    resource `database` is the size of the disk in bytes."""
    request_bytes: int | None = None
    """A request that is larger counts as several; None where each counts as one."""
    price_month: float | None = None
    """None where it is not known; 0 where the machine's price includes it."""


class MachineOffer(Noun):
    """A machine that may be rented."""

    name: str
    supplies: Mapping[str, Supply] = {}
    """Name of a resource -> how much the machine has; `iops` and `mbps` are for all its disks."""
    disks: tuple[DiskOffer, ...] = ()
    needs_disk: bool = False
    """True if a disk must be named too: the machine's limits of disks are not the only ones."""
    price_month: float | None = None


class Catalogue(Noun):
    """Machines and disks of one catalogue file, or of several files that were joined."""

    machines: tuple[MachineOffer, ...] = ()
    disks: tuple[DiskOffer, ...] = ()
    """Disks that every machine may have."""
    currency: str = ""
    notes: tuple[str, ...] = ()
    """Sentences on the catalogue: its own remarks, and what could not be read."""

    @property
    def prices_disks(self) -> bool:
        """Return whether any disk has a price; if none has, the prices are of machines alone."""
        mine = (disk for machine in self.machines for disk in machine.disks)
        return any(one.price_month is not None for one in (*mine, *self.disks))


def join(parts: Iterable[Catalogue]) -> Catalogue:
    """Return several catalogues as one; machines, and disks, of one name become one.

    A value of a later catalogue replaces that of an earlier one.  A value that the later one does
    not have stays.  Raises Impossible if prices are in different currencies.
    """
    machines: dict[str, MachineOffer] = {}
    disks: dict[str, DiskOffer] = {}
    notes: list[str] = []
    currencies: set[str] = set()
    for part in parts:
        for machine in part.machines:
            machines[machine.name] = _joined(machines.get(machine.name), machine)
        disks.update((one.name, _joined_disk(disks.get(one.name), one)) for one in part.disks)
        notes += part.notes
        currencies |= {part.currency} - {""}
    if len(currencies) > 1:
        raise Impossible(
            f"prices are in {' and in '.join(sorted(currencies))}: convert one of the catalogues"
        )
    return Catalogue(
        machines=tuple(machines.values()),
        disks=tuple(disks.values()),
        currency="".join(currencies),
        notes=tuple(dict.fromkeys(notes)),
    )


def _joined(before: MachineOffer | None, after: MachineOffer) -> MachineOffer:
    if before is None:
        return after
    disks = {one.name: one for one in before.disks}
    disks.update((one.name, _joined_disk(disks.get(one.name), one)) for one in after.disks)
    return MachineOffer(
        name=after.name,
        supplies=_joined_supplies(before.supplies, after.supplies),
        disks=tuple(disks.values()),
        needs_disk=before.needs_disk or after.needs_disk,
        price_month=before.price_month if after.price_month is None else after.price_month,
    )


def _joined_supplies(
    before: Mapping[str, Supply], after: Mapping[str, Supply]
) -> dict[str, Supply]:
    """Return the supplies of both; a baseline that is known is kept where the later is not."""
    known = {key: one for key, one in before.items() if one.baseline is not None}
    return {
        **before,
        **{key: one for key, one in after.items() if one.baseline is not None or key not in known},
    }


def _joined_disk(before: DiskOffer | None, after: DiskOffer) -> DiskOffer:
    if before is None:
        return after
    return DiskOffer(
        name=after.name,
        supplies=_joined_supplies(before.supplies, after.supplies),
        request_bytes=after.request_bytes or before.request_bytes,
        price_month=before.price_month if after.price_month is None else after.price_month,
    )
