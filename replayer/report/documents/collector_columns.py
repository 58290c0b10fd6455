"""The columns of collectors in reports: those that a collector selects, else all.

A chart has only the first few of them if the collector does not select any.
"""

from collections.abc import Iterator, Sequence

from replayer import registry
from replayer.collectors import CollectorColumns, Panel
from replayer.model import Series

_DRAWN = 2
"""The number of columns that are drawn if a collector does not select any."""


def sheet(collector: str, series: Series) -> CollectorColumns | None:
    """Return the title and the columns of the line of averages that a report has for a collector.

    A collector can define them in its variable SHEET, or set SHEET to None: then it has no line and
    the result is None.  Without SHEET, all its columns in the series are used.
    """
    module = registry.load("collectors", collector)
    if hasattr(module, "SHEET"):
        own: CollectorColumns | None = module.SHEET
        return own
    return CollectorColumns(f"{collector} over {{time}}", " ".join(_columns(collector, series)))


def panels(series: Series) -> Iterator[tuple[str, Panel]]:
    """Yield (collector's name, panel) for the collectors of a series, in the order of drawing.

    A panel is a diagram over time.  A collector that defines that it has none is left out.
    """
    known = {name.partition(".")[0] for name in series.columns} & set(registry.names("collectors"))
    known_panels = [(name, panel) for name in sorted(known) if (panel := _panel(name, series))]
    yield from sorted(known_panels, key=lambda pair: pair[1].order)


def is_drawn(column: str) -> bool:
    """Return whether charts may show a column of a series.

    They may show the columns that a step writes.  Of the columns of a collector that defines a
    chart (PANEL), they may show only those in it.
    """
    collector, _, name = column.partition(".")
    if collector not in registry.names("collectors"):
        return True
    module = registry.load("collectors", collector)
    if not hasattr(module, "PANEL"):
        return True
    return module.PANEL is not None and name in dict(module.PANEL.lines)


def is_kernels(column: str) -> bool:
    """Return whether a column of a series comes from a collector, and not from a step."""
    return column.partition(".")[0] in registry.names("collectors")


def _panel(collector: str, series: Series) -> Panel | None:
    module = registry.load("collectors", collector)
    if hasattr(module, "PANEL"):
        panel: Panel | None = module.PANEL
        return panel
    columns = _columns(collector, series)[:_DRAWN]
    return Panel(collector, tuple((name, f"{collector} {name}") for name in columns))


def _columns(collector: str, series: Series) -> Sequence[str]:
    begin = f"{collector}."
    return [name.removeprefix(begin) for name in series.columns if name.startswith(begin)]
