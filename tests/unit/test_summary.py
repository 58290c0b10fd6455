"""report.summary: what a stranger has to know of some runs, said once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from replayer import assets, journal
from replayer.analysis.differences import samples
from replayer.analysis.differences.samples import Side
from replayer.model import (
    Advice,
    Better,
    Cold,
    Measurement,
    ReadOrigin,
    Replayed,
    Run,
    Status,
    StepResult,
    Temperature,
)
from replayer.report.documents import run_details, run_headline
from replayer.report.documents.step_summary import StepSummary, Trust
from replayer.report.documents.summary import summarise, surroundings
from replayer.units import show_count
from tests.known import known
from tests.made import altered, ledger, markdown_of, page_of


def line(found: Sequence[Run], name: str) -> StepSummary:
    """Return the line of a step."""
    return next(one for one in summarise(found).lines if one.name == name)


def test_every_step_has_one_line_in_order(stored: Run) -> None:
    """A line a step, each with its figures, what it is, and how long it took."""
    lines = summarise([stored]).lines

    assert [one.name for one in lines] == list(dict.fromkeys(s.name for s in stored.steps))
    assert all(one.figures for one in lines)
    assert [one.seconds for one in lines] == [step.elapsed for step in stored.steps]


def with_step(run: Run, name: str, **changes: object) -> Run:
    """Return the run with a step changed."""
    steps = [one.model_copy(update=changes) if one.name == name else one for one in run.steps]
    return altered(run, steps=tuple(steps), advice=())


def cold(got: str) -> Cold:
    """Return how cold it was where cold was asked for."""
    keys = {"asked": "cold", "got": got, "method": "", "proof": ""}
    return Cold.model_validate({**keys, "file_bytes": 100, "resident_bytes": 0})


@pytest.mark.parametrize(
    ("changes", "trust"),
    [
        ({"cold": cold("cold")}, Trust.YES),
        ({"cold": cold("lukewarm")}, Trust.NO),
        ({"status": Status.FAILED, "reason": "no space left"}, Trust.NO),
        ({"status": Status.SKIPPED, "reason": "no column files"}, Trust.NO),
    ],
)
def test_a_walk_is_believed_exactly_if_it_was_as_asked(
    stored: Run, changes: dict[str, Any], trust: Trust
) -> None:
    """What was not as asked, or not done, is not to be believed, and the proof says why."""
    one = line([with_step(stored, "walk", account=None, **changes)], "walk")

    assert one.trust is trust
    assert all(proof.good for proof in one.proofs) is (trust is Trust.YES)


@pytest.mark.parametrize(("failed", "trust"), [(2, Trust.YES), (14, Trust.NO)])
def test_a_replay_of_which_much_failed_did_other_work(
    stored: Run, failed: int, trust: Trust
) -> None:
    """With two of a hundred it is the source's work, and a warning tells of them."""
    replayed = Replayed(
        fingerprint="0" * 16, text="SELECT ?", kind="select", planned=100, executions=100,
        service_s=1.0, failed_here={"42P01": failed},
    )  # fmt: skip
    found = with_step(stored, "walk", account=None, cold=cold("cold"), replayed=(replayed,))

    assert line([found], "walk").trust is trust


def test_a_cold_read_that_a_device_did_not_give_in_full_says_so(stored: Run) -> None:
    """Nothing was in memory at a look, and 4 percent did not come from the device: both are said.

    "0.0% of it in memory before" was false then.
    """
    part = altered(cold("cold"), missing_bytes=4)
    walk = line([with_step(stored, "walk", account=None, cold=part)], "walk")
    proof = next(proof for proof in walk.proofs if "memory" in proof.text)

    assert "in memory at the last look, up to 4.0% not from the device" in proof.text
    assert proof.brief == "4.0% not from disk"


def test_another_verdict_of_the_ledger_than_asked_is_not_believed(stored: Run) -> None:
    """A run asked for physical reads that were mixed says so in red."""
    cached = next(one for one in stored.steps if one.name == "cached")
    mixed = altered(known(cached.ledger), asked=ReadOrigin.PHYSICAL, verdict=ReadOrigin.MIXED)

    assert line([with_step(stored, "cached", ledger=mixed)], "cached").trust is Trust.NO


