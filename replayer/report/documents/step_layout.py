"""The layout of a step's results, as the module `display` in the step's folder defines it.

The results of a step without that module are listed by their kinds: measurements, tables, facts.
"""

import re
from collections.abc import Iterator, Sequence

from replayer import registry
from replayer.analysis.repeats import by_name, finished
from replayer.model import Latency, Measurement, Run, StepResult
from replayer.report import document
from replayer.report.document import Facts, Table, Texts
from replayer.report.documents.records import cell, heading, records
from replayer.results import stored_histogram
from replayer.run.display import (
    Form,
    Labelled,
    OneFact,
    Part,
    Sentence,
    TableRows,
    Tone,
    Verbatim,
    WholeTable,
)
from replayer.units import show_count, show_duration

_LEAF = re.compile(r"(?P<group>.*?)\.?(?P<leaf>p\d+(?:\.\d+)?|[^.]+)")
_CLOSE = re.compile(r"^(p\d\d)(\d+)$")
_PERCENTILES = (50, 95, 99, 99.9)
UNLIKE_A_STEPS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""The errors that a step's module `display` raises for a result file that was edited by hand.

No schema fixes the columns of a result's tables.
"""


def of(result: StepResult) -> Form:
    """Return the lines that a report shows first for a result, from the step's module `display`.

    The Form is empty if the step has no such module.  If the module fails, the Form has one
    sentence about the error.
    """
    display = registry.part("steps", result.step, "display")
    if display is None:
        return Form()
    try:
        form: Form = display.form(result)
        if hasattr(display, "charts"):
            list(display.charts([[("", result)]]))
    except UNLIKE_A_STEPS as error:
        why = f"{type(error).__name__}: {error}"
        text = f"the numbers in this result are not as the step {result.step} writes them ({why})"
        return Form([Sentence(text, Tone.BAD)])
    return form


def own_sections(run: Run, *, most: int, width: int) -> Iterator[tuple[str, list[Part]]]:
    """Yield (step's name, parts) for each step whose module `display` defines sections.

    The parts are of the last finished repeat of the step in the run; if there are several, they
    begin with its number.  A table has at most `most` rows, and a text is cut to `width`
    characters.
    """
    for results in by_name(finished(run.steps)):
        result = results[-1]
        display = registry.part("steps", result.step, "display")
        if display is None or not hasattr(display, "sections"):
            continue
        try:
            parts = list(display.sections(result, most=most, width=width))
        except UNLIKE_A_STEPS:
            continue  # `of` reports the error
        if parts:
            yield result.name, [*name_repeat(results), *parts]


def name_repeat(results: Sequence[StepResult]) -> list[Sentence]:
    """Return a sentence before what is of the last of several results; none for a single one."""
    words = f"repeat {results[-1].repeat}, the last one:"
    return [Sentence(words, Tone.QUIET)] if len(results) > 1 else []


def parts(part: Part, result: StepResult) -> Iterator[document.Part]:
    """Convert one part of a Form, as a step's module `display` defines it, to parts of a document.

    Nothing is yielded for a fact that the result does not have.
    """
    match part:
        case Sentence() | Verbatim():
            yield part
        case Labelled():
            yield Facts([(part.label, Texts(part.texts))])
        case OneFact():
            if part.key in result.facts:
                yield Facts([(heading(part.key), cell(part.key, result.facts[part.key]))])
        case TableRows():
            yield Table(part.headings, part.rows, numbers=range(1, len(part.headings)))
        case WholeTable():
            rows = result.tables[part.name]
            yield Sentence(part.name.replace("_", " "), Tone.QUIET)
            yield records(rows, first=len(rows))


def percentiles(latency: Latency) -> str | Texts:
    """Return a stored histogram's percentiles as text, or the error if it cannot be decoded."""
    try:
        read = stored_histogram.decode(latency.payload)
    except ValueError as error:
        return str(error)
    values = read.get_percentile_to_value_dict(_PERCENTILES)
    texts = [f"p{p:g} {show_duration(values.get(p, 0) / 1e9)}" for p in _PERCENTILES]
    texts.append(f"max {show_duration(read.get_max_value() / 1e9)}")
    return Texts([*texts, f"({show_count(latency.operations)} operations)"])


def group(measurement: Measurement) -> str:
    """Return the middle words of a metric's name, which a group of metrics shares.

    They are between the kind of the step and the last word: `latency` for sessions.latency.p99.9.
    It is "" for a metric of one word after the kind of the step.
    """
    parts = _LEAF.fullmatch(_within(measurement))
    return parts["group"] if parts else ""


def leaf(measurement: Measurement) -> str:
    """Return the last word of a metric's name: `p99.9` for sessions.latency.p99.9.

    The spelling p999 in a name gives `p99.9`, too.
    """
    parts = _LEAF.fullmatch(_within(measurement))
    return _CLOSE.sub(r"\1.\2", parts["leaf"]) if parts else measurement.metric


def _within(measurement: Measurement) -> str:
    """Return a metric's name without its first word, which is the kind of the step."""
    return measurement.metric.partition(".")[2] or measurement.metric
