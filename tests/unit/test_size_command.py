"""What `replayer size` refuses: one sentence, status 2, and nothing done before it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.model import Run
from replayer.results import store
from tests.command import Replayer
from tests.sizing_runs import of_cpu


@pytest.fixture
def refused(replayer: Replayer, tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs replayer with a home of its own, and returns its one error."""

    def run(*words: object) -> str:
        ended = replayer(*words, status=2, REPLAYER_HOME=str(tmp_path / "home"))
        lines = ended.err.splitlines()
        assert [line.startswith("replayer: error: ") for line in lines].count(True) == 1
        return lines[-1]

    return run


REFUSED = {
    "no profile": (["nope.profile"], "is not there"),
    "no headroom": (["P", "--headroom", "30"], "must be a percentage such as 30%"),
    "no growth": (["P", "--growth", "nan"], "growth is nan"),
    "no objective": (["P", "--slo", "p99"], "not an objective such as p99=20ms"),
    "no duration": (["P", "--hold", "long"], "--hold long: 'long' is not a duration"),
    "no time": (["P", "--slo", "p99=-1ms"], "--slo p99=-1ms: '-1ms' is not a duration"),
    "no objective of a profile": (["P", "--slo", "none"], "--slo none is for a capture"),
    "no size": (["P", "--working-set", "much"], "--working-set much: "),
    "nothing in use": (["P", "--working-set", "0"], "--working-set is 0"),
    "no sessions": (["P", "--sessions", "0"], "sessions: "),
    "no trial": (["P", "--trial", "0.1s"], "trial: "),
    "no engine": (["P", "--engine", "oracel"], "there is no engine"),
    "no target": (["P", "--target", "nope.toml"], "nope.toml"),
    "no room": (["P", "--working-set", "1000T"], "--data-dir"),
    "no folder": (["P", "--data-dir", "/proc/nothing/x"], "/proc"),
    "no setting": (["P", "--pg-set", "x"], "must be name=value"),
    "no run": (["show", "nope"], "there are no runs in"),
    "nothing to show": (["show"], "size show latest"),
    "two profiles": (["P", "P"], "one argument too many"),
    "two captures": (["a.replay", "b.replay"], "one argument too many"),
    "no capture beside": (["P", "nope.replay"], "nope.replay cannot be read"),
    "too much": (["P", "--growth", "1000", "--by", "nope"], "there is no resource"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_one_sentence(
    tmp_path: Path, words: str, refused: Callable[..., str]
) -> None:
    """A wrong argument ends with status 2 and one sentence, before anything is done."""
    made = of_cpu(tmp_path / "x.profile", rate=5, cores=0.001)
    asked, sentence = REFUSED[words]
    asked = [str(made) if word == "P" else word for word in asked]
    assert sentence in refused("size", *asked, "--results", tmp_path / "results")


def test_a_run_in_the_place_of_a_profile_is_named_as_one(
    tmp_path: Path, refused: Callable[..., str], stored: Run
) -> None:
    """`size latest`, and a verdict of a run without one: what it is, and what to do."""
    folder = tmp_path / "results"
    folder.mkdir()
    sized = stored.model_copy(update={"sizing": {"profile": "x"}})
    store.save(folder / f"{stored.id}.json", sized)
    said = refused("size", "latest", "--results", folder)
    assert f"latest is the run {stored.id} (demo), not a profile: give a file" in said
    assert "`replayer size show latest`" in said

    store.save(folder / f"{stored.id}.json", stored.model_copy(update={"sizing": None}))
    assert "size show" not in refused("size", "latest", "--results", folder)
    said = refused("size", "show", "latest", "--results", folder)
    assert f"the run {stored.id} (demo) is not one of `replayer size` and has no verdict: " in said
    assert "`replayer size FILE`" in said


BAD_PROFILES: dict[str, tuple[Callable[[str], str], str]] = {
    "cut short": (lambda text: text[: len(text) // 3], "profile"),
    "of another version": (
        lambda text: text.replace('"profile":1', '"profile":99', 1),
        "upgrade replayer",
    ),
    "no profile": (lambda _: "time,x\n1,2\n", "not a profile of replayer"),
    "empty": (lambda _: "", "profile"),
}


@pytest.mark.parametrize("name", BAD_PROFILES)
def test_a_profile_that_is_none_is_one_sentence(
    tmp_path: Path, name: str, refused: Callable[..., str]
) -> None:
    """A torn, newer or empty profile is refused in one sentence that names the file."""
    made = of_cpu(tmp_path / "bad.profile", rate=5, cores=0.001)
    spoil, word = BAD_PROFILES[name]
    made.write_text(spoil(made.read_text()))
    said = refused("size", made, "--dry-run")
    assert word in said
    assert "bad.profile" in said


def test_profiles_of_no_load_and_of_too_much_are_one_sentence(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    """Nothing follows from an idle source; a rate beyond all clients is told as such."""
    idle = of_cpu(tmp_path / "idle.profile", rate=0, cores=0)
    assert "profile the source while it is in use" in refused("size", idle, "--dry-run")
    huge = of_cpu(tmp_path / "huge.profile", rate=9e8, cores=4)
    assert "more than the 10,000,000/s" in refused("size", huge, "--dry-run")
