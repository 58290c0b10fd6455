"""The parser with every command: what it says of words that it does not know."""

import argparse

import pytest

from replayer.cli.command_parser import every, parser
from replayer.errors import Impossible
from replayer.run.plan import run_words


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rnu"], "there is no 'rnu' - did you mean run?"),
        (["runs", "lst"], "there is no 'lst' - did you mean list?"),
        (["list", "worklods"], "there is no 'worklods' - did you mean workloads?"),
        (["run", "--repeat", "two"], "'two' must be a whole number, such as 3"),
        (["list", "--al"], "unrecognized arguments: --al - did you mean --all?"),
        (["run", "smoke", "--pgset", "a=1"], "did you mean --pg-set?"),
        (["show", "latest", "--nothing-like-it"], "`replayer help show` shows what it takes"),
        (["runs", "list", "--bogus"], "`replayer runs list --help` shows what it takes"),
        (["size"], "`replayer help size` shows what it takes"),
        (["show", "latest", "--ful"], "--ful - did you mean --full?"),
        (["show", "latest", "--why"], "`replayer help show` shows what it takes"),
        (["runs", "list", "--nosuch"], "`replayer runs list --help` shows what it takes"),
        (["completion", "foo"], "there is no 'foo' (there are: bash, fish, zsh)"),
    ],
)
def test_a_mistyped_word_is_answered_by_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    """One of many choices is mistyped: the nearest is named, and all of them where none is near.

    The answer is two lines: what is wrong, and where all options are listed.
    """
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)

    printed = capsys.readouterr().err
    assert ended.value.code == 2
    assert sentence in printed
    assert len(printed.splitlines()) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--timeout", "x"],
        ["run", "--live-for", "0"],
        ["run", "--live-for", "-1s"],
        ["profile", "postgresql:///", "--for", "-3s"],
        ["size", "p.profile", "--window", "x"],
        ["size", "p.profile", "--slo", "p99=-1ms"],
        ["shortlist", "p.profile", "--window", "-"],
        ["capture", "postgresql:///", "--for", "x"],
        ["profile", "postgresql:///", "--every", "1q"],
        ["ab", "--within", "300"],
        ["ab", "--runs", "0"],
        ["bisect", "--wait-quiet", "x"],
        ["experiment", "--within", "x"],
        ["run", "--label", "latest"],
        ["size", "p.profile", "--label", "latest"],
        ["import", "fio", "job.json", "--label", "latest"],
    ],
)
def test_a_wrong_value_of_an_option_is_named_with_its_option(words: list[str]) -> None:
    """Where several options take a time, the sentence has the one that is wrong, once."""
    option, value = words[-2:]
    with pytest.raises(Impossible, match=f"^{option} {value}: ") as refused:
        parser().parse_args(words)

    assert str(refused.value).count(option) == 1


def test_no_run_is_renamed_to_what_names_the_newest() -> None:
    """`latest` would find another run than the one that has this label."""
    with pytest.raises(Impossible, match=r"^LABEL latest: "):
        parser().parse_args(["runs", "rename", "stock", "latest"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["run", "smoke", "--engine", ""],
            "--engine '': it is empty; give NAME|URL, or leave it out",
        ),
        (["run", ""], "WORKLOAD '': it is empty"),
        (["run", "--results="], "--results '': it is empty; give DIR, or leave it out"),
        (["report", "latest", "--csv", ""], "--csv '': it is empty; give FILE, or leave it out"),
        (["compare", "", "X"], "A B '': it is empty"),
        (["size", "p.profile", ""], "RUN|FILE '': it is empty"),
        (["runs", "rename", "", "stock"], "RUN '': it is empty"),
        (
            ["experiment", "--between", "A", ""],
            "--between '': it is empty; give A B, or leave it out",
        ),
        (["plan", "--kernels", "", "--boots", "2"], "--kernels '': it is empty; give A,B"),
    ],
)
def test_an_empty_value_is_refused(words: list[str], sentence: str) -> None:
    """A variable of the shell that is not set is not taken for an option that is not given."""
    with pytest.raises(Impossible) as refused:
        parser().parse_args(words)

    assert str(refused.value) == sentence


def test_every_argument_refuses_an_empty_value_unless_it_has_a_meaning() -> None:
    """This is so for the options of every command, not only for those that read a path."""
    accepted = set()
    for command, one in every(parser()):
        for action in one._actions:
            if action.nargs in (0, argparse.PARSER):
                continue
            try:
                one._get_values(action, [""])
            except (Impossible, argparse.ArgumentError):
                continue
            accepted.add(f"{command} {(*action.option_strings, action.dest)[0]}")

    assert {one.partition(" ")[2] for one in accepted} == {
        *("ab --a", "ab --b", "ab --without", "experiment --seldom", "experiment --without"),
        *("import --label", "plan arguments", "run --label", "run --note", "run --with"),
        *("run --without", "runs note notes", "runs rename label", "size --label"),
    }


def test_empty_values_with_a_meaning_are_taken() -> None:
    """A variant without a word is the machine as it is; a plan keeps an empty remark."""
    assert parser().parse_args(["ab", "smoke", "--a", "", "--b", "pg.jit=on"]).a == ""
    assert parser().parse_args(["run", "--note", ""]).note == [""]
    words = ["plan", "--kernels", "a,b", "--boots", "2", "--", "smoke", "--note", ""]
    assert parser().parse_args(words).arguments == ["smoke", "--note", ""]


def test_the_words_of_a_planned_run_are_not_empty_either() -> None:
    """The run of each boot refuses what `replayer run` does, before the first boot."""
    with pytest.raises(Impossible, match=r"^--engine '': it is empty"):
        run_words.parse(["smoke", "--engine", ""])
