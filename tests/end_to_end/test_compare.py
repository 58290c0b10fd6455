"""compare, plan, step, import and report as a user types them, on stored runs."""

import csv
import dataclasses
import io
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from replayer import journal
from replayer.analysis.differences import boot_plan
from replayer.cli.command_parser import every, parser
from replayer.errors import Impossible
from replayer.machine.host import Host
from replayer.model import Cold, Run, Status, Temperature
from replayer.results import store
from tests.command import Replayer
from tests.fixture_types import RunOf
from tests.made import altered, drawn_in

FIXTURES = Path(__file__).parents[1] / "fixtures"
EVIL = "<script>alert(1)</script>\x1b[31m\u202eevil"


@pytest.fixture
def replayer(replayer: Replayer, tmp_path: Path) -> Replayer:
    """Return replayer's command line, which finds the runs of `results`."""
    return dataclasses.replace(
        replayer, environment={"REPLAYER_RESULTS": str(tmp_path / "results"), "COLUMNS": None}
    )


@pytest.fixture
def results(run_of: RunOf, tmp_path: Path) -> Path:
    """Return a folder with 8 runs of stock and 8 of uek, which is 10 percent faster."""
    folder = tmp_path / "results"
    folder.mkdir()
    random = np.random.default_rng(3)
    for number in range(8):
        for label, kernel, level in (("stock", "6.1.0-44", 1000), ("uek", "6.12.9", 1100)):
            run = run_of(
                random.normal(level, 5, 3),
                label=label,
                kernel=kernel,
                boot=f"{label}{number}",
                **{"sessions.p99": random.normal(0.1, 0.001, 3)},
            )
            store.save(folder / f"{run.id}.json", run)
    return folder


def test_labels_folders_facts_and_files_mean_the_same(replayer: Replayer, results: Path) -> None:
    """Two labels, two patterns, and one folder grouped by kernel give the same verdicts."""
    by_label, _ = replayer("compare", "stock", "uek", "--json")
    by_fact, _ = replayer("compare", "--by", "host.kernel", results, "--json")
    by_value, _ = replayer("compare", "--by", "host.kernel=6.12.9,6.1.0-44", results, "--json")
    found, same, turned = (json.loads(text) for text in (by_label, by_fact, by_value))

    assert {row["metric"]: row["verdict"] for row in found["rows"]} == {
        "sessions.riops": "better",
        "sessions.p99": "same",
    }
    assert same["rows"] == found["rows"]
    assert turned["rows"][0]["verdict"] == "worse"
    assert (found["unit"], found["base"]["boots"]) == ("boot", 8)


def test_the_screen_is_at_most_100_columns_with_differences_first(
    replayer: Replayer, results: Path
) -> None:
    """What else differs stands before the numbers, and no line is wider than 100 columns."""
    out, _ = replayer("compare", "--by", "host.kernel", results, "--full")

    assert max(map(len, out.splitlines())) <= 100
    assert out.index("what else differs") < out.index("riops")
    assert re.search(r"riops .* better", out)
    assert "Each boot counts once, 8 against 8" in out


def test_the_headline_is_the_same_everywhere_and_last_on_the_screen(
    replayer: Replayer, results: Path
) -> None:
    """Terminal, page, Markdown and JSON have one sentence; the next commands can be typed."""
    out, _ = replayer("compare", "stock", "uek")
    page = results.parent / "page.html"
    replayer("compare", "stock", "uek", "--html", page)
    markdown, _ = replayer("compare", "stock", "uek", "--markdown", "-")
    headline = json.loads(replayer("compare", "stock", "uek", "--json").out)["headline"]

    assert re.match(r"uek is faster than stock: RIOPS 1\.10 \(1\.\d\d to 1\.\d\d\)", headline)
    assert headline in " ".join(out.splitlines()[-2:])
    assert headline in page.read_text().partition('<p class="verdict">')[2].partition("</p>")[0]
    assert markdown.startswith(f"**{headline}**")
    assert len(out.splitlines()) <= 20
    command = out.partition("all of it  replayer ")[2].partition("\n")[0]
    assert "what else differs" in replayer(*shlex.split(command)).out


