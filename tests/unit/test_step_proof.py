"""The proof of a repeated step: what the sentences of its repeats have in common, and no more."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from replayer.model import Better, Fact, Measurement, Status, StepResult
from replayer.report.documents import step_layout, step_proof
from replayer.report.documents.step_summary import Proof
from replayer.run.display import Brief, Form, Sentence, Tone, Verbatim
from tests.made import ledger


def result_of(step: str, repeat: int, **changed: Any) -> StepResult:
    """Return a finished repeat of a step; its contents can be set."""
    started = "2026-11-26T12:00:00+00:00"
    plain = {"step": step, "name": step, "status": Status.DONE, "started": started}
    return StepResult.model_validate(
        {**plain, "repeat": repeat, "elapsed": 1.0, "spec": {}, "measurements": (), **changed}
    )


def proofs_of(results: Sequence[StepResult]) -> list[Proof]:
    """Return the proofs of a step with these repeats."""
    return list(step_proof.proofs(results, list(map(step_layout.of, results))))


def proofs_by(*forms: Form) -> list[Proof]:
    """Return the proofs of a step whose repeats have these forms."""
    results = [result_of("own", number) for number in range(1, len(forms) + 1)]
    return list(step_proof.proofs(results, forms))


def filled(repeat: int, doubts: Mapping[int, str]) -> StepResult:
    """Return a repeat of `buffers` with a reason to doubt the share of some sizes, in MiB."""
    rows = [
        {
            "buffers_bytes": size << 20,
            "hit_share": 0.5,
            "completed_per_second": 9.0,
            "device_reads_per_second": None,
            "seconds": 6.0,
            "full": size not in doubts,
            "doubt": doubts.get(size, ""),
        }
        for size in (128, 256, 512)
    ]
    return result_of("buffers", repeat, tables={"buffers": rows})


@pytest.mark.parametrize(
    ("doubts", "texts"),
    [
        (
            [{128: "not full", 512: "not full"}, {512: "not full"}],
            ["128 MiB: not full in 1 of 2", "512 MiB: not full"],
        ),
        (
            [{128: "not full"}, {512: "not full"}],
            ["128 MiB: not full in 1 of 2", "512 MiB: not full in 1 of 2"],
        ),
        (
            [{128: "4 left", 512: "5 left"}, {256: "9 left", 512: "7 left"}],
            [
                "128 MiB: 4 left in 1 of 2",
                "512 MiB: 5 to 7 left",
                "256 MiB: 9 left in 1 of 2",
            ],
        ),
        ([{128: "4 left"}, {128: "4 left"}], ["128 MiB: 4 left"]),
    ],
)
def test_doubts_of_buffers_of_different_sizes_are_not_one(
    doubts: Sequence[Mapping[int, str]], texts: list[str]
) -> None:
    """The size is what a doubt is about; the other numbers are measured."""
    found = proofs_of([filled(number, each) for number, each in enumerate(doubts, 1)])

    assert [one.text for one in found] == [f"buffers of {text}" for text in texts]
    assert {one.brief for one in found} == {"not proven full"}


def test_a_doubt_of_each_size_has_its_own_repeats() -> None:
    """In the report on the repeats, too."""
    doubts = [{128: "not full", 512: "not full"}, {512: "not full"}]
    parts = step_proof.of_repeats([filled(n, each) for n, each in enumerate(doubts, 1)])

    assert [one.text for one in parts if isinstance(one, Sentence)] == [
        "buffers of 128 MiB: not full in repeat 1",
        "buffers of 512 MiB: not full in repeats 1, 2",
    ]


def judging(*texts: str, proof: str = "") -> Form:
    """Return a form with these sentences, all with a bad tone."""
    return Form([Sentence(text, Tone.BAD) for text in texts], brief=Brief(proof=proof))


@pytest.mark.parametrize(
    ("forms", "texts"),
    [
        ([judging("5 rows"), judging("7 rows")], ["5 to 7 rows"]),
        # Nothing shows which number is the name of what a sentence is about.
        (
            [judging("part 1: bad", "part 2: bad"), judging("part 2: bad")],
            ["part 1: bad in 1 of 2", "part 2: bad"],
        ),
        (
            [judging("part 3: bad"), judging("part 1: bad", "part 2: bad")],
            [f"part {n}: bad in 1 of 2" for n in (3, 1, 2)],
        ),
        ([judging("bad", "bad"), judging("bad")], ["bad"]),
    ],
)
def test_sentences_of_which_a_repeat_has_several_are_one_only_if_they_are_equal(
    forms: Sequence[Form], texts: list[str]
) -> None:
    """A range over them would name what no repeat has."""
    assert [one.text for one in proofs_by(*forms)] == texts


def searched(repeat: int, multiple: float, low: float, high: float) -> StepResult:
    """Return a repeat of `capacity` that found a multiple with this interval."""
    facts: dict[str, Fact] = {
        "capacity.required_per_second": 500.0,
        "capacity.objective": "p99 of 20 ms",
        "capacity.clear": True,
    }
    values = {"multiple": multiple, "low": low, "high": high}
    measurements = [
        Measurement(metric=f"capacity.{name}", value=value, unit="times", better=Better.MORE)
        for name, value in values.items()
    ]
    return result_of("capacity", repeat, facts=facts, measurements=measurements)


def test_intervals_of_repeats_are_not_mixed() -> None:
    """Each multiple stands with its own interval, and a cut text with its own length."""
    found = proofs_of([searched(1, 1.05, 0.95, 1.15), searched(2, 1.1, 1.0, 1.21)])
    begin = "times the required 500/s with p99 of 20 ms (95 % interval"

    assert [one.text for one in found] == [
        f"1.05 {begin} 0.950 to 1.15) in 1 of 2",
        f"1.10 {begin} 1.00 to 1.21) in 1 of 2",
    ]
    ends = [f"… ({len(one.text.removesuffix(' in 1 of 2'))} characters) in 1 of 2" for one in found]
    assert [one.brief.endswith(end) for one, end in zip(found, ends, strict=True)] == [True, True]


def test_a_text_is_cut_after_its_numbers_are_combined() -> None:
    """The length of a cut text is no number of the step."""
    end = f"rows {'that were read ' * 5}at last"
    (found,) = proofs_by(judging(f"9 {end}"), judging(f"10 {end}"))
    whole = f"9 to 10 {end}"

    assert found.text == whole
    assert found.brief == f"{whole[: step_proof.BRIEF].rstrip()}… ({len(whole)} characters)"


@pytest.mark.parametrize(
    ("ratios", "device_reads", "end", "own"),
    [
        ([1.0], 1000.0, "device reads 1,000/s -> physical (ratio 1.000)", ""),
        ([0.99], 1000.0, "device reads 1,000/s -> physical (ratio 0.990)", ""),
        ([0.012], 57_009.0, "device reads 57,009/s -> physical (ratio 0.012)", "12/s"),
        ([0.5, 0.012, 0.3], 1000.0, "device reads 1,000/s -> physical (ratio 0.300)", "300/s"),
        ([None], 57_009.0, "device reads 57,009/s -> physical", ""),
    ],
)
def test_a_ratio_has_the_reads_of_which_it_is_where_others_read_too(
    ratios: Sequence[float | None], device_reads: float, end: str, own: str
) -> None:
    """`device reads 57,009/s -> cached (ratio 0.012)` has two numbers of which none is the other's.

    The device's counter is of all programs, and the ratio is of the step's reads alone.
    """
    results = [
        result_of("sessions", number, ledger=ledger(ratio=ratio, device_reads=device_reads))
        for number, ratio in enumerate(ratios, 1)
    ]
    many = len(results) > 1
    parts = list(step_proof.of_repeats(results) if many else step_proof.of_result(results[0]))
    (line,) = (part.text for part in parts if isinstance(part, Verbatim))

    assert line.endswith(end)
    words = f"the device read for others, too: the ratio is of the step's {own}"
    found = [part.text for part in parts if isinstance(part, Sentence)]
    assert [text for text in found if "for others" in text] == ([words] if own else [])
