"""What the collectors say about how their columns are shown; all of them where they say nothing."""

from collections.abc import Iterator, Sequence

from replayer import registry
from replayer.collectors import CollectorColumns, Panel
from replayer.model import Series

_DRAWN = 2
"""Columns of a collector that are drawn if it does not say which."""


def sheet(collector: str, series: Series) -> CollectorColumns | None:
    """Return the line of a report for a collector, or None if it wants none."""
    module = registry.load("collectors", collector)
    if hasattr(module, "SHEET"):
        own: CollectorColumns | None = module.SHEET
        return own
    return CollectorColumns(f"{collector} over {{time}}", " ".join(_columns(collector, series)))


def panels(series: Series) -> Iterator[tuple[str, Panel]]:
    """Yield collectors that a series has columns of, with their panels, as they are drawn."""
    known = {name.partition(".")[0] for name in series.columns} & set(registry.names("collectors"))
    known_panels = [(name, panel) for name in sorted(known) if (panel := _panel(name, series))]
    yield from sorted(known_panels, key=lambda pair: pair[1].order)


def is_drawn(column: str) -> bool:
    """Tell whether a column of a series may be drawn."""
    collector, _, name = column.partition(".")
    if collector not in registry.names("collectors"):
        return True
    module = registry.load("collectors", collector)
    if not hasattr(module, "PANEL"):
        return True
    return module.PANEL is not None and name in dict(module.PANEL.lines)


def is_kernels(column: str) -> bool:
    """Tell whether a column was collected, and is not a step's own."""
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
