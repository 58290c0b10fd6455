"""`replayer clean --engine URL`: what replayer made on a server goes, and nothing else does."""

import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import ReplayerError
from replayer.servers.open import Server, open_server
from replayer.tables import pgio
from replayer.tables.pgio import TableSet
from tests.command import Replayer
from tests.ready_made import copy, ready_data
from tests.server_pool import ServerPool

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WORKLOAD = """
[[step]]
step = "build"
rows = 3072
[[step]]
step = "sessions"
memory = "cached"
num_schemas = 2
num_threads = 1
scale = 600
work_unit = 16
run_time = "1s"
"""


def used(url: URL, folder: Path) -> str:
    """Run a small workload on a server, and return the last line of what was said."""
    (folder / "small.toml").write_text(WORKLOAD)
    words = ["run", "small.toml", "--engine", text(url), "--results", "results"]
    return Replayer(folder)(*words).err.splitlines()[-1]


@pytest.fixture(scope="module")
def template(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Use a database of somebody else's, with tables of our names; give the run's last line."""
    shared = server_pool()
    own = shared.start()
    with closing(Database(shared.engine, own)) as database:
        database.query("CREATE DATABASE used")
    there = own.set(database="used")
    with closing(Database(shared.engine, there, first=())) as database:
        for name in ("pgio1", "persons1", "replayer_owned"):
            database.query(f"CREATE TABLE public.{name} (precious int)")
    yield used(there, tmp_path_factory.mktemp("used"))
    with closing(Database(shared.engine, shared.start())) as database:
        database.query("DROP DATABASE used WITH (FORCE)")


@pytest.fixture
def postgres(server: Server, template: str) -> Iterator[URL]:
    """Return the URL of a database that replayer used, of which each test has its own."""
    own = server.start()
    with closing(Database(server.engine, own)) as database:
        database.query("CREATE DATABASE somebodys TEMPLATE used")
    yield own.set(database="somebodys")
    with closing(Database(server.engine, own)) as database:
        database.query("DROP DATABASE somebodys WITH (FORCE)")


@pytest.fixture
def fresh(server: Server) -> Iterator[URL]:
    """Return the URL of a database in which replayer never was."""
    own = server.start()
    with closing(Database(server.engine, own)) as database:
        database.query("CREATE DATABASE fresh")
    yield own.set(database="fresh")
    with closing(Database(server.engine, own)) as database:
        database.query("DROP DATABASE fresh WITH (FORCE)")


def text(url: URL) -> str:
    """Return a URL as it is typed."""
    return url.render_as_string(hide_password=False)


def tables(url: URL, engine: str = "postgres") -> set[str]:
    """Return the tables of a server by schema, but for its own."""
    with closing(Database(engines.load(engine), url, first=())) as database:
        rows = database.query(
            "SELECT table_schema AS s, table_name AS t FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'mysql', 'sys',"
            " 'performance_schema')"
        )
    return {f"{row['s']}.{row['t']}" for row in rows}


THEIRS = {"public.pgio1", "public.persons1", "public.replayer_owned"}


@pytest.mark.slow
def test_what_a_run_left_is_told_and_removed(
    postgres: URL, template: str, replayer: Replayer
) -> None:
    """The last line of the run has the size and the command, and that removes all of it."""
    pattern = r"left on the server: ([\d.]+) MiB \((.+)\); `replayer (.+)` removes it"
    told = re.fullmatch(pattern, template)
    assert told
    command = shlex.split(told[3].replace("/used?", "/somebodys?"))

    assert {"persons1", "pgio1", "pgio2"} <= set(told[2].split(", "))
    # Two tables of 600 blocks of 8 KiB, their indexes, and the small one.
    assert 9 < float(told[1]) < 30
    assert "--yes" in replayer(*command, status=2).err
    assert "replayer.pgio1" in tables(postgres)
    listed = replayer(*command, "--yes").out
    assert tables(postgres) == THEIRS
    assert "pgio2" in listed
    with closing(Database(engines.load("postgres"), postgres, first=())) as database:
        assert database.query("SELECT 1 FROM pg_namespace WHERE nspname = 'replayer'") == []
    assert "nothing of replayer's" in replayer(*command, "--yes").err


@pytest.mark.slow
def test_what_others_put_beside_it_stays(postgres: URL, replayer: Replayer) -> None:
    """Tables with our names that are not on our list are others', and the schema stays for them."""
    with closing(Database(engines.load("postgres"), postgres, first=())) as database:
        database.query("CREATE TABLE replayer.pgio77 (precious int)")
        database.query("CREATE TABLE replayer.persons1_s99_id (precious int)")
    done = replayer("clean", "--engine", text(postgres), "--yes")

    theirs = {"replayer.pgio77", "replayer.persons1_s99_id"}
    assert tables(postgres) - THEIRS - {"replayer.replayer_owned"} - theirs == {
        name for name in tables(postgres) if "pg_buffercache" in name
    }
    assert theirs <= tables(postgres)
    assert "pgio77" in done.err


@pytest.mark.slow
def test_what_the_list_cannot_have_is_left_alone(
    postgres: URL, server: Server, replayer: Replayer
) -> None:
    """A list that somebody wrote into names a database and a table that replayer never makes."""
    with closing(Database(engines.load("postgres"), postgres, first=())) as database:
        database.query("CREATE TABLE replayer.precious (a int)")
        database.query(
            "INSERT INTO replayer.replayer_owned (name, kind, made_by) VALUES"
            " ('precious', 'slob', 'x'), ('somebodys', 'database', 'x'), ('pgio1; x', 'slob', 'x')"
        )
    done = replayer("clean", "--engine", text(postgres), "--yes", status=1)

    assert "3 of 6 were removed" in done.err
    assert "precious" in done.err
    assert {"replayer.precious", *THEIRS} <= tables(postgres)
    assert "replayer.pgio1" not in tables(postgres)


@pytest.mark.slow
def test_a_run_under_way_loses_nothing(postgres: URL, replayer: Replayer) -> None:
    """While another replayer has the server nothing is removed."""
    before = tables(postgres)
    with open_server(engines.load("postgres"), url=text(postgres)):
        refused = replayer("clean", "--engine", text(postgres), "--yes", status=2)

    assert "in use by another replayer" in refused.err
    assert tables(postgres) == before


@pytest.mark.slow
def test_without_the_right_it_is_one_sentence(
    postgres: URL, server: Server, replayer: Replayer
) -> None:
    """Who may neither see nor drop replayer's things is told so, and they stay."""
    before = tables(postgres)
    with closing(Database(server.engine, postgres, first=())) as database:
        database.query("CREATE ROLE cleaner LOGIN")
        try:
            blind = replayer(
                "clean", "--engine", text(postgres.set(username="cleaner")), "--yes", status=1
            )
            database.query("GRANT USAGE ON SCHEMA replayer TO cleaner")
            database.query("GRANT ALL ON ALL TABLES IN SCHEMA replayer TO cleaner")
            owns_none = replayer(
                "clean", "--engine", text(postgres.set(username="cleaner")), "--yes", status=1
            )
        finally:
            database.query("DROP OWNED BY cleaner")
            database.query("DROP ROLE cleaner")

    assert "permission denied" in blind.err
    assert "must be owner" in owns_none.err
    assert tables(postgres) == before


@pytest.mark.slow
def test_a_schema_of_somebody_elses_is_refused(fresh: URL, replayer: Replayer) -> None:
    """A schema of our name without our list is another's."""
    with closing(Database(engines.load("postgres"), fresh, first=())) as database:
        database.query("CREATE SCHEMA replayer")
        database.query("CREATE TABLE replayer.pgio1 (precious int)")
    done = replayer("clean", "--engine", text(fresh), "--yes", status=2)

    assert "did not make" in done.err
    assert "replayer.pgio1" in tables(fresh)


@pytest.mark.slow
def test_mariadb_is_cleaned_by_the_same_rules(
    tmp_path: Path, server_home: Path, mariadbd: Path, replayer: Replayer
) -> None:
    """Ours goes, others' tables and databases stay; while theirs are in ours it stays too."""
    data = copy(ready_data("mariadb", mariadbd.parent), server_home / "mariadb-cleaned")
    engine = engines.load("mariadb")
    with open_server(engine, data_dir=data, bindir=mariadbd.parent) as server:
        url = server.start()
        typed = text(url.set(drivername="mariadb", database=""))
        with closing(Database(engine, url, first=())) as database:
            database.query("CREATE DATABASE shop")
            database.query("CREATE TABLE shop.pgio1 (precious int)")
            database.query("CREATE USER seer@localhost")
            last = used(url.set(drivername="mariadb"), tmp_path)
            assert "left on the server: " in last
            assert "persons1" in last
            with (
                open_server(engine, url=typed) as there,
                closing(Database(engine, there.start())) as ours,
            ):
                assert sum(pgio.load(ours, TableSet(2, 600, 42), 1, "test")) == 1200
            database.query("GRANT SELECT ON replayer.* TO seer@localhost")
            seer = text(url.set(drivername="mariadb", database="", username="seer"))
            assert "denied" in replayer("clean", "--engine", seer, "--yes", status=1).err
            assert "replayer.pgio2" in tables(url, "mariadb")

            database.query("CREATE TABLE replayer.pgio77 (precious int)")
            assert "pgio77" in replayer("clean", "--engine", typed, "--yes").err
            assert tables(url, "mariadb") == {
                "shop.pgio1",
                "replayer.pgio77",
                "replayer.replayer_owned",
                "replayer.replayer_holder",
            }
            database.query("DROP TABLE replayer.pgio77")
            # A flush that was refused has made this much of its work.
            database.query("CREATE PROCEDURE replayer.replayer_flush() DO 1")
            replayer("clean", "--engine", typed, "--yes")
            assert tables(url.set(database="shop"), "mariadb") == {"shop.pgio1"}
            assert "nothing of replayer's" in replayer("clean", "--engine", typed, "--yes").err

            database.query("CREATE DATABASE replayer")
            database.query("CREATE TABLE replayer.pgio1 (precious int)")
            refused = replayer("run", "smoke", "--engine", typed, status=2).err
            assert "a database `replayer` that replayer did not make: move what is in" in refused


@pytest.mark.parametrize(
    "words",
    [
        ["--engine", "postgres"],
        ["--engine", "nosuch://x/y"],
        ["--engine", "singlestore://root@127.0.0.1:1/x"],
        ["--engine", "postgresql://x@127.0.0.1:1/y"],
        ["--engine", "postgresql://x@127.0.0.1:1/y", "--data-dir", "/tmp"],
    ],
)
def test_what_is_no_server_of_somebody_elses_is_refused(
    words: list[str], replayer: Replayer
) -> None:
    """A private engine is cleaned without a URL, and a URL must be one."""
    assert replayer("clean", *words, "--yes", status=2).err.startswith("replayer: error: ")


def test_errors_of_one_thing_hide_no_other() -> None:
    """The sentence at the end counts what was removed."""
    from replayer.commands import clean  # noqa: PLC0415 - the command's own part is tried

    gone: list[str] = []

    def refuse() -> None:
        raise ReplayerError("no")

    things = [
        clean._Thing("slob", "pgio1", 1, refuse),
        clean._Thing("slob", "pgio2", 1, lambda: gone.append("pgio2")),
    ]
    with pytest.raises(ReplayerError, match=r"1 of 2 were removed; pgio1: no"):
        clean._removed(things)
    assert gone == ["pgio2"]
