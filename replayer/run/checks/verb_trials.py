"""Trials of verbs (an engine's SQL files): the result or the server's error of each is kept."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from replayer.engines.connection import Database, Row
from replayer.engines.credentials import redact
from replayer.engines.engine import Engine
from replayer.engines.verb_table import COLUMNS, pattern_of
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError, one_line
from replayer.run.checks.proof import TrialOutcome, VerbTrial


class VerbTrials:
    """The results of one engine's verbs (SQL files) so far; a failure does not end the trials."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._trials: dict[str, VerbTrial] = {}

    def attempt(
        self, name: str, holes: Mapping[str, str | int] | None = None, /, **parameters: Any
    ) -> Sequence[Row]:
        """Execute a verb and return its rows; () if the engine has no such verb, or if it failed.

        A verb is an SQL file of the engine; `holes` are values for `{{name}}` in the SQL.  The
        first result of a verb is kept.  A later one replaces it only if the later one failed, or if
        the first one succeeded without rows and the later one has rows.
        """
        verb = self.database.engine.named(name)
        if verb is None:
            return ()
        begun = time.monotonic()
        trial = VerbTrial(
            verb=name, outcome=TrialOutcome.OK, file=_file(self.database.engine, verb.path)
        )
        rows: Sequence[Row] = ()
        try:
            rows = self.database.execute(verb, holes, **parameters)
        except ReplayerError as error:
            reason = one_line(redact(str(error), self.database.url), 400)
            trial = trial.model_copy(update={"outcome": TrialOutcome.FAILED, "reason": reason})
        columns = tuple(rows[0]) if rows else ()
        seconds = round(time.monotonic() - begun, 3)
        seen = {"rows": len(rows), "columns": columns, "seconds": seconds}
        self._keep(_held_against_contract(trial.model_copy(update=seen)))
        return rows

    def _keep(self, trial: VerbTrial) -> None:
        before = self._trials.get(trial.verb)
        better = before is not None and before.outcome is TrialOutcome.OK and not before.rows
        if before is None or trial.outcome is TrialOutcome.FAILED or (better and trial.rows):
            self._trials[trial.verb] = trial

    def roll_back(self) -> None:
        """Roll back a transaction that an error left open, if any; do not count this as a trial."""
        verb = self.database.engine.named("rollback")
        if verb is not None:
            with contextlib.suppress(ReplayerError):
                self.database.execute(verb)

    def failed(self, name: str) -> bool:
        """Return whether an SQL file of the engine (a verb) was tried and failed."""
        return name in self._trials and self._trials[name].outcome is TrialOutcome.FAILED

    def all(self, why_not: Mapping[str, str]) -> tuple[VerbTrial, ...]:
        """Return one trial for each verb (SQL file) of the engine, also for those not executed.

        `why_not` maps the beginning of verbs' names to the reason why they were not tried.
        """
        return tuple(
            self._trials.get(name) or self._untried(name, why_not)
            for name in self.database.engine.verbs()
        )

    def _untried(self, name: str, why_not: Mapping[str, str]) -> VerbTrial:
        engine = self.database.engine
        verb = engine.named(name)
        if verb is None:
            return VerbTrial(
                verb=name, outcome=TrialOutcome.LEFT_OUT, reason=engine.why_not(VerbName(name))
            )
        family = next((key for key in why_not if name.startswith(key)), "")
        reason = why_not[family] if family else "no trial here needs it"
        return VerbTrial(
            verb=name,
            outcome=TrialOutcome.NOT_TRIED,
            file=_file(self.database.engine, verb.path),
            reason=reason,
        )


def _held_against_contract(trial: VerbTrial) -> VerbTrial:
    """Return the trial, or a failed one instead if its rows lack columns that replayer reads."""
    wanted = COLUMNS.get(pattern_of(trial.verb), ())
    lacking = [name for name in wanted if name not in trial.columns]
    if trial.outcome is not TrialOutcome.OK or not trial.rows or not lacking:
        return trial
    reason = f"its rows lack the column {' and '.join(lacking)}"
    return trial.model_copy(update={"outcome": TrialOutcome.FAILED, "reason": reason})


def _file(engine: Engine, path: Path) -> str:
    """Return the path of a verb's file, which begins with the name of the engine's folder."""
    for folder in engine.folders:
        if path.is_relative_to(folder):
            return f"{folder.name}/{path.relative_to(folder).as_posix()}"
    return path.name