def test_blocks_that_buffers_had_are_no_disk_that_was_not_counted(stored: Run) -> None:
    """A ledger without a ratio says why: no block was missed, or nothing counted the device."""
    cached = next(one for one in stored.steps if one.name == "cached")
    keys = {"verdict": ReadOrigin.BUFFERED, "asked": ReadOrigin.BUFFERED, "ratio": None}
    found = []
    for reads in (933.0, None):
        ledger = altered(known(cached.ledger), **keys, device_reads=reads)
        (proof, *_) = line([with_step(stored, "cached", ledger=ledger, cold=None)], "cached").proofs
        found.append((proof.brief, "not known" in proof.text))

    assert found == [("blocks from the buffers", False), ("disk not counted", True)]


@pytest.mark.parametrize(
    ("asked", "brief"),
    [
        (None, "mixed: disk reads/block 0.250"),
        (ReadOrigin.PHYSICAL, "asked physical, got mixed: disk reads/block 0.250"),
        (ReadOrigin.MIXED, "disk reads/block 0.250"),
    ],
)
@pytest.mark.parametrize("own_bytes", [0, None])
def test_a_verdict_that_was_not_asked_for_is_in_the_proof(
    stored: Run, asked: ReadOrigin | None, brief: str, own_bytes: int | None
) -> None:
    """The key `memory` only prepares a mix: where its blocks came from is a result."""
    mixed = ledger(ReadOrigin.MIXED, asked=asked, ratio=0.25)
    server = altered(cold("cold"), own_bytes=own_bytes)
    proofs = line([with_step(stored, "cached", ledger=mixed, cold=server)], "cached").proofs
    (proof,) = [one for one in proofs if "disk reads" in one.brief]

    # A device's reads are the server's only if its processes' bytes are known.
    assert proof.brief == f"{brief}{' of all programs' if own_bytes is None else ''}"


def test_each_proof_has_its_own_difference_to_what_was_asked(stored: Run) -> None:
    """Of blocks that were neither cold nor from the disk, no difference is printed twice."""
    cached = next(one for one in stored.steps if one.name == "cached")
    ledger = altered(known(cached.ledger), asked=ReadOrigin.PHYSICAL, verdict=ReadOrigin.MIXED)
    both = with_step(stored, "cached", ledger=ledger, cold=cold("lukewarm"))
    temperature, origin = (proof.brief for proof in line([both], "cached").proofs[:2])

    assert temperature == "asked cold, got lukewarm"
    assert origin.startswith("asked physical, got mixed: ")


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ({"virtualisation": "yes", "container": "none"}, ["a hypervisor"]),
        ({"virtualisation": "kvm", "container": "docker"}, ["kvm", "docker"]),
        ({}, []),
    ],
)
def test_the_surroundings_of_a_machine_are_names(found: dict[str, str], names: list[str]) -> None:
    """A hypervisor that is known by its flag alone has no name: `yes` is none."""
    assert surroundings(found) == names


def test_a_hot_read_shows_what_it_had_from_the_device(stored: Run) -> None:
    """Its proof is what did not come from there."""
    hot = altered(cold("hot"), asked=Temperature.HOT, own_bytes=0)

    (proof, *_) = line([with_step(stored, "walk", cold=hot)], "walk").proofs

    assert (proof.good, proof.brief) == (True, "0 B from the disk")


def test_advice_that_touches_a_step_is_a_reason_for_care(stored: Run) -> None:
    """The line of a step names the points that touch it, and those of all steps touch none."""
    advice = (
        Advice(found="the load average was 3", todo="wait"),
        Advice(found="walk: other programs used 40% of the processors", steps=("walk",)),
    )
    found = with_step(stored, "walk", cold=cold("cold"), account=None)
    found = altered(found, advice=advice)
    text = [point.text for point in summarise([found]).points]
    (number,) = line([found], "walk").see

    assert text[number - 1].startswith("walk: other programs")
    assert line([found], "walk").trust is Trust.CARE


