"""report: a run on the terminal, whole and honest at 100 and at 80 columns."""

import contextlib
import csv
import html
import io
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from replayer.analysis.advice import warnings
from replayer.analysis.differences.samples import Side
from replayer.model import (
    Advice,
    Better,
    Cold,
    Ledger,
    Mark,
    Measurement,
    ReadOrigin,
    Reads,
    Run,
    Series,
    StackProfile,
    Status,
    StepResult,
    Temperature,
)
from replayer.report.documents import (
    records,
    run_details,
    run_headline,
    run_screen,
    series_means,
    step_layout,
    summary,
)
from replayer.report.sanitize import sanitize
from replayer.report.terminal import console, overview, tables
from replayer.report.writers import terminal_writer
from replayer.report.writers.markdown_writer import plain
from replayer.results import store
from replayer.run.event_stream.publisher import step_end
from tests.command import Replayer
from tests.fixture_types import Compare, RunOf
from tests.known import known
from tests.made import altered, csv_of, markdown_of, page_of

FIXTURES = Path(__file__).parents[1] / "fixtures"
PGIO = (
    "DBNAME:  pgio. 4 schemas, 1 threads(each). Run time: 300 seconds. "
    "RIOPS >393232< CACHE_HITS/s >15711<"
)
LEDGER = (
    "shared-buffer hits 15,711/s | page-cache hits 393,200/s | device reads 32/s -> "
    "cached (ratio 0.000)"
)


Change = Callable[[StepResult], dict[str, object]]


def details(found: Run, path: Path | None = None) -> Group:
    """Return the details of a run as a terminal has them."""
    return terminal_writer.render(run_details.document(found, path))


def shown(found: Run, width: int = 100, path: Path | None = None) -> str:
    """Return a run's report as plain text."""
    return console.text(details(found, path), width=width)


def with_steps(found: Run, *steps: StepResult, **changes: object) -> Run:
    """Return a run of just these steps."""
    return altered(found, steps=steps, **changes)


def step(found: Run, name: str) -> StepResult:
    """Return a run's step of that name."""
    return next(one for one in found.steps if one.name == name)


def unlike_asked(found: Run) -> list[str]:
    """Return the loud remarks on steps."""
    points = summary.summarise([found]).points
    return [point.text for point in points if point.loud and point.steps]


def repeated(found: Run, changes: Sequence[Change]) -> Run:
    """Return a run with its sessions repeated, each repeat with its own changes."""
    sessions = found.steps[-2:]
    steps = [
        altered(one, repeat=number, **change(one))
        for number, change in enumerate(changes, 1)
        for one in sessions
    ]
    workload = altered(found.workload, repeat=len(changes))
    return with_steps(found, found.steps[0], *steps, workload=workload)


def faster(factor: float) -> Change:
    """Return a change that multiplies RIOPS."""

    def change(one: StepResult) -> dict[str, object]:
        measurements = [
            altered(m, value=m.value * factor) if m.metric == "sessions.riops" else m
            for m in one.measurements
        ]
        return {"measurements": tuple(measurements)}

    return change


def failed(_: StepResult) -> dict[str, object]:
    """Return a change that makes a repeat a failed one."""
    return {
        "status": Status.FAILED,
        "reason": "4 of 4 sessions lost the server (server closed the connection unexpectedly)",
        **dict.fromkeys(("cold", "ledger", "series")),
        **dict.fromkeys(("measurements", "notes"), ()),
        **{name: {} for name in ("latency", "tables", "facts", "printed")},
    }


@pytest.mark.parametrize("width", [100, 80])
def test_the_report_of_a_run(stored: Run, golden: Compare, width: int) -> None:
    """A run of every kind of step is shown as it was when a person last looked at it."""
    golden(shown(stored, width, Path("results/20261120.json")), f"run-{width}.txt")


def test_commands_of_the_screen_take_a_folder_with_spaces(stored: Run) -> None:
    """What is printed can be pasted into a shell, whatever the name of the results' folder."""
    alone = altered(stored, sizing=None)
    text = console.text(overview.render(alone, Path("my results") / "a.json"), width=200)

    assert "--results 'my results' --full" in text
    following = next(line for line in text.splitlines() if line.startswith("next "))
    assert following.count("--results 'my results'") == following.count("replayer ") == 2


def test_one_screen_of_a_demo(golden: Compare) -> None:
    """A real demo is one screen: at most 45 lines at 100 columns, 60 at 80, pgio's lines whole."""
    demo = store.load(FIXTURES / "screen" / "demo.json")
    path = Path("results") / f"{demo.id}.json"
    screens = {w: console.text(overview.render(demo, path), width=w) for w in (100, 80)}

    assert len(screens[100].splitlines()) <= 45
    assert len(screens[80].splitlines()) <= 60
    assert all(cell_len(line) <= width for width in screens for line in screens[width].splitlines())
    assert sum(line.startswith("DBNAME:") for line in screens[100].splitlines()) == 2
    for width, text in screens.items():
        golden(text, f"screen-{width}.txt")


