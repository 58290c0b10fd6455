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
    """None where it is not known."""
    with_machine_month: float | None = None
    """Price of the machine in a row with this disk.  It is the price of both, unless the disk has a
    price too.  None for no such row: the machine has the same price with any disk."""
    currency: str = ""
    """The currency of the prices; "" where it is not known."""

    @property
    def priced(self) -> bool:
        """Return whether a price is known: of the disk, or of a machine with it."""
        return self.price_month is not None or self.with_machine_month is not None


class MachineOffer(Noun):
    """A machine that may be rented."""

    name: str
    supplies: Mapping[str, Supply] = {}
    """Name of a resource -> how much the machine has; `iops` and `mbps` are for all its disks."""
    disks: tuple[DiskOffer, ...] = ()
    request_bytes: int | None = None
    """For `iops`, a request that is larger counts as several; None for as the disk counts it."""
    needs_disk: bool = False
    """True if a disk must be named too: the machine's limits of disks are not the only ones."""
    price_month: float | None = None
    """Price of the machine without a disk; None where it is not known."""
    currency: str = ""
    """The currency of the prices; "" where it is not known."""


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
        return any(one.priced for one in (*mine, *self.disks))

    @property
    def without_currency(self) -> tuple[str, ...]:
        """Return the names of machines and disks with a price whose currency is not known."""
        machines = [one for one in self.machines if not one.currency]
        return (
            *(one.name for one in machines if one.price_month is not None),
            *(
                f"{machine.name} / {one.name}"
                for machine in machines
                for one in machine.disks
                if one.priced and not one.currency
            ),
            *(one.name for one in self.disks if one.priced and not one.currency),
        )

    def disks_of(self, machine: MachineOffer) -> tuple[DiskOffer, ...]:
        """Return the disks that a machine may have, its own first.

        Values that one of these lacks are those of the disk of that name for every machine.
        """
        every = {one.name: one for one in self.disks}
        own = [join_disk(every.pop(one.name, None), one) for one in machine.disks]
        return (*own, *every.values())


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
            machines[machine.name] = join_machine(machines.get(machine.name), machine)
        disks.update((one.name, join_disk(disks.get(one.name), one)) for one in part.disks)
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


def join_machine(before: MachineOffer | None, after: MachineOffer) -> MachineOffer:
    """Return what two rows or catalogues give of one machine; what both give is `after`'s."""
    if before is None:
        return after
    disks = {one.name: one for one in before.disks}
    for one in after.disks:
        disk = join_disk(disks.get(one.name), one)
        if after.price_month is not None and one.price_month is not None:
            # The machine's price is given apart from the disk's, and replaces one of both.
            disk = disk.model_copy(update={"with_machine_month": one.with_machine_month})
        disks[one.name] = disk
    return MachineOffer(
        name=after.name,
        supplies=_joined_supplies(before.supplies, after.supplies),
        disks=tuple(disks.values()),
        request_bytes=after.request_bytes or before.request_bytes,
        needs_disk=before.needs_disk or after.needs_disk,
        price_month=_later(before.price_month, after.price_month),
        currency=after.currency or before.currency,
    )


def _later(before: float | None, after: float | None) -> float | None:
    return before if after is None else after


def _joined_supplies(
    before: Mapping[str, Supply], after: Mapping[str, Supply]
) -> dict[str, Supply]:
    """Return the supplies of both; a baseline that is known is kept where the later is not."""
    known = {key: one for key, one in before.items() if one.baseline is not None}
    return {
        **before,
        **{key: one for key, one in after.items() if one.baseline is not None or key not in known},
    }


def join_disk(before: DiskOffer | None, after: DiskOffer) -> DiskOffer:
    """Return what two rows or catalogues give of one disk; what both give is `after`'s."""
    if before is None:
        return after
    return DiskOffer(
        name=after.name,
        supplies=_joined_supplies(before.supplies, after.supplies),
        request_bytes=after.request_bytes or before.request_bytes,
        price_month=_later(before.price_month, after.price_month),
        with_machine_month=_later(before.with_machine_month, after.with_machine_month),
        currency=after.currency or before.currency,
    )
