"""The proof of an engine: the results of its SQL files on a real server, as JSON and Markdown."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from replayer.model import Noun

_PROVEN = {True: "yes", False: "**no**", None: "not testable here"}
_STATEMENT = re.compile(r"[|\n\r]+")


class TrialOutcome(StrEnum):
    """The result of one trial, in which one verb (an SQL file of the engine) is executed.

    A verb is left out if the engine has no such file for this server. It is not tried if no part of
    the proof needs it.
    """

    OK = "ok"
    FAILED = "failed"
    LEFT_OUT = "left out"
    NOT_TRIED = "not tried"


class VerbTrial(Noun):
    """The trial of one verb (an SQL file of the engine): its result, or why it was not executed.

    `rows` is the number of rows that the verb returned, and `columns` are the names of their
    columns; () if there was no row.
    """

    verb: str
    outcome: TrialOutcome
    file: str = ""
    """The SQL file, relative to the folder of schemas."""
    rows: int = 0
    columns: tuple[str, ...] = ()
    seconds: float = 0.0
    reason: str = ""
    """The server's error, or why the verb was left out or not tried."""


class Finding(Noun):
    """The result of testing one property of the engine, such as that a flush writes all pages."""

    name: str
    proven: bool | None
    """None if it could not be tested."""
    found: str


class MarkAnswer(Noun):
    """A comment with the word UNVERIFIED in an engine's file, and the proof's answer to it.

    `proven` is True if this server confirmed the doubtful part, and False if it refuted it.
    """

    file: str
    asks: str
    """The text of the comment."""
    proven: bool | None
    """None if it could not be tested on this server."""
    found: str


class EngineProof(Noun):
    """Everything that `replayer check --prove` found out about an engine on one server.

    `replayer` is the version of replayer, `version` that of the server. `place` is "started by
    replayer" or "at a URL". `when` is the day. `rows` is the number of rows of the table on which
    the verbs (SQL files of the engine) were tried.
    """

    replayer: str
    engine: str
    title: str
    version: str
    place: str
    kernel: str
    when: str
    rows: int
    unverified: str = ""
    """The parts that were never verified, in the words of the engine's own file; "" if nothing."""
    findings: tuple[Finding, ...] = ()
    trials: tuple[VerbTrial, ...] = ()
    missing_rights: tuple[str, ...] = ()
    marks: tuple[MarkAnswer, ...] = ()
    """The answer to each comment with the word UNVERIFIED in the engine's files."""

    def count(self, outcome: TrialOutcome) -> int:
        """Return the number of verbs (the engine's SQL files) whose trial had that outcome."""
        return sum(trial.outcome is outcome for trial in self.trials)

    @property
    def holds(self) -> bool:
        """Return whether no verb (SQL file) failed and no tested property was found to be false."""
        refuted = any(finding.proven is False for finding in self.findings)
        return not refuted and not self.count(TrialOutcome.FAILED)


def verdict_of(proof: EngineProof) -> str:
    """Return one sentence on the proof: the number of verbs (SQL files) with each outcome.

    The sentence also names the properties that were refuted, and those that could not be tested.
    """
    counts = ", ".join(
        f"{proof.count(outcome)} {outcome}" for outcome in TrialOutcome if proof.count(outcome)
    )
    refuted = [one.name for one in proof.findings if one.proven is False]
    untested = [one.name for one in proof.findings if one.proven is None]
    parts = [f"{proof.title} {proof.version}: {counts}"]
    parts += [f"refuted: {', '.join(refuted)}"] if refuted else []
    parts += [f"not testable here: {', '.join(untested)}"] if untested else []
    return "; ".join(parts)


def as_markdown(proof: EngineProof) -> str:
    """Return the proof as a Markdown page: the verdict, the properties, then every verb.

    A verb is one SQL file of the engine.
    """
    return "\n".join(_lines(proof)) + "\n"


def _lines(proof: EngineProof) -> Iterator[str]:
    yield f"# What was proven of {proof.title}"
    yield ""
    yield verdict_of(proof) + "."
    yield ""
    yield (
        f"replayer {proof.replayer}, {proof.when}, {proof.kernel}, server: {proof.place}, "
        f"{proof.rows:,} rows."
    )
    if proof.unverified:
        yield from (
            "",
            f"Not verified, by the engine's own file: {_cell(proof.unverified)}",
        )
    yield from ("", "| tested | proven | found |", "|---|---|---|")
    for one in proof.findings:
        yield f"| {one.name} | {_PROVEN[one.proven]} | {_cell(one.found)} |"
    if proof.marks:
        yield from ("", f"## {len(proof.marks)} marks of what was never verified", "")
        yield from ("| file | it asks | proven | found |", "|---|---|---|---|")
    for mark in proof.marks:
        yield (
            f"| {mark.file} | {_cell(mark.asks)} | {_PROVEN[mark.proven]} | {_cell(mark.found)} |"
        )
    if proof.missing_rights:
        yield from ("", "Rights that were missing:", "")
        yield from (f"- {right}" for right in proof.missing_rights)
    for outcome in sorted(TrialOutcome, key=lambda one: one is not TrialOutcome.FAILED):
        yield from _table(outcome, [one for one in proof.trials if one.outcome is outcome])


def _table(outcome: TrialOutcome, trials: Sequence[VerbTrial]) -> Iterator[str]:
    if not trials:
        return
    yield from ("", f"## {len(trials)} verbs {outcome}", "")
    if outcome is TrialOutcome.OK:
        yield from ("| verb | file | rows | columns |", "|---|---|---|---|")
        for one in trials:
            yield f"| {one.verb} | {one.file} | {one.rows:,} | {_cell(', '.join(one.columns))} |"
        return
    yield from ("| verb | file | why |", "|---|---|---|")
    for one in trials:
        yield f"| {one.verb} | {one.file} | {_cell(one.reason)} |"


def _cell(text: str) -> str:
    return _STATEMENT.sub(" ", text).strip()
