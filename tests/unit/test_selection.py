"""Words on a command line -> runs: files, folders, labels, patterns, values of a fact."""

from pathlib import Path

import pytest

from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.selection import Chosen, choose, no_column, pair
from replayer.errors import Impossible, NotFound
from replayer.model import Status
from replayer.results import store
from replayer.results.tags import NOT_COUNTED, SPOILT
from tests.fixture_types import RunOf


@pytest.fixture
def results(tmp_path: Path, run_of: RunOf) -> Path:
    """Return a folder with two runs of one label and kernel, one of another, and one file."""
    for label, kernel in [("stock", "6.1.0"), ("stock", "6.1.0"), ("uek", "6.12.9")]:
        run = run_of([1.0, 2.0], label=label, kernel=kernel)
        store.save(tmp_path / f"{run.id}.json", run)
    return tmp_path


def chosen_ids(chosen: Chosen) -> list[list[str]]:
    """Return the ids of the runs of each side."""
    return [[run.id for run in side.runs] for side in chosen.sides]


def test_a_label_means_all_of_its_runs(results: Path) -> None:
    """Two labels are two sides, named so, in the order in which they were given."""
    chosen = choose(["uek", "stock"], results, columns=no_column)

    assert [side.name for side in chosen.sides] == ["uek", "stock"]
    assert [len(side.runs) for side in chosen.sides] == [1, 2]
    assert chosen.said == []


def test_a_folder_means_all_runs_in_it(results: Path) -> None:
    """A file that is not a run is passed over, and that is said."""
    (results / "notes.json").write_text("{}")
    chosen = choose([str(results)], results)

    assert len(chosen.sides[0].runs) == 3
    assert "notes.json" in chosen.said[0]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """A folder without a run is not a side."""
    with pytest.raises(Impossible, match="holds no runs"):
        choose([str(tmp_path)], tmp_path)


def test_a_pattern_a_file_and_an_id_mean_the_same(results: Path) -> None:
    """Whichever way a run is named, it is the same run."""
    path = sorted(results.glob("*.json"))[2]
    ways = [str(path), path.stem, f"{results}/*{path.stem[9:15]}*"]

    assert len({tuple(map(tuple, chosen_ids(choose([way], results)))) for way in ways}) == 1


def test_an_unknown_word_is_not_found(results: Path) -> None:
    """A word that means no run is one sentence, with what is near."""
    with pytest.raises(NotFound, match="nosuch"):
        choose(["nosuch"], results)


def test_runs_that_measured_nothing_are_a_group_only_alone(results: Path, run_of: RunOf) -> None:
    """By label, id or folder a report shows how they ended; a comparison has no use for them."""
    runs = [run_of([1.0], label="lost", status=Status.FAILED) for _ in range(2)]
    store.save(results / f"{runs[0].id}.json", runs[0])
    assert chosen_ids(choose(["lost"], results)) == [[runs[0].id]]

    store.save(results / f"{runs[1].id}.json", runs[1])
    assert chosen_ids(choose(["lost"], results)) == [[run.id for run in runs]]
    with pytest.raises(Impossible, match="so that nothing is left to compare"):
        choose(["lost", "stock"], results)


def test_by_groups_the_runs_of_a_fact(results: Path) -> None:
    """Each value of the fact is a side; `fact=base,other` chooses two, in that order."""
    chosen = choose([str(results)], results, by="host.kernel.release")
    turned = choose([str(results)], results, by="host.kernel.release=6.12.9,6.1.0")

    assert {side.name: len(side.runs) for side in chosen.sides} == {"6.1.0": 2, "6.12.9": 1}
    assert [side.name for side in turned.sides] == ["6.12.9", "6.1.0"]
    assert turned.by == "host.kernel.release"


def test_a_run_that_two_words_mean_counts_once(results: Path) -> None:
    """Grouping by a fact does not double what was named twice."""
    twice = choose([str(results), "stock"], results, by="host.kernel.release")

    assert sum(len(side.runs) for side in twice.sides) == 3


def test_a_copied_file_is_no_further_run(tmp_path: Path, results: Path) -> None:
    """A run that was copied, with or without another id, counts once and never on both sides."""
    path = min(results.glob("*.json"))
    run = store.load(path)
    (results / "copy.json").write_bytes(path.read_bytes())
    store.save(results / "forged.json", run.model_copy(update={"id": "forged", "label": "uek"}))
    whole, by = (choose([str(results)], tmp_path, by=by) for by in ("", "workload.name"))
    chosen = choose(["stock", "uek"], results)

    assert [len(chosen.sides[0].runs) for chosen in (whole, by)] == [3, 3]
    assert "2 of 5 files are copies" in whole.said[0]
    with pytest.raises(Impossible, match="forged is a copy of it, is on both sides"):
        compare(*pair(chosen))


def test_by_a_tag_groups_what_somebody_calls_so(tmp_path: Path, run_of: RunOf) -> None:
    """A tag is a fact: runs are grouped and chosen by it, and it explains what differs."""
    for disk in ("sata", "nvme", "nvme"):
        run = run_of([1.0]).model_copy(update={"tags": {"disk": disk}})
        store.save(tmp_path / f"{run.id}.json", run)
    by_disk = choose([str(tmp_path)], tmp_path, by="tag.disk")
    only = choose([str(tmp_path)], tmp_path, only=["tag.disk=nvme"])

    assert [(side.name, len(side.runs)) for side in by_disk.sides] == [("sata", 1), ("nvme", 2)]
    assert [len(side.runs) for side in only.sides] == [2]


def test_by_a_value_that_no_run_has_is_refused(results: Path) -> None:
    """The nearest value that there is stands in the sentence."""
    with pytest.raises(Impossible, match=r"6\.12\.8.*did you mean.*6\.12\.9"):
        choose([str(results)], results, by="host.kernel.release=6.12.8,6.1.0")


def test_only_keeps_the_runs_of_a_condition(results: Path) -> None:
    """Conditions are facts with a value; one that nothing meets is named."""
    kept = choose([str(results)], results, only=["host.kernel.release=6.1.0"])

    assert len(kept.sides[0].runs) == 2
    with pytest.raises(Impossible, match=r"has host\.kernel\.release=9"):
        choose([str(results)], results, only=["host.kernel.release=9"])
    with pytest.raises(Impossible, match="is not a condition"):
        choose([str(results)], results, only=["6.1.0"])


def test_two_groups_are_compared(results: Path) -> None:
    """One side, or three, is a sentence that says what to do; two of one name are told apart."""
    with pytest.raises(Impossible, match="1 was given"):
        pair(choose(["stock"], results))
    with pytest.raises(Impossible, match="only one value"):
        pair(choose(["stock"], results, by="host.kernel.release"))
    base, other = pair(choose(["stock", "stock"], results))

    assert base.name != other.name


def test_a_run_that_did_not_count_is_set_aside(tmp_path: Path, run_of: RunOf) -> None:
    """`compare` by labels answers as `ab` did: a run that was spoilt and done again is left out."""
    for text in ({}, {NOT_COUNTED: SPOILT}, {}):
        run = run_of([1.0], label="a").model_copy(update={"tags": text})
        store.save(tmp_path / f"{run.id}.json", run)
    chosen = choose(["a"], tmp_path)

    assert [len(side.runs) for side in chosen.sides] == [2]
    assert any("did not count it" in words for words in chosen.said)