def test_each_warning_names_its_anchor_in_the_reference(stored: Run) -> None:
    """The screen, all details and the page have the name of each warning that they print."""
    known = Path("docs/reference.md").read_text().splitlines()
    told = warnings.on(stored)
    found = altered(stored, advice=told)
    screen = console.text(overview.render(found), width=200)
    page = page_of([Side("x", (found,))])

    assert told
    for advice in told:
        assert f"### {advice.name}" in known
        assert f"({advice.name})" in shown(found, 200)
        assert f"({advice.name})" in page
    assert all(f"({advice.name})" in screen for advice in told if str(advice) in screen)
    assert "replayer help NAME explains each" in screen


def test_a_step_that_is_doubted_has_a_remark_on_the_screen(stored: Run) -> None:
    """However few remarks fit: `care [5,7]` has the text of one of them, for each step."""
    names = list(dict.fromkeys(one.name for one in stored.steps))
    about = [names[:2]] * 5 + [[name] for name in names] + [names[2:4], []]
    advice = tuple(
        Advice(steps=tuple(of), found=f"finding {chr(65 + number)}", name=f"w{number}")
        for number, of in enumerate(about)
    )
    steps = [altered(one, cold=None, ledger=None) for one in stored.steps]
    found = with_steps(altered(stored, advice=advice), *steps)
    one = summary.summarise([found])

    for document in run_screen.documents(found):
        screen = console.text(terminal_writer.render(document), width=200)
        on_screen = {int(number) for number in re.findall(r"^ *\[(\d+)\]", screen, re.MULTILINE)}
        assert len(on_screen) < len(one.points)
        for line in one.lines:
            assert set(line.see) & on_screen


def test_one_file_that_is_still_empty_is_no_result(stored: Run) -> None:
    """An engine of one file, with its rows still in the log, has no size yet, and `1 file`."""
    changed = {"build.table_bytes": 0.0, "walk.files": 1.0}
    steps = [
        altered(
            one,
            measurements=tuple(
                altered(m, value=changed.get(m.metric, m.value)) for m in one.measurements
            ),
        )
        for one in (step(stored, "build"), step(stored, "walk"))
    ]
    screen = console.text(overview.render(with_steps(stored, *steps)), width=200)

    assert " rows/s  " in screen
    assert " 0 B" not in screen
    assert "1 file, " in screen


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ((100.0, 101, 99, 100, 102, 98), "the machine kept its speed (cpu)"),
        ((60.0, 50, 40, 100, 70, 60), "not known whether the machine kept its speed: cpu -40%"),
        ((60.0, 50, 40, 61, 70, 60), ""),
    ],
)
def test_a_machine_kept_its_speed_only_if_that_was_seen(
    stored: Run, after: tuple[float, ...], said: str
) -> None:
    """Noise that hides a change of 40 percent is not proof that there was none."""
    before = (100.0, 101.0, 99.0, 100.0, 102.0, 98.0)
    control = {"cpu.before": before, "cpu.after": after, "processes": (6.0,)}
    found = altered(stored, control=control)
    screen = console.text(overview.render(found), width=200)

    assert said in screen
    assert ("kept its speed" in screen) is bool(said)


def test_the_answer_is_the_last_thing_on_the_screen(stored: Run) -> None:
    """What a terminal shows at the end is the headline, and it is that of the page and of JSON."""
    text = console.text(overview.render(stored, Path("results/x.json")), width=1000)
    said = text.splitlines()[-1]

    assert said == str(summary.summarise([stored]).headline)
    assert said == summary.with_headline(stored).headline
    assert said in html.unescape(page_of([Side("x", (stored,))]))
    assert plain(said) in markdown_of([Side("x", (stored,))], None)


def test_markdown_of_a_run_has_its_steps_with_their_proofs(stored: Run) -> None:
    """Each step has a row with every proof, its sign and its verdict, and the remarks are there."""
    one = summary.summarise([stored])
    text = markdown_of([Side("x", (stored,))])
    rows = [row for row in text.splitlines() if row.startswith("| ")]

    assert any(row.startswith("| step | ") and "| proof | believe? |" in row for row in rows)
    for step_line in one.lines:
        row = next(row for row in rows if row.startswith(f"| {plain(step_line.name)} "))
        for proof in step_line.proofs:
            assert plain(f"{'✓' if proof.good else '✗'} {proof.text}") in row
    for number, point in enumerate(one.points, 1):
        assert f"\n{number}. {plain(point.text)}" in text


