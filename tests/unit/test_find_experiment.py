"""An experiment is found by its id, the start of its id, or the path of its folder."""

from pathlib import Path

import pytest

from replayer.errors import NotFound
from replayer.experiments.experiment import FILE, find_experiment


def test_an_experiment_is_found_by_id_and_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path is one from where the user is, as for runs, or one below the folder of results."""
    for name in ("20261126-a", "20261127-b"):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        (folder / FILE).write_text("")
    monkeypatch.chdir(tmp_path)
    where = Path("results")

    for wanted in ("20261126-a", "20261126", "results/20261126-a", "./20261126-a"):
        assert find_experiment(wanted, where).name == "20261126-a"
    assert find_experiment(str(tmp_path / "results/20261127-b"), where).name == "20261127-b"
    for wanted in ("2026", "other/20261126-a", "20261128"):
        with pytest.raises(NotFound, match="no one experiment"):
            find_experiment(wanted, where)
