"""Engines: servers that somebody else started, at a URL, and folders that users add."""

import contextlib
import gc
import json
import os
import pty
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from replayer.engines import credentials
from replayer.engines import engine as engines
from replayer.engines.connection import Database, url_of
from replayer.engines.engine import Engine
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, NotFound
from replayer.servers.open import open_server
from tests import documents
from tests.command import COMMAND, Ended, Replayer
from tests.ready_made import copy, ready_data

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECRET = "hush%hush"
IN_URL = "hush%25hush"
EXAMPLE = {
    "engine.toml": """\
# PostgreSQL that may use several processes for one scan.
title = "PostgreSQL, parallel"
like = "postgres"

[server.settings]
max_parallel_workers_per_gather = 4
""",
    "table/scan.sql": """\
-- The average as before, and the largest id.
SELECT avg(id) AS avg, max(id) AS largest FROM persons1
""",
}
"""The worked example of docs/extending.md: a folder, and nothing else."""
SMALL = """\
# A table of 96 rows, for tests.
description = "a small table"

[[step]]
step = "build"
rows = "96"
segment_rows = 24

[[step]]
step = "flush"

[[step]]
step = "scan"

[[step]]
step = "sessions"
memory = "direct"
num_schemas = 1
num_threads = 1
scale = 300
work_unit = 8
run_time = "1s"
"""


def free_port() -> int:
    """Return a TCP port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def with_server(engine: Engine, **keys: object) -> Engine:
    """Return an engine with other keys in [server]."""
    server = engine.spec.server.model_copy(update=keys)
    return replace(engine, spec=engine.spec.model_copy(update={"server": server}))


class Served:
    """A server that the tests take for somebody else's, and its addresses."""

    def __init__(self, url: URL, port: int, scheme: str, user: str) -> None:
        self.socket = f"{scheme}://{url.render_as_string().partition('://')[2]}"
        self.port = port
        self.tcp = f"{scheme}://{user}:{IN_URL}@127.0.0.1:{port}/{url.database or ''}"
        self.without = self.tcp.replace(f":{IN_URL}", "")


@contextlib.contextmanager
def serving(  # noqa: PLR0917 - what it is made of
    name: str,
    bindir: Path,
    folder: Path,
    scheme: str,
    fixed: Mapping[str, str],
    statements: tuple[str, ...],
) -> Iterator[Served]:
    """Run a private server with a TCP port and users with passwords, on a copy of its data."""
    data = copy(ready_data(name, bindir), folder)
    access = data / "data" / "pg_hba.conf"
    if access.exists():
        access.write_text("local all all trust\nhost all all all scram-sha-256\n")
    engine, port = engines.load(name), free_port()
    keys = engine.spec.server
    engine = with_server(
        engine,
        fixed={**keys.fixed, **fixed, "port": str(port)},
        url=keys.url.replace("5432", str(port)),
    )
    with open_server(engine, bindir=bindir, data_dir=data) as server:
        with contextlib.closing(Database(server.engine, server.start())) as database:
            for statement in statements:
                database.query(statement)
        yield Served(server.start(), port, scheme, "somebody")


MYSQL = {"skip_networking": "OFF", "bind_address": "127.0.0.1"}
SOMEBODY = (
    f"CREATE USER somebody@localhost IDENTIFIED BY '{SECRET}'",
    "GRANT ALL ON *.* TO somebody@localhost",
)


@pytest.fixture(scope="module")
def postgres_server(server_home: Path, postgres15: Path) -> Iterator[Served]:
    """Start PostgreSQL 15 with a TCP port and a password."""
    role = f"CREATE ROLE somebody SUPERUSER LOGIN PASSWORD '{SECRET}'"
    fixed = {"listen_addresses": "127.0.0.1"}
    with serving(
        "postgres", postgres15, server_home / "urls-15", "postgresql", fixed, (role,)
    ) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb_server(server_home: Path, mariadbd: Path) -> Iterator[Served]:
    """Start MariaDB with a TCP port and users with a password, of few rights and of all."""
    humble = (
        f"CREATE USER humble@localhost IDENTIFIED BY '{SECRET}'",
        "GRANT ALL ON replayer.* TO humble@localhost",
        "GRANT SELECT ON mysql.innodb_index_stats TO humble@localhost",
        f"CREATE USER humblest@localhost IDENTIFIED BY '{SECRET}'",
        "GRANT ALL ON replayer.* TO humblest@localhost",
    )
    folder, users = server_home / "urls-10", (*SOMEBODY, *humble)
    with serving("mariadb", mariadbd.parent, folder, "mysql", MYSQL, users) as server:
        yield server


