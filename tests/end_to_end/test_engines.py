"""Engines: servers that somebody else started, at a URL, and folders that users add."""

import contextlib
import gc
import json
import os
import pty
import re
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from replayer.engines import credentials
from replayer.engines import engine as engines
from replayer.engines.connection import Database, url_of
from replayer.errors import Impossible, NotFound
from replayer.servers.open import open_server
from tests import documents

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


def free_port():
    """Return a TCP port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def doctored(name, fixed, init=None):
    """Return an engine whose private server also listens on TCP."""
    engine = engines.load(name)
    server = engine.spec.server
    return with_server(
        engine,
        fixed={**server.fixed, **fixed},
        init=tuple(init(server.init)) if init else server.init,
    )


def with_server(engine, **keys):
    """Return an engine with other keys in [server]."""
    server = engine.spec.server.model_copy(update=keys)
    return replace(engine, spec=engine.spec.model_copy(update={"server": server}))


def with_passwords(arguments):
    """Return the arguments of initdb with which TCP connections need a password."""
    return [
        *(word for word in arguments if word != "--auth=trust"),
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
    ]


class Server:
    """A server that the tests take for somebody else's, and its addresses."""

    def __init__(self, url, port, scheme, user):
        self.socket = f"{scheme}://{url.render_as_string().partition('://')[2]}"
        self.port = port
        self.tcp = f"{scheme}://{user}:{IN_URL}@127.0.0.1:{port}/{url.database or ''}"
        self.without = self.tcp.replace(f":{IN_URL}", "")


@pytest.fixture(scope="module")
def postgres_server(server_home, postgres15):
    """Start PostgreSQL 15 with a TCP port and a password."""
    port = free_port()
    fixed = {"listen_addresses": "127.0.0.1", "port": str(port)}
    engine = doctored("postgres", fixed, with_passwords)
    engine = with_server(engine, url=engine.spec.server.url.replace("5432", str(port)))
    with open_server(engine, bindir=postgres15, data_dir=server_home / "urls-15") as started:
        with contextlib.closing(Database(started.engine, started.start())) as database:
            database.query("CREATE ROLE somebody SUPERUSER LOGIN PASSWORD 'hush%hush'")
        yield Server(started.start(), port, "postgresql", "somebody")


@pytest.fixture(scope="module")
def mariadb_server(server_home, mariadbd):
    """Start MariaDB with a TCP port and a user with a password."""
    port = free_port()
    fixed = {"skip_networking": "OFF", "port": str(port), "bind_address": "127.0.0.1"}
    engine = doctored("mariadb", fixed)
    with open_server(engine, bindir=mariadbd.parent, data_dir=server_home / "urls-10") as server:
        with contextlib.closing(Database(server.engine, server.start())) as database:
            database.query("CREATE USER somebody@localhost IDENTIFIED BY 'hush%hush'")
            database.query("GRANT ALL ON *.* TO somebody@localhost")
            database.query("CREATE USER humble@localhost IDENTIFIED BY 'hush%hush'")
            database.query("GRANT ALL ON replayer.* TO humble@localhost")
            database.query("GRANT SELECT ON mysql.innodb_index_stats TO humble@localhost")
            database.query("CREATE USER humblest@localhost IDENTIFIED BY 'hush%hush'")
            database.query("GRANT ALL ON replayer.* TO humblest@localhost")
        yield Server(server.start(), port, "mysql", "somebody")


@pytest.fixture(scope="module")
def mysql_server(server_home, other_server):
    """Start MySQL 9 with a TCP port and a user whose password is proven by its own plug-in."""
    port = free_port()
    fixed = {"skip_networking": "OFF", "port": str(port), "bind_address": "127.0.0.1"}
    engine = doctored("mysql", fixed)
    folder = server_home / "urls-mysql-9"
    with open_server(engine, bindir=other_server("mysql-9"), data_dir=folder) as started:
        with contextlib.closing(Database(started.engine, started.start())) as database:
            database.query("CREATE USER somebody@localhost IDENTIFIED BY 'hush%hush'")
            database.query("GRANT ALL ON *.* TO somebody@localhost")
        yield Server(started.start(), port, "mysql", "somebody")


