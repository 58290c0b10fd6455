"""The tables of which changes by row need no order, as a real server names them."""

from contextlib import closing
from pathlib import Path

import pytest

from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.steps.replay.row_keys import guarded_columns
from tests.server_pool import ServerPool

GUARDED = VerbName("replay/guarded")
PLAIN = "CREATE TABLE plain (id int PRIMARY KEY, code int UNIQUE, v int)"
TREE = "CREATE TABLE tree (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES tree (id)%s)"
POSTGRES = (
    PLAIN,
    TREE % "",
    "CREATE TABLE halves (id int PRIMARY KEY, v int, live bool)",
    "CREATE UNIQUE INDEX one ON halves (v) WHERE live",
    "CREATE TABLE made (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v) STORED UNIQUE)",
    "CREATE TABLE above (id int PRIMARY KEY, v int)",
    "CREATE TABLE below (UNIQUE (v)) INHERITS (above)",
    "CREATE TABLE hidden (id int PRIMARY KEY, v int)",
    "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
)
MARIADB = (
    PLAIN,
    TREE % " ON DELETE CASCADE",
    "CREATE TABLE made (id int PRIMARY KEY, v int, w int AS (v) VIRTUAL, UNIQUE (w))",
    "CREATE TABLE stamped (id int PRIMARY KEY, at timestamp ON UPDATE now(), UNIQUE (at))",
    "CREATE TABLE late (id int PRIMARY KEY, v int, at timestamp ON UPDATE now())",
)


@pytest.mark.parametrize(
    ("engine", "statements", "certain"),
    [("postgres", POSTGRES, {"plain", "below"}), ("mariadb", MARIADB, {"plain", "late"})],
)
def test_a_table_whose_rows_depend_on_each_other_is_changed_as_a_whole(
    server_pool: ServerPool, engine: str, statements: tuple[str, ...], certain: set[str]
) -> None:
    """Self-references, partial indexes, generated columns, heirs and policies; no other table."""
    server = server_pool(engine)
    with closing(Database(server.engine, server.start())) as database:
        before = {name for name, _ in _pairs(database)}
        try:
            for statement in statements:
                database.query(statement)
            pairs = _pairs(database)
        finally:
            for statement in reversed(statements):
                if statement.startswith("CREATE TABLE"):
                    database.query(f"DROP TABLE IF EXISTS {statement.split()[2]}")
    columns = guarded_columns(pair for pair in pairs if pair[0] not in before)

    assert {name for name, found in columns.items() if "" not in found} == certain
    assert columns["plain"] == {"id", "code"}


POSTGRES_EFFECTS = (
    "CREATE TABLE loose (id int, v int DEFAULT 1)",
    "CREATE TABLE counted (id serial, v int)",
    "CREATE TABLE upper (id int PRIMARY KEY)",
    "CREATE TABLE lower (id int REFERENCES upper ON DELETE CASCADE)",
    "CREATE TABLE whole (id int, v int) PARTITION BY LIST (id)",
    "CREATE TABLE half PARTITION OF whole DEFAULT PARTITION BY LIST (v)",
    "CREATE TABLE quarter PARTITION OF half DEFAULT",
    "CREATE VIEW seen AS SELECT * FROM loose",
)
POSTGRES_ALONE = {
    *(("whole", "partition", "half"), ("whole", "partition", "quarter")),
    *(("half", "partition", "quarter"), ("seen", "trigger", "")),
}
MARIADB_EFFECTS = (
    "CREATE TABLE loose (id int, v int DEFAULT 1)",
    "CREATE TABLE counted (id int AUTO_INCREMENT, v int, KEY (id))",
    "CREATE TABLE upper (id int PRIMARY KEY)",
    "CREATE TABLE lower (id int, FOREIGN KEY (id) REFERENCES upper (id) ON DELETE CASCADE)",
)


@pytest.mark.parametrize(
    ("engine", "statements"), [("postgres", POSTGRES_EFFECTS), ("mariadb", MARIADB_EFFECTS)]
)
def test_the_effects_of_changes_are_known(
    server_pool: ServerPool, engine: str, statements: tuple[str, ...]
) -> None:
    """Keys of a sequence, cascades, parts, and tables whose new rows can come in any order."""
    server = server_pool(engine)
    with closing(Database(server.engine, server.start())) as database:
        try:
            for statement in statements:
                database.query(statement)
            verb = database.engine.verb(VerbName("replay/effects"))
            assert verb is not None
            found = {tuple(map(str, row.values())) for row in database.execute(verb)}
        finally:
            for statement in reversed(statements):
                _, kind, name, *_ = statement.split()
                database.query(f"DROP {kind} IF EXISTS {name}")

    names = {statement.split()[2] for statement in statements}
    assert {row for row in found if row[0] in names} == {
        ("loose", "none", ""),
        ("counted", "sequence", ""),
        ("lower", "none", ""),
        ("upper", "foreign key", "lower"),
        *(POSTGRES_ALONE if engine == "postgres" else ()),
    }


def _pairs(database: Database) -> list[tuple[str, str]]:
    verb = database.engine.verb(GUARDED)
    assert verb is not None
    rows = database.execute(verb)
    return [(str(row["table_name"]), str(row["column_name"])) for row in rows]


@pytest.mark.slow
def test_a_user_who_cannot_see_triggers_is_certain_of_no_table(
    server_pool: ServerPool, mariadbd: Path
) -> None:
    """The server shows none to a user without that privilege, whether there are some or not."""
    server = server_pool("mariadb", bindir=mariadbd.parent)
    url = server.start()
    with closing(Database(server.engine, url)) as database:
        name = database.query("SELECT database() AS name")[0]["name"]
        try:
            for statement in (PLAIN, "CREATE USER few IDENTIFIED BY 'few'"):
                database.query(statement)
            database.query(f"GRANT SELECT, UPDATE ON `{name}`.* TO few")
            with closing(Database(server.engine, url.set(username="few", password="few"))) as few:
                columns = guarded_columns(_pairs(few))
        finally:
            database.query("DROP TABLE IF EXISTS plain")
            database.query("DROP USER IF EXISTS few")

    assert columns["plain"] == {"id", "code", ""}
