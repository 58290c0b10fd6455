"""`replayer bisect`: the first candidate that is worse, with real runs."""

import json
import os
import signal
from pathlib import Path

import pytest

from replayer import shell
from replayer.analysis.differences import boot_plan
from tests.command import Replayer
from tests.waiting import wait_until

WORK = """\
description = "divisions for a moment"

[[step]]
step = "probe"
name = "cpu"
probe = "cpu"
threads = [1]
duration = "200ms"
cpu_max_prime = {}
"""
FAST = ("--set", "cpu.threads=1", "--set", "cpu.duration=200ms")


@pytest.mark.slow
def test_the_first_that_is_many_times_slower_is_named(replayer: Replayer, tmp_path: Path) -> None:
    """Of four lengths of a pass, the third is the first long one; runs that are there count."""
    words = ("bisect", "cpu", *FAST, "--vary", "cpu.cpu_max_prime={}", "--results", tmp_path / "r")
    over = ("--over", "300,301,30000,30001")

    cut = replayer(*words, *over, "--runs", "4", "--json")
    found = json.loads(replayer(*words, *over, "--resume", "--json").out)

    assert len(json.loads(cut.out)["runs"]) == 4
    assert found["found"] == "30000"
    assert found["worse"] is True
    assert found["chance"] >= 0.95
    assert len(found["runs"]) > 4
    printed = replayer(*words, *over, "--resume").out.splitlines()
    assert printed[-1].startswith("30000 is the first that is worse")
    assert [line.split()[0] for line in printed[4:6]] == ["300", "301"]


@pytest.mark.slow
def test_runs_of_another_boot_are_a_doubt(replayer: Replayer, tmp_path: Path) -> None:
    """A search that went on after a boot names that: the boot alone may be the change."""
    words = ("bisect", "cpu", *FAST, "--vary", "cpu.cpu_max_prime={}", "--results", tmp_path / "r")
    over = ("--over", "300,301,30000", "--runs", "4")
    cut = replayer(*words, *over)
    for path in sorted((tmp_path / "r").glob("*.json"))[:2]:
        run = json.loads(path.read_text())
        run["host"]["boot.id"] = "another"
        path.write_text(json.dumps(run))

    assert "boots" not in cut.out
    assert "of 2 boots" in " ".join(replayer(*words, *over, "--resume").out.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--vary", "cpu.cpu_max_prime={}"], "needs a {} where the level goes, and --over"),
        (["--vary", "cpu.cpu_max_prime=7", "--over", "1,2"], "needs a {} where the level goes"),
        (["--vary", "cpu.cpu_max_prime={}", "--over", "7"], "two or more different candidates"),
        (["--pg-bindirs", "/nowhere,/nothing"], "there is no folder /nowhere"),
        (["--git", "/nowhere", "--over", "a..b"], "needs --over GOOD..BAD and --build CMD"),
        (["--git", "/nowhere", "--over", "a..b", "--build", "make"], "git cannot list a..b"),
        (["--kernels", "vmlinuz-0.0.*"], "has no kernel of such a name"),
        (["--switch", "true {}", "--over", "a,b", "--runs", "1"], "4 at least"),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(
    replayer: Replayer, tmp_path: Path, words: list[str], sentence: str
) -> None:
    """Nothing is started."""
    done = replayer("bisect", "cpu", *words, "--results", tmp_path / "results", status=2)

    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_a_list_of_kernels_that_is_no_text_is_one_sentence(
    replayer: Replayer, tmp_path: Path
) -> None:
    """An image of a kernel is given by mistake where a list of their names is meant."""
    image = tmp_path / "vmlinuz"
    image.write_bytes(b"\xff\xfe\x00")

    ended = replayer("bisect", "cpu", "--kernels", image, "--results", tmp_path / "r", status=2)

    assert str(image) in ended.err
    assert ended.err.count("\n") == 1


def test_kernels_are_searched_one_boot_at_a_time(replayer: Replayer, tmp_path: Path) -> None:
    """In another boot than the due one, what to boot is said, and a plan that names it written."""
    results = tmp_path / "results"
    done = replayer(
        *("bisect", "cpu", *FAST, "--kernels", "0.1,0.2 nosmt,0.3"), "--results", results
    )
    (plan,) = results.glob("bisect-*.plan")

    assert "next: boot 0.1," in done.out + done.err
    assert f"replayer boots start {plan}" in done.out + done.err
    assert replayer("step", plan, "--next").out == "next boot: 0.1\n"
    assert replayer("step", plan).out == done.out
    assert not list(plan.with_suffix(".runs").glob("*"))
    refused = replayer("step", plan, "--live", "--timeout", "1h", status=2).err
    assert "cannot be followed: leave out --timeout, --live" in refused


@pytest.mark.slow
def test_no_boot_beyond_the_limit_is_measured(replayer: Replayer, tmp_path: Path) -> None:
    """After so many boots the machine's default, which comes up at last, has no run, though due."""
    here = os.uname().release
    words = ("bisect", "cpu", *FAST, "--runs", 4, "--results", tmp_path)
    replayer(*words, "--kernels", f"{here},0.2")
    (made,) = tmp_path.glob("*.runs/*.json")
    replayer(*words, "--kernels", f"0.1,{here},0.3")
    (plan,) = (one for one in tmp_path.glob("*.plan") if not one.with_suffix(".runs").exists())
    for number, (kernel, value) in enumerate([("0.1", 99.0), ("0.3", 50.0)] * 2):
        run = json.loads(made.read_text())
        run["id"] += f"-{number}"
        run["host"]["boot.id"] = f"boot-{number}"
        run["tags"] = {"bisect": plan.stem.removeprefix("bisect-"), "candidate": kernel}
        for place in (run["leading"], run["steps"][0]["measurements"]):
            place[0]["value"] = value + number / 10
        runs = plan.with_suffix(".runs")
        runs.mkdir(exist_ok=True)
        (runs / f"{run['id']}.json").write_text(json.dumps(run))

    ended = replayer(*words, "--kernels", f"0.1,{here},0.3")
    assert "stopped after 4 boots" in ended.out
    assert "2 of 2 places are left" in ended.out
    assert len(list(plan.with_suffix(".runs").glob("*.json"))) == 4


@pytest.mark.slow
def test_an_edited_workload_is_another_search(replayer: Replayer, tmp_path: Path) -> None:
    """Runs of the file as it was before are not counted as runs of it as it is now."""
    results, workload = tmp_path / "results", tmp_path / "work.toml"
    for size in ("200", "300"):
        workload.write_text(WORK.format(size))
        replayer("bisect", workload, "--kernels", "0.1,0.2", "--results", results)
        replayer("ab", workload, "--b", "kernel=0.1", "--results", results)

    assert len(list(results.glob("bisect-*.plan"))) == 2
    assert len(list(results.glob("ab-*.plan"))) == 2


def test_a_plan_of_another_user_is_not_followed(replayer: Replayer, tmp_path: Path) -> None:
    """Its words are commands that would run as this user."""
    plan = tmp_path / "bisect.plan"
    boot_plan.write(plan, boot_plan.of_job(["0.1", "0.2"], ("bisect", "cpu"), ("cpu",)))
    os.chown(plan, 65534, 65534)

    assert "only your own plan is taken" in replayer("step", plan, status=2).err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope", "--vary", "cpu.threads={}", "--over", "1,2"], "there is no workload 'nope'"),
        (["cpu", "--vary", "pg.shared_buffers={}", "--over", "1GB,2GB"], "and cpu uses none"),
    ],
)
def test_what_a_run_would_refuse_is_refused_first(
    replayer: Replayer, tmp_path: Path, words: list[str], sentence: str
) -> None:
    """Nothing is written, and the exit status is 2."""
    done = replayer("bisect", *words, "--results", tmp_path / "results", status=2)

    assert sentence in done.err
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_a_second_terminal_is_named_the_first(replayer: Replayer, tmp_path: Path) -> None:
    """One search, one process: the other one ends at once."""
    words = ("bisect", "cpu", *FAST, "--vary", "cpu.cpu_max_prime={}", "--over", "300,301,302")
    results = tmp_path / "r"
    with replayer.start(*words, "--results", results) as first:
        wait_until(lambda: any(path.stat().st_size for path in results.glob(".bisect-*")))
        second = replayer(*words, "--resume", "--results", results, status=2)
        first.send_signal(signal.SIGINT)
        first.wait()

    assert f"another replayer (process {first.pid})" in second.err
    assert not list(results.glob(".bisect-*"))


