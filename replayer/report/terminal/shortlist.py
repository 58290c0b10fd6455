"""The report of a shortlist: on at most 100 columns, as CSV, and how predictions came out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from replayer.report.sanitize import sanitize
from replayer.report.terminal.sizing import STYLES
from replayer.report.terminal.tables import NumberTable, bullets, line
from replayer.report.text import csv
from replayer.shortlist.matching import MachineChoice, Margin
from replayer.shortlist.shortlist import Shortlist, show_price
from replayer.sizing.prediction import Prediction
from replayer.sizing.target import Fit
from replayer.units import show, three

ROWS = 20
"""Machines that the terminal shows unless more are asked for."""
_CHOICES = 8
"""Machines whose other disks are printed."""
_WHY = 6
"""Machines whose reasons are printed."""


class PastPrediction(NamedTuple):
    """A prediction, and the verdict of the run that sized the machine."""

    run: str
    prediction: Prediction
    fit: Fit
    first: str
    """The resource that gave first, by the measurement; "" where that is not known."""
    multiple: float | None


def render(one: Shortlist, rows: int = ROWS) -> Group:
    """Return the report for the terminal; at most `rows` machines."""
    machines = one.machines()
    shown = machines[:rows]
    parts: list[RenderableType] = [
        Rule(Text(title(one), style="bold"), align="left", style="dim"),
        line("what is needed", "bold"),
        NumberTable(NEED_HEADINGS, need_rows(one), left=3),
        "",
        line("machine by machine, the cheapest that fits first", "bold"),
        NumberTable(MACHINE_HEADINGS, [_machine_row(each[0], one) for each in shown], left=3),
    ]
    if len(machines) > len(shown):
        parts.append(line(f"and {len(machines) - len(shown)} more: --rows, --csv or --html", "dim"))
    choices = [words for each in shown for words in other_disks(each, one)][:_CHOICES]
    if choices:
        parts += ["", line("the same machine with another disk", "bold"),
                  bullets((words, "") for words in choices)]  # fmt: skip
    unclear = [each[0] for each in shown if each[0].fit is Fit.UNCLEAR][:_WHY]
    doubts = [sanitize(f"{each.title}: {each.why[0]}") for each in unclear]
    if doubts:
        parts += ["", line("why it is not clear", "bold"),
                  bullets((words, "") for words in doubts)]  # fmt: skip
    parts += ["", bullets((words, "dim") for words in remarks(one))]
    parts += ["", line(sanitize(one.headline), STYLES[machines[0][0].fit])]
    return Group(*parts)


def title(one: Shortlist) -> str:
    """Return the title: profiles, margin and catalogues."""
    margin = f"growth {one.growth:g}, headroom {one.headroom:.0%}"
    words = ("shortlist", " + ".join(one.profiles), margin, ", ".join(one.catalogues))
    return " · ".join(sanitize(word) for word in words)


NEED_HEADINGS = ("needed", "amount", "as arithmetic")


def need_rows(one: Shortlist) -> list[list[str]]:
    """Return a row for each required resource, in the columns of NEED_HEADINGS."""
    return [
        [sanitize(row.title), _amount(row.least, row.required, row.unit), sanitize(row.arithmetic)]
        for row in one.demands
    ]


def _amount(least: float, most: float, unit: str) -> str:
    return show(most, unit) if least == most else f"{show(least, unit)} to {show(most, unit)}"


MACHINE_HEADINGS = ("machine", "verdict", "gives first", "times", "price a month")


def _machine_row(one: MachineChoice, shortlist: Shortlist) -> list[str]:
    return [
        sanitize(one.title),
        verdict(one),
        sanitize(one.first) or "-",
        "-" if one.multiple is None else three(one.multiple),
        show_price(one.price_month, shortlist.currency) or "not known",
    ]


def verdict(one: MachineChoice) -> str:
    """Return the verdict, with a mark where it stands on probes of both machines' processors."""
    return f"{one.fit.value}, by probes" if one.known == "measured" else one.fit.value


