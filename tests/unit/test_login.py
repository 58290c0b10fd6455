"""A server that asks for the password itself, over a connection that others can read."""

import contextlib
import select
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from replayer.engines import credentials, driver, login, wires
from replayer.engines import engine as engines
from replayer.engines.connection import Database, connector_of, url_of
from replayer.engines.wire_session import Refused, SessionLogin
from replayer.engines.wires import DumpForm, DumpLoader
from replayer.errors import Impossible, ReplayerError

SECRET = "marlintrout"
ELSEWHERE = "127.1"
"""This host, by a name that says so to the resolver alone."""
POSTGRES, MARIADB = engines.load("postgres"), engines.load("mariadb")
Answer = Callable[[socket.socket], bytes]


class Server:
    """A server that keeps what comes after it has asked for a password."""

    def __init__(self, answer: Answer, address: str | None = None) -> None:
        self._answer = answer
        if address is None:
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.port = self._listening.getsockname()[1]
        else:
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(address)
            self._listening.listen()
        self.heard = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with client, contextlib.suppress(OSError, struct.error):
                    client.settimeout(5)
                    self.heard += self._answer(client)

    def close(self) -> None:
        """Close it."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@contextlib.contextmanager
def serving(answer: Answer, address: str | None = None) -> Iterator[Server]:
    """Give a server that answers so."""
    server = Server(answer, address)
    try:
        yield server
    finally:
        server.close()


def plain_postgres(client: socket.socket) -> bytes:
    """Refuse every encryption, and ask for the password itself."""
    while True:
        length, code = struct.unpack(">II", client.recv(8))
        if code >> 16 == 3:
            client.recv(length - 8)
            break
        client.sendall(b"N")
    client.sendall(b"R" + struct.pack(">II", 8, 3))
    return client.recv(1 << 12)


def mysql_packet(number: int, payload: bytes) -> bytes:
    """Return a packet of MySQL's."""
    return struct.pack("<I", len(payload) | number << 24) + payload


def handshake(plugin: bytes) -> bytes:
    """Return how a server of MySQL begins that has no TLS."""
    flags = 0x0008_A20D
    low, high = flags & 0xFFFF, flags >> 16
    return mysql_packet(
        0,
        b"\x0a8.0.99\0" + struct.pack("<I", 7) + b"12345678\0" + struct.pack("<H", low)
        + b"\x21\x02\0" + struct.pack("<HB", high, 21) + bytes(10) + b"123456789012\0"
        + plugin + b"\0",
    )  # fmt: skip


def switching(
    plugin: bytes, data: bytes = b"", *, first: bytes = b"mysql_native_password"
) -> Answer:
    """Return a server that wants another plug-in than the one that it has announced."""

    def answer(client: socket.socket) -> bytes:
        client.sendall(handshake(first))
        client.recv(1 << 12)
        client.sendall(mysql_packet(2, b"\xfe" + plugin + b"\0" + data))
        return client.recv(1 << 12)

    return answer


def with_own_key(client: socket.socket) -> bytes:
    """Have the password encrypted with a key that is the server's own."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    client.sendall(handshake(b"caching_sha2_password"))
    client.recv(1 << 12)
    client.sendall(mysql_packet(2, b"\x01\x04"))
    if client.recv(1 << 12)[4:] != b"\x02":
        return b""
    client.sendall(mysql_packet(4, b"\x01" + public))
    return SECRET.encode() if len(client.recv(1 << 12)) > 256 else b""


MYSQL = {
    "clear": switching(b"mysql_clear_password"),
    "clear at once": switching(b"mysql_clear_password", first=b"mysql_clear_password"),
    "dialog": switching(b"dialog", b"\x04Password: "),
    "own key": with_own_key,
}


def try_database(text: str) -> None:
    """Connect as the control does."""
    engine = MARIADB if text.startswith("mysql") else POSTGRES
    Database(engine, url_of(text, engine)).close()


def try_worker(text: str) -> None:
    """Connect as a session of a worker does, and one of a load."""
    engine = MARIADB if text.startswith("mysql") else POSTGRES
    connector = connector_of(url_of(text, engine))
    with pytest.raises(ReplayerError):
        driver.connect(connector)
    driver.connect_session(connector)


def loader_of(text: str) -> DumpLoader:
    """Return the command that loads a dump into the database of a URL of MySQL's."""
    loader = wires.load("mysql").make_loader("plain", connector_of(url_of(text, MARIADB)).arguments)
    assert loader is not None
    return loader


