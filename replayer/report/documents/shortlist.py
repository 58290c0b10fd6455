"""The report of a shortlist of machines, and the report on whether past predictions came true."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replayer.report.document import Bullets, Curve, Document, Figure, Part, Section, Table, blank
from replayer.run.display import Sentence, Tone
from replayer.shortlist.matching import MachineChoice, Margin
from replayer.shortlist.shortlist import Shortlist, show_price
from replayer.sizing.prediction import Prediction
from replayer.sizing.target import Fit
from replayer.units import show, show_times

ROWS = 20
"""The number of machines that a terminal shows unless the user asks for more."""
TONES = {Fit.FITS: Tone.GOOD, Fit.DOES_NOT_FIT: Tone.BAD, Fit.UNCLEAR: Tone.UNCLEAR}
_CHOICES = 8
"""The number of machines whose other disks a terminal shows."""
_WHY = 6
"""The number of machines for which a terminal shows why the verdict is unclear."""
_DETAILED = 100
"""The number of machines for which a page has a table of their resources."""
_COLORS: dict[Fit, int | str] = {Fit.FITS: "better", Fit.UNCLEAR: 5, Fit.DOES_NOT_FIT: "worse"}
_CSV = (
    *("machine", "disk", "verdict", "known", "gives_first", "times", "price_month", "currency"),
    *("resource", "resource_verdict", "unit", "required", "here", "resource_times", "why"),
)


class PastPrediction(NamedTuple):
    """A prediction about a machine, and the verdict of the run that tested the same machine."""

    run: str
    prediction: Prediction
    fit: Fit
    first: str
    """The limiting resource that the run measured; "" if it is not known."""
    multiple: float | None


def document(one: Shortlist, rows: int = ROWS) -> Document:
    """Return the report of a shortlist: machines of a catalogue, and whether a database fits there.

    A terminal shows at most `rows` machines.
    """
    margin = f"growth {one.growth:g}, headroom {one.headroom:.0%}"
    words = ("shortlist", " + ".join(one.profiles), margin, ", ".join(one.catalogues))
    return Document(
        " · ".join(words),
        Sentence(one.headline, TONES[one.machines()[0][0].fit]),
        list(_parts(one, rows)),
        notes=list(_remarks(one)),
        made=one.made,
        is_answer_last=True,
        data=[_CSV, *_data(one)],
    )


def _parts(one: Shortlist, rows: int) -> Iterator[Part]:
    machines = one.machines()
    needs = [
        (row.title, _amount(row.least, row.required, row.unit), row.arithmetic)
        for row in one.demands
    ]
    table = Table(("needed", "amount", "as arithmetic"), needs)
    yield Section("What is needed", [table], on_page=1)
    yield Section(
        "Machine by machine, the cheapest that fits first",
        [
            Table(
                ("machine", "verdict", "limits first", "times", "price a month"),
                [_machine(each[0], one) for each in machines],
                numbers=(3, 4),
                most=rows,
                more="--rows, --csv or --html",
            ),
            *_chart(one),
        ],
    )
    if choices := [words for each in machines for words in _other_disks(each, one)]:
        yield Section("The same machine with another disk", [Bullets(choices, most=_CHOICES)])
    unclear = [each[0] for each in machines if each[0].fit is Fit.UNCLEAR]
    if doubts := [f"{each.title}: {each.why[0]}" for each in unclear]:
        yield Section("Why it is not clear", [Bullets(doubts, most=_WHY)])
    details = [
        Section(
            f"{each.title}: {each.fit.value}", [_margins(each)], is_folded=True, is_for_page=True
        )
        for each in one.candidates[:_DETAILED]
    ]
    yield Section("Resource by resource", details)


def _amount(least: float, most: float, unit: str) -> str:
    return show(most, unit) if least == most else f"{show(least, unit)} to {show(most, unit)}"


def _machine(one: MachineChoice, shortlist: Shortlist) -> Sequence[str]:
    return (
        one.title,
        # By probes of both machines' processors.
        f"{one.fit.value}, by probes" if one.known == "measured" else one.fit.value,
        one.first or "-",
        _times(one.multiple),
        show_price(one.price_month, shortlist.currency) or "not known",
    )


def _other_disks(choices: Sequence[MachineChoice], shortlist: Shortlist) -> Iterator[str]:
    """Yield at most one sentence: the verdicts on a machine with each of its other disks.

    `choices` are one machine with different disks, the best first.  Nothing is yielded if there is
    only one disk, or if the best one does not fit.
    """
    if len(choices) < 2 or choices[0].fit is Fit.DOES_NOT_FIT:
        return
    words = []
    for one in choices[1:]:
        price = show_price(one.price_month, shortlist.currency)
        at = f" at {price}" if price and one.fit is not Fit.DOES_NOT_FIT else ""
        first = (
            f" ({one.first} {show_times(one.multiple)} times)" if one.multiple is not None else ""
        )
        words.append(f"{one.disk} {one.fit.value}{at}{first}")
    yield f"{choices[0].machine}: {'; '.join(words)}"


def _remarks(one: Shortlist) -> Iterator[str]:
    """Yield remarks on the list: that it is a prediction, and what it leaves out."""
    yield (
        "a prediction by arithmetic: the times are what there is, divided by what is needed; "
        "`replayer size` on the machine measures it (--from-shortlist)"
    )
    if one.missing:
        yield f"not in each profile, so not compared: {', '.join(one.missing)}"
    yield from one.notes


def _margins(one: MachineChoice) -> Table:
    """Return a table with a row for each resource of a machine.

    A row has the verdict, the amount needed, the machine's amount, their ratio, and the reason.
    """
    rows = [
        (
            each.title,
            each.fit.value,
            show(each.required, each.unit) if each.required else "-",
            "-" if each.here is None else show(each.here, each.unit),
            _times(each.multiple),
            _describe(each),
        )
        for each in one.margins
    ]
    headings = ("resource", "verdict", "needed", "there", "times", "why")
    return Table(headings, rows, numbers=(2, 3, 4))


def _describe(one: Margin) -> str:
    return f"{one.of}: {one.words}" if one.of not in {"", "the machine"} else one.words


def _data(one: Shortlist) -> Iterator[Sequence[object]]:
    """Yield a row of the CSV for each resource of each machine; the headings are not yielded."""
    for each in one.candidates:
        head = (each.machine, each.disk, each.fit.value, each.known, each.first,
                *blank(each.multiple, each.price_month), one.currency)  # fmt: skip
        for margin in each.margins:
            yield (*head, margin.title, margin.fit.value, margin.unit, margin.required,
                   *blank(margin.here, margin.multiple), _describe(margin))  # fmt: skip


def _chart(one: Shortlist) -> Iterator[Figure]:
    """Yield a chart of price and capacity, one point per machine; none if no price is known."""
    known = [
        each
        for each in one.candidates
        if each.price_month is not None and each.multiple is not None
    ]
    curves = [
        Curve(
            fit.value,
            [each.price_month for each in mine],
            [each.multiple for each in mine],
            kind="points",
            color=color,
            texts=[each.title for each in mine],
        )
        for fit, color in _COLORS.items()
        if (mine := [each for each in known if each.fit is fit])
    ]
    if curves:
        yield Figure(
            "price",
            "Price, and how many times of what is needed there is",
            curves,
            x=f"{one.currency or 'price'} a month",
            y="times",
            axes={"log_y": True},
        )


def _times(value: float | None) -> str:
    return "-" if value is None else show_times(value)


def _check_headline(past: Sequence[PastPrediction]) -> str:
    """Return a sentence with the number of predictions that came true, and that are undecided."""
    outcomes = [one.prediction.outcome(one.fit) for one in past]
    held, failed, open_ = (outcomes.count(word) for word in ("held", "did not hold", "undecided"))
    if not held + failed:
        return f"none of {len(past)} predictions is decided: one of both sides was unclear"
    return f"{held} of {held + failed} decided predictions held, {open_} are undecided"


def check(past: Sequence[PastPrediction]) -> Document:
    """Return the report on whether past predictions came true."""
    rows = [
        (
            one.prediction.machine,
            one.prediction.fit.value,
            one.fit.value,
            one.prediction.outcome(one.fit),
            f"{one.prediction.first or '-'} / {one.first or '-'}",
            f"{_times(one.prediction.multiple)} / {_times(one.multiple)}",
            one.run,
        )
        for one in past
    ]
    headings = ("machine", "predicted", "measured", "came out", "first", "times", "run")
    return Document(
        "shortlist · past predictions",
        Sentence(_check_headline(past)),
        [Table(headings, rows), Bullets(["first and times: predicted / measured"], Tone.QUIET)],
    )
