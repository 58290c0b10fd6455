"""What the steps' own displays print of a result, in a few words."""

from typing import Any

import pytest

from replayer.model import StepResult
from replayer.report.documents import step_layout
from replayer.run.display import Brief, Sentence, Tone
from replayer.steps.buffers import display as of_buffers

UNITS = {
    "build": ("build.rows_per_second", "rows/s", {"build.rows": 3.0}),
    "ranges": ("ranges.completed", "ranges/s", {}),
    "replay": ("replay.statements", "statements/s", {}),
    "sessions": ("sessions.riops", "blocks/s", {}),
    "sessions of a load": ("sessions.completed", "statements/s", {"sessions.offered": 1.0}),
}
"""Kind of step -> the metric with its rate, the rate's unit, and what else it measured."""


def result_of(step: str, values: dict[str, float], **changed: Any) -> StepResult:
    """Return a result of a step that measured these values; its contents can be set."""
    plain = {
        "step": step,
        "name": step,
        "repeat": 1,
        "status": "done",
        "started": "2026-11-20T10:00:00+00:00",
        "elapsed": 1.0,
        "spec": {},
        "measurements": tuple(
            {"metric": metric, "value": value, "unit": "1/s", "better": "more"}
            for metric, value in values.items()
        ),
    }
    return StepResult.model_validate({**plain, **changed})


def brief_at(kind: str, rate: float) -> Brief:
    """Return a step in one line that came to this rate."""
    metric, _, others = UNITS[kind]
    facts = {"sessions.sustained": True} if kind == "sessions of a load" else {}
    result = result_of(kind.partition(" ")[0], {metric: rate, **others}, facts=facts)
    return step_layout.of(result).brief


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize(
    ("rate", "digits"),
    [(0.037, "0.0370"), (0.5, "0.500"), (9.54, "9.54"), (391_685.4, "391,685")],
)
def test_a_rate_of_a_step_in_one_line_has_three_digits(kind: str, rate: float, digits: str) -> None:
    """A load of one statement in two seconds is not 0 statements/s: the answer has its rate."""
    brief = brief_at(kind, rate)
    shown = f"{digits} {UNITS[kind][1]}"

    assert shown in brief.results[0]
    assert shown in brief.clause


def test_buffers_that_missed_one_block_of_many_did_not_find_all() -> None:
    """One block of 100,000 was read from the disk: 100 % would deny that."""
    row = {
        "buffers_bytes": 1 << 30,
        "hit_share": 0.99999,
        "full": True,
        "doubt": "",
        "completed_per_second": 9.0,
        "device_reads_per_second": None,
        "seconds": 6.0,
    }

    (shown,) = of_buffers.form(result_of("buffers", {}, tables={"buffers": (row,)})).brief.results
    assert shown == "99.999 % in 1.00 GiB"


WALKED = {"walk.files": 3.0, "walk.bytes": 100.0 * (1 << 20), "walk.throughput": 5e8}


@pytest.mark.parametrize(
    ("data", "stored", "unstored"),
    [
        (10, 10, "90.0 MiB are holes"),
        (94, 94, "6.00 MiB are holes"),
        (100, 50, "50.0 MiB are holes or saved by compression"),
        (95, 95, ""),
        (100, 100, ""),
    ],
)
def test_a_cold_walk_over_bytes_that_no_disk_stores_is_not_the_disks_rate(
    data: int, stored: int, unstored: str
) -> None:
    """The bytes of the rate and those of the proof must be the same: else the answer names both."""
    sizes = {"file_bytes": 100 << 20, "data_bytes": data << 20, "stored_bytes": stored << 20}
    cold = {"asked": "cold", "got": "cold", "method": "", "proof": "", **sizes}
    form = step_layout.of(result_of("walk", WALKED, cold=cold))
    bad = [part.text for part in form.parts if isinstance(part, Sentence) and part.tone is Tone.BAD]

    assert (unstored in form.brief.clause) if unstored else not bad
    assert ("from a cold disk" in form.brief.clause) != bool(unstored)
    assert [unstored in text for text in bad] == [True] * bool(unstored)


def replay_of(errors: int, fingerprints: int, slower: int, varying: int) -> StepResult:
    """Return a replay of two statements or one, with so many of each."""
    replayed = {"fingerprint": "a", "text": "SELECT ?", "kind": "select", "service_s": 1.0}
    many = max(fingerprints, slower)
    divergence = {"text": "SELECT ?", "against": "log", "ours": "", "theirs": "", "session": 1}
    known = {"source_rows": 1, "source_errors": 0, "rows": 1, "errors": 0, "executions": 9}
    times = dict.fromkeys(("source_p50_s", "p50_s", "source_p99_s", "p99_s", "total_s"), 1.0)
    slow = {
        "text": "SELECT ?",
        "verdict": "worse",
        "ratio": 3.0,
        "source_total_s": 0.5,
        "low": None,
    }
    return result_of(
        "replay",
        {"replay.errors": errors},
        facts={"replay.planned": many, "replay.whole": True},
        replayed=({**replayed, "planned": many, "executions": many, "errors": {"23505": errors}},),
        tables={
            "divergences": tuple(
                {**divergence, "what": what, "fingerprint": str(number), "first_s": 1.0}
                for what, number_of in (("rows", fingerprints), ("varying", varying))
                for number in range(number_of)
            ),
            "against_source": tuple(
                {**known, **times, **slow, "p": 0.01, "why": "", "fingerprint": str(number)}
                for number in range(slower)
            ),
        },
    )


@pytest.mark.parametrize(
    ("many", "words"),
    [
        (1, ["1 of 1 statement ran, 1 with an error of its own",
             "1 of 1 statement is slower than in the source",
             "1 fingerprint has other results than in the log",
             "1 more differs only in what varies by itself"]),
        (2, ["2 of 2 statements ran, 2 with an error of their own",
             "2 of 2 statements are slower than in the source",
             "2 fingerprints have other results than in the log",
             "2 more differ only in what varies by itself"]),
    ],
)  # fmt: skip
def test_the_words_of_a_replay_agree_with_their_numbers(many: int, words: list[str]) -> None:
    """One statement ran, two statements ran; one has an error of its own, two of their own."""
    form = step_layout.of(replay_of(many, many, many, many))
    sentences = [part.text for part in form.parts if isinstance(part, Sentence)]

    assert [next(one for one in sentences if one.startswith(begin)) for begin in words]
    nouns = "statement", "error"
    statements, errors = (f"{many} {noun}{'s' * (many > 1)}" for noun in nouns)
    assert form.brief.proof == f"{many} of {statements} ran, {errors}"
    assert form.brief.clause.startswith(f"{many} of {statements}, {words[0].partition(', ')[2]}; ")