def test_what_several_runs_say_with_other_numbers_is_said_once(stored: Run) -> None:
    """Points are grouped over runs whatever their numbers and examples are, and counted."""
    runs = [
        altered(stored, steps=stored.steps[:1], advice=(
                    Advice(found=f"{name}: others used up to {share}% of it (perl {share}%)",
                           todo="stop them", steps=(name,)),
                ))
        for name, share in (("walk", 4), ("walk", 40), ("scan", 12.5))
    ]  # fmt: skip
    (point,) = [one for one in summarise(runs).points if not one.loud]

    assert point.runs == 3
    assert point.steps == ("walk", "scan")
    assert "in every run" in page_of([Side("x", tuple(runs))])


def test_a_value_that_the_runs_do_not_share_is_told_of_each(stored: Run) -> None:
    """What runs were on is one value where it is the same, and all values where not."""
    hosts = [{**stored.host, "kernel.release": release} for release in ("6.1", "6.12", "6.1")]
    about = dict(summarise([altered(stored, host=one) for one in hosts]).about)

    assert about["kernel"].startswith("6.1 ") or about["kernel"].startswith("6.1")
    assert about["kernel"].count("|") == 1
    assert "|" not in about["engine"]


def test_the_markup_of_a_summary_is_that_of_its_words(stored: Run) -> None:
    """Labels, reasons and advice that are markup are text."""
    evil = "<img src=x onerror=alert(1)>"
    found = with_step(stored, "walk", status=Status.FAILED, reason=evil)
    found = altered(found, notes=(evil,), advice=(Advice(found=evil),), host={"host.name": evil})
    text = page_of([Side("x", (found,))])

    assert "<img" not in text
    assert text.count("&lt;img") >= 4


def test_what_was_not_as_asked_is_one_remark_with_its_remedy(stored: Run) -> None:
    """What a step got and what to do about it are one line, not two, and other advice stays."""
    run = with_step(stored, "walk", cold=cold("lukewarm"))
    advice = (
        Advice(steps=("walk",), found="walk got lukewarm", todo="stop others", name="coldness"),
        Advice(steps=("walk",), found="others wrote", todo="find them", name="foreign_writes"),
    )
    points = summarise([altered(run, advice=advice)]).points

    assert [(point.text, point.name) for point in points if "walk" in point.steps] == [
        ("walk: asked cold, got lukewarm; stop others", "coldness"),
        ("others wrote: find them", "foreign_writes"),
    ]


@pytest.mark.parametrize(
    ("asked", "share", "why", "todo"),
    [
        ("cold", 0.42, "42 % of the bytes were in the page cache", "stop others"),
        ("hot", 0.1, "10 % of the bytes were in the page cache", "stop what drops it"),
    ],
)
def test_a_wrong_temperature_comes_with_its_reason_and_remedy(
    stored: Run, asked: str, share: float, why: str, todo: str
) -> None:
    """One reads on the first screen how much was in memory, and what helps, hot data included."""
    warm = altered(cold("lukewarm"), asked=Temperature(asked), resident_bytes=100 * share, why=why)
    run = with_step(stored, "walk", cold=altered(warm, todo=todo))
    points = [point.text for point in summarise([run]).points if "walk" in point.steps]

    assert points == [f"walk: asked {asked}, got lukewarm: {why}; {todo}"]


def test_runs_with_other_shares_in_memory_have_one_remark(stored: Run) -> None:
    """The numbers of a reason differ from run to run; the remark stands once, with both runs."""
    runs = [
        with_step(stored, "walk", cold=altered(cold("lukewarm"), why=f"{share} %"))
        for share in (41, 43)
    ]
    points = [point for point in summarise(runs).points if "got lukewarm" in point.text]

    assert [point.runs for point in points] == [2]


