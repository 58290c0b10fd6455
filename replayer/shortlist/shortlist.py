"""A shortlist: every machine of a catalogue with its verdict, and the file that keeps it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median

from pydantic import ValidationError

from replayer import assets
from replayer.errors import Impossible, NotFound, ReplayerError, nearest
from replayer.model import Noun
from replayer.results import store
from replayer.shortlist import matching
from replayer.shortlist.demands import DemandOptions, Demands
from replayer.shortlist.matching import MachineChoice
from replayer.shortlist.offers import Catalogue
from replayer.sizing import candidate
from replayer.sizing.prediction import Prediction
from replayer.sizing.target import Fit
from replayer.units import show_times

_MOST_BYTES = 64 << 20


class DemandRow(Noun):
    """The required amount of one resource, as a shortlist's file stores it.

    `least` is the lower bound of the amount; it is the same as `required` if that is exact.
    """

    resource: str
    title: str
    unit: str
    required: float
    least: float
    arithmetic: str


class Shortlist(Noun):
    """Machines of a catalogue, compared with the needs of one or more databases.

    `growth` (a factor), `headroom` (a share), `percentile` and `window` (seconds) are the options
    with which the needs were computed.
    """

    shortlist: int = 1
    """The format of the file."""
    headline: str
    made: str
    """The day, as 2026-11-23."""
    profiles: tuple[str, ...]
    catalogues: tuple[str, ...]
    growth: float
    headroom: float
    percentile: float
    window: float
    currency: str
    demands: tuple[DemandRow, ...]
    candidates: tuple[MachineChoice, ...]
    """The cheapest that fits first, then those that are unclear, then those that do not fit."""
    missing: tuple[str, ...]
    """Resources that are not in each profile."""
    notes: tuple[str, ...]

    def count(self, fit: Fit) -> int:
        """Return the number of machines that have the verdict `fit` if each has its best disk."""
        return sum(one[0].fit is fit for one in self.machines())

    def machines(self) -> list[tuple[MachineChoice, ...]]:
        """Return a group of choices for each machine, the best machine first.

        A group has the machine with each of its disks, the best disk first.
        """
        names = {one.machine: None for one in self.candidates}
        order = {name: place for place, name in enumerate(names)}
        ordered = sorted(self.candidates, key=lambda one: order[one.machine])
        return [tuple(group) for _, group in groupby(ordered, key=lambda one: one.machine)]

    def prediction(self, name: str, file: str) -> Prediction:
        """Return the prediction for the machine `name` with its best disk.

        `name` may also be `machine / disk`.  `file` is the shortlist's file.  Raise NotFound for a
        name that is not in the shortlist.
        """
        chosen = next((one for one in self.candidates if name in {one.machine, one.title}), None)
        if chosen is None:
            names = [one.title for one in self.candidates] + [
                one.machine for one in self.candidates
            ]
            raise NotFound(
                f"{Path(file).name}: there is no machine {name!r} in that "
                f"shortlist{nearest(name, names)}"
            )
        return Prediction(
            shortlist=file,
            made=self.made,
            machine=chosen.title,
            fit=chosen.fit,
            known=chosen.known,
            first=chosen.first,
            multiple=chosen.multiple,
            why=chosen.why,
            price_month=chosen.price_month,
            currency=self.currency,
            limits=tuple(
                one.limit for one in chosen.margins if one.limit is not None and one.limit.bursts
            ),
        )


def draw_up(
    asked: DemandOptions,
    demands: Demands,
    catalogue: Catalogue,
    speeds: Mapping[str, Mapping[str, float]],
    *,
    profiles: Sequence[str],
    catalogues: Sequence[str],
) -> Shortlist:
    """Return the shortlist of a catalogue; `profiles` and `catalogues` are names of files.

    `speeds` is machine -> metric -> speed of its processors or memory, as measured by probes.
    Raise Impossible if the catalogue has no machine.
    """
    candidates = matching.rank(catalogue, demands, speeds)
    if not candidates:
        raise Impossible("the catalogue has disks and no machine: name a catalogue of machines too")
    return Shortlist(
        headline=_headline(candidates, catalogue.currency),
        made=f"{datetime.now(UTC):%Y-%m-%d}",
        profiles=tuple(profiles),
        catalogues=tuple(catalogues),
        growth=asked.growth,
        headroom=asked.headroom,
        percentile=asked.percentile,
        window=asked.window,
        currency=catalogue.currency,
        demands=tuple(
            DemandRow(
                resource=one.name, title=one.title, unit=one.unit, required=one.required,
                least=one.least, arithmetic=one.arithmetic,
            )
            for one in demands.rows.values()
        ),
        candidates=candidates,
        missing=demands.missing,
        notes=(
            *demands.notes, *catalogue.notes, *_prices(candidates, catalogue),
            *_cores(candidates, speeds),
        ),
    )  # fmt: skip


def _prices(candidates: Iterable[MachineChoice], catalogue: Catalogue) -> Iterable[str]:
    priced = any(one.disk and one.price_month is not None for one in candidates)
    if priced and not catalogue.prices_disks:
        yield "prices are of machines alone: no disk in the catalogue has one (disk_price_month)"
    without = catalogue.without_currency
    if catalogue.currency and without:
        names = f"{', '.join(without[:5])}{', ...' if len(without) > 5 else ''}"
        many = "price has" if len(without) == 1 else "prices have"
        yield (
            f"{len(without)} {many} no currency in the catalogue ({names}), and "
            f"{'is' if len(without) == 1 else 'are'} taken as {catalogue.currency}"
        )


def _cores(
    candidates: Iterable[MachineChoice], speeds: Mapping[str, Mapping[str, float]]
) -> Iterable[str]:
    """Yield remarks on the comparison of processors: probes of unknown machines, or no probes."""
    names = {one.machine for one in candidates}
    unused = sorted(set(speeds) - names)
    if unused:
        yield (
            f"probes of {', '.join(unused[:5])} are of no machine in the catalogue: "
            f"the label of a run must be the machine's name"
        )
    if all(one.known == "predicted" for one in candidates):
        yield (
            "processors are counted, and how much work one does is not known: `replayer run cpu` "
            "at the source (--source-probes) and on the machine (--machine-probes) compares them"
        )


def _headline(candidates: Sequence[MachineChoice], currency: str) -> str:
    best = candidates[0]
    names = {one.machine for one in candidates}
    fitting = {one.machine for one in candidates if one.fit is Fit.FITS}
    unclear = {one.machine for one in candidates if one.fit is Fit.UNCLEAR} - fitting
    every = "1 machine" if len(names) == 1 else f"{len(names)} machines"
    counted = f"Of {every} {len(fitting)} fit, {len(unclear)} unclear"
    if best.fit is Fit.FITS:
        kind = "is predicted to fit" if best.known == "predicted" else "fits by its cores' probes"
        price = show_price(best.price_month, currency)
        cheapest = " and is the cheapest" if best.price_month is not None else ""
        if any(one.fit is Fit.FITS and one.price_month is None for one in candidates):
            cheapest = f"{cheapest} whose price is known" if cheapest else ""
        return (
            f"{best.title} {kind}{cheapest}{f' ({price} a month)' if price else ''}. Limiting "
            f"resource: {best.first}, {show_times(best.multiple or 0.0)} times what is needed. "
            f"{counted}. Next: `replayer size` on it."
        )
    if best.fit is Fit.UNCLEAR:
        return f"no machine is sure to fit; {best.title} may: {best.why[0]}. {counted}."
    if len(names) == 1:
        return f"{best.title} does not fit: {best.why[0]}."
    return f"none of {every} fits; {best.title} lacks least: {best.why[0]}."


def show_price(price: float | None, currency: str) -> str:
    """Return a price with its currency; "" where it is not known."""
    return "" if price is None else f"{price:,.2f}{f' {currency}' if currency else ''}"


def load_shortlist(path: Path) -> Shortlist:
    """Read a shortlist's file.

    Raise NotFound if it does not exist, and Impossible if it cannot be read.
    """
    try:
        with assets.open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"the shortlist {path} is not there") from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise Impossible(f"{path}: it is too large for a shortlist")
    try:
        return Shortlist.model_validate_json(data)
    except ValidationError as error:
        raise Impossible(
            f"{path}: it is not a shortlist: `replayer shortlist ... --out FILE` writes one"
        ) from error


def machine_speeds(folder: Path) -> dict[str, dict[str, float]]:
    """Return label -> metric -> speed, by the probes of processors and memory in a folder's runs.

    The speed is the median over a machine's runs; runs that other work disturbed are left out.
    Raise Impossible if no labelled run has such probes, or if all runs of a label were disturbed.
    """
    disturbed: dict[str, str] = {}
    found: dict[str, dict[str, list[float]]] = {}
    for entry in store.runs(folder):
        try:
            run = store.load(entry.path)
        except ReplayerError:
            continue
        known = candidate.probed(run) if run.label else {}
        if known and (why := candidate.busy(run)):
            disturbed[run.label] = why
            continue
        for metric, value in known.items():
            found.setdefault(run.label, {}).setdefault(metric, []).append(value)
    if only := next((why for label, why in disturbed.items() if label not in found), ""):
        raise Impossible(only)
    if not found:
        raise Impossible(
            f"{folder}: no run there has a label and probes of processors: `replayer run cpu "
            f"--label NAME` makes one on each machine, where NAME is the catalogue's"
        )
    return {
        label: {metric: median(values) for metric, values in metrics.items()}
        for label, metrics in found.items()
    }
