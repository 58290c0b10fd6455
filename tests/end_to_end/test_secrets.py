"""No part of a password reaches what others read: ps, the terminal, a log, a result."""

import gc
import re
import sys
from pathlib import Path

import pytest

from replayer.cli import argv_secrets
from replayer.engines import credentials
from replayer.engines import engine as engines
from replayer.engines.connection import url_of
from replayer.errors import Impossible
from tests.command import Replayer

POSTGRES = engines.load("postgres")
SECRETS = {
    "plain": "marlintrout",
    "at": "marlin@trout",
    "at twice": "marlin@tr@out",
    "slash": "marlin/trout",
    "at and slash": "marlin@tr/out",
    "slash and at": "marlin/tr@out",
    "question": "marlin?trout",
    "question and at": "marlin?tr@out=conger",
    "hash": "marlin#trout",
    "colon": "marlin:trout",
    "at and colon": "marlin@tr:out",
    "and": "marlin&trout=conger",
    "encoded": "marlin%40trout",
    "badly encoded": "marlin%4trout%",
    "brackets": "marlin@[trout]",
    "spaces": "marlin trout",
    "other letters": "forelle-ñandú@conger",
}
SHAPES = {
    "right": "postgresql://me:{}@127.0.0.1:1/db",
    "no host": "postgresql://me:{}@/db",
    "no host at all": "postgresql://me:{}",
    "no host, path": "postgresql://me:{}/db",
    "no port": "postgresql://me:{}@127.0.0.1:port/db",
    "no name": "postgresql://:{}@127.0.0.1:1/db",
    "no slashes": "postgres:{}@127.0.0.1/db",
    "no slashes nor host": "postgres:{}",
    "one slash": "postgres:/me:{}@127.0.0.1/db",
    "wrong scheme": "oracle://me:{}@127.0.0.1/db",
    "scheme with a driver": "postgresql+asyncpg://me:{}@127.0.0.1:1/db",
    "other wire": "mysql://me:{}@127.0.0.1:1/db",
    "encoded colon": "postgresql://me%3A{}@127.0.0.1:1/db",
    "parameter": "postgresql://me@127.0.0.1:1/db?password={}",
    "parameter first": "postgresql://me@127.0.0.1:1/db?sslpassword={}&sslmode=disable",
    "other spelling": "postgresql://me@127.0.0.1:1/db?passwd={}",
    "parameter of mysql": "mysql://me@127.0.0.1:1/db?passwd={}",
    "socket": "postgresql://me:{}@/db?host=/nowhere",
}
PARTS = re.compile("marlin|trout|conger|forelle|ñandú|\\btr\\b", re.IGNORECASE)
"""Whatever is a part of one of the secrets, and of nothing else that replayer says."""


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_nothing_of_a_secret_is_quoted(shape: str) -> None:
    """What is shown of a word of the command line, and every refusal, is free of it."""
    for secret in SECRETS.values():
        # What follows the last @ is a host, whoever reads it.
        if "@" in secret and "@" not in shape:
            continue
        typed = shape.format(secret)
        (_, shown), (equals,) = (
            argv_secrets.hidden(["--engine", typed]),
            argv_secrets.hidden([f"--engine={typed}"]),
        )
        assert PARTS.findall(shown + equals) == [], typed
        assert argv_secrets.revealed(shown) == typed

        messages = [shown]
        for text in (typed, shown):
            try:
                engine = engines.of_url(text) if "://" in text else engines.load(shown)
                url = url_of(text, engine)
                messages += [credentials.show(url), *map(str, (url.host, url.database))]
                messages.append(str(url.username))
            except Impossible as error:
                messages.append(str(error))
        assert PARTS.findall(" ".join(messages)) == [], typed


@pytest.mark.parametrize(
    ("typed", "password", "host"),
    [
        ("postgresql://me:marlin@trout@h:1/db", "marlin@trout", "h"),
        ("postgresql://me:marlin%40tr%2Fout@h/db?application_name=a%40b", "marlin@tr/out", "h"),
        ("postgresql://me@org:marlin@h/db", "marlin", "h"),
        ("postgresql://me:marlin/trout@h/db", "marlin/trout", "h"),
        ("postgresql://me:a@b@c@[::1]:5432/db", "a@b@c", "::1"),
        ("postgresql://h:5432/db", None, "h"),
    ],
)
def test_password_with_an_at_sign_is_the_password(
    typed: str, password: str | None, host: str
) -> None:
    """The last @ before the host ends it; what is written in % is read as before."""
    _, shown = argv_secrets.hidden(["--engine", typed])
    url = url_of(shown, POSTGRES)

    assert (url.password, url.host) == (password, host)