@pytest.mark.parametrize(
    ("trusts", "words"),
    [
        ("care no", "one of two steps can be believed, with care; b cannot"),
        ("care care", "both steps can be believed, both with care"),
        ("care care care", "all three steps can be believed, all with care"),
        ("care care no", "two of three steps can be believed, both with care; c cannot"),
        ("yes care no", "two of three steps can be believed, one with care; c cannot"),
    ],
)
def test_what_can_be_believed_is_counted_in_words(stored: Run, trusts: str, words: str) -> None:
    """`All with care` is of several steps, and next to one that cannot be believed it is wrong."""
    one = summarise([stored]).lines[0]
    names = zip("abc", trusts.split(), strict=False)
    lines = [replace(one, name=name, trust=Trust[trust.upper()]) for name, trust in names]

    assert run_headline.believed(lines) == words


def test_steps_that_were_skipped_are_not_called_unbelievable(stored: Run) -> None:
    """DuckDB skips both kinds of sessions: "cached and physical cannot" was no word on them."""
    one = summarise([stored]).lines[0]
    lines = [replace(one, name=name, trust=Trust.NO, repeats=0) for name in ("cached", "physical")]
    believed = run_headline.believed([replace(one, trust=Trust.YES), *lines])

    assert believed == "one of three steps can be believed; cached and physical were not done"
    assert not run_headline.believed(lines[:1])


KILLED = journal.identity(os.getpid()).rpartition(":")[0] + ":1"
"""A process of this boot that is gone: it had this process's id, and began at another time."""


def cut_off(run: Run, status: Status, writer: str, done: int = 3) -> Run:
    """Return the run as its file has it after so many steps, with the process that writes it."""
    changes: dict[str, Any] = {"advice": (), "sizing": None, "headline": "", "cluster": {}}
    return altered(run, status=status, writer=writer, steps=run.steps[:done], **changes)


@pytest.mark.parametrize(
    ("status", "writer", "said", "todo"),
    [
        (Status.RUNNING, KILLED, "The run was not finished (killed). ", "run --resume {id}"),
        (Status.INTERRUPTED, "", "The run was not finished (interrupted). ", "run --resume {id}"),
        (Status.RUNNING, journal.identity(os.getpid()), "The run is under way. ", "watch {id}"),
        (Status.RUNNING, "other:1:1", "The run was not finished (running on another machine, ", ""),
        (Status.RUNNING, "", "The run was not finished (running on another machine, ", ""),
    ],
    ids=["killed", "interrupted", "under way", "of another boot", "of an old file"],
)
def test_a_run_without_its_end_is_not_called_whole(
    stored: Run, status: Status, writer: str, said: str, todo: str
) -> None:
    """The headline has that it was not finished, which steps are missing, and how to go on."""
    run = cut_off(stored, status, writer)
    found = summarise([run]).headline
    names = [one.name for one in stored.steps]

    assert found.what.startswith(said)
    assert f" of {run_headline._number(len(names))} steps can be believed" in found.sure
    assert found.sure.endswith(f"; {run_headline._listed(names[3:])} were not done")
    assert found.todo == (f"replayer {todo}".format(id=run.id) if todo else "")
    side = [Side("A", (run,))]
    for text in (page_of(side, None), markdown_of(side, None)):
        assert found.what in text


def test_no_run_is_to_be_resumed_that_cannot_be(stored: Run) -> None:
    """Killed after its last step, it is to be compared; of others, `--resume` would refuse them."""
    whole = altered(
        stored, status=Status.RUNNING, writer=KILLED, sizing=None, headline="", advice=()
    )
    run = cut_off(stored, Status.RUNNING, KILLED)
    others = (
        altered(run, version="0.0.1"),
        altered(run, cluster={"hosts": "a, b"}),
        altered(run, id=f"import-{run.id}"),
    )

    assert summarise([whole]).headline.todo.startswith("replayer run demo --label ")
    assert [summarise([other]).headline.todo for other in others] == ["", "", ""]


