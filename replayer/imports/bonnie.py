"""bonnie++: CSV lines of 1.03 to 2.00, or the table if there are no such lines.

Rates are KiB/s unless they have a unit.  bonnie++ writes +++++ if a phase was too short to measure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Measurement, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number, seconds, words

SIGN = re.compile(
    r"------Sequential Output------ --Sequential Input|^1\.9\d[a-z]?,[12]\.\d\d[a-z]?,"
    r"|^[^,\s]{1,100},\d{1,12}[MGk]?(?:,[\d.+]{0,20}){12},[\d:/]{0,40}(?:,[\d.+]{0,20}){12}\s*$",
    re.MULTILINE,
)

_BLOCKS = ("putc", "put_block", "rewrite", "getc", "get_block", "seeks")
_FILES = tuple(
    f"{order}_{verb}" for order in ("seq", "ran") for verb in ("create", "stat", "delete")
)
_FAST = tuple(phase for phase in _BLOCKS if phase not in ("putc", "getc"))
"""The phases that bonnie++ -f runs."""
_OLD = 27
"""Number of fields of a CSV line of 1.03."""
_HEADING = re.compile(
    r"-{2,8}Sequential (?:Output|Create)-{2,8}|-Per Chr- --Block--|-Create-- --(?:Stat|Read)---"
    r"|(?:Machine|Name:Size etc|files)[:\w ]{0,20}.{0,20}/sec %CP|name,file_size|format_version,"
)
_PROGRESS = re.compile(
    r"(?:Writing|Reading|Rewriting|start|Create files|Stat files|Delete files|Using uid)\b.{0,200}"
)
_RATE = re.compile(r"\d{1,15}(?:\.\d{1,9})?[kmgKMG]?|\+{3,5}")
_SIZE = re.compile(r"\d{1,12}[kMG]?")
_LONGEST = re.compile(r"\d{1,12}(?:us|ms|s)")
_UNITS = {"k": 1.0, "m": 1024.0, "g": 1024.0**2}


@dataclass
class _Table:
    """The results of one run of bonnie++ on one machine, from a CSV line or from a table.

    `rates` and `latencies` are name of a phase -> text as printed.
    """

    name: str
    spec: dict[str, str] = field(default_factory=dict)
    version: str = ""
    rates: dict[str, str] = field(default_factory=dict)
    latencies: dict[str, str] = field(default_factory=dict)


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each combination of machine, file size and number of files in the source.

    Tests that are equal in all three are repeats of one run.  `label` is the user's name for the
    runs.  Raises Impossible if the file has no results.
    """
    lines, tables = _scan(source)
    # bonnie++ writes the same results as a table and as CSV; the table cuts names after 14
    # characters.
    lines += [t for t in tables if not any(line.name.startswith(t.name) for line in lines)]
    results = [ImportedStep(_step(t), {"host.name": t.name} if t.name else {}) for t in lines]
    results = [result for result in results if result.step.measurements]
    if not results:
        raise Impossible(f"{source.name} has no results of bonnie++ in it")
    return ImportResult(imported.runs(source, "bonnie", label, results), source.unread.all())


def _scan(source: ImportSource) -> tuple[list[_Table], list[_Table]]:
    """Return (results of CSV lines, results of tables); the same results may be in both."""
    lines: list[_Table] = []
    tables: list[_Table] = []
    files = headed = False
    for at, line in source.lines():
        text = line.strip()
        if _HEADING.search(text):
            headed = True
            files = "Create" in text or (files and "Sequential Output" not in text)
        elif text.count(",") >= _OLD - 1:
            table = _csv(text.split(","))
            lines += [table] if table else []
            if table is None:
                source.unread.line(at, line)
        elif not ((headed and _row(tables, text, files=files)) or _PROGRESS.match(text)):
            source.unread.line(at, line)
    return lines, tables