def test_the_next_command_is_on_the_page_and_in_markdown_too() -> None:
    """What the terminal has after `next` stands in the answer of the other two."""
    demo = store.load(FIXTURES / "screen" / "demo.json")
    todo = summary.summarise([demo]).headline.todo
    sides = [Side("x", (demo,))]

    assert todo
    assert todo in html.unescape(page_of(sides)).partition("<main>")[0]
    assert f"| next | {plain(todo)} |" in markdown_of(sides)


def test_the_report_of_repeats(stored: Run, golden: Compare) -> None:
    """Repeats are shown as medians and ranges, with every line and every failure that counts."""
    found = repeated(stored, [faster(1.0), faster(1.02), faster(0.97), failed])

    golden(shown(found), "repeats-100.txt")


def test_the_report_of_a_run_that_failed(stored: Run, golden: Compare) -> None:
    """A run that failed in its second step says so at its head, at the step and at its end."""
    broken = altered(
        step(stored, "flush"),
        status=Status.FAILED,
        reason="the server ended: no space left on device",
        **dict.fromkeys(("measurements",), ()),
        facts={},
    )
    found = with_steps(
        stored,
        stored.steps[0],
        broken,
        status=Status.FAILED,
        error="flush: the server ended: no space left on device",
        advice=(),
    )

    golden(shown(found), "failed-100.txt")


@pytest.mark.parametrize("begin", ["", "client1: "])
@pytest.mark.parametrize("is_of_step", [True, False])
def test_the_error_of_a_run_is_named_where_it_belongs(
    stored: Run, begin: str, *, is_of_step: bool
) -> None:
    """It is at the step, or in the answer, in full, and once; `show --full` has both parts."""
    why = " ".join(f"word{number}" for number in range(40))
    reason = why if is_of_step else ""
    broken = altered(step(stored, "flush"), status=Status.FAILED, reason=reason)
    failed = {"status": Status.FAILED, "error": begin + why}
    found = with_steps(stored, stored.steps[0], broken, advice=(), sizing=None, **failed)
    screen = " ".join(console.text(overview.render(found), width=80).split())
    full = " ".join(shown(found, 80).split())

    assert (screen.count(why), full.count(why)) == (1, 1)
    assert (screen.count("word7"), full.count("word7")) == (1, 1)
    assert why in str(summary.summarise([found]).headline)
    assert any(why in one.text for one in summary.summarise([found, stored]).points)


def test_a_step_that_nobody_knows(stored: Run, golden: Compare) -> None:
    """A plug-in's numbers, tables, facts and series are shown without a line of code for it."""
    probe = StepResult(
        step="orion",
        name="orion",
        repeat=1,
        status=Status.DONE,
        started="2026-11-20T15:45:00+00:00",
        elapsed=12.5,
        spec={
            "step": "orion",
            "name": "orion",
            "once": False,
            "block_size": "8k",
            "depths": [1, 2],
        },
        measurements=(
            Measurement(metric="orion.small.iops", value=12345.6, unit="1/s", better=Better.MORE),
            Measurement(metric="orion.small.latency", value=8.1e-5, unit="s", better=Better.LESS),
            Measurement(metric="orion.large", value=1.9e9, unit="bytes/s", better=Better.MORE),
        ),
        latency={"small": step(stored, "walk").latency["block"]},
        tables={
            "depths": (
                {"depth": 1, "kind": "small", "iops": 12345.6, "throughput_bytes": 101134950},
                {"depth": 2, "kind": "large", "iops": 1812.0, "throughput_bytes": 1900020000},
            )
        },
        facts={"direct": True, "path": "/mnt/nvme/replayer/orion", "tags": ("a", "b")},
        series=Series(
            started="2026-11-20T15:45:00+00:00",
            seconds=(1.0, 2.0, 3.0),
            columns={"orion.iops": (1.0, None, 4.0), "cpu.%usr": (1.0, 2.0, 3.0)},
        ),
    )

    golden(shown(with_steps(stored, probe, engine=None, advice=())), "unknown-step-100.txt")


@pytest.mark.parametrize("text", ["x" * 10_000, "\x1b[2J\x1b]0;owned\x07", "a b " * 2_500, "<b>"])
def test_what_somebody_calls_a_run_cannot_fill_or_steer_a_terminal(stored: Run, text: str) -> None:
    """Label, note and tag are cut with how long they were, and their escapes are written out."""
    named = {"label": text, "notes": (text,), "tags": {"disk": text}}
    plain = {"label": "a", "notes": ("b",), "tags": {"disk": "c"}}
    lines = shown(stored.model_copy(update=named)).splitlines()

    assert all(line.isprintable() for line in lines)
    assert len(lines) < len(shown(stored.model_copy(update=plain)).splitlines()) + 20
    assert any("(10,000 characters)" in line for line in lines) == (len(text) == 10_000)