def test_a_killed_run_is_called_killed_in_every_report(stored: Run) -> None:
    """Details, the table of runs and the remark of a comparison have the word of `list`."""
    run = cut_off(stored, Status.RUNNING, KILLED)
    pair = (run, altered(stored, sizing=None))
    details = run_details.document(run)

    assert details.headline.text == "killed"
    assert "| demo | killed | " in markdown_of([Side("A", pair)], None)
    assert "killed 2 of 3, done 1 of 3" in page_of([Side("A", pair[:1]), Side("B", pair)], None)
    assert "it is killed: only its finished steps count" in samples.counted(run)[1]
    assert summarise(pair).headline.what.startswith("One of two runs did not end well")
    assert summarise([run, run]).headline.todo == f"replayer run --resume {run.id}"


def test_a_run_that_failed_in_its_first_step_says_so_alone(stored: Run) -> None:
    """Where nothing was done, no list of steps that were not done follows, nor of many steps."""
    failed = altered(stored.steps[0], status=Status.FAILED, reason="no space left")
    run = cut_off(stored, Status.FAILED, "", 0)
    names = [f"step-{number}" for number in range(6)]
    lines = summarise([stored]).lines[:1]

    assert not summarise([run]).headline.sure
    assert not summarise([altered(run, steps=(failed,))]).headline.sure
    assert run_headline.believed(lines, names).endswith(
        "; step-0, step-1, step-2, step-3 and two more were not done"
    )
    doubted = [replace(lines[0], trust=Trust.NO)]
    assert run_headline.believed(doubted, names[:1]) == (
        "none of the two steps can be believed as it is; step-0 was not done"
    )


@pytest.mark.parametrize(
    ("source", "word"),
    [
        (str(assets.folder("workloads") / "smoke.toml"), "smoke"),
        ("/usr/lib/other/workloads/smoke.toml", "smoke"),
        ("smoke.toml", "smoke.toml"),
        ("mine/my work.toml", "'mine/my work.toml'"),
        ("/home/me/smoke.toml", "/home/me/smoke.toml"),
    ],
)
def test_the_next_command_names_the_workload_as_run_takes_it(
    stored: Run, source: str, word: str
) -> None:
    """A name is that of a workload that ships; a file of the user is named by its path."""
    facts = altered(stored.workload, name="smoke", source=source)
    run = altered(stored, workload=facts, sizing=None)

    assert str(summarise([run]).headline.todo).startswith(f"replayer run {word} --label ")


def test_the_next_command_has_no_label_that_is_no_name(stored: Run) -> None:
    """A label of 5,000 characters is not printed whole: the run's id does."""
    run = altered(stored, label="x" * 5000, sizing=None)

    assert len(summarise([run]).headline.todo) < 200


def test_a_table_that_was_kept_is_not_shown_as_built(stored: Run) -> None:
    """With rebuild=false nothing is built: the report says that the table is an earlier one."""
    rows = next(one for one in stored.steps if one.name == "build")
    kept = tuple(
        one for one in rows.measurements if one.metric in {"build.rows", "build.table_bytes"}
    )
    run = with_step(stored, "build", measurements=kept, facts={**rows.facts, "reused": True})
    brief = line([run], "build").brief

    assert brief.did.startswith("kept the ")
    assert brief.did.endswith(" rows of an earlier build")
    assert brief.clause == ""


def test_a_step_without_figures_is_in_the_headline_by_what_it_did(stored: Run) -> None:
    """Neither a table that was kept nor a step whose metrics have no direction has a figure."""
    rows = next(one for one in stored.steps if one.name == "build")
    kept = tuple(one for one in rows.measurements if one.metric == "build.rows")
    build = altered(rows, measurements=kept, facts={"reused": True}, account=None)
    count_ = Measurement(metric="own.count", value=3.0, unit="", better=Better.NEITHER)
    own = altered(build, step="own", name="own", measurements=(count_,), facts={})

    def headline(*steps: StepResult) -> str:
        return summarise([altered(stored, steps=steps, sizing=None)]).headline.what

    words = f"build: kept the {show_count(kept[0].value)} rows of an earlier build"
    assert headline(build) == words
    assert headline(build, own) == f"{words}. own: done"