def _csv(cells: Sequence[str]) -> _Table | None:
    """Return the results in the fields of a CSV line; None if no version has so many fields."""
    if len(cells) == _OLD:
        table = _Table(words(cells[0]), {"size": words(cells[1]), "files": words(cells[14])})
        _pairs(table, _BLOCKS, cells[2:14])
        _pairs(table, _FILES, cells[15:])
        return table
    begin = {48: 7, 50: 9}.get(len(cells))
    if begin is None:
        return None
    spec = {"size": cells[5], "concurrency": cells[3], "files": cells[begin + 12]}
    table = _Table(words(cells[2]), {k: words(v) for k, v in spec.items()}, words(cells[1]))
    _pairs(table, _BLOCKS, cells[begin : begin + 12])
    _pairs(table, _FILES, cells[begin + 17 : begin + 29])
    longest = zip((*_BLOCKS, *_FILES), cells[begin + 29 :], strict=True)
    table.latencies = {phase: cell for phase, cell in longest if _LONGEST.fullmatch(cell)}
    return table


def _pairs(table: _Table, phases: Sequence[str], cells: Sequence[str]) -> None:
    """Add the rate of each phase to the table's results.

    `cells` have, for each phase, its rate and then the percentage of a processor that it used.
    """
    table.rates |= {phase: cells[2 * i] for i, phase in enumerate(phases)}


def _row(tables: list[_Table], text: str, *, files: bool) -> bool:
    """Add the results in `text`, a line of a table, to `tables`; return whether it has any.

    `files` is True if the line is of the table about the creation of files.
    """
    parts = text.split()
    if parts[0] == "Latency" and tables:
        phases = _FILES if files else _BLOCKS if len(parts) == 7 else _FAST
        if len(parts) - 1 == len(phases) and all(map(_LONGEST.fullmatch, parts[1:])):
            tables[-1].latencies |= dict(zip(phases, parts[1:], strict=True))
            return True
        return False
    count = _values(parts)
    if files:
        if not tables or count != 12:
            return False
        tables[-1].spec["files"] = words(parts[-13]) if len(parts) > 12 else ""
        _pairs(tables[-1], _FILES, parts[-12:])
        return True
    if count not in (8, 12):
        return False
    name, _, size = " ".join(parts[:-count]).replace(":", " ").partition(" ")
    if _SIZE.fullmatch(name):
        name, size = "", f"{name} {size}"
    tables.append(_Table(words(name), {"size": words(size)}))
    _pairs(tables[-1], _BLOCKS if count == 12 else _FAST, parts[-count:])
    return True


def _values(parts: Sequence[str]) -> int:
    """Return how many parts at the end of a table row are rates and percentages, at most 12.

    The parts are counted from the end up to the first that is neither; 9 to 11 count as 8.
    """
    count = 0
    for part in reversed(parts[-12:]):
        if not _RATE.fullmatch(part):
            break
        count += 1
    # Without a name before it, a size in GiB looks like a rate.
    return 8 if count in (9, 10, 11) else count


def _step(table: _Table) -> StepResult:
    short = sum(1 for rate in table.rates.values() if rate.startswith("+"))
    return imported.step(
        "bonnie",
        "bonnie",
        spec={key: value for key, value in table.spec.items() if value},
        measurements=_measurements(table),
        facts={"version": table.version} if table.version else {},
        notes=[
            f"{short} rates are missing: the phases were too short for bonnie++ to measure (+++++)"
        ]
        if short
        else [],
    )


def _measurements(table: _Table) -> Iterator[Measurement]:
    for phase, text in table.rates.items():
        if not _RATE.fullmatch(text) or text.startswith("+"):
            continue
        unit = _UNITS.get(text[-1].lower(), 1.0)
        value = number(text.rstrip("kmgKMG")) * unit
        if phase in _FILES:
            yield measured(f"bonnie.{phase}", value, "files/s")
        elif phase == "seeks":
            yield measured("bonnie.seeks", value, "seeks/s")
        else:
            yield measured(f"bonnie.{phase}", value * 1024, "bytes/s")
    for phase, text in table.latencies.items():
        yield measured(f"bonnie.{phase}.latency.max", seconds(text), "s", Better.LESS)