@pytest.mark.parametrize("width", [100, 80])
def test_nothing_is_wider_than_asked(stored: Run, width: int) -> None:
    """Every line fits; pgio's line and the ledger are whole where programs look for them."""
    lines = shown(stored, width, Path("x" * 300)).splitlines()

    wide = [line for line in lines if cell_len(line) > width]
    assert all(line.startswith(("DBNAME:", "shared-buffer hits")) for line in wide)
    assert wide == [] if width == 80 else {PGIO, LEDGER} <= set(lines)
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize("width", [36, 40, 55, 70])
def test_no_number_of_a_result_is_cut_on_a_narrow_terminal(stored: Run, width: int) -> None:
    """Where the columns of the table of steps cannot keep their words, each step is a list."""
    results = [text for one in summary.summarise([stored]).lines for text in one.brief.results]
    numbers = {word for text in results for word in text.split() if word[0].isdigit()}
    screen = console.text(overview.render(stored), width=width)
    steps = screen.partition("where the time went")[0]

    assert numbers
    assert numbers <= set(steps.split())
    assert all(cell_len(line) <= width for line in steps.splitlines())


@pytest.mark.parametrize("label", ["--html", "-x", "a\nb", "\x1b[31mred", "x" * 200])
def test_the_next_command_has_a_word_that_is_taken_as_the_run(run_of: RunOf, label: str) -> None:
    """A label that would be an option, or is not printed as it is, gives way to the run's id."""
    run = run_of([1.0], label=label)
    typed = run_headline.headline([run], ()).todo
    words = shlex.split(typed.partition("then replayer compare ")[2])

    assert words[1:] == ["B"]
    assert words[0] in run.id


def test_a_clock_that_was_set_back_gives_no_duration(stored: Run) -> None:
    """A run that ended before it began lasted for a time that is not known."""
    odd = stored.model_copy(update={"finished": "2020-01-01T00:00:00+00:00"})
    screen = " ".join(console.text(overview.render(odd), width=100).split())

    assert "duration not known (the clock was set back meanwhile)" in screen
    assert " · -" not in screen


def test_no_word_of_the_data_is_cut_at_80_columns(stored: Run) -> None:
    """What stands on 100 columns stands on 80 as well: tables change their form, words are whole.

    Names of functions and rows of a collector's counters are among them.
    """
    cached = step(stored, "cached")
    stacks = {
        f"server;kernel;postgres;main;{name}_[k]": 900 - number
        for number, name in enumerate(("a_function_with_a_very_long_name_" * 2, "short", "b" * 40))
    }
    made = altered(
        known(cached.profile), payload=StackProfile.packed(stacks), samples=sum(stacks.values())
    )
    io = {"backend_type": "client backend", "object": "relation", "context": "normal"}
    numbers = {f"counter_{i}_of_{'many' * 3}": 1_000_003 + i for i in range(12)}
    tables_ = {"statistics.io": ({**io, **numbers},), "wide": ({"k": "x" * 70, **numbers},)}
    found = with_steps(stored, altered(cached, profile=made, tables=tables_))

    words = {width: set(shown(found, width).replace("─", " ").split()) for width in (80, 100)}
    assert "…" not in words[80] | words[100]
    assert words[100] - words[80] == set()
    assert max(map(cell_len, shown(found, 80).splitlines())) <= 80


def test_a_word_wider_than_its_place_is_broken_where_it_has_parts(stored: Run) -> None:
    """Options and paths go on below after a comma or slash, and nothing of them is lost."""
    path = "/opt/replayer/" + "/".join(f"folder{i}" for i in range(12))
    options = "rw,relatime," + ",".join(f"option{i}=65534" for i in range(12))
    host = {**stored.host, "fs.options": options, "os.name": path}
    text = shown(altered(stored, host=host), 80)
    rows = [row.strip() for row in text.splitlines()]

    assert path in "".join(rows)
    assert options in "".join(rows)
    assert any(row.endswith("/") for row in rows)
    assert any(re.search(r"option\d+=65534,$", row) for row in rows)
    assert max(map(cell_len, text.splitlines())) <= 80


def test_what_the_collectors_counted_is_a_few_lines(stored: Run) -> None:
    """Of a collector's table the largest rows are shown, without zeros; others are counted."""
    rows = tuple(
        {"backend_type": f"backend {i}", "reads": 10**i, "writes": 0, "hits": None}
        for i in range(6)
    )
    each = ({"kind": "read", "histogram": "16:1 32:16", "second": 1.0, "timed": 17},) * 9
    tables_ = {"statistics.io": rows, "block_latency.seconds": each}
    text = shown(with_steps(stored, altered(step(stored, "flush"), tables=tables_)))

    assert "backend 5   reads 100,000\n" in text
    assert "and 3 more in the result file" in text
    assert "writes" not in text
    assert "backend 0" not in text
    assert text.count("16:1") == 0
    assert text.count("device, bpftrace") == 1