def test_a_run_under_way_is_left_out(replayer: Replayer, results: Path, run_of: RunOf) -> None:
    """Its label's other runs are compared without it; alone, it is refused in one sentence."""
    growing = altered(
        run_of([5.0], label="uek", kernel="other", status=Status.RUNNING),
        writer=journal.identity(os.getpid()),
    )
    path = results / f"{growing.id}.json"
    store.save(path, growing)

    out, err = replayer("compare", "stock", "uek", "--json")
    _, refused = replayer("compare", "stock", path, status=2)

    assert f"uek: 1 run is under way and left out ({growing.id})" in " ".join(err.split())
    assert growing.id not in json.loads(out)["other"]["runs"]
    assert "is under way and left out" in refused
    assert "wait for the end" in refused


def test_fail_if_worse_exits_with_3_only_above_its_percent(
    replayer: Replayer, results: Path
) -> None:
    """10 percent worse fails at 5 and not at 20, and says which metric."""
    _, err = replayer("compare", "uek", "stock", "--fail-if-worse", "5", status=3)
    assert "sessions.riops by" in err
    replayer("compare", "uek", "stock", "--fail-if-worse", "20")
    replayer("compare", "stock", "uek", "--fail-if-worse", "0")


def test_a_ratio_that_is_cut_is_printed_as_more_than_a_thousand(
    replayer: Replayer, run_of: RunOf, tmp_path: Path
) -> None:
    """Times of a nanosecond and of a quarter of an hour: no form has the cut ratio as a number."""
    folder = tmp_path / "results"
    folder.mkdir()
    for number, label in enumerate("ABBAABBA"):
        seconds = 1e-9 if label == "A" else 1000.0 + number
        run = run_of(label=label, boot=f"b{number}", **{"sessions.latency.p99": [seconds]})
        store.save(folder / f"{run.id}.json", run)

    words = ("compare", "A", "B", "--metric", "*.p99")
    out, err = replayer(*words, "--full", "--fail-if-worse", "2", status=3)
    page = tmp_path / "page.html"
    replayer(*words, "--html", page)

    assert "sessions.latency.p99, over 1,000 times" in err
    assert "p99 over 1,000 (over 1,000 to over 1,000)" in out
    assert not re.search(r"1,?000,?000|999999", out + err)
    assert "1000000.000" not in drawn_in(page.read_text())


def test_a_gate_that_cannot_be_judged_does_not_pass(
    replayer: Replayer, run_of: RunOf, tmp_path: Path
) -> None:
    """Asked cold, B hot in all boots: status 2 with the reason, and not 0."""
    folder = tmp_path / "results"
    folder.mkdir()
    for number, label in enumerate("ABBAABBA"):
        got = Temperature.COLD if label == "A" else Temperature.HOT
        cold = Cold(asked=Temperature.COLD, got=got, method="", proof="")
        run = run_of([1000.0 + number], label=label, boot=f"b{number}")
        steps = tuple(altered(step, cold=cold) for step in run.steps)
        store.save(folder / f"{run.id}.json", altered(run, steps=steps))

    _, err = replayer("compare", "A", "B", "--fail-if-worse", "2", status=2)

    assert "--fail-if-worse needs results that count" in err
    assert "asked cold, got hot, in 4 of 4 runs of B" in err


def test_boots_one_after_the_other_fail_no_gate(
    replayer: Replayer, run_of: RunOf, tmp_path: Path
) -> None:
    """Six boots of one and then six of the other, slower by a drift: no verdict, in any form."""
    random, folder = np.random.default_rng(4), tmp_path / "results"
    folder.mkdir()
    for number in range(12):
        label = "old" if number < 6 else "new"
        level = 1000 * (1 - 0.1 * number / 11)
        run = run_of(random.normal(level, 5, 3), label=label, boot=f"{label}{number}")
        store.save(folder / f"{run.id}.json", run)

    out, err = replayer("compare", "old", "new", "--full", "--fail-if-worse", "2", status=2)
    page = tmp_path / "page.html"
    replayer("compare", "old", "new", "--html", page)
    found = json.loads(replayer("compare", "old", "new", "--json").out)

    text = " ".join(out.split())
    assert "needs boots of old and new that took turns" in err
    assert "all boots of new came after those of old" in text
    assert "; one side came after the other, and a drift could make it" in text
    assert {row["verdict"] for row in found["rows"]} == {"unclear"}
    assert found["turns"] is False
    head = page.read_text().partition('<p class="verdict">')[2].partition("</p>")[0]
    assert "no difference between old and new was shown" in head
    assert "take turns" in head