@pytest.fixture(
    params=[
        "postgres_server",
        "mariadb_server",
        pytest.param("mysql_server", marks=pytest.mark.slow),
    ]
)
def server(request):
    """Return each of the servers."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def no_passwords(monkeypatch, tmp_path):
    """Take every other place of a password away; return the home folder."""
    for name in ("PGPASSWORD", "PGPASSFILE", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def reached(address, **keys):
    """Connect to a server at a URL, and return the name of its engine."""
    with open_server(engines.of_url(address), url=address, **keys) as server:
        with contextlib.closing(Database(server.engine, server.start())) as database:
            assert database.query("SELECT 1 AS one") == [{"one": 1}]
        return server.engine.name


def replayer(folder, *words, environment=None):
    """Run replayer as a user does, on a workload file of this test."""
    (folder / "small.toml").write_text(SMALL)
    return subprocess.run(
        [sys.executable, "-m", "replayer", *words, "--results", str(folder / "results")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


# Somebody else's server


@pytest.mark.slow
@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_server_at_a_url_is_measured(server, way, tmp_path):
    """Over a unix socket and over TCP with a password: every step is done, or says why not."""
    done = replayer(tmp_path, "run", "./small.toml", "--json", "--engine", getattr(server, way))

    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    steps = {step["name"]: step for step in run["steps"]}
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
    everything = done.stdout + done.stderr
    for path in (tmp_path / "results").iterdir():
        everything += path.read_text()
    assert SECRET not in everything
    assert IN_URL not in everything


@pytest.mark.slow
def test_server_on_another_machine(server, tmp_path):
    """Build, flush, scan and sessions go on; what needs the files is skipped or unknown."""
    address = server.tcp.partition("://")[2]
    far = tmp_path / "engines" / "far"
    far.mkdir(parents=True)
    like = reached(server.tcp)
    (far / "engine.toml").write_text(f'title = "far"\nlike = "{like}"\n')
    (far / "location.sql").write_text("-- Its files are never found.\n")
    words = ("run", "smoke", "--json", "--engine", f"far://{address}")
    less = [f"--set={name}.run_time=1s" for name in ("cached", "physical")]
    schemas = {"REPLAYER_SCHEMAS": str(far.parent)}
    done = replayer(tmp_path, *words, *less, environment=schemas)

    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    steps = {step["name"]: step for step in run["steps"]}
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
def test_user_with_rights_on_its_own_database_only(mariadb_server, tmp_path):
    """What the rights do not allow is skipped with the server's words; the rest is measured."""
    address = mariadb_server.tcp.replace("somebody", "humble")
    done = replayer(tmp_path, "run", "./small.toml", "--json", "--engine", address)

    assert done.returncode == 0, done.stderr
    steps = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    assert [steps[name]["status"] for name in ("build", "flush", "scan")] == [
        "done",
        "skipped",
        "done",
    ]
    assert "Access denied" in steps["flush"]["reason"]
    assert steps["sessions"]["status"] == "done"


@pytest.mark.slow
def test_rights_on_the_schema_alone_skip_what_needs_more(mariadb_server, tmp_path):
    """A view that is refused skips its step, in whatever verb it is asked, and says the GRANT."""
    address = mariadb_server.tcp.replace("somebody", "humblest")
    done = replayer(tmp_path, "run", "./small.toml", "--json", "--engine", address)

    assert done.returncode == 0, done.stderr
    steps = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    assert {name: step["status"] for name, step in steps.items()} == {
        "build": "done", "flush": "skipped", "scan": "done", "sessions": "skipped",
    }  # fmt: skip
    assert "GRANT SUPER ON *.* TO 'humblest'@'localhost'" in steps["flush"]["reason"]
    assert (
        "GRANT SELECT ON mysql.innodb_index_stats TO 'humblest'@'localhost'"
        in steps["sessions"]["reason"]
    )


def test_server_says_which_engine_it_is(mariadb_server, postgres_server):
    """A MariaDB behind mysql:// is MariaDB and not MySQL; a scheme can also name the engine."""
    assert reached(mariadb_server.tcp) == "mariadb"
    assert reached(mariadb_server.tcp.replace("mysql:", "mysql+pymysql:")) == "mariadb"
    assert reached(mariadb_server.tcp.replace("mysql:", "mariadb:")) == "mariadb"
    assert reached(postgres_server.tcp) == "postgres"


@pytest.mark.slow
def test_mysql_says_that_it_is_mysql(mysql_server):
    """Behind the scheme that MariaDB has too; what refuses before it has answered has no name."""
    assert reached(mysql_server.tcp) == "mysql"
    with pytest.raises(Impossible) as caught:
        reached(mysql_server.tcp.replace(IN_URL, "swordfish"))
    assert "the server at mysql://" in str(caught.value)
    assert "MariaDB" not in str(caught.value)


def test_server_that_no_engine_knows_is_refused(mariadb_server, monkeypatch):
    """Its own words are shown, and which engines there are on this wire."""
    every = engines._every()
    strange = [
        replace(one, spec=one.spec.model_copy(update={"recognise": oracle}))
        for one in every
        if (
            oracle := one.spec.recognise
            and one.spec.recognise.model_copy(update={"pattern": re.compile("Oracle")})
        )
    ]
    monkeypatch.setattr(
        "replayer.servers.remote.alike", lambda *_: [s for s in strange if "my" in s.wire]
    )
    with pytest.raises(Impossible, match=r"says that it is 1.*MariaDB.*replayer knows MariaDB"):
        reached(mariadb_server.tcp)