def test_a_pipe_gets_the_plain_report(stored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal there is no escape sequence, and pgio's line stands alone on its line."""
    console.write(details(stored))

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert PGIO in out.splitlines()


def test_a_terminal_gets_colour_and_no_colour_takes_it(
    stored: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loud lines are red on a terminal, and NO_COLOR takes the colour away, not the words."""
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured, plain = io.StringIO(), io.StringIO()
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = console.Screen(file=coloured, force_terminal=True, width=100)
    terminal.print(details(stored))
    monkeypatch.setenv("NO_COLOR", "1")
    console.Screen(file=plain, force_terminal=True, width=100).print(details(stored))

    assert re.search(r"\x1b\[1;31m[^\x1b]*NOT COLD", coloured.getvalue())
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain.getvalue())
    assert "NOT COLD" in plain.getvalue()


def test_an_ascii_terminal_gets_ascii(stored: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without µ, blocks and dashes has letters for them, and the report whole."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    console.write(details(altered(stored, label="ядро")))
    stream.flush()

    text = raw.getvalue().decode("ascii")
    assert "label" in text
    assert PGIO in text
    assert "result" in text
    assert "p50 653 us   p95 1.27 ms" in text
    assert text.count("?") == len("ядро")


@pytest.mark.parametrize(
    "evil",
    [
        "\x1b[2J\x1b[31mred",
        "\x9b31m",
        "a\nb",
        "\u202egnp.exe",
        "[bold red]x[/]",
        "\x07\x08",
        "\ud800",
    ],
)
def test_words_of_others_cannot_steer_the_terminal(evil: str) -> None:
    """No control, direction or lone surrogate character of a label or hostname gets through."""
    text = console.text(tables.line(sanitize(evil)))

    assert text.count("\n") == 1
    assert text[:-1].isprintable()
    assert "[bold red]x[/]" in text or evil[0] != "["


def test_every_string_of_a_run_is_cleaned(stored: Run) -> None:
    """A run in which every string is hostile is shown with every escape written out."""

    def poison(value: Any) -> Any:
        if isinstance(value, str) and value not in {"build", "walk", "sessions"}:
            return value + "\x1b[2J\u202e[bold]"
        if isinstance(value, dict):
            return {poison(k) if "." in k else k: poison(v) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(poison(one) for one in value)
        return value

    steps = tuple(
        altered(
            one,
            name=poison(one.name),
            reason=poison(one.reason),
            notes=poison(("note",)),
            facts=poison(one.facts),
            printed={poison(k): poison(v) for k, v in one.printed.items()},
            steady=one.steady and altered(one.steady, words=poison(one.steady.words)),
            spec=poison(one.spec),
            tables={poison(name): poison(rows) for name, rows in one.tables.items()},
            cold=one.cold
            and altered(one.cold, why=poison("why"), proof=poison("p"), method=poison("m")),
            measurements=tuple(
                altered(m, metric=poison(m.metric), unit=poison(m.unit)) for m in one.measurements
            ),
        )
        for one in stored.steps
    )
    found = altered(
        stored,
        steps=steps,
        id=poison(stored.id),
        label=poison(stored.label),
        error=poison("error"),
        advice=(Advice(found=poison("advice"), todo=poison("todo")),),
        started=poison("x"),
        host=poison(stored.host),
        engine=altered(
            known(stored.engine), name=poison("pg"), settings={poison("a.b"): poison("c")}
        ),
        workload=altered(stored.workload, name=poison("demo"), source=poison("/a")),
    )

    for text in (
        shown(found, path=Path("/tmp/\x1b[2J")),
        shown(repeated(found, [lambda _: {}] * 2)),
    ):
        assert [line for line in text.splitlines() if not line.isprintable()] == []
        assert "\\x1b[2J" in text


def test_what_was_not_cold_is_loud(stored: Run) -> None:
    """Asked cold and got lukewarm is said at the step and again at the end, with the share."""
    text = shown(stored)

    assert "NOT COLD: asked cold, got lukewarm, 10.0% was in memory" in text
    assert "NOT PHYSICAL: asked physical, got mixed" in text
    last = text[text.index("what to know") :]
    assert "walk: asked cold, got lukewarm" in last
    assert "physical: asked physical, got mixed" in last


def test_repeats_that_differ_are_told_apart(stored: Run) -> None:
    """Each way in which repeats were not as asked names its repeats, and verdicts are counted."""
    cached = step(stored, "cached")
    physical = altered(known(cached.ledger), verdict=ReadOrigin.PHYSICAL)
    found = with_steps(
        stored,
        *(
            altered(cached, repeat=number, ledger=physical if number in (2, 4) else cached.ledger)
            for number in range(1, 6)
        ),
    )

    text = shown(found)
    assert "-> cached 3 of 5, physical 2 of 5" in text
    assert "NOT AS ASKED in repeats 2, 4: asked cached, got physical" in text
    assert unlike_asked(found) == ["cached in repeats 2, 4: asked cached, got physical"]


def test_the_ceiling_stands_beside_the_repeat_in_the_middle(stored: Run) -> None:
    """Of many repeats one is held against what the device can do: that of the median."""
    cached = step(stored, "cached")
    repeats = []
    for number, riops in enumerate((300.0, 100.0, 200.0), 1):
        reads = Reads(per_second=riops, block_bytes=8192, depth=4, access="random", device="vda")
        facts = {**cached.facts, "ceiling": f"RIOPS {riops:.0f} = 50 % of something"}
        change = {"repeat": number, "reads": reads, "facts": facts}
        repeats.append(cached.model_copy(update=change))

    told = [one for one in shown(with_steps(stored, *repeats)).splitlines() if "ceiling" in one]
    assert told == ["  ceiling of repeat 3, the middle one: RIOPS 200 = 50 % of something"]


@pytest.mark.parametrize(
    ("asked", "got", "loud"),
    [
        ("cold", "cold", False),
        ("cold", "lukewarm", True),
        ("cold", "hot", True),
        ("cold", "unknown", True),
        ("hot", "lukewarm", True),
        ("hot", "hot", False),
        ("unknown", "hot", False),
    ],
)
def test_coldness_is_loud_exactly_if_it_is_not_as_asked(
    stored: Run, asked: str, got: str, *, loud: bool
) -> None:
    """Every coldness but the one asked for is loud, an unproven one too."""
    walk = altered(
        step(stored, "walk"),
        cold=Cold(asked=Temperature(asked), got=Temperature(got), method="", proof="", why=""),
    )

    assert bool(unlike_asked(with_steps(stored, walk))) == loud
    # The live page has no green tick beside it, either.
    assert step_end(walk).doubt == (f"asked {asked}, got {got}" if loud else "")


@pytest.mark.parametrize(
    ("asked", "verdict", "loud"),
    [
        (None, "mixed", False),
        ("cached", "cached", False),
        ("physical", "mixed", True),
        ("physical", "unknown", True),
        ("cached", "physical", True),
    ],
)
def test_the_ledger_is_loud_exactly_if_it_is_not_as_asked(
    stored: Run, asked: str | None, verdict: str, *, loud: bool
) -> None:
    """Every verdict but the one asked for is loud, an unproven one too."""
    ledger = Ledger(
        asked=ReadOrigin(asked) if asked else None,
        verdict=ReadOrigin(verdict),
        window_seconds=30,
        riops=1000,
        buffer_hits=5,
        page_cache_hits=None,
        device_reads=None,
        device_read_bytes=None,
        ratio=None,
        device=None,
        note="the device's counters cannot be read",
    )
    found = with_steps(stored, altered(step(stored, "cached"), ledger=ledger))

    assert bool(unlike_asked(found)) == loud
    assert "page-cache hits unknown | device reads unknown" in shown(found)
    assert "the device's counters cannot be read" in shown(found)


def test_a_run_that_has_only_begun_is_shown(stored: Run) -> None:
    """A reserved run without host, engine or steps has a report, and it says `not finished`."""
    begun = altered(
        stored, steps=(), host={}, engine=None, finished=None, status=Status.RUNNING, advice=()
    )

    text = shown(begun)
    assert "running" in text
    assert "not finished" in text


def test_every_measurement_is_in_the_report(stored: Run) -> None:
    """No measurement of any step is dropped on the way to the screen."""
    for result in stored.steps:
        text = shown(with_steps(stored, result))
        for m in result.measurements:
            bare = altered(result, measurements=tuple(n for n in result.measurements if n != m))
            assert text != shown(with_steps(stored, bare)), m.metric


def test_averages_are_weighted_by_time_and_by_requests() -> None:
    """A mean is over time; r_await and areq-sz are means over requests, as of the whole window."""
    series = Series(
        started="",
        seconds=(1.0, 4.0),
        columns={
            "diskstats.r/s": (300.0, 100.0),
            "diskstats.w/s": (0.0, 0.0),
            "diskstats.r_await": (1.0, 4.0),
            "diskstats.areq-sz": (8.0, 16.0),
            "diskstats.%util": (None, 50.0),
        },
    )

    sheet = known(series_means.averages(series, "diskstats"))

    # 300 requests in the first second and 300 in the next three: 600 in 4 s.
    assert dict(zip(sheet.headings, sheet.rows[0], strict=True)) == {
        "r/s": "150",
        "w/s": "0",
        "r_await": "2.50",
        "areq-sz": "12.0",
        "%util": "50.0",
    }


def test_averages_are_of_the_measured_window_only() -> None:
    """What was sampled before and after the window does not count."""
    series = Series(
        started="",
        seconds=(1.0, 2.0, 3.0, 4.0),
        columns={"vmstat.us": (99.0, 10.0, 20.0, 99.0), "vmstat.wa": (None, None, None, 1.0)},
        window=(1.0, 3.0),
    )

    assert known(series_means.averages(series, "vmstat")).rows == [["15.0", "-"]]


@pytest.mark.parametrize(
    ("values", "room", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([7.0] * 4, 8, "████"),
        ([0.0, 0.0], 8, "▁▁"),
        ([1.0, None, 1.0], 8, "█ █"),
        ([0, 0, 4, 4, 8, 8], 3, "▁▅█"),
        ([1.0e308, 1.2e308, 1.0e308, 0.0], 2, "█▄"),
        ([], 8, ""),
    ],
)
def test_a_spark_line_starts_at_nothing(
    values: list[float | None], room: int, expected: str
) -> None:
    """The lowest block is 0, the highest the largest value; a gap is a blank; means if crowded."""
    assert tables.spark(values, room) == expected


@pytest.mark.parametrize(
    ("headings", "row"),
    [
        (["a"], ["word " * 9]),
        (["a", "b"], ["word " * 9, ""]),
        (["a", "b", "c"], ["w" * 7, "x", ""]),
    ],
)
def test_a_table_of_words_shows_rows_with_few_cells(headings: list[str], row: list[str]) -> None:
    """On a narrow terminal, with one column or with nothing in the last one."""
    screen = Console(file=io.StringIO(), width=8, force_terminal=True)
    with screen.capture() as shown:
        screen.print(tables.WordTable(headings, [row], ["bold"]))

    assert all(word in shown.get() for cell in row for word in cell.split())
    assert ("\x1b[1m" in shown.get()) == bool(row[-1])


def test_a_sheet_too_wide_is_continued_below() -> None:
    """No digit is ever cut off: columns go below, their rows' first word repeated."""
    headings = [f"column {i}" for i in range(20)]
    rows = [["first", *[f"{i}{i:06d}" for i in range(1, 20)]], ["second", *["1"] * 19]]

    text = console.text(tables.NumberTable(headings, rows), width=60)

    assert all(cell in text for cell in rows[0])
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("second") > 2


def test_the_middle_of_a_long_table_is_left_out() -> None:
    """Of 500 rows the first three and the last seven are shown, and a mark between them."""
    sheet = records.records([{"doubling": i, "table_bytes": 1024 * i} for i in range(500)])

    assert [row[0] for row in sheet.rows] == [*"012…", *map(str, range(493, 500))]
    assert sheet.headings == ["doubling", "table"]
    assert sheet.rows[-1][1] == "499 KiB"


@pytest.mark.parametrize(
    ("metric", "group", "leaf"),
    [
        ("sessions.riops", "", "riops"),
        ("sessions.latency.p99.9", "latency", "p99.9"),
        ("sessions.latency.max", "latency", "max"),
        ("walk.read.real", "read", "real"),
        ("alone", "", "alone"),
        ("a.b.c.d", "b.c", "d"),
    ],
)
def test_metrics_are_grouped_by_what_they_share(metric: str, group: str, leaf: str) -> None:
    """A metric is the step, what it shares with its neighbours, and its last word."""
    m = Measurement(metric=metric, value=1, unit="s", better=Better.LESS)

    assert (step_layout.group(m), step_layout.leaf(m)) == (group, leaf)


def test_a_histogram_that_cannot_be_read_is_told(stored: Run) -> None:
    """A payload edited by hand is a sentence in the report, no traceback."""
    latency = step(stored, "walk").latency["block"]

    said = step_layout.percentiles(latency)
    assert not isinstance(said, str)
    assert said.texts[0].startswith("p50 ")
    broken = altered(latency, payload="rubbish")
    assert step_layout.percentiles(broken) == "the histogram cannot be read"


def test_marks_of_a_series_are_told(stored: Run) -> None:
    """A checkpoint in the measured time stands under the numbers it may have changed."""
    series = altered(
        known(step(stored, "cached").series),
        marks=(Mark(at=7.4, kind="autovacuum", text="of table slob1"),),
    )
    cached = altered(step(stored, "cached"), series=series)

    assert "at 7 s: autovacuum: of table slob1" in shown(with_steps(stored, cached))


def test_every_gloss_is_of_a_metric_that_is_measured(stored: Run) -> None:
    """No explanation outlives the number that it explains."""
    measured = {m.metric for one in stored.steps for m in one.measurements}

    glosses = {metric for one in stored.steps for metric in step_layout.of(one).glosses}
    assert glosses - measured <= {"scan.elapsed"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"buffers.dirty": 21}, "NOT PROVEN CLEAN: 21 dirty buffers in the server"),
        ({"pages.dirty_bytes": None}, "unknown dirty in the page cache"),
        ({"buffers.dirty": None}, "an unknown number of dirty buffers"),
    ],
)
def test_a_flush_that_was_not_proven_is_loud(
    stored: Run, facts: dict[str, None] | dict[str, int], said: str
) -> None:
    """What is dirty or could not be looked at is in the line that would otherwise say clean."""
    flush = step(stored, "flush")
    flush = altered(flush, facts={**flush.facts, "proven": False, **facts})

    text = shown(with_steps(stored, flush))
    assert said in text
    assert "NOT PROVEN CLEAN" in text
    assert "proven clean" not in text