@pytest.fixture(scope="module")
def mysql_server(server_home: Path, other_server: Callable[[str], Path]) -> Iterator[Served]:
    """Start MySQL 9 with a TCP port and a user whose password is proven by its own plug-in."""
    folder, bindir = server_home / "urls-mysql-9", other_server("mysql-9")
    with serving("mysql", bindir, folder, "mysql", MYSQL, SOMEBODY) as server:
        yield server


@pytest.fixture(
    params=[
        "postgres_server",
        "mariadb_server",
        pytest.param("mysql_server", marks=pytest.mark.slow),
    ]
)
def server(request: pytest.FixtureRequest) -> Served:
    """Return each of the servers."""
    found: Served = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def no_passwords(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take every other place of a password away; return the home folder."""
    for name in ("PGPASSWORD", "PGPASSFILE", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def reached(address: str, ask: Callable[[str], str] | None = None) -> str:
    """Connect to a server at a URL, and return the name of its engine."""
    with open_server(engines.of_url(address), url=address, ask=ask) as server:
        with contextlib.closing(Database(server.engine, server.start())) as database:
            assert database.query("SELECT 1 AS one") == [{"one": 1}]
        return server.engine.name


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a workload file of one small build and all that reads it."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def result_of(done: Ended) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run that `run --json` printed, and its steps by name."""
    run = json.loads(done.out)
    return run, {step["name"]: step for step in run["steps"]}


# Somebody else's server


@pytest.mark.slow
@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_server_at_a_url_is_measured(
    server: Served, way: str, replayer: Replayer, small: Path, tmp_path: Path
) -> None:
    """Over a unix socket and over TCP with a password: every step is done, or says why not."""
    done = replayer("run", small, "--json", "--engine", getattr(server, way))
    run, steps = result_of(done)

    assert run["engine"]["place"] == "url"
    assert [steps[name]["status"] for name in ("build", "flush", "scan")] == ["done"] * 3
    # The files are here: what is dirty and what is cold was looked at.
    assert steps["flush"]["facts"]["pages.dirty_bytes"] == 0
    assert "server not stopped" in steps["scan"]["cold"]["method"]
    asked = steps["sessions"]
    if asked["status"] == "skipped":
        assert "it needs debug_io_direct = data, which this server does not have" in asked["reason"]
    else:
        assert asked["status"] == "done"
    everything = done.out + done.err
    for path in (tmp_path / "results").iterdir():
        everything += path.read_text()
    assert SECRET not in everything
    assert IN_URL not in everything


@pytest.mark.slow
def test_server_on_another_machine(server: Served, replayer: Replayer, tmp_path: Path) -> None:
    """Build, flush, scan and sessions go on; what needs the files is skipped or unknown."""
    address = server.tcp.partition("://")[2]
    far = tmp_path / "engines" / "far"
    far.mkdir(parents=True)
    like = reached(server.tcp)
    (far / "engine.toml").write_text(f'title = "far"\nlike = "{like}"\n')
    (far / "location.sql").write_text("-- Its files are never found.\n")
    words = ("run", "smoke", "--json", "--engine", f"far://{address}")
    less = [f"--set={name}.run_time=1s" for name in ("cached", "physical")]
    run, steps = result_of(replayer(*words, *less, REPLAYER_SCHEMAS=str(far.parent)))

    assert "another one" in run["engine"]["facts"]["server.machine"]
    assert [steps[name]["status"] for name in ("build", "flush", "scan")] == ["done"] * 3
    assert (steps["walk"]["status"], steps["walk"]["reason"]) == (
        "skipped",
        "the server's data files are not on this machine",
    )
    assert steps["flush"]["facts"]["proven"] is False
    assert steps["scan"]["cold"]["got"] == "unknown"
    assert steps["scan"]["cold"]["device_bytes"] is None
    (measured,) = [
        step for step in run["steps"] if step["step"] == "sessions" and step["status"] == "done"
    ]
    # A server with large buffers of its own needs no device to be asked.
    assert measured["ledger"]["verdict"] in {"unknown", "buffered"}
    assert measured["ledger"]["device_reads"] is None
    assert measured["ledger"]["buffer_hits"] > 0


@pytest.mark.slow
def test_user_with_rights_on_its_own_database_only(
    mariadb_server: Served, replayer: Replayer, small: Path
) -> None:
    """What the rights do not allow is skipped with the server's words; the rest is measured."""
    address = mariadb_server.tcp.replace("somebody", "humble")
    _, steps = result_of(replayer("run", small, "--json", "--engine", address))

    assert [steps[name]["status"] for name in ("build", "flush", "scan")] == [
        "done",
        "skipped",
        "done",
    ]
    assert "Access denied" in steps["flush"]["reason"]
    assert steps["sessions"]["status"] == "done"


@pytest.mark.slow
def test_rights_on_the_schema_alone_skip_what_needs_more(
    mariadb_server: Served, replayer: Replayer, small: Path
) -> None:
    """A view that is refused skips its step, in whatever verb it is asked, and says the GRANT."""
    address = mariadb_server.tcp.replace("somebody", "humblest")
    _, steps = result_of(replayer("run", small, "--json", "--engine", address))

    assert {name: step["status"] for name, step in steps.items()} == {
        "build": "done", "flush": "skipped", "scan": "done", "sessions": "skipped",
    }  # fmt: skip
    assert "GRANT SUPER ON *.* TO 'humblest'@'localhost'" in steps["flush"]["reason"]
    assert (
        "GRANT SELECT ON mysql.innodb_index_stats TO 'humblest'@'localhost'"
        in steps["sessions"]["reason"]
    )


def test_server_says_which_engine_it_is(mariadb_server: Served, postgres_server: Served) -> None:
    """A MariaDB behind mysql:// is MariaDB and not MySQL; a scheme can also name the engine."""
    assert reached(mariadb_server.tcp) == "mariadb"
    assert reached(mariadb_server.tcp.replace("mysql:", "mysql+pymysql:")) == "mariadb"
    assert reached(mariadb_server.tcp.replace("mysql:", "mariadb:")) == "mariadb"
    assert reached(postgres_server.tcp) == "postgres"


@pytest.mark.slow
def test_mysql_says_that_it_is_mysql(mysql_server: Served) -> None:
    """Behind the scheme that MariaDB has too; what refuses before it has answered has no name."""
    assert reached(mysql_server.tcp) == "mysql"
    with pytest.raises(Impossible) as caught:
        reached(mysql_server.tcp.replace(IN_URL, "swordfish"))
    assert "the server at mysql://" in str(caught.value)
    assert "MariaDB" not in str(caught.value)


def test_server_that_no_engine_knows_is_refused(
    mariadb_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own words are shown, and which engines there are on this wire."""
    every = engines._every()
    oracle = {"pattern": re.compile("Oracle")}
    strange = [
        replace(one, spec=one.spec.model_copy(update={"recognise": own.model_copy(update=oracle)}))
        for one in every
        if (own := one.spec.recognise) is not None
    ]
    monkeypatch.setattr(
        "replayer.servers.remote.alike", lambda *_: [s for s in strange if "my" in s.wire]
    )
    with pytest.raises(Impossible, match=r"says that it is 1.*MariaDB.*replayer knows MariaDB"):
        reached(mariadb_server.tcp)


def test_patterns_tell_the_servers_of_a_wire_apart() -> None:
    """What servers are known to say of themselves is recognised by one engine at most."""
    said = {
        "10.11.19-MariaDB-0+deb12u1 Debian 12": ["mariadb"],
        "11.4.2-MariaDB-ubu2404 mariadb.org binary distribution": ["mariadb"],
        "8.0.36 MySQL Community Server - GPL": ["mysql"],
        "8.4.0 (Ubuntu)": ["mysql"],
        "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu": ["postgres"],
        "PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu": [],
        "CockroachDB CCL v23.1.11": [],
    }
    every = [(one.name, one.spec.recognise) for one in engines._every()]
    # Others ask for something that only their own servers have.
    known = [(name, sign) for name, sign in every if sign and "version()" in sign.statement.lower()]
    for text, names in said.items():
        found = [name for name, sign in known if sign.pattern.search(text)]
        assert found == names, text


# Passwords


def test_password_from_the_environment_or_a_file(
    postgres_server: Served,
    mariadb_server: Served,
    no_passwords: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PGPASSFILE, MYSQL_PWD and ~/.my.cnf are read; without any of them it is one sentence."""
    for server in (postgres_server, mariadb_server):
        with pytest.raises(Impossible, match="give a password in the URL"):
            reached(server.without)
    file = no_passwords / "pass"
    file.write_text(f"127.0.0.1:{postgres_server.port}:*:somebody:{SECRET}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert reached(postgres_server.without) == "postgres"

    monkeypatch.setenv("MYSQL_PWD", SECRET)
    assert reached(mariadb_server.without) == "mariadb"
    monkeypatch.delenv("MYSQL_PWD")
    options = f"!includedir /nowhere\n[mysqld]\nskip-x\n[client]\npassword = '{SECRET}'\n"
    (no_passwords / ".my.cnf").write_text(options + "user = nobody\n")
    assert reached(mariadb_server.without) == "mariadb"
    (no_passwords / "other.cnf").write_text(options + "user = somebody\n")
    (no_passwords / ".my.cnf").unlink()
    address = mariadb_server.without.replace("somebody@", "")
    assert reached(f"{address}?read_default_file={no_passwords / 'other.cnf'}") == "mariadb"


def test_password_is_asked_for_once(server: Served, no_passwords: Path) -> None:
    """Where somebody sits at a terminal he is asked; a wrong answer is not asked for again."""
    asked: list[str] = []

    def ask(question: str, answer: str = SECRET) -> str:
        asked.append(question)
        return answer

    reached(server.without, ask=ask)
    assert len(asked) == 1
    assert asked[0].startswith("password for ")
    with pytest.raises(Impossible, match=r"denied|authentication failed") as caught:
        reached(server.without, ask=lambda question: ask(question, "wrong"))
    assert len(asked) == 2
    assert "wrong" not in str(caught.value)


@pytest.mark.slow
def test_password_is_asked_for_on_the_terminal(
    mariadb_server: Served, no_passwords: Path, tmp_path: Path
) -> None:
    """The command line asks without showing what is typed, and goes on with it."""
    (tmp_path / "small.toml").write_text(SMALL.partition('[[step]]\nstep = "flush"')[0])
    words = ["run", "./small.toml", "--engine", mariadb_server.without, "--results", "r"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(COMMAND[0], [*COMMAND, *words])
    said = b""
    with contextlib.suppress(OSError):
        answered = False
        while part := os.read(terminal, 4096):
            said += part
            if not answered and b"password for" in said:
                answered = True
                os.write(terminal, f"{SECRET}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)

    assert status == 0, said.decode()
    assert SECRET.encode() not in said


def test_wrong_password_is_not_shown(server: Served) -> None:
    """The sentence names the server and the user, and not what was tried."""
    address = server.tcp.replace(IN_URL, "swordfish")
    with pytest.raises(Impossible, match="refused a connection") as caught:
        reached(address)

    assert "swordfish" not in str(caught.value)
    assert "\n" not in str(caught.value)


# The driver leaves a socket open that it could not connect; collected here, it harms no other test.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "address",
    [
        "mysql://somebody:swordfish@127.0.0.1:1/",
        "mysql://somebody:swordfish@no-such-host.invalid/",
        "mysql://somebody:swordfish@/x?unix_socket=/nowhere/socket",
        "mysql://somebody:swordfish@127.0.0.1:1/?no_such_key=1",
        "mysql://somebody:swordfish@127.0.0.1:1/?ssl_ca=/nowhere/ca.pem",
        "mysql://somebody:swordfish@127.0.0.1:port/",
        "postgresql://somebody@127.0.0.1:1/x?password=swordfish",
    ],
)
def test_server_that_is_not_there_is_one_sentence_without_the_password(address: str) -> None:
    """What was tried is named, whatever is wrong with it, and the password stays secret."""
    with pytest.raises(Impossible) as caught:
        reached(address)
    said = str(caught.value)
    del caught
    gc.collect()

    assert "swordfish" not in said
    assert "\n" not in said


def test_password_leaves_the_process_list(replayer: Replayer) -> None:
    """What `ps` shows of a replayer has no password, wherever it was in the URL."""
    code = (
        "import sys; from replayer.cli import argv_secrets; argv_secrets.hidden(sys.argv[1:]); "
        "print(open('/proc/self/cmdline').read())"
    )
    address = "postgresql://a:swordfish@h/d?sslpassword=sturgeon&sslmode=require"
    shown, _ = replayer.process(address, command=(sys.executable, "-c", code))

    assert "swordfish" not in shown
    assert "sturgeon" not in shown
    assert "postgresql://a:xxxxxxxxx@h/d?sslpassword=xxxxxxxx&sslmode=require" in shown


def test_url_is_shown_without_secrets() -> None:
    """Neither the password nor a secret among the parameters is in what is shown."""
    url = url_of(
        "postgresql://a:one@h/d?sslpassword=two&password=three&sslmode=require",
        engines.load("postgres"),
    )
    shown = credentials.show(url)

    assert not any(secret in shown for secret in ("one", "two", "three"))
    assert shown.endswith("sslmode=require")


# A folder is an engine


@pytest.fixture
def parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add the engine of the documents' example: a folder in $REPLAYER_SCHEMAS, and nothing else."""
    for name, text in EXAMPLE.items():
        path = tmp_path / "engines" / "postgres-parallel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path / "engines"))
    return tmp_path


@pytest.mark.slow
def test_added_engine_is_listed_and_measured(
    parallel: Path, made_home: Path, replayer: Replayer
) -> None:
    """It is in `replayer list`, runs a workload, and its own verb and setting are the ones used."""
    listed = json.loads(replayer("list", "engines", "--json").out)["engines"]
    about = {one["name"]: one for one in listed}
    assert about["postgres-parallel"]["like"] == "postgres"
    assert about["postgres-parallel"]["layouts"] == about["postgres"]["layouts"]

    (parallel / "scanned.toml").write_text(SMALL.partition('[[step]]\nstep = "sessions"')[0])
    words = ("run", "./scanned.toml", "--json", "--engine", "postgres-parallel")
    run, _ = result_of(replayer(*words))
    assert run["engine"]["name"] == "postgres-parallel"
    assert run["engine"]["settings"]["max_parallel_workers_per_gather"] == "4"
    engine, count = engines.load("postgres-parallel"), VerbName("table/count")
    assert "largest" in engine.needs(VerbName("table/scan")).text
    assert engine.needs(count) == engines.load("postgres").needs(count)


def test_default_engine_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that names no engine is told which engine.toml is at fault, not only that none is."""
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "engine.toml").write_text("default = maybe\n")
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path))
    with pytest.raises(Impossible, match=r"says default = true .*postgres/engine\.toml: "):
        engines.default()


def test_documents_have_the_example() -> None:
    """The worked example of the documents is the one that is tried here."""
    shown = documents.files_shown(documents.ROOT / "docs" / "extending.md")

    for name, text in EXAMPLE.items():
        assert shown[f"~/engines/postgres-parallel/{name}"] == text


def test_unknown_scheme_names_the_nearest() -> None:
    """A misspelt scheme is answered with the right one."""
    with pytest.raises(NotFound, match="did you mean postgresql"):
        engines.of_url("postgresl://x/y")