def other_disks(choices: Sequence[MachineChoice], shortlist: Shortlist) -> Iterator[str]:
    """Yield a sentence with the other choices of one machine's disk, if it has any."""
    if len(choices) < 2 or choices[0].fit is Fit.DOES_NOT_FIT:
        return
    words = []
    for one in choices[1:]:
        price = show_price(one.price_month, shortlist.currency)
        at = f" at {price}" if price and one.fit is not Fit.DOES_NOT_FIT else ""
        first = f" ({one.first} {three(one.multiple)} times)" if one.multiple is not None else ""
        words.append(f"{one.disk} {one.fit.value}{at}{first}")
    yield sanitize(f"{choices[0].machine}: {'; '.join(words)}")


def remarks(one: Shortlist) -> Iterator[str]:
    """Yield what is to be known about the list: it is a prediction, and what it leaves out."""
    yield (
        "a prediction by arithmetic: the times are what there is, divided by what is needed; "
        "`replayer size` on the machine measures it (--from-shortlist)"
    )
    if one.missing:
        yield f"not in each profile, so not compared: {', '.join(one.missing)}"
    yield from map(sanitize, one.notes)


MARGIN_HEADINGS = ("resource", "verdict", "needed", "there", "times", "why")


def margin_rows(one: MachineChoice) -> list[list[str]]:
    """Return a row for each resource of a machine, in the columns of MARGIN_HEADINGS."""
    return [
        [
            sanitize(each.title),
            each.fit.value,
            show(each.required, each.unit) if each.required else "-",
            "-" if each.here is None else show(each.here, each.unit),
            "-" if each.multiple is None else three(each.multiple),
            sanitize(_said(each)),
        ]
        for each in one.margins
    ]


def _said(one: Margin) -> str:
    return f"{one.of}: {one.words}" if one.of not in {"", "the machine"} else one.words


# Other forms

_CSV = (
    *("machine", "disk", "verdict", "known", "gives_first", "times", "price_month", "currency"),
    *("resource", "resource_verdict", "unit", "required", "here", "resource_times", "why"),
)


def as_csv(one: Shortlist) -> str:
    """Return CSV with a row for each resource of each machine."""
    return csv.written(_csv(one))


def _csv(one: Shortlist) -> Iterator[Sequence[object]]:
    yield _CSV
    for each in one.candidates:
        head = (each.machine, each.disk, each.fit.value, each.known, each.first,
                _blank(each.multiple), _blank(each.price_month), one.currency)  # fmt: skip
        for margin in each.margins:
            yield (*head, margin.title, margin.fit.value, margin.unit, margin.required,
                   _blank(margin.here), _blank(margin.multiple), _said(margin))  # fmt: skip


def _blank(value: float | None) -> object:
    return "" if value is None else value


# Past predictions

CHECK_HEADINGS = ("machine", "predicted", "measured", "came out", "first", "times", "run")


def check_rows(past: Sequence[PastPrediction]) -> list[list[str]]:
    """Return a row for each past prediction, in the columns of CHECK_HEADINGS."""
    return [
        [
            sanitize(one.prediction.machine),
            one.prediction.fit.value,
            one.fit.value,
            one.prediction.outcome(one.fit),
            sanitize(f"{one.prediction.first or '-'} / {one.first or '-'}"),
            f"{_times(one.prediction.multiple)} / {_times(one.multiple)}",
            sanitize(one.run),
        ]
        for one in past
    ]


def _times(value: float | None) -> str:
    return "-" if value is None else three(value)


def check_headline(past: Sequence[PastPrediction]) -> str:
    """Return how many predictions held, in a sentence."""
    outcomes = [one.prediction.outcome(one.fit) for one in past]
    held, failed, open_ = (outcomes.count(word) for word in ("held", "did not hold", "undecided"))
    if not held + failed:
        return f"none of {len(past)} predictions is decided: one of both sides was unclear"
    return f"{held} of {held + failed} decided predictions held, {open_} are undecided"


def render_check(past: Sequence[PastPrediction]) -> Group:
    """Return how past predictions came out, for the terminal."""
    return Group(
        Rule(Text("shortlist · past predictions", style="bold"), align="left", style="dim"),
        line(check_headline(past), "bold"),
        NumberTable(CHECK_HEADINGS, check_rows(past), left=7),
        bullets([("first and times: predicted / measured", "dim")]),
    )
