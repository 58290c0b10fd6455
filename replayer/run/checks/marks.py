"""Comments with the word UNVERIFIED in an engine's files, and their answers from a real server."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from replayer import assets
from replayer.engines.engine import Engine
from replayer.engines.verbs import Verb
from replayer.run.checks import cold_count
from replayer.run.checks.proof import Finding, MarkAnswer, TrialOutcome, VerbTrial

MARK = "UNVERIFIED"
PLACE = "location"
_SENTENCE = re.compile(r"(?<=[.:])\s+")
_ASKED_BY = {
    "counters": cold_count.READS,
    "files": "files",
    "holder": "holder",
    "location": PLACE,
    "slob/files": "files",
    "slob/procedure": "clock in a procedure",
}
"""Verb -> name of the finding (test of a property) for the word UNVERIFIED in its file.

For a verb that is missing here, the trial of the verb (its execution) is the answer."""


def answer(
    engine: Engine, findings: Sequence[Finding], trials: Sequence[VerbTrial]
) -> tuple[MarkAnswer, ...]:
    """Return an answer for each comment with the word UNVERIFIED in the engine's files.

    The answer is the test of a property (a finding), or the execution of the SQL file (a trial).
    """
    found = {one.name: one for one in findings}
    tried = {one.verb: one for one in trials}
    return tuple(_answered(name, file, words, found, tried) for name, file, words in _marks(engine))


def _marks(engine: Engine) -> Iterator[tuple[str, str, str]]:
    """Yield (verb, file, text) of each comment with the word UNVERIFIED in the engine's files.

    A verb is the name of an operation, such as `table/scan`. Files that the engine inherits from
    another engine are included.
    """
    if MARK in engine.spec.counters:
        yield "counters", f"{engine.name}/engine.toml", engine.spec.counters
    for name in engine.verbs():
        verb = engine.newest(name)
        if verb is None:
            continue
        words = _words(assets.text(verb.path))
        if words:
            yield name, f"{verb.path.relative_to(_folder(engine, verb).parent)}", words


def _folder(engine: Engine, verb: Verb) -> Path:
    return next(one for one in engine.folders if verb.path.is_relative_to(one))


def _words(text: str) -> str:
    """Return the sentence with the word UNVERIFIED from SQL comments, and both of its neighbours.

    `text` is the content of an SQL file. The result is "" if no comment has that word.
    """
    lines = [one.strip().removeprefix("--").strip() for one in text.splitlines() if "--" in one]
    sentences = _SENTENCE.split(" ".join(lines))
    place = next((n for n, one in enumerate(sentences) if MARK in one), None)
    if place is None:
        return ""
    return " ".join(sentences[max(0, place - 1) : place + 2])


def _answered(
    name: str,
    file: str,
    words: str,
    found: Mapping[str, Finding],
    tried: Mapping[str, VerbTrial],
) -> MarkAnswer:
    finding = found.get(_ASKED_BY.get(name, ""))
    if finding is not None:
        return MarkAnswer(file=file, asks=words, proven=finding.proven, found=finding.found)
    trial = tried.get(name)
    if trial is None or trial.outcome not in {TrialOutcome.OK, TrialOutcome.FAILED}:
        reason = trial.reason if trial else "this server's version has another file"
        return MarkAnswer(file=file, asks=words, proven=None, found=f"not tried: {reason}")
    if trial.outcome is TrialOutcome.FAILED:
        return MarkAnswer(file=file, asks=words, proven=False, found=trial.reason)
    seen = f"executed: {trial.rows:,} rows of {', '.join(trial.columns) or 'no column'}"
    return MarkAnswer(file=file, asks=words, proven=True if trial.rows else None, found=seen)
