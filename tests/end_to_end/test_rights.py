"""Database users with few rights: what they lack skips a step, and the GRANTs that are told do."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy.engine import URL

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Denied, Impossible
from replayer.servers.open import open_server
from replayer.servers.protocol import Server
from tests.command import Replayer


@pytest.fixture
def limited(server: Server) -> Iterator[tuple[str, URL]]:
    """Return the URL of a role that may make its own things and nothing else, and of the owner."""
    own = server.start()
    with closing(Database(server.engine, own)) as database:
        database.query("CREATE DATABASE rights")
        database.query("CREATE ROLE limited LOGIN")
        database.query("GRANT CREATE ON DATABASE rights TO limited")
    there = own.set(database="rights")
    yield there.set(username="limited").render_as_string(hide_password=False), there
    with closing(Database(server.engine, own)) as database:
        database.query("DROP DATABASE rights WITH (FORCE)")
        database.query("DROP ROLE limited")


def rights_of(url: str, replayer: Replayer) -> list[tuple[str, str]]:
    """Return what `check --engine` says of rights, the answer and the advice of each."""
    lines = json.loads(replayer("check", "--json", "--engine", url, status=None).out)["lines"]
    return [(line["answer"], line["todo"]) for line in lines if line["name"] == "server rights"]


@pytest.mark.slow
def test_a_role_without_rights_is_told_the_grants_that_help(
    server: Server, limited: tuple[str, URL], replayer: Replayer
) -> None:
    """The reason is the right and not the place; with what is advised the files are found."""
    url, owner = limited
    with open_server(engines.of_url(url), url=url) as there:
        assert there.data_directory() is None
        reason, todo = there.explain_missing_files()
        assert "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO limited" in reason
        assert "not on this machine" not in reason
        assert "root" not in reason + todo
        assert "replayer check --engine URL" in todo
        with (
            closing(Database(there.engine, there.start())) as database,
            pytest.raises(Denied, match=r"may not do it: flush: .*GRANT pg_checkpoint TO limited"),
        ):
            database.execute(VerbName("flush"))

    before = rights_of(url, replayer)
    assert [answer for answer, _ in before] == ["limited"] * 4 + ["ok"]
    assert "GRANT pg_read_all_stats TO limited" in {grants for _, grants in before}
    with closing(Database(server.engine, owner)) as database:
        for _, grants in before:
            for grant in filter(None, grants.split("; ")):
                database.query(grant)
    assert rights_of(url, replayer) == [("ok", "")] * 5
    with open_server(engines.of_url(url), url=url) as there:
        assert there.data_directory() == server.data_directory()
        with closing(Database(there.engine, there.start())) as database:
            database.execute(VerbName("flush"))


def test_a_role_that_may_make_nothing_is_refused_with_the_grant(
    server: Server, limited: tuple[str, URL]
) -> None:
    """What a whole run needs is one sentence before anything is done."""
    url, owner = limited
    with closing(Database(server.engine, owner)) as database:
        database.query("REVOKE CREATE ON DATABASE rights FROM limited")
    with (
        pytest.raises(Impossible, match=r"GRANT CREATE ON DATABASE rights TO limited") as end,
        open_server(engines.of_url(url), url=url),
    ):
        pass

    assert "\n" not in str(end.value)
