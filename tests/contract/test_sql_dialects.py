"""The SQL of engines that cannot run here parses in its dialect, and tells what it must tell."""

import logging
import re
from collections.abc import Collection, Iterator

import pytest
import sqlglot
from sqlglot import expressions

from replayer import assets
from replayer.engines import engine
from replayer.engines.verbs import VerbName

_DIALECTS = {"citus": "postgres", "singlestore": "singlestore", "columnstore": "mysql"}

# What sqlglot's SingleStore dialect takes for a command and does not look into, or does not know.
_COMMANDS = {
    "flush": {"OPTIMIZE TABLE", "CALL", "SNAPSHOT DATABASE"},
    "prepare": {"CREATE OR REPLACE PROCEDURE"},
    "slob/finish": {"OPTIMIZE TABLE"},
    "slob/plan": {"EXPLAIN SELECT"},
    "slob/procedure": {"CREATE OR REPLACE PROCEDURE"},
    "slob/slice": {"CALL"},
    "table/warm_up": {"CALL"},
}
_LEGACY = "KEY (id) USING CLUSTERED COLUMNSTORE"
"""MemSQL 5's own words for an index, which no dialect of sqlglot has."""

_HOLES: dict[str, str | int] = {
    "doubling": 3,
    "first_row": 0,
    "rows": 6,
    "schema": "replayer",
    "seed": 1,
    "segment": 2,
    "source": 1,
    "table": "pgio1",
    "target": 2,
    "target_row": 6,
    "work_unit": 255,
}


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Sqlglot warns of every command; which ones there may be is tested here."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)


def _own(name: str) -> Iterator[str]:
    folder = assets.engines()[name]
    for path in sorted(folder.rglob("*.sql")):
        yield re.sub(r"\.\d+$", "", path.relative_to(folder).with_suffix("").as_posix())


def _statements(name: str) -> Iterator[tuple[str, str]]:
    known = engine.load(name).at(99)
    for verb in _own(name):
        found = known.named(verb)
        if found is not None:
            yield from ((verb, statement) for statement in found.statements(**_HOLES))


def _without_comments(statement: str) -> str:
    lines = (line for line in statement.splitlines() if not line.strip().startswith("--"))
    return "\n".join(lines).strip()


@pytest.mark.parametrize("name", sorted(_DIALECTS))
def test_every_statement_parses_as_exactly_one(name: str) -> None:
    """Every statement is one statement of its dialect; what sqlglot cannot read is listed."""
    seen = 0
    for verb, statement in _statements(name):
        seen += 1
        text = _without_comments(statement)
        if any(text.startswith(begin) for begin in _allowed(name, verb)):
            continue
        text = text.replace(_LEGACY, "KEY (id)")
        parsed = sqlglot.parse(text, read=_DIALECTS[name])
        assert len(parsed) == 1, f"{name}/{verb}: {len(parsed)} statements in one"
        assert not isinstance(parsed[0], expressions.Command), f"{name}/{verb}: {text[:60]}"
    assert seen > 10


def _allowed(name: str, verb: str) -> Collection[str]:
    if name == "singlestore":
        return _COMMANDS.get(verb, ())
    # Anonymous blocks and PREPARE of a text, whose inside is a string to any parser.
    return ("DO $$", "DO $do$", "VACUUM", "CREATE EXTENSION", "PREPARE", "EXECUTE", "DEALLOCATE")


def test_listed_commands_are_there() -> None:
    """The list of what sqlglot cannot read holds nothing that no file says any more."""
    there = {(verb, _without_comments(text)) for verb, text in _statements("singlestore")}
    for verb, begins in _COMMANDS.items():
        for begin in begins:
            assert any(v == verb and text.startswith(begin) for v, text in there), (verb, begin)


def test_parameters_and_holes_are_those_of_other_engines() -> None:
    """A verb of an engine that cannot run here asks for nothing that postgres's does not get."""
    for name in _DIALECTS:
        for verb in _own(name):
            own, known = engine.load(name).at(99).named(verb), _asked_elsewhere(verb)
            if own is None or known is None:
                continue
            assert _asked(own.text) <= known, f"{name}/{verb}"


def _asked(text: str) -> set[str]:
    body = _without_comments(re.sub(r"'[^']*'", "''", text))
    return set(re.findall(r"(?<![:\w]):(\w+)", body)) | set(re.findall(r"\{\{(\w+)\}\}", body))


def _asked_elsewhere(verb: str) -> set[str] | None:
    """Return what the engines that run in the tests ask for in a verb, None if none has it."""
    folder, _, name = verb.rpartition("/")
    layouts = ("columnstore", "rowstore") if folder in {"columnstore", "memsql5"} else (folder,)
    found = [
        engine.load(known).at(99).named(f"{layout}/{name}" if layout else name)
        for known in ("postgres", "mariadb")
        for layout in layouts
    ]
    texts = [one.text for one in found if one is not None]
    if not texts:
        return None
    # The doubling's verbs get all fields of a task, whichever a layout makes use of.
    task = {"source", "target", "first_row", "target_row", "rows", "doubling", "segment"}
    return set().union(*map(_asked, texts)) | (task if name in {"double", "bytes"} else set())


def test_singlestore_ddl_has_its_keys() -> None:
    """The native layout has SORT KEY and SHARD KEY, MemSQL 5's a clustered columnstore."""
    known = engine.load("singlestore")
    (native,) = known.needs(VerbName("columnstore/create")).statements()
    (legacy,) = known.needs(VerbName("memsql5/create")).statements()
    assert "SORT KEY (id)" in native
    assert "SHARD KEY (n)" in native
    assert "CLUSTERED" not in native
    assert _LEGACY in legacy
    assert "SORT KEY" not in legacy


@pytest.mark.parametrize("name", ["singlestore", "columnstore"])
def test_engines_that_never_ran_say_so(name: str) -> None:
    """What was not verified on a server is said where `replayer list engines -v` shows it."""
    spec = engine.load(name).spec
    assert not spec.verified
    assert spec.unverified