def test_what_prepares_is_not_in_the_headline_in_place_of_what_was_measured(stored: Run) -> None:
    """The table that a ramp reads has words of its own for a headline, and the ramp has figures."""
    rows = next(one for one in stored.steps if one.name == "build")
    rate = Measurement(metric="ramp.throughput", value=1234.0, unit="1/s", better=Better.MORE)
    build = altered(rows, spec={**rows.spec, "once": True})
    ramp = altered(
        rows, step="ramp", name="ramp", measurements=(rate,), facts={}, tables={}, spec={}
    )

    found = summarise([altered(stored, steps=(build, ramp), sizing=None)])
    assert found.lines[0].brief.clause
    assert found.headline.what == "ramp: throughput 1,234/s"


@pytest.mark.parametrize(
    ("got", "place"), [("cold", ""), ("lukewarm", " partly from memory"), ("hot", " from memory")]
)
def test_a_scan_in_the_headline_has_its_place(stored: Run, got: str, place: str) -> None:
    """Two scans, cold and hot, can be told apart in the headline."""
    seconds = Measurement(metric="scan.elapsed", value=2.0, unit="s", better=Better.LESS)
    done = {"status": Status.DONE, "measurements": (seconds,), "facts": {"rows": 6}}
    run = with_step(stored, "scan", **done, cold=cold(got))

    assert f" rows{place} in " in line([run], "scan").brief.clause


def test_steps_that_the_headline_leaves_out_are_counted(stored: Run) -> None:
    """Nine steps of probes: four by name, with name and unit once, and the others as a number."""
    rate = Measurement(metric="io.iops", value=6782.0, unit="IOPS", better=Better.MORE)
    bytes_ = Measurement(metric="io.throughput", value=55.6e6, unit="bytes/s", better=Better.MORE)
    plain = stored.steps[0].model_copy(
        update={"step": "probe", "measurements": (rate, bytes_), "account": None, "facts": {}}
    )

    def headline(many: int) -> str:
        steps = tuple(plain.model_copy(update={"name": f"depth-{n}"}) for n in range(many))
        return summarise([stored.model_copy(update={"steps": steps, "sizing": None})]).headline.what

    assert headline(4).startswith("depth-0: 6,782 IOPS, throughput 55.6 MB/s. depth-1: 6,782 IOPS,")
    assert headline(4).endswith(". depth-3: 6,782 IOPS, throughput 55.6 MB/s")
    assert headline(5) == f"{headline(4)}. One more step was measured"
    assert headline(9) == f"{headline(4)}. Five more steps were measured"


Changes = Mapping[str, Any]
"""The fields of a result in which one repeat differs from others."""


def repeats(run: Run, one: StepResult, changes: Sequence[Changes]) -> Run:
    """Return the run with nothing but a repeat of this step for each of the changes."""
    plain = altered(one, account=None, cold=None, ledger=None)
    steps = tuple(altered(plain, repeat=n, **each) for n, each in enumerate(changes, 1))
    return altered(run, steps=steps, advice=(), sizing=None)


def every_order(changes: Sequence[Changes]) -> list[tuple[Changes, ...]]:
    """Return the changes in all orders, each once."""
    found = [
        tuple(changes[place] for place in order) for order in permutations(range(len(changes)))
    ]
    return [order for number, order in enumerate(found) if order not in found[:number]]


def measured(**values: float) -> tuple[Measurement, ...]:
    """Return measurements by the last words of their names, `a__b` for `a.b`; the unit is 1/s."""
    return tuple(
        Measurement(metric=name.replace("__", "."), value=value, unit="1/s", better=Better.MORE)
        for name, value in values.items()
    )


def flushed(*, proven: bool, dirty: int = 77) -> Changes:
    """Return a flush whose proof failed, or did not."""
    facts = {"buffers.dirty": 0 if proven else dirty, "pages.dirty_bytes": 0, "files": 3}
    return {"facts": {"proven": proven, **facts}}