@pytest.mark.slow
def test_switching_is_taken_back_after_a_kill(replayer: Replayer, tmp_path: Path) -> None:
    """The next command of the same user switches to the first level, and says so."""
    level = tmp_path / "level"
    level.write_text("one")
    switch = tmp_path / "switch"
    switch.write_text(f"#!/bin/sh\nprintf %s $1 > {level}\n")
    switch.chmod(0o755)
    words = ("bisect", "cpu", *FAST, "--switch", f"{switch} {{}}", "--over", "one,two")
    with replayer.start(*words, "--results", tmp_path / "r") as search:
        wait_until(lambda: level.read_text() == "two")
        search.kill()
        search.wait()

    assert level.read_text() == "two"
    assert "was switched back by" in "".join(replayer("clean", "--yes"))
    assert level.read_text() == "one"


@pytest.mark.slow
def test_commits_are_built_in_clones_and_the_repository_is_only_read(
    replayer: Replayer, tmp_path: Path
) -> None:
    """Each commit that is measured is built once, in the folder of results, which is made."""
    toy = tmp_path / "toy"
    git = ["git", "-C", str(toy), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    shell.run(["git", "init", "-q", toy])
    for number in range(3):
        (toy / "number").write_text(str(number))
        shell.run([*git, "add", "number"])
        shell.run([*git, "commit", "-qm", f"commit {number}"])
    before = sorted(path.name for path in toy.iterdir())
    results = tmp_path / "deep" / "results"
    words = ("--git", toy, "--over", "HEAD~2..HEAD", "--build", "cp number ../built-$(cat number)")

    replayer("bisect", "cpu", *FAST, *words, "--runs", "4", "--results", results)

    assert {path.name for path in (results / "builds").glob("built-*")} >= {"built-0", "built-2"}
    assert sorted(path.name for path in toy.iterdir()) == before