def try_replay(text: str) -> None:
    """Connect as a session of a replay does."""
    arguments = connector_of(url_of(text, POSTGRES)).arguments
    wire = wires.load("postgres")
    connecting = wire.load_attempts()(wire.make_conninfo(arguments, SessionLogin()))
    try:
        while not connecting.go_on():
            poll = select.poll()
            poll.register(connecting.fileno(), select.POLLIN | select.POLLOUT)
            poll.poll(5000)
    except Refused as error:
        raise ReplayerError(str(error)) from error


@pytest.mark.parametrize("form", ["plain", "archive", "folder"])
def test_no_secret_stands_on_the_command_line_that_loads_a_dump(form: DumpForm) -> None:
    """The program has the password from its environment; no other one is given."""
    where = f"postgresql://me:{SECRET}@127.0.0.1/db"
    load = wires.load("postgres").make_loader
    loader = load(form, connector_of(url_of(where, POSTGRES)).arguments)
    assert loader is not None
    assert SECRET not in " ".join(loader.words)
    assert loader.environment["PGPASSWORD"] == SECRET

    where += "?sslmode=require&sslpassword=conger"
    with pytest.raises(Impossible, match=r"^[^\n]*sslpassword[^\n]*by hand[^\n]*$") as refusal:
        load(form, connector_of(url_of(where, POSTGRES)).arguments)
    assert "conger" not in str(refusal.value)


@pytest.mark.parametrize("layer", [try_database, try_worker, try_replay])
def test_postgresql_gets_no_password_that_others_can_read(layer: Callable[[str], None]) -> None:
    """Neither by the control nor by workers nor by a replay; one sentence says what to do."""
    with serving(plain_postgres) as server:
        where = f"postgresql://me:{SECRET}@{ELSEWHERE}:{server.port}/db"
        with pytest.raises(ReplayerError, match=r"^[^\n]*sslmode=require[^\n]*$"):
            layer(where)
        assert SECRET.encode() not in server.heard
        with contextlib.suppress(ReplayerError):
            layer(f"{where}?require_auth=password")
        assert SECRET.encode() in server.heard, "who asks for it has it"