def offered(*, answered: float) -> Changes:
    """Return a load of 100 statements a second of which so many were answered."""
    rates = {"sessions__offered": 100.0, "sessions__begun": answered}
    return {
        "step": "sessions",
        "facts": {"sessions.sustained": answered >= 100},
        "measurements": measured(**rates, sessions__completed=answered),
    }


def replay_of(*, ran: int, errors: int = 0) -> Changes:
    """Return a replay of so many of 100 statements."""
    one = Replayed(
        fingerprint="0" * 16, text="SELECT ?", kind="select", planned=100, executions=ran,
        service_s=1.0, errors={"42P01": errors} if errors else {},
    )  # fmt: skip
    return {
        "step": "replay",
        "replayed": (one,),
        "facts": {"replay.planned": 100, "replay.whole": ran == 100},
        "measurements": measured(replay__statements=ran / 10, replay__errors=errors),
    }


_LEFT = "buffers in the server, 0 B dirty in the page cache, in 3 files"
FAILED_PROOFS = [
    (
        [flushed(proven=False), flushed(proven=False, dirty=80), flushed(proven=True)],
        "not proven clean in 2 of 3",
        f"NOT PROVEN CLEAN: 77 to 80 dirty {_LEFT} in 2 of 3",
    ),
    (
        [offered(answered=50), offered(answered=50), offered(answered=100)],
        "not sustained in 2 of 3",
        "100/s asked, 50/s begun, 50/s answered in the window: NOT SUSTAINED in 2 of 3",
    ),
    (
        [replay_of(ran=50, errors=10), replay_of(ran=50, errors=10), replay_of(ran=100)],
        "cut short: 50 of 100 statements ran in 2 of 3",
        "50 of 100 statements ran, 10 with an error of their own: CUT SHORT in 2 of 3",
    ),
]
"""Repeats of which two of three failed their own proof, and the words on these two."""


@pytest.mark.parametrize(("changes", "brief", "text"), FAILED_PROOFS)
def test_a_failed_proof_of_any_repeat_is_a_reason_for_care(
    stored: Run, changes: Sequence[Changes], brief: str, text: str
) -> None:
    """Which repeats failed, by their place, does not matter; nor if each is a run."""
    flush = next(one for one in stored.steps if one.name == "flush")
    for order in every_order(changes):
        together = [repeats(stored, flush, order)]
        apart = [altered(repeats(stored, flush, [each]), id=f"run-{each}") for each in order]
        for runs in (together, apart):
            found = summarise(runs)
            (one,) = found.lines
            (bad,) = [proof for proof in one.proofs if not proof.good]

            assert (one.trust, bad.brief, bad.text) == (Trust.CARE, brief, text)
            assert found.headline.sure == "it can be believed with care"
            for report in (markdown_of, page_of):
                assert text in report([Side("x", tuple(runs))])