def test_the_beginning_has_the_main_numbers(stored: Run) -> None:
    """The first screen has a line for each step: medians of repeats, and where the data was."""
    found = repeated(stored, [faster(1.0), faster(1.1), faster(1.3)])

    short = shown(found).partition("in short")[2].partition("\nbuild · ")[0]
    (cached,) = [line for line in short.splitlines() if line.startswith("  cached")]
    assert f"riops {393232.4 * 1.1:,.0f}/s" in cached
    assert "medians of 3" in short


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([0.0, 0.0004, 0.0], "cold; 0.0% of the files"),
        ([0.002, 0.0, 0.001], "cold; 0.0% to 0.2% of the files"),
        ([None, None], "cold; an unknown share of the files"),
    ],
)
def test_repeats_tell_the_range_of_what_was_in_memory(
    stored: Run, shares: list[None] | list[float], said: str
) -> None:
    """The least and the most that was in memory are told, once if they read the same."""
    walk = step(stored, "walk")
    found = with_steps(
        stored,
        *(
            altered(
                walk,
                repeat=number,
                cold=Cold(
                    asked=Temperature.COLD,
                    got=Temperature.COLD,
                    method="",
                    proof="",
                    file_bytes=100_000,
                    resident_bytes=None if share is None else round(share * 100_000),
                ),
            )
            for number, share in enumerate(shares, 1)
        ),
    )

    assert said in shown(found)


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\u00a0=1", "\r\n=1", "\uff1d1")


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_in_a_csv_begins_as_a_formula(text: str, run_of: RunOf) -> None:
    """Whatever a label, a step or a metric is called, its cell is text; a number stays one."""
    run = run_of([-1.0], label=text, workload=text)
    step = altered(run.steps[0], name=text)
    side = Side(text, (altered(run, steps=(step,)),))

    rows = list(csv.DictReader(io.StringIO(csv_of([side]))))

    assert {row[key][0] for row in rows for key in ("group", "label", "workload", "step")} == {"'"}
    assert [row["value"] for row in rows] == ["-1.0"]