@pytest.mark.parametrize(
    ("query", "host", "free"),
    [
        ({}, None, True),
        ({}, "", True),
        ({}, "localhost", True),
        ({}, "127.0.0.1", True),
        ({}, "::1", True),
        ({"host": "/run/postgresql"}, None, True),
        ({"host": "127.0.0.1:5433"}, None, True),
        ({"host": ("localhost", "/tmp")}, None, True),
        ({"sslmode": "require"}, "db", True),
        ({"sslmode": "verify-full"}, "db", True),
        ({"require_auth": "password"}, "db", True),
        ({}, "db", False),
        ({"sslmode": "prefer"}, "db", False),
        ({"sslmode": "disable"}, "192.0.2.1", False),
        ({"host": "localhost,db"}, None, False),
        ({"host": ("localhost", "db:5432")}, None, False),
        ({"hostaddr": "192.0.2.1"}, "localhost", False),
        ({"service": "other"}, None, False),
    ],
)
def test_where_libpq_may_show_a_password(
    monkeypatch: pytest.MonkeyPatch, query: dict[str, str], host: str | None, *, free: bool
) -> None:
    """On this host, over what must be TLS, or where the user says so; libpq's variables count."""
    for name in ("PGSSLMODE", "PGREQUIREAUTH", "PGHOST", "PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    assert bool(login.required(query, host)) is not free
    if not free:
        monkeypatch.setenv("PGREQUIREAUTH", "password")
        assert not login.required(query, host)
    elif not query and not host:
        monkeypatch.setenv("PGHOST", "db")
        assert login.required(query, host)
        monkeypatch.setenv("PGSSLMODE", "require")
        assert not login.required(query, host)


@pytest.mark.parametrize("attack", MYSQL)
@pytest.mark.parametrize("layer", [try_database, try_worker])
def test_mysql_gets_no_password_that_others_can_read(
    attack: str, layer: Callable[[str], None]
) -> None:
    """Whatever plug-in it asks for, and whatever key it sends."""
    with serving(MYSQL[attack]) as server:
        where = f"mysql://me:{SECRET}@{ELSEWHERE}:{server.port}/db"
        with pytest.raises(ReplayerError, match=r"^[^\n]*enable_cleartext_plugin=1[^\n]*$"):
            layer(where)
    assert SECRET.encode() not in server.heard


@pytest.mark.parametrize("attack", MYSQL)
def test_mysql_gets_the_password_where_the_user_says_so(attack: str) -> None:
    """The parameter of the URL allows it; it is 1 or 0, and reaches no driver."""
    with serving(MYSQL[attack]) as server:
        where = f"mysql://me:{SECRET}@{ELSEWHERE}:{server.port}/db?enable_cleartext_plugin="
        with contextlib.suppress(ReplayerError):
            try_database(f"{where}1")
        assert SECRET.encode() in server.heard
    with pytest.raises((Impossible, ReplayerError), match="give 1 or 0"):
        try_database(f"{where}perhaps")


def test_a_dump_goes_to_no_mysql_that_the_url_does_not_trust(tmp_path: Path) -> None:
    """The client that loads a dump encrypts and checks as the driver does."""
    text = "mysql://me@127.0.0.1/db?ssl_ca=/a&ssl_cert=/b&ssl_key=/c&ssl_cipher=d"
    words = loader_of(text).words
    assert {"--ssl-ca=/a", "--ssl-cert=/b", "--ssl-key=/c", "--ssl-cipher=d"} < {*words}
    assert "--loose-ssl-mode=VERIFY_IDENTITY" in words
    assert "--loose-ssl-mode=VERIFY_CA" in loader_of(f"{text}&ssl_check_hostname=false").words
    assert not any("ssl" in word for word in loader_of("mysql://me@127.0.0.1/db").words)

    def answer(client: socket.socket) -> bytes:
        client.sendall(handshake(b"mysql_native_password"))
        return client.recv(1 << 12)

    with serving(answer) as server:
        loader = loader_of(f"mysql://me@127.0.0.1:{server.port}/db?ssl_ca={tmp_path}/ca")
        program = next(filter(None, map(shutil.which, loader.programs)), None)
        if program is None:
            pytest.skip("no client of MySQL is installed")
        assert subprocess.run([program, *loader.words], check=False).returncode
    assert server.heard == b""


def test_mysql_gets_the_password_by_a_socket(tmp_path: object) -> None:
    """A Unix socket is read by nobody else."""
    path = f"{tmp_path}/s"
    with serving(MYSQL["clear"], path) as server:
        with contextlib.suppress(pymysql.err.Error):
            driver.open_connection("mysql", {"unix_socket": path, "user": "me", "password": SECRET})
        assert SECRET.encode() in server.heard


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"\0",
        b"\xff\xff\xff\x00" + b"x" * 100,
        mysql_packet(0, b""),
        mysql_packet(0, b"\x0a8.0"),
        mysql_packet(0, b"\x0aeight\0" + bytes(60)),
        mysql_packet(0, b"\xff\x15\x04#28000\x1b[2J\x1b]0;owned\x07"),
        handshake(b"\xff\xfe\x1b[2J"),
        handshake(b"mysql_native_password") + mysql_packet(2, b"\xfe\xff\xfe\0x"),
        handshake(b"mysql_native_password") + mysql_packet(2, b"\xfe\x1b[2J\0x"),
        handshake(b"mysql_native_password") + mysql_packet(2, b"\xfeclient_ed25519\0x"),
        handshake(b"mysql_native_password") + mysql_packet(2, b"\xfe"),
        handshake(b"caching_sha2_password") + mysql_packet(2, b"\x01\x04") * 3,
    ],
    ids=map(str, range(13)),
)
@pytest.mark.parametrize("layer", [try_database, try_worker])
def test_greetings_and_plug_ins_are_checked(greeting: bytes, layer: Callable[[str], None]) -> None:
    """Whatever a server of MySQL's wire begins with is a sentence that steers no terminal."""

    def answer(client: socket.socket) -> bytes:
        client.sendall(greeting)
        # A client that wants more is told at once that no more comes.
        client.shutdown(socket.SHUT_WR)
        return client.recv(1 << 12)

    with serving(answer) as server, pytest.raises(ReplayerError) as raised:
        layer(f"mysql://me:{SECRET}@{ELSEWHERE}:{server.port}/db")
    assert str(raised.value).isprintable(), raised.value
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("name", ["replayer capture", "replayer profile"])
def test_a_url_is_shown_as_the_user_gave_it(name: str) -> None:
    """The application_name that replayer adds is not in messages; one of the user is."""
    url = url_of("postgresql://me@db/shop", POSTGRES)
    added = url.update_query_dict({"application_name": name})
    own = url.update_query_dict({"application_name": "till"})

    assert credentials.show(added) == credentials.show(url)
    assert "application_name=till" in credentials.show(own)
