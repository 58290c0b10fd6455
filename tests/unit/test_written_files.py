"""Files that people write: whatever stands in them, one sentence and soon."""

import os
from pathlib import Path

import pytest

from replayer import assets
from replayer.analysis.differences import boot_plan
from replayer.errors import Impossible, NotFound
from replayer.model import Series
from replayer.results import store
from replayer.run.plan import workload as workload_file
from tests.cpu_time import at_once
from tests.fixture_types import RunOf

STEP = b'[[step]]\nstep = "walk"\n'
SPOILED = {
    "a key of 50,000 parts": (b"a." * 50_000 + b"a = 1", "line 1 has more than 500 dots"),
    "many keys of many parts": ((b"a." * 500 + b"a = 1\n") * 250, "."),
    "lists in lists": (b"x = " + b"[\n" * 5000 + b"]\n" * 5000, "nested too deeply"),
    "tables in tables": (b"x = " + b"{a=" * 600, "."),
    "another encoding": (STEP + b'name = "caf\xe9"\n', "line 3 is not UTF-8"),
    "a binary": (bytes(range(256)) * 100, "line 2 is not UTF-8"),
    "a large file": (STEP + b"#\n" * (1 << 20), "larger than 256 KiB"),
    "a name that is a list": (STEP + b"name = [1]\n", "it must be a text"),
    "an empty name": (STEP + b'name = ""\n', "name = '': it must be a text that is not blank"),
    "a blank name": (STEP + b'name = " \\t"\n', r"name = ' \\t': it must be a text that is not"),
    "an empty step": (b'[[step]]\nstep = ""\n', "step 1: it needs a line such as step ="),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_spoiled_workload_is_one_sentence(case: str, tmp_path: Path) -> None:
    """Depth, length, size and encoding are told with the file's name, and at once."""
    data, sentence = SPOILED[case]
    path = tmp_path / "spoiled.toml"
    path.write_bytes(data)
    with at_once(case), pytest.raises(Impossible, match=sentence) as refused:
        workload_file.load(str(path))

    assert "spoiled.toml" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_mark_before_the_text_changes_nothing(tmp_path: Path) -> None:
    """A file that an editor saved with a byte order mark is read as without."""
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf" + STEP)

    assert [step.name for step in workload_file.load(str(path)).steps] == ["walk"]


@pytest.mark.parametrize(
    "given",
    [
        "walk.name=[1]",
        "walk.name=",
        "walk.step=5",
        "walk.step=[[[]]]",
        "walk.once={a=1}",
        f"walk.threads={'[' * 1500}",
        f"walk.threads={'9' * 5000}",
        "walk.threads=1\nonce = true",
        ".threads=1",
        "walk.=1",
        "walk.a b=1",
        "w\u0430lk.threads=1",
        "walk.threads=2026-01-01",
    ],
)
def test_odd_values_on_the_command_line_are_one_sentence(given: str, tmp_path: Path) -> None:
    """Whatever follows --set is understood or refused, never taken for more than one value."""
    path = tmp_path / "right.toml"
    path.write_bytes(STEP)

    with pytest.raises(Impossible) as refused:
        workload_file.load(str(path), [given])

    assert len(str(refused.value)) < 6000


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe, a folder and a device are refused wherever a file is named, at once."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    long = f"/{'x' * 300}/{'y' * 5000}.json"
    for path in (str(pipe), str(tmp_path), "/dev/zero", "/dev/tty", long):
        for read in (store.load, boot_plan.load, assets.toml, assets.text):
            with pytest.raises(Impossible):
                read(type(tmp_path)(path))
        with pytest.raises(NotFound):
            store.find(path if "/" in path else f"./{path}", tmp_path / "none")
        assert boot_plan.load_if_plan(path) is None

    (listed,) = store.runs(tmp_path)
    assert listed == store.Unreadable(pipe, "it is not a file")
    assert list(store.with_text(tmp_path, "x")) == []


@pytest.mark.parametrize(
    ("begin", "reason"), [(b"", "it is not a run of replayer"), (b" {", "it has 3.00 GiB, which")]
)
def test_a_huge_file_among_the_runs_is_not_read(tmp_path: Path, begin: bytes, reason: str) -> None:
    """Every run looks at all of the folder as it starts: it is not to fill the memory for one."""
    path = tmp_path / "dump.json"
    path.write_bytes(begin)
    os.truncate(path, 3 << 30)

    (listed,) = store.runs(tmp_path)

    assert isinstance(listed, store.Unreadable)
    assert reason in listed.reason
    with pytest.raises(Impossible, match=reason):
        store.load(path)


def test_a_series_whose_columns_have_another_length_is_refused(
    tmp_path: Path, run_of: RunOf
) -> None:
    """A column with more or fewer values than there are seconds is named, with both numbers."""
    run = run_of([1.0])
    series = Series(started="", seconds=(1.0, 2.0), columns={"a": (1.0, 2.0, 3.0)})
    step = run.steps[0].model_copy(update={"series": series})
    path = tmp_path / "run.json"
    path.write_text(store.text(run.model_copy(update={"steps": (step,)})))

    with pytest.raises(Impossible, match=r"the column a has 3 values for 2 seconds"):
        store.load(path)


def test_a_result_in_another_encoding_is_passed_over(tmp_path: Path, run_of: RunOf) -> None:
    """A file beside the results that is not a UTF-8 hides no other, and ends no run."""
    run = run_of([1.0])
    store.reserve(tmp_path, run)
    (tmp_path / "other.json").write_bytes(b'{"format": 1, "id": "\xe9\xff"}')

    assert [found.id for found in store.with_text(tmp_path, '"step"')] == [run.id]
    assert sum(isinstance(one, store.Unreadable) for one in store.runs(tmp_path)) == 1
