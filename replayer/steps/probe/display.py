"""Display of a probe: the lines that a tool such as fio would print, then the probe's tables."""

from replayer.model import StepResult
from replayer.run.display import Form, Part, Sentence, Tone, Verbatim, WholeTable


def form(result: StepResult) -> Form:
    """Return the lines that the tool whose work the probe does would print, then all its tables.

    Such a tool is fio or orion.  Lines are there only if the probe made some.
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
    return Form([*lines, *tables], lines, tables=frozenset(result.tables))
