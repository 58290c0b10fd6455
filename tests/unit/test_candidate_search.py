"""Candidates of a search that cannot share a data folder."""

from pathlib import Path

from replayer.experiments import candidate_search
from replayer.experiments.candidate_search import SearchCandidate
from replayer.experiments.variant import Variant


def test_other_server_programs_have_their_own_data_folders() -> None:
    """Those of the same server share the one that was given."""
    programs = [
        SearchCandidate(one, Variant(one, ("--pg-bindir", one))) for one in ("/old", "/new")
    ]
    settings = [SearchCandidate(one, Variant(one, ("--set", one))) for one in ("a.b=1", "a.b=2")]

    alone = candidate_search.with_own_data(programs, Path("/data"))
    assert [one.variant.arguments[-2:] for one in alone] == [
        ("--data-dir", "/data/variant-1"),
        ("--data-dir", "/data/variant-2"),
    ]
    assert candidate_search.with_own_data(settings, Path("/data")) == settings