def test_words_without_a_secret_are_left_alone() -> None:
    """Labels, settings, paths and URLs with a port are what the user typed."""
    words = [
        "run", "demo", "--label", "a:b@c", "--set", "walk.path=/x:y@z", "--engine",
        "postgresql://h:5432/db?application_name=here", "--data-dir", "/mnt/a:b@c",
    ]  # fmt: skip
    assert argv_secrets.hidden(words) == words
    assert argv_secrets.hidden(["--engine=postgres"]) == ["--engine=postgres"]


def test_two_words_that_look_the_same_keep_their_secrets() -> None:
    """Each is revealed as it was typed."""
    typed = ["postgresql://me:one@h/db", "postgresql://me:two@h/db"]
    shown = argv_secrets.hidden(typed)

    assert [argv_secrets.revealed(word) for word in shown] == typed


# PyMySQL leaves the socket of a refused connection to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "words",
    [
        ["run", "smoke", "--engine", "postgresql://me:marlin@trout@127.0.0.1:1/db"],
        ["run", "smoke", "--engine=postgresql://me:marlintrout@127.0.0.1:1/db"],
        ["run", "smoke", "--engine", "postgres:marlintrout@127.0.0.1/db"],
        ["run", "smoke", "--engine", "postgresql://me@127.0.0.1:1/db?password=marlin&trout=conger"],
        ["run", "smoke", "--engine", "mysql://me:marlintrout@/db?unix_socket=/nowhere"],
        ["run", "postgresql://me:marlintrout@127.0.0.1:1/db"],
        ["run", "--json", "postgres:marlintrout@127.0.0.1/db"],
        ["run", "smoke", "--engin", "postgresql://me:marlintrout@127.0.0.1:1/db"],
        ["show", "postgresql://me:marlintrout@127.0.0.1:1/db"],
        ["postgresql://me:marlintrout@127.0.0.1:1/db"],
        ["run", "smoke", "--label", "postgresql://me:marlintrout@h/db", "--engine", "mysql://h:1/"],
    ],
)
def test_no_command_tells_a_password(replayer: Replayer, tmp_path: Path, words: list[str]) -> None:
    """Wherever it was typed, it is in no message and no result."""
    done = replayer(*words, status=None, PGPASSWORD="marlin-trout", MYSQL_PWD="marlin-trout")

    gc.collect()
    results = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert done.status != 0
    assert PARTS.findall(done.out + done.err + results) == []
    assert "Traceback" not in done.err


WATCHING = """
import sys
def note(event, arguments):
    if event == "import":
        with open("/proc/self/cmdline", "rb") as shown, open({path!r}, "a") as log:
            log.write(f"{{arguments[0]}} {{b'marlintrout' in shown.read()}}\\n")
sys.addaudithook(note)
"""
"""Note of each import whether `ps` shows the password then."""


def test_password_leaves_the_process_list_at_once(replayer: Replayer, tmp_path: Path) -> None:
    """It is overwritten before anything heavy is loaded: while the interpreter itself starts."""
    log = tmp_path / "imports"
    (tmp_path / "sitecustomize.py").write_text(WATCHING.format(path=str(log)))
    url = "postgresql://me:marlintrout@127.0.0.1:1/db"
    replayer.process("run", "smoke", "--engine", url, status=None, PYTHONPATH=str(tmp_path))

    imports = [line.rsplit(" ", 1) for line in log.read_text().splitlines()]
    shown = [name for name, visible in imports if visible == "True"]
    assert "replayer.cli.argv_secrets" in shown, "it is seen at all"
    assert [name for name, _ in imports[: len(shown)]] == shown, "it does not come back"
    # What is not the interpreter's own, or replayer's few modules that come before: all is later.
    others = {name.partition(".")[0] for name in shown} - sys.stdlib_module_names
    assert others <= {"replayer", "__editable___replayer_finder", "sitecustomize"}
    assert len(shown) < 0.25 * len(imports), shown
