"""The proofs in docs/verified are those that `replayer check --prove` would print now."""

import json
from pathlib import Path

import pytest

from replayer.engines import engine
from replayer.engines.verbs import VerbName
from replayer.run.checks.proof import EngineProof, TrialOutcome, as_markdown
from tests.documents import ROOT

FOLDER = ROOT / "docs" / "verified"
PROOFS = sorted(FOLDER.glob("*.json"))


def proof_in(path: Path) -> EngineProof:
    """Return the proof in a file."""
    return EngineProof.model_validate(json.loads(path.read_text()))


@pytest.mark.parametrize("name", ["duckdb", "clickhouse"])
def test_a_proof_has_the_verbs_that_the_engine_has_now(name: str) -> None:
    """Each verb, and each that is left out with the reason of today: these run everywhere."""
    proof = proof_in(FOLDER / f"{name}.json")
    number = int(proof.version.split(".")[0])
    there = engine.load(proof.engine).at(number)
    lacking = {one.verb: one.reason for one in proof.trials if one.outcome is TrialOutcome.LEFT_OUT}

    assert proof.holds
    assert [one.verb for one in proof.trials] == there.verbs()
    assert lacking == {
        name: there.why_not(VerbName(name)) for name in there.verbs() if there.named(name) is None
    }
    assert not [one.verb for one in proof.trials if one.reason == "no trial here needs it"]


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.stem)
def test_a_page_is_its_proof_and_names_no_place(path: Path) -> None:
    """The Markdown is that of the JSON; neither has a path, an address or a password."""
    page = path.with_suffix(".md").read_text()

    assert page == as_markdown(proof_in(path))
    for text in (page, path.read_text()):
        assert not [
            word for word in ("/tmp/", "/root/", "/work/", "/home/", "://", "@") if word in text
        ]
