"""The answer of a report in one or two sentences."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    """The answer of a report: made once, and the same on terminal, page, Markdown and in JSON.

    Its parts are the answer, a suspected cause, the certainty and the next action.  Each part is a
    sentence or a clause without a full stop at its end; "" if there is none.
    """

    what: str
    """The answer with its direction and amount: `quota is slower than full: RIOPS 0.44 (0.34 to
    0.69)`, `Read 1.82 GiB from a cold disk at 1,809 MB/s`."""
    suspect: str = ""
    """The likely cause: `cgroup CPU limit none / 0.6`."""
    sure: str = ""
    """The certainty of the answer: `all six steps can be believed`."""
    todo: str = ""
    """The next action: a command, or what would settle the question."""

    def __str__(self) -> str:
        """Return the answer with its likely cause, and its certainty, as one or two sentences."""
        first = f"{self.what}; suspect: {self.suspect}" if self.suspect else self.what
        # The first word may be a label, which is written as the user wrote it.
        second = self.sure[:1].upper() + self.sure[1:]
        return " ".join(_sentence(part) for part in (first, second) if part)


def _sentence(words: str) -> str:
    return words if words.endswith((".", "?", "!")) else f"{words}."