def test_only_the_runs_with_a_fact_are_taken(
    replayer: Replayer, results: Path, run_of: RunOf
) -> None:
    """--where leaves out the run of another workload, which would be refused."""
    other = run_of([1, 2, 3], label="uek", workload="smoke", kernel="6.12.9", boot="x")
    store.save(results / f"{other.id}.json", other)

    _, err = replayer("compare", "stock", "uek", status=2)
    assert "workload.name is demo" in err
    assert "--allow workload.name" in err
    replayer("compare", "stock", "uek", "--where", "workload.name=demo")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stock"], "two groups are compared and 1 was given"),
        (["stock", "uek", "stock"], "3 were given"),
        (["stock", "nothing"], "there is no run or label 'nothing'"),
        (["stock", "stock"], "both sides"),
        (["stock", "empty"], "holds no runs"),
        (["--by", "host.kernal", "results"], "did you mean host.kernel"),
        (["--by", "label=stock,ukk", "results"], "did you mean uek"),
        (["--by", "workload.name", "results"], "only one value of workload.name (demo)"),
        (["--by", "host.boot.id", "results"], "16 values"),
        (["stock", "uek", "--metric", "walk.*"], "no metric like walk.*"),
        (["stock", "uek", "--threshold", "0"], "--threshold 0: give a percentage above 0"),
        (["stock", "uek", "--fail-if-worse", "nan"], "--fail-if-worse nan: give a percentage"),
        (["stock", "uek", "--fail-if-worse", "inf"], "--fail-if-worse inf: give a percentage"),
        (["stock", "uek", "--where", "nonsense"], "not a condition"),
        (["stock", "uek", "--html", "no/such/folder.html"], "cannot be written"),
        (["stock", "broken.json"], "cut off"),
        (["stock", "newer.json"], "upgrade replayer"),
        (["stock", "foreign.json"], "not a run of replayer"),
        (["stock", "nan.json"], "not finite"),
        (["boots.plan"], "no finished run"),
    ],
)
def test_bad_input_is_one_clear_sentence(
    replayer: Replayer, results: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    """Whatever is wrong with groups, facts or files, is said in one sentence with status 2."""
    one = next(results.glob("*.json")).read_text()
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text(one[: len(one) // 2])
    (tmp_path / "newer.json").write_text(re.sub(r'"format": \d+', '"format": 99', one, count=1))
    (tmp_path / "foreign.json").write_text('{"format": 1}')
    (tmp_path / "nan.json").write_text(re.sub(r'"value": [\d.]+', '"value": NaN', one, count=1))
    replayer("plan", "--kernels", "6.1.0-44,6.12.9", "--boots", "4", "smoke")
    _, err = replayer("compare", *arguments, status=2)

    assert said in err
    assert err.count("\n") == 1


def test_files_that_are_no_runs_are_passed_over_and_counted(
    replayer: Replayer, results: Path
) -> None:
    """Three broken files in a folder of runs are one note; the comparison goes on."""
    for number in range(5):
        (results / f"broken-{number}.json").write_text("{")
    _, err = replayer("compare", "--by", "host.kernel", results)

    assert "5 files are no runs" in err
    assert "and 2 more" in err


def failed(run_of: RunOf, **more: object) -> Run:
    """Return what a run that was refused leaves behind: its reason, and nothing of the machine."""
    run = run_of([1], status=Status.FAILED, **more)
    return altered(run, steps=(), host={}, error="--data-dir is not there")


def test_runs_that_failed_are_set_aside_and_counted(
    replayer: Replayer, results: Path, run_of: RunOf
) -> None:
    """Two failed runs in a folder or of a label are one line; the comparison is as without them."""
    without, _ = replayer("compare", "--by", "host.kernel", results, "--json")
    for label in ("uek", ""):
        lost = failed(run_of, label=label)
        store.save(results / f"{lost.id}.json", lost)
    by_fact, err = replayer("compare", "--by", "host.kernel", results, "--json")
    _, of_label = replayer("compare", "stock", "uek")

    assert by_fact == without
    assert "2 runs failed or measured nothing and are set aside" in err
    assert "uek: 1 run failed or measured nothing and is set aside" in of_label
    assert "--data-dir is not there" in of_label


def test_runs_without_the_fact_asked_for_are_set_aside_and_counted(
    replayer: Replayer, results: Path, run_of: RunOf
) -> None:
    """An imported run in the folder knows no kernel, and is not a third group."""
    foreign = run_of([1, 2, 3])
    foreign = altered(foreign, host={})
    store.save(results / f"{foreign.id}.json", foreign)
    _, err = replayer("compare", "--by", "host.kernel", results)

    assert "1 run without host.kernel.release is set aside" in err
    assert foreign.id in err


def test_a_label_of_failed_runs_only_is_refused(
    replayer: Replayer, results: Path, run_of: RunOf
) -> None:
    """Where nothing is left to compare, one sentence says why."""
    lost = failed(run_of, label="lost")
    store.save(results / f"{lost.id}.json", lost)
    _, err = replayer("compare", "stock", "lost", status=2)

    assert "nothing is left to compare" in err
    assert err.count("\n") == 1


def test_the_latest_run_is_one_that_measured_something(
    replayer: Replayer, results: Path, run_of: RunOf
) -> None:
    """After a run that was refused, `show latest` shows the one before and says so."""
    lost = failed(run_of)
    store.save(results / f"{lost.id}.json", lost)
    out, err = replayer("show", "latest")
    by_id, _ = replayer("show", lost.id)

    assert "sessions" in out
    assert f"{lost.id} is newer and measured nothing (--data-dir is not there)" in err
    assert "--data-dir is not there" in by_id


def test_no_verdict_is_failed_for_without_boots(replayer: Replayer, results: Path) -> None:
    """--fail-if-worse of one boot of each is refused after the comparison: it has no verdict."""
    files = sorted(results.glob("*.json"))[:2]
    out, err = replayer("compare", *files, "--fail-if-worse", "1", status=2)

    assert "in these runs" in out or "unclear" in out
    assert "needs several boots" in err


def test_strings_of_a_run_cannot_steer_a_terminal(
    replayer: Replayer, results: Path, run_of: RunOf
) -> None:
    """A label with escape sequences and a right-to-left mark reaches no output as such."""
    for number in range(4):
        run = run_of([1, 2, 3], label=EVIL, boot=f"e{number}", host={"host.name": EVIL})
        store.save(results / f"{run.id}.json", run)
    for form in ([], ["--markdown", "-"], ["--csv", "-"]):
        out, err = replayer("compare", "stock", EVIL, *form)
        assert not {"\x1b", "\u202e"} & set(out + err)
    markdown, _ = replayer("compare", "stock", EVIL, "--markdown", "-")
    assert "<script" not in markdown


def test_csv_and_markdown_say_what_the_screen_says(replayer: Replayer, results: Path) -> None:
    """CSV has a line for each metric, or for each measurement of a report; Markdown has tables."""
    compared, _ = replayer("compare", "stock", "uek", "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(compared)))
    assert {row["metric"]: row["verdict"] for row in rows}["sessions.riops"] == "better"
    measured, _ = replayer("report", "stock", "--csv", "-")
    assert len(list(csv.DictReader(io.StringIO(measured)))) == 8 * 3 * 2
    both = "report", "stock", "uek", "--csv", "-"
    with_file, _ = replayer(*both, "--markdown", results / "both.md")
    assert with_file == replayer(*both).out
    markdown, _ = replayer("compare", "stock", "uek", "--markdown", "-")
    assert re.search(r"^\| sessions.riops \|.*\| better \|$", markdown, re.MULTILINE)


def test_a_report_as_text_has_every_run(replayer: Replayer, results: Path) -> None:
    """`report --text` prints every run as `show --full` does."""
    out, _ = replayer("report", "stock", "--text")

    assert out.count("replayer run 2026") == 8


def test_an_import_is_shown_and_compared(replayer: Replayer, results: Path, tmp_path: Path) -> None:
    """Imported pgio output is stored once, shown with its warning, and compared with another."""
    source = FIXTURES / "imports" / "pgio" / "runit.out"
    changed = tmp_path / "faster.out"
    changed.write_text(source.read_text().replace(">39", ">49"))
    copied = tmp_path / "copied.out"
    copied.write_bytes(source.read_bytes())
    out, err = replayer("import", "pgio", source, copied, "--label", "old")
    assert "their runs are stored once" in err
    assert "3 steps" in out
    assert "line 20 cannot be read" in err
    stored = [store.load(path).headline for path in results.glob("*.json")]
    assert json.loads(replayer("show", "old", "--json").out)["headline"] in filter(None, stored)
    replayer("import", "pgio", source, status=2)
    replayer("import", "pgio", changed, "--label", "new")
    shown, _ = replayer("show", "old")
    assert "clock after" in shown
    compared, _ = replayer("compare", "old", "new", "--json")
    assert json.loads(compared)["rows"][0]["ratio"] == pytest.approx(1.25, abs=0.01)


def test_a_plan_alternates_and_is_never_overwritten(replayer: Replayer, tmp_path: Path) -> None:
    """Six boots of two kernels are A B B A A B; a second plan of that name is refused."""
    out, _ = replayer("plan", "--kernels", "A,B", "--boots", "6", "smoke")
    order = re.findall(r"^ +\d+  (\w)$", out, re.MULTILINE)

    assert "".join(order) == "ABBAAB"
    assert "10 boots can" in out
    assert "4.00 s or more" in out
    _, err = replayer("plan", "--kernels", "A,B", "--boots", "6", "smoke", status=2)
    assert "already there" in err


def test_a_plan_knows_its_metrics_and_its_time_from_earlier_results(
    replayer: Replayer, results: Path
) -> None:
    """After runs of the workload, a plan counts their metrics and takes as long as they took."""
    plain, _ = replayer("plan", "--kernels", "A,B", "--boots", "12", "--out", "new.plan", "smoke")
    for path in sorted(results.glob("*.json")):
        path.write_text(path.read_text().replace('"name": "demo"', '"name": "smoke"'))
    told, _ = replayer("plan", "--kernels", "A,B", "--boots", "12", "--out", "old.plan", "smoke")

    assert "6 boots of each kernel can show a difference" in plain
    assert "smoke has" in told
    assert "of them leading: 6 boots of each kernel" in told
    later, _ = replayer("step", "old.plan", "--next")
    assert "all 12 boots" in later


def test_a_random_plan_is_balanced_and_repeatable() -> None:
    """Each round has every kernel once, and a seed always gives the same order."""
    drawn = boot_plan.draw(["A", "B", "C"], 30, seed=5)
    rounds = [sorted(drawn.order[i : i + 3]) for i in range(0, 30, 3)]

    assert rounds == [["A", "B", "C"]] * 10
    assert drawn == boot_plan.draw(["A", "B", "C"], 30, seed=5)
    assert drawn.order != boot_plan.draw(["A", "B", "C"], 30, seed=6).order


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernels", "A", "--boots", "4"], "two or more"),
        (["--kernels", "A,A", "--boots", "4"], "two or more"),
        (["--kernels", "A,B", "--boots", "5"], "ask for 6"),
        (["--kernels", "A,B", "--boots", "0"], "ask for 2"),
        (["--kernels", "A,B", "--boots", "4", "--seed", "1"], "--random"),
        (["--kernels", "A,B", "--boots", "4", "smoek"], "did you mean smoke"),
        (["--kernels", "A,B", "--boots", "4", "--", "smoke", "--label", "x"], "sets them itself"),
    ],
)
def test_an_impossible_plan_is_refused(
    replayer: Replayer, tmp_path: Path, arguments: list[str], said: str
) -> None:
    """Too few kernels, an unequal share, an unknown workload: refused before anything is booted."""
    _, err = replayer("plan", *arguments, status=2)

    assert said in err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def plan(tmp_path: Path, run_of: RunOf) -> tuple[Path, Callable[..., None]]:
    """Return a plan file of 4 boots, and a function that adds a finished run to it."""
    path = tmp_path / "boots.plan"
    boot_plan.write(path, boot_plan.draw(["6.1.*", "6.12.9"], 4))
    boot_plan.folder(path).mkdir()

    def add(kernel: str, boot: str, value: float = 1000.0, **more: object) -> None:
        run = run_of([value, value + 1, value + 2], kernel=kernel, boot=boot, label=kernel, **more)
        store.save(boot_plan.folder(path) / f"{run.id}.json", run)

    return path, add


def test_step_admits_only_the_right_kernel_on_a_new_boot(
    plan: tuple[Path, Callable[..., None]],
) -> None:
    """A wrong kernel, a boot that was used, and a finished plan are refused with what to do."""
    path, add = plan
    loaded = boot_plan.load(path)
    assert boot_plan.admit(loaded, [], "6.1.0-44", "b1") == 1
    with pytest.raises(Impossible, match=r"this is 6.12.9: boot 6.1.\*"):
        boot_plan.admit(loaded, [], "6.12.9", "b1")
    add("6.1.0-44", "b1")
    with pytest.raises(Impossible, match=r"used already.*reboot into 6\.12\.9"):
        boot_plan.admit(loaded, boot_plan.runs(path), "6.12.9", "b1")
    assert boot_plan.admit(loaded, boot_plan.runs(path), "6.12.9", "b2") == 2
    add("6.12.9", "b2")
    add("6.12.9", "b3")
    add("6.1.0-44", "b4")
    with pytest.raises(Impossible, match="all 4 boots"):
        boot_plan.admit(loaded, boot_plan.runs(path), "6.1.0-44", "b5")


def test_a_failed_run_uses_up_its_boot_but_not_its_turn(
    plan: tuple[Path, Callable[..., None]],
) -> None:
    """After a run that failed half-way, the same kernel is due again, on another boot."""
    path, add = plan
    loaded = boot_plan.load(path)
    add("6.1.0-44", "b1", status=Status.FAILED)
    made = boot_plan.runs(path)

    assert "0 of 4" in boot_plan.what_next(loaded, made, path)
    assert boot_plan.admit(loaded, made, "6.1.0-44", "b2") == 1
    with pytest.raises(Impossible, match="used already"):
        boot_plan.admit(loaded, made, "6.1.0-44", "b1")


def test_a_plan_is_compared_by_its_kernels_also_unfinished(
    replayer: Replayer, plan: tuple[Path, Callable[..., None]]
) -> None:
    """Comparing a plan groups by kernel, counts boots, and says what is missing."""
    path, add = plan
    add("6.1.0-44", "b1")
    add("6.12.9", "b2", 1100.0)
    add("6.12.9", "b3", 1101.0)
    out, err = replayer("compare", path, "--full")

    assert "2 of 4" not in out
    assert "3 of 4 boots done; next: boot 6.1.*" in err
    assert "Each boot counts once, 1 against 2" in out
    assert "unclear" in out


def test_a_plan_file_that_is_none_is_refused(replayer: Replayer, tmp_path: Path) -> None:
    """A foreign or broken plan: one sentence."""
    path = tmp_path / "some.plan"
    for text in (
        "",
        "{",
        "[]",
        '{"plan": 1}',
        '{"plan": 99, "kernels": ["a"], "order": ["a"], "method": "random"}',
        "\udcff",
    ):
        path.write_text(text, errors="surrogateescape")
        _, err = replayer("step", path, status=2)
        assert str(path) in err
        assert err.count("\n") == 1


def test_step_refuses_this_machines_kernel_where_it_is_not_due(
    replayer: Replayer, tmp_path: Path
) -> None:
    """On this machine a plan of other kernels says what to boot."""
    replayer("plan", "--kernels", "0.0.1,0.0.2", "--boots", "2", "smoke")
    _, err = replayer("step", "boots.plan", status=2)

    assert Host().read("proc/sys/kernel/osrelease") in err
    assert "boot 0.0.1" in err
    out, _ = replayer("step", "boots.plan", "--next")
    assert "boot 0.0.1" in out


@pytest.mark.parametrize("name", ["compare", "import", "plan", "report", "step"])
def test_the_examples_of_help_are_understood(name: str) -> None:
    """Every example in the help parses as a command line."""
    top = parser()
    own = dict(every(top))[f"replayer {name}"]
    examples = re.findall(r"^  (replayer (?:\S+ )*\S+)", own.epilog or "", re.MULTILINE)

    assert examples
    for example in examples:
        assert top.parse_args(shlex.split(example)[1:]) is not None


def test_a_user_can_pipe_it(replayer: Replayer, results: Path) -> None:
    """As a process: JSON on stdout alone, and the status of --fail-if-worse."""
    words = ("uek", "stock", "--json", "--fail-if-worse", "1", "--results", results)
    out, _ = replayer.process("compare", *words, status=3)

    assert json.loads(out)["rows"][0]["verdict"] == "worse"
