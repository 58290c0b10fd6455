"""The words of a why: as the issue has them, at any width, whatever a result calls its things."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from replayer.analysis.attribution.explanation import PartChange
from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.samples import Side
from replayer.model import Fact, Spent
from replayer.report.documents import explanation as why_report
from tests.fixture_types import RunOf
from tests.known import known
from tests.made import USUAL, account, altered, at_once, csv_of, markdown_of, screen_of

EVIL = "=1+1</script><img src=x onerror=alert(1)>\x1b[2J\x07\u202e|\n" + "x" * 10_000


@pytest.fixture
def sides(run_of: RunOf) -> Callable[..., list[Side]]:
    """Return a function that makes two sides of six boots, the second slower in some parts."""

    def make(
        more: Mapping[Spent, float],
        names: tuple[str, str] = ("A", "B"),
        host: Mapping[str, Fact] | None = None,
        **changes: Any,
    ) -> list[Side]:
        random = np.random.default_rng(1)
        slower = {part: seconds + more.get(part, 0.0) for part, seconds in USUAL.items()}
        made = []
        for name, parts in zip(names, (USUAL, slower), strict=True):
            runs = []
            for number in range(6):
                one = account(random, parts, **changes)
                rate = one.operations / one.seconds
                run = run_of([rate], boot=f"{name}{number}", host=host if parts is slower else None)
                step = altered(run.steps[0], account=one)
                runs.append(altered(run, steps=(step,)))
            made.append(at_once(Side(name, tuple(runs))))
        return made

    return make


def shown(sides: Sequence[Side], width: int = 100) -> str:
    """Return the report of the comparison of two sides as plain text."""
    return screen_of(compare(*sides), full=True, width=width)


def test_the_sentence_is_the_one_that_was_asked_for(sides: Callable[..., list[Side]]) -> None:
    """Metric, ratio and verdict; the time of an operation; what moved with interval; the rest."""
    text = " ".join(shown(sides({Spent.ENTRY: 0.9e-6, Spent.COPY: 0.4e-6})).split())

    assert re.search(
        r"why: sessions.riops 0\.\d\d \(0\.\d\d to 0\.\d\d\) worse: \+1\.\d µs a block of 1\d\.\d: "
        r"kernel entry \+0\.\d\d \(0\.\d\d to [01]\.\d\d\), copy \+0\.\d\d \(0\.\d\d to 0\.\d\d\); "
        r"server code, [a-z, ]+ and [a-z ]+ unchanged",
        text,
    )
    assert "a session's time per operation in B less that in A: + takes longer in B" in text


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_terminal(sides: Callable[..., list[Side]], width: int) -> None:
    """At 80 and at 100 columns, with known causes of long values."""
    host = {"kernel.mitigations.retbleed": "Mitigation: " + "untrained return thunk; " * 9}
    text = shown(sides({Spent.ENTRY: 2e-6}, host=host), width)

    words = " ".join(text.split())
    assert "may explain: host.kernel.mitigations.retbleed: unknown in A, Mitigation: " in words
    assert max(map(cell_len, text.splitlines())) <= width


def test_accounts_that_do_not_close_or_rest_on_one_count_are_told_beside_it(
    sides: Callable[..., list[Side]],
) -> None:
    """What is named rests on them; accounts that are borne out are not spoken of."""
    more = {Spent.ENTRY: 2e-6}
    usual = " ".join(shown(sides(more)).split())
    unsure = " ".join(shown(sides(more, unsure=0.2)).split())
    loose = " ".join(shown(sides(more, residue=3e-6, unsure=0.2)).split())

    each = "in 6 of 6 windows of A, 6 of 6 windows of B"
    assert "mind: " not in usual
    assert f"mind: the time asleep rests on the kernel's counters alone {each}" in unsure
    assert f"mind: the account does not close {each}" in loose
    assert loose.count("mind: ") == unsure.count("mind: ") == 1
    pair = sides(more, unsure=0.2)
    assert "\n- mind: the time asleep" in markdown_of(pair, compare(*pair))
    half = " ".join(shown([sides(more)[0], sides(more, residue=3e-6)[1]]).split())
    assert "mind: the account does not close in 6 of 6 windows of B" in half
    assert " 0 of 6" not in half


def test_what_six_boots_could_not_show_is_not_ruled_out(sides: Callable[..., list[Side]]) -> None:
    """All parts a little slower, by less than could be shown of one: not that none explains it."""
    text = shown(sides({part: 0.03 * seconds for part, seconds in USUAL.items()}, noise=0.004))

    words = " ".join(text.split())
    assert "µs a block of 14" in words
    assert re.search("which part it is was not shown: the most is in|likely \\(p", words)
    assert "no part explains it" not in words


def test_what_may_not_have_been_shown_is_said_with_how_much_and_how_likely(
    sides: Callable[..., list[Side]],
) -> None:
    """A likely part, and the largest where a quarter could not have been shown: never no part."""
    compared = compare(*sides({Spent.ENTRY: 2e-6}))
    (why,) = compared.why
    entry = why.moved[0]
    doubtful = altered(entry, p=0.08, change=PartChange.LIKELY, needed=9)
    likely = altered(why, parts=(doubtful,))
    unclear = altered(why, parts=(altered(doubtful, change=PartChange.UNCLEAR),), could_show=False)
    said = why_report.section(likely, compared).title
    weak = why_report.section(unclear, compared).title
    strong = why_report.section(altered(unclear, could_show=True), compared).title

    assert re.search(r"kernel entry \+\d\.\d \(.*\) of \+\d\.\d, likely \(p 0\.08\); "
                     r"9 boots a side may show it", said)  # fmt: skip
    assert "which part it is was not shown: the most is in kernel entry +" in weak
    assert "unclear (p 0.08); 9 boots a side may show it" in weak
    assert "no part explains it" not in said + weak
    assert "no part explains it" in strong


def test_a_part_that_explains_little_is_not_told_as_the_reason(
    sides: Callable[..., list[Side]],
) -> None:
    """A tenth of the difference is named, and that most of it is in no part that was shown."""
    compared = compare(*sides({Spent.ENTRY: 2e-6}))
    why = compared.why[0]
    wider = altered(known(why.whole), shift=20e-6)
    words = why_report.section(altered(why, whole=wider), compared).title

    assert "where the most of it is was not shown" in words
    assert "not shown" not in why_report.section(why, compared).title


def test_why_there_is_none_is_said(sides: Callable[..., list[Side]], run_of: RunOf) -> None:
    """An old result on one side: by its name, in a sentence."""
    _, other = sides({Spent.ENTRY: 2e-6})
    old = at_once(Side("old", tuple(run_of([1e6 + i], boot=f"o{i}") for i in range(6))))

    assert "no why: old has no account of where the time went" in shown((old, other))


def test_markdown_has_the_sentence_and_all_parts(sides: Callable[..., list[Side]]) -> None:
    """The parts in a table below it."""
    pair = sides({Spent.ENTRY: 0.9e-6})
    text = markdown_of(pair, compare(*pair))

    assert "**Why: sessions.riops" in text
    assert re.search(
        r"\| kernel entry \| 0\.\d{3} \| 1\.\d{3} \| \+0\.\d{3} \| .* \| moved \|", text
    )
    assert "| µs a block | A | B | difference |" in text


def test_csv_has_the_parts_with_their_shifts(sides: Callable[..., list[Side]]) -> None:
    """Below the metrics, which have the columns that they had; every line has as many cells."""
    pair = sides({Spent.ENTRY: 0.9e-6})
    rows = list(csv.DictReader(io.StringIO(csv_of(pair, compare(*pair)))))
    entry = next(row for row in rows if row["metric"] == "sessions.time.kernel entry")

    assert rows[0]["metric"] == "sessions.riops"
    assert rows[0]["shift"] == ""
    assert entry["unit"] == "s/block"
    assert entry["verdict"] == "moved"
    assert 0.5e-6 < float(entry["shift_low"]) < float(entry["shift"]) < float(entry["shift_high"])
    assert not any(None in row or None in row.values() for row in rows)


def test_a_comparison_without_accounts_has_the_columns_it_had(run_of: RunOf) -> None:
    """Programs that read them go on."""
    pair = [Side(n, tuple(run_of([1.0 + i], boot=f"{n}{i}") for i in range(4))) for n in "AB"]

    assert csv_of(pair, compare(*pair)).splitlines()[0].endswith(",other_group")


def test_hostile_names_steer_nothing(sides: Callable[..., list[Side]]) -> None:
    """An operation, a group and a fact named to attack: no escape, no markup, no formula."""
    pair = sides(
        {Spent.ENTRY: 2e-6}, names=("A", EVIL), host={"kernel.mitigations.x": EVIL}, operation=EVIL
    )
    compared = compare(*pair)
    text, page, table = (shown(pair), markdown_of(pair, compared), csv_of(pair, compared))

    for one in (text, page, table):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", one)
    assert "<" not in page
    assert not any(cell.startswith("=") for row in csv.reader(io.StringIO(table)) for cell in row)
