"""`check --prove`: verbs that fail, a count that reads nothing, and other people's tables."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible
from replayer.run.checks import marks, table_trials
from replayer.run.checks.proof import EngineProof, Finding, TrialOutcome, as_markdown
from replayer.run.checks.prove import hash_of, list_rows, prove
from replayer.run.checks.table_trials import TableTrials
from replayer.run.checks.verb_trials import VerbTrials
from replayer.servers.open import open_server
from replayer.servers.protocol import Server
from tests.command import Replayer
from tests.expected_rows import expected_rows

ENGINE = "duckdb"
SCAN = "SELECT avg(id) AS avg FROM persons1"


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an engine of one's own, like DuckDB, in which verbs may be replaced."""
    pytest.importorskip(ENGINE)
    folder = tmp_path / "engines" / "mine"
    (folder / "table").mkdir(parents=True)
    (folder / "engine.toml").write_text('title = "Mine"\nlike = "duckdb"\n')
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(folder.parent))
    return folder


@pytest.fixture
def data(server_home: Path) -> Iterator[Path]:
    """Return a data folder that the server's user can enter; it is removed afterwards."""
    folder = server_home / "prove"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def proof_of(name: str, folder: Path) -> EngineProof:
    """Return the proof of an engine whose server is started in a folder."""
    with open_server(engines.checked(name), data_dir=folder) as server:
        return prove(server, lambda _: None)


def table_file(folder: Path, name: str, text: str) -> None:
    """Replace a verb of the engine."""
    (folder / "table" / f"{name}.sql").write_text(text)


@pytest.mark.slow
def test_a_verb_that_fails_is_told_with_its_file_and_the_others_are_tried(
    broken: Path, data: Path, tmp_path: Path
) -> None:
    """A scan with an error, a count from metadata, a range of other rows: seen, all else ok."""
    table_file(broken, "scan", "SELECT avg(nothing_of_that_name) AS avg FROM persons1")
    table_file(broken, "count", "SELECT count(*) AS rows FROM persons1")
    beside = "SELECT sum(id) AS id_sum FROM {{table}} WHERE rowid BETWEEN :first AND :last"
    table_file(broken, "range", beside)

    proof = proof_of("mine", data)

    failed = {one.verb: one for one in proof.trials if one.outcome is TrialOutcome.FAILED}
    found = {one.name: one for one in proof.findings}
    assert set(failed) == {"table/scan", "table/count"}
    assert failed["table/scan"].file == "mine/table/scan.sql"
    assert "nothing_of_that_name" in failed["table/scan"].reason
    assert "id_sum" in failed["table/count"].reason
    assert found["same rows"].proven
    assert found["ranges by the sort key"].proven is False
    assert found["flush"].proven
    assert found["table/count reads"].proven is False
    assert not proof.holds
    assert str(tmp_path) not in proof.model_dump_json() + as_markdown(proof)
    with open_server(engines.checked("mine"), data_dir=data) as server:
        assert table_names(server) == []


def test_a_table_that_is_not_the_checks_own_is_left_alone(broken: Path, data: Path) -> None:
    """A table of somebody else's with that name is refused before anything is tried."""
    del broken
    with open_server(engines.checked("mine"), data_dir=data) as server:
        with closing(Database(server.engine, server.start())) as database:
            database.query("CREATE TABLE persons1 (mine int)")
        with pytest.raises(Impossible, match="was not made by replayer"):
            prove(server, lambda _: None)
        assert table_names(server) == ["persons1"]


@pytest.mark.slow
@pytest.mark.parametrize("ours", [False, True])
def test_only_the_checks_own_table_is_removed(broken: Path, data: Path, *, ours: bool) -> None:
    """A run's table with the check's very rows and segments is refused; a killed check's goes."""
    del broken
    keys: dict[str, Any] = {"made_by": "replayer", "layout": "columnstore"}
    keys |= {"segment_rows": table_trials.SEGMENT_ROWS, "rows_wanted": table_trials.GROWN}
    with open_server(engines.checked("mine"), data_dir=data) as server:
        with closing(Database(server.engine, server.start())) as database:
            if ours:
                TableTrials(VerbTrials(database), "columnstore").make()
            else:
                database.execute(VerbName("table/create"), compression="", **keys)
        if not ours:
            with pytest.raises(Impossible, match="of an earlier run is there"):
                prove(server, lambda _: None)
            assert "persons1_build" in table_names(server)
            return
        assert prove(server, lambda _: None).holds
        assert table_names(server) == []


@pytest.mark.slow
def test_a_mark_is_answered_by_what_was_seen(broken: Path, data: Path) -> None:
    """What an engine's own files call UNVERIFIED is asked one by one, with file and words."""
    table_file(broken, "scan", "-- The mean.  UNVERIFIED: that avg is exact.\n" + SCAN)
    table_file(broken, "warm_up", "-- UNVERIFIED: the plan.\nSELECT 1 AS x")
    (broken / "files.sql").write_text("-- UNVERIFIED.\nSELECT 'nowhere/x' AS path")

    proof = proof_of("mine", data)

    marks = {one.file: one for one in proof.marks}
    assert list(marks) == ["mine/files.sql", "mine/table/scan.sql", "mine/table/warm_up.sql"]
    assert "that avg is exact" in marks["mine/table/scan.sql"].asks
    assert marks["mine/table/scan.sql"].proven is True
    assert marks["mine/files.sql"].proven is False
    assert "in ." in marks["mine/files.sql"].found
    assert "## 3 marks of what was never verified" in as_markdown(proof)


def test_each_mark_of_singlestore_has_a_finding_that_answers_it() -> None:
    """Not one is answered by a verb's being executed, and docs/verified.md lists them all."""
    names = {"counters, reads", "files", "holder", "location", "clock in a procedure"}
    findings = [Finding(name=name, proven=True, found=name) for name in names]
    answered = marks.answer(engines.checked("singlestore"), findings, ())

    assert {one.found for one in answered} == names
    listed = (Path(__file__).parents[2] / "docs/verified.md").read_text()
    for one in answered:
        file = one.file.removeprefix("singlestore/")
        assert re.search(rf"(?m)^\| {re.escape(f'`{file}`')} \|.*\| {one.found} \|$", listed), file


def test_the_rule_of_the_rows_is_the_one_that_tests_know() -> None:
    """The hash stands on the rule, not on a number that was once seen."""
    rows = expected_rows(14)

    assert list_rows(98_304) == rows
    assert hash_of(rows) == hash_of(rows[::-1]) != hash_of(rows[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postgres", "mariadb", "clickhouse"])
def test_every_verb_of_an_engine_that_runs_here_holds(
    replayer: Replayer, tmp_path: Path, data: Path, name: str
) -> None:
    """No verb fails, none lacks a column that replayer reads, and the rows are those of DuckDB."""
    if name == "clickhouse":
        pytest.importorskip("chdb")
    out = tmp_path / "proof.json"

    replayer("check", "--prove", "--engine", name, "--data-dir", data, "--out", out)

    proof = EngineProof.model_validate(json.loads(out.read_text()))
    assert proof.holds
    assert {one.proven for one in proof.findings} <= {True, None}
    hashes = [one.found for one in proof.findings if one.name == "same rows"]
    assert hash_of(expected_rows(14)) in hashes[0]


def table_names(server: Server) -> list[str]:
    """Return the names of the tables in the server."""
    with closing(Database(server.engine, server.start())) as database:
        rows = database.query("SELECT table_name AS name FROM information_schema.tables")
        return [name for name in (str(row["name"]) for row in rows) if "persons1" in name]