@pytest.mark.parametrize("places", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_an_account_that_does_not_close_is_not_hidden_by_others(
    stored: Run, places: Sequence[int]
) -> None:
    """The proof is of the one that closes least, whatever the time of its operations."""
    cached = next(one for one in stored.steps if one.name == "cached")
    closing = known(cached.account)
    whole = closing.sessions * closing.seconds / closing.operations
    accounts = [
        altered(closing, operations=closing.operations * (1 + place), residue=0.3 * whole)
        if place in places
        else altered(closing, residue=0.0)
        for place in range(3)
    ]
    run = repeats(stored, cached, [{"account": one} for one in accounts])
    one = line([run], "cached")
    (bad,) = [proof for proof in one.proofs if not proof.good]
    count = "" if len(places) == 3 else f" in {len(places)} of 3"

    assert one.trust is Trust.CARE
    assert bad.text.startswith("account does not close: ")
    assert bad.text.endswith(f"% of the time not explained{count}")


@pytest.mark.parametrize("got", ["cold", "lukewarm"])
def test_the_repeats_that_are_not_as_asked_are_counted_in_few_words(stored: Run, got: str) -> None:
    """In the table of steps, too, where the proof has few words."""
    walk = next(one for one in stored.steps if one.name == "walk")
    changes = [{"cold": cold(each)} for each in ("cold", got, "cold")]
    run = repeats(stored, walk, changes)
    (proof, *_) = line([run], "walk").proofs
    words = {"cold": "0% in memory before", "lukewarm": "asked cold, got lukewarm in 1 of 3"}

    assert proof.brief == words[got]
    assert "did not come from the device" not in markdown_of([Side("x", (run,))])


def test_origins_that_differ_between_repeats_are_counted(stored: Run) -> None:
    """Two of three repeats found all in memory: no word has it that all came from the disk."""
    cached = next(one for one in stored.steps if one.name == "cached")
    changes = [
        {
            "ledger": ledger(ReadOrigin(origin), asked=None, ratio=ratio),
            "measurements": measured(sessions__riops=rate),
        }
        for origin, ratio, rate in (
            ("physical", 1.0, 1e3), ("cached", 0.0, 9e4), ("cached", 0.0, 9e4)
        )
    ]  # fmt: skip
    for order in every_order(changes):
        one = line([repeats(stored, cached, order)], "cached")
        (proof, *_) = one.proofs
        for text in (one.brief.did, one.brief.clause):
            assert "disk in 1 of 3" in text
            assert "memory in 2 of 3" in text
        assert one.brief.clause.startswith("90,000 blocks/s from ")
        assert "physical 1 of 3" in proof.brief
        assert "cached 2 of 3" in proof.brief


def test_a_headline_has_the_statements_of_every_replay(stored: Run) -> None:
    """One of three was cut short, or had an error: a median, or the first repeat, hides that."""
    flush = next(one for one in stored.steps if one.name == "flush")
    for order in every_order([replay_of(ran=100), replay_of(ran=50, errors=10)]):
        brief = line([repeats(stored, flush, [*order, replay_of(ran=100)])], "flush").brief

        assert brief.clause == (
            "50 to 100 of 100 statements at 10.0 statements/s, 0 to 10 with an error of their own"
        )
    two = repeats(stored, flush, [replay_of(ran=100), replay_of(ran=100, errors=1)])
    assert line([two], "flush").brief.clause.endswith(", 0 to 1 with an error of their own")


def test_every_number_of_a_step_is_a_median(stored: Run) -> None:
    """So are shares of blocks found, and a number that the first repeat does not have."""
    flush = next(one for one in stored.steps if one.name == "flush")
    row = {"buffers_bytes": 1 << 30, "full": True, "completed_per_second": 9.0, "seconds": 6.0,
           "device_reads_per_second": None}  # fmt: skip
    shares = [
        {
            "step": "buffers",
            "tables": {"buffers": ({**row, "hit_share": share},)},
            "measurements": measured(buffers__hit_ratio__1__00GiB=100 * share),
        }
        for share in (0.5, 0.9, 0.9)
    ]
    for order in every_order(shares):
        brief = line([repeats(stored, flush, order)], "flush").brief
        assert list(brief.results) == ["90 % in 1.00 GiB"]
        assert brief.clause == "90 % with buffers of 1.00 GiB"

    rates = [
        {"step": "other", "measurements": measured(other__rate=rate) if rate else ()}
        for rate in (0, 10, 30)
    ]
    for order in every_order(rates):
        assert line([repeats(stored, flush, order)], "flush").figures == ("rate 20/s",)


def test_the_statements_of_one_of_several_replays_name_it(stored: Run) -> None:
    """They are of the last repeat of the last run, next to medians of all."""
    flush = next(one for one in stored.steps if one.name == "flush")
    run = repeats(stored, flush, [replay_of(ran=100), replay_of(ran=50)])
    last = altered(run, id="run-2")
    texts = [markdown_of([Side("x", runs)]) for runs in ((last,), (run, last))]

    assert all("repeat 2, the last one:" in text for text in texts)
    assert ["run run-2, the last one:" in text for text in texts] == [False, True]
