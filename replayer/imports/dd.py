"""dd: the last lines of GNU's, busybox's and BSD's; copies of the same size are repeats."""

import re

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Fact, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number

SIGN = re.compile(
    r"^\d{1,18} bytes (?:\([^)\n]{1,60}\) )?(?:copied,|transferred in) ", re.MULTILINE
)

_COPIED = re.compile(
    r"(?P<bytes>\d{1,18}) bytes (?:\([^)]{1,60}\) )?(?:copied,|transferred in) "
    r"(?P<seconds>\d{1,12}(?:[.,]\d{1,12})?(?:e-?\d{1,3})?) ?(?:secs?|seconds|s)\b.{0,80}"
)
_TRANSLATED = re.compile(
    r"\d{1,18} (?:[^\d(]{1,40}\([^)]{1,60}B\).{1,120}|\S{1,40} \S{1,40}, [\d.,]{1,20} s, .{1,40}/s)"
)
"""The same line in another language: 10485760 Bytes (10 MB, 10 MiB) kopiert, 0,0047 s, 2,2 GB/s."""
_RECORDS = re.compile(r"(?P<full>\d{1,18})\+(?P<part>\d{1,18}) records (?P<way>in|out)")


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each combination of machine and number of copied bytes.

    dd's final result follows its lines of records (such as 10+0 records in).  If the file has such
    results, all others are interim ones of status=progress, and are skipped.  `label` is the user's
    name for the runs.  Raises Impossible if the file has no result.
    """
    ends: list[ImportedStep] = []
    others: list[ImportedStep] = []
    host: dict[str, Fact] = {}
    blocks, translated = None, ""
    for at, raw in source.lines():
        line = raw.strip()
        if records := _RECORDS.fullmatch(line):
            blocks = int(records["full"]) if records["part"] == "0" else 0
        elif copied := _COPIED.fullmatch(line):
            step = _step(copied, blocks or 0)
            (others if blocks is None else ends).append(ImportedStep(step, host))
            blocks = None
        elif facts := imported.host(line):
            host = {**host, **facts}
        elif "dd " not in line:
            translated = translated or (line if _TRANSLATED.fullmatch(line) else "")
            source.unread.line(at, line)
    if translated and not ends + others:
        raise Impossible(
            f"{source.name} is of a dd that wrote in another language than English, such as "
            f"{imported.quoted(translated)!r}: record it with LC_ALL=C"
        )
    if not ends + others:
        raise Impossible(f"{source.name} has no line of dd with the bytes that it copied")
    runs = imported.runs(source, "dd", label, ends or others)
    return ImportResult(tuple(map(imported.told_of_repeats, runs)), source.unread.all())


def _step(copied: re.Match[str], blocks: int) -> StepResult:
    """Return the step of a copy from the line about it; compute the rate, as dd's is rounded.

    `blocks` is the number of records, 0 if it is not known or a record was partial.
    """
    size, elapsed = int(copied["bytes"]), number(copied["seconds"].replace(",", "."))
    block = {"block_size": size // blocks} if blocks and not size % blocks else {}
    measurements = [measured("dd.elapsed", elapsed, "s", Better.LESS)]
    if elapsed:
        measurements.append(measured("dd.throughput", size / elapsed, "bytes/s"))
    return imported.step(
        "dd", "dd", elapsed=elapsed, spec={"bytes": size, **block}, measurements=measurements
    )