def test_patterns_tell_the_servers_of_a_wire_apart():
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
    every = [one for one in engines._every() if one.spec.recognise]
    # Others ask for something that only their own servers have.
    known = [one for one in every if "version()" in one.spec.recognise.statement.lower()]
    for text, names in said.items():
        found = [one.name for one in known if one.spec.recognise.pattern.search(text)]
        assert found == names, text


# Passwords


def test_password_from_the_environment_or_a_file(
    postgres_server, mariadb_server, no_passwords, monkeypatch
):
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


def test_password_is_asked_for_once(server, no_passwords):
    """Where somebody sits at a terminal he is asked; a wrong answer is not asked for again."""
    asked = []

    def ask(question, answer=SECRET):
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
def test_password_is_asked_for_on_the_terminal(mariadb_server, no_passwords, tmp_path):
    """The command line asks without showing what is typed, and goes on with it."""
    (tmp_path / "small.toml").write_text(SMALL.partition('[[step]]\nstep = "flush"')[0])
    words = ["run", "./small.toml", "--engine", mariadb_server.without, "--results", "r"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "replayer", *words])
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


def test_wrong_password_is_not_shown(server):
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
def test_server_that_is_not_there_is_one_sentence_without_the_password(address):
    """What was tried is named, whatever is wrong with it, and the password stays secret."""
    with pytest.raises(Impossible) as caught:
        reached(address)
    said = str(caught.value)
    del caught
    gc.collect()

    assert "swordfish" not in said
    assert "\n" not in said


def test_password_leaves_the_process_list(tmp_path):
    """What `ps` shows of a replayer has no password, wherever it was in the URL."""
    code = (
        "import sys; from replayer import command_line; command_line.hidden(sys.argv[1:]); "
        "print(open('/proc/self/cmdline').read())"
    )
    address = "postgresql://a:swordfish@h/d?sslpassword=sturgeon&sslmode=require"
    done = subprocess.run(
        [sys.executable, "-c", code, address], capture_output=True, text=True, check=True
    )

    assert "swordfish" not in done.stdout
    assert "sturgeon" not in done.stdout
    assert "postgresql://a:xxxxxxxxx@h/d?sslpassword=xxxxxxxx&sslmode=require" in done.stdout


def test_url_is_shown_without_secrets():
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
def parallel(tmp_path, monkeypatch):
    """Add the engine of the documents' example: a folder in $REPLAYER_SCHEMAS, and nothing else."""
    for name, text in EXAMPLE.items():
        path = tmp_path / "engines" / "postgres-parallel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path / "engines"))
    return tmp_path


@pytest.mark.slow
def test_added_engine_is_listed_and_measured(parallel, made_home):
    """It is in `replayer list`, runs a workload, and its own verb and setting are the ones used."""
    listed = subprocess.run(
        [sys.executable, "-m", "replayer", "list", "engines", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    about = {one["name"]: one for one in json.loads(listed.stdout)["engines"]}
    assert about["postgres-parallel"]["like"] == "postgres"
    assert about["postgres-parallel"]["layouts"] == about["postgres"]["layouts"]

    (parallel / "scanned.toml").write_text(SMALL.partition('[[step]]\nstep = "sessions"')[0])
    done = replayer(
        parallel, "run", "./scanned.toml", "--json", "--engine", "postgres-parallel",
        environment={"REPLAYER_HOME": str(made_home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["engine"]["name"] == "postgres-parallel"
    assert run["engine"]["settings"]["max_parallel_workers_per_gather"] == "4"
    engine = engines.load("postgres-parallel")
    assert "largest" in engine.needs("table/scan").text
    assert engine.needs("table/count") == engines.load("postgres").needs("table/count")


def test_added_engine_that_is_like_nothing_is_refused(tmp_path, monkeypatch):
    """A `like` that names no engine is answered with the nearest one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "engine.toml").write_text('like = "postgras"\n')
    monkeypatch.setenv("REPLAYER_SCHEMAS", f"/nowhere:{tmp_path}")
    with pytest.raises(Impossible, match="did you mean postgres"):
        engines.load("mine")


def test_default_engine_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    """A run that names no engine is told which engine.toml is at fault, not only that none is."""
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "engine.toml").write_text("default = maybe\n")
    monkeypatch.setenv("REPLAYER_SCHEMAS", str(tmp_path))
    with pytest.raises(Impossible, match=r"says default = true .*postgres/engine\.toml: "):
        engines.default()


def test_documents_have_the_example():
    """The worked example of the documents is the one that is tried here."""
    shown = documents.files_shown(documents.ROOT / "docs" / "extending.md")

    for name, text in EXAMPLE.items():
        assert shown[f"~/engines/postgres-parallel/{name}"] == text


def test_unknown_scheme_names_the_nearest():
    """A misspelt scheme is answered with the right one."""
    with pytest.raises(NotFound, match="did you mean postgresql"):
        engines.of_url("postgresl://x/y")
