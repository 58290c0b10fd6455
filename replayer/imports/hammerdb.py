"""HammerDB's log: NOPM, TPM, latencies of the time profile, TPROC-H's times."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Fact, Measurement, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number, words

SIGN = re.compile(
    r"TEST RESULT : System achieved|^Vuser \d+:|^Hammerdb Log @|^HammerDB CLI|query set\(s\) in",
    re.MULTILINE,
)

_RESULT = re.compile(
    r"TEST RESULT : System achieved (?:(?P<nopm>\d{1,12}) NOPM from (?P<tpm>\d{1,12}) "
    r"(?P<database>.{1,60}?) TPM|(?P<tpm_old>\d{1,12}) (?P<database_old>.{1,60}?) TPM at "
    r"(?P<nopm_old>\d{1,12}) NOPM)"
)
_USERS = re.compile(r"(?P<users>\d{1,6}) Active Virtual Users configured")
_PERIOD = re.compile(r"Timing test period of (?P<minutes>\d{1,6}) in minutes")
_VERSION = re.compile(r"HammerDB CLI v(?P<version>[\d.]{1,20})")
_SUMMARY = re.compile(r">>>>> (?:SUMMARY OF|COMBINED METRICS)")
_PROCEDURE = re.compile(r">>>>> PROC: ?(?P<name>\w{1,40})")
_VALUE = re.compile(
    r"(?P<name>MIN|AVG|MAX|P\d\d|CALLS): (?P<value>\d{1,15}(?:\.\d{1,9})?)(?:ms)?\b"
)
_SET = re.compile(r"Completed (?P<sets>\d{1,6}) query set\(s\) in (?P<seconds>\d{1,9}) seconds")
_MEAN = re.compile(
    r"Geometric mean of query times returning rows \(\d{1,3}\) is "
    r"\"?(?P<seconds>\d{1,9}\.\d{1,9})"
)
_FAILED = re.compile(r"FINISHED FAILED|Error in Virtual User")
_NAMES = {"MIN": "min", "AVG": "mean", "MAX": "max"}


@dataclass
class _Test:
    """The values of one test of HammerDB, from the lines before and after its result."""

    spec: dict[str, str | int] = field(default_factory=dict)
    metrics: dict[str, Measurement] = field(default_factory=dict)
    minutes: int = 0
    failures: int = 0
    complete: bool = False


@dataclass
class _Reader:
    """The state of reading a HammerDB log: the tests so far, and the current place in the log."""

    tests: list[_Test] = field(default_factory=lambda: [_Test()])
    procedure: str = ""
    summary: bool = False
    facts: dict[str, Fact] = field(default_factory=dict)

    def begun(self) -> _Test:
        """Return the test without a result that the current line belongs to.

        It is a new test if the last one has its result already.
        """
        if self.tests[-1].complete:
            self.tests.append(_Test())
            self.procedure, self.summary = "", False
        return self.tests[-1]


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each pair of number of users and database; equal tests are repeats.

    `label` is the user's name for the runs.  Raises Impossible if the file has no result.
    """
    reader = _Reader()
    for at, line in source.lines():
        if not _line(reader, line):
            source.unread.line(at, line)
    steps = [ImportedStep(_step(test, reader.facts), {}) for test in reader.tests if test.metrics]
    if not steps:
        raise Impossible(f"{source.name} has no TEST RESULT or query set of HammerDB in it")
    runs = imported.runs(source, "hammerdb", label, steps)
    return ImportResult(tuple(map(imported.told_of_repeats, runs)), source.unread.all())


def _line(reader: _Reader, line: str) -> bool:
    """Add the values of a line to the tests; return False only for a result that cannot be read.

    The log is full of lines without values, so those are not reported as unread.
    """
    if result := _RESULT.search(line):
        _result(reader, result)
    elif users := _USERS.search(line):
        reader.begun().spec["users"] = int(users["users"])
    elif period := _PERIOD.search(line):
        reader.begun().minutes = int(period["minutes"])
    elif version := _VERSION.search(line):
        reader.facts["version"] = version["version"]
    elif _FAILED.search(line):
        reader.tests[-1].failures += 1
    elif line.lstrip().startswith((">>>>>", "CALLS:", "P99:")):
        _profile(reader, line)
    elif not _queries(reader, line):
        return "TEST RESULT" not in line
    return True


def _result(reader: _Reader, match: re.Match[str]) -> None:
    test = reader.begun()
    test.complete = True
    test.spec["database"] = words(match["database"] or match["database_old"])
    for name in ("nopm", "tpm"):
        value = number(match[name] or match[f"{name}_old"])
        test.metrics[name] = measured(f"hammerdb.{name}", value, "1/min")


def _profile(reader: _Reader, line: str) -> None:
    """Add latencies from a line of the time profile to the last test, if it is of all users.

    Profiles of single users are skipped.
    """
    if _SUMMARY.search(line):
        reader.summary, reader.procedure = True, ""
    elif procedure := _PROCEDURE.search(line):
        reader.procedure = procedure["name"].lower()
    elif reader.summary and reader.procedure:
        for value in _VALUE.finditer(line):
            if value["name"] != "CALLS":
                leaf = _NAMES.get(value["name"], value["name"].lower())
                name = f"hammerdb.{reader.procedure}.latency.{leaf}"
                seconds = number(value["value"]) / 1000
                reader.tests[-1].metrics[name] = measured(name, seconds, "s", Better.LESS)


def _queries(reader: _Reader, line: str) -> bool:
    """Add a time of TPROC-H, in seconds, from a line to its test; return whether it has one."""
    if done := _SET.search(line):
        test = reader.begun()
        test.complete = True
        test.spec["query_sets"] = int(done["sets"])
        seconds = number(done["seconds"])
        test.metrics["set"] = measured("hammerdb.query_set.elapsed", seconds, "s", Better.LESS)
    elif mean := _MEAN.search(line):
        seconds = number(mean["seconds"])
        reader.tests[-1].metrics["mean"] = measured(
            "hammerdb.query.geometric_mean", seconds, "s", Better.LESS
        )
    else:
        return False
    return True


def _step(test: _Test, facts: dict[str, Fact]) -> StepResult:
    notes = []
    if test.failures:
        notes.append(f"lines about virtual users that failed: {test.failures}")
    return imported.step(
        "hammerdb",
        "hammerdb",
        elapsed=60.0 * test.minutes,
        spec=test.spec,
        measurements=_rates(test),
        facts=facts,
        notes=notes,
    )


def _rates(test: _Test) -> Iterator[Measurement]:
    yield from test.metrics.values()