@pytest.mark.parametrize("width", [80, 100])
def test_what_was_found_comes_first(stored: Run, width: int) -> None:
    """Each step's main numbers stand once, before the details; what to know at the end."""
    text = console.text(details(stored), width=width)
    first_step = text.index(f"\n{stored.steps[0].name} · ")

    assert text.count("\nin short ") == 1
    assert (
        text.index("\nin short ") < first_step < text.index("\nwhat to know about these numbers ")
    )


def on_a_terminal(replayer: Replayer, columns: int, *words: object) -> list[str]:
    """Return what replayer writes on a terminal that is this wide."""
    ours, theirs = os.openpty()
    started = replayer.start(
        *words, popen={"stdout": theirs}, TERM="xterm", COLUMNS=str(columns), NO_COLOR="1"
    )
    os.close(theirs)
    read = b""
    with contextlib.suppress(OSError):  # a terminal that nobody holds any more
        while more := os.read(ours, 65536):
            read += more
    os.close(ours)
    assert started.wait() == 0
    return re.sub(r"\x1b\[[\d;]*m", "", read.decode()).splitlines()


def test_on_a_terminal_of_80_columns_no_line_is_longer(replayer: Replayer) -> None:
    """The command's report of a run fits a terminal as it is, pgio's line broken between words."""
    path = Path(__file__).parents[1] / "fixtures" / "runs" / f"format-{store.FORMAT}.json"
    lines = on_a_terminal(replayer, 80, "show", path)

    assert max(map(cell_len, lines)) <= 80
    assert PGIO in " ".join(lines)
