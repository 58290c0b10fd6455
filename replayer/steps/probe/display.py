"""Display of a probe: the lines that a tool such as fio would print, then the probe's tables."""

from replayer.model import StepResult
from replayer.run.display import Form, Part, Sentence, Tone, Verbatim, WholeTable
from replayer.steps.probe import briefs


def form(result: StepResult) -> Form:
    """Return the lines that a tool such as orion would print instead, then the probe's tables.

    A probe may have no such lines.  The table `io` is left out if the probe has another table with
    the same rows.
    """
    lines: list[Part] = []
    for name, texts in result.printed.items():
        lines.append(Sentence(name, Tone.QUIET))
        lines += [Verbatim(text) for text in texts]
    # Every row of `io` is also one of the probe's own table, where it has one.
    hidden = {"io"} if set(result.tables) - {"io", "cross_check"} else set()
    tables = [
        WholeTable(name) for name, rows in result.tables.items() if rows and name not in hidden
    ]
    return Form(
        [*lines, *tables],
        lines,
        tables=frozenset(result.tables),
        headline=briefs.headline(result),
        brief=briefs.brief(result),
    )
