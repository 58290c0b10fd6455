"""The bundle for support: what secrets look like, and what is left alone."""

import errno
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from replayer.errors import ReplayerError
from replayer.run.support_bundle import SupportBundle, without_secrets
from tests.cpu_time import at_once

LOG = """\
2026-11-20 10:00:00.1 UTC [5] ERROR:  duplicate key value violates unique constraint "mail_key"
2026-11-20 10:00:00.1 UTC [5] DETAIL:  Key (mail)=(hunter2x) already exists.
2026-11-20 10:00:00.1 UTC [5] STATEMENT:  INSERT INTO mail
\t    VALUES ('hunter2x')
2026-11-20 10:00:00.1 UTC [5] CONTEXT:  unnamed portal with parameters: $1 = 'hunter2x'
2026-11-20 10:00:00.1 UTC [6] ERROR:  deadlock detected, blocked by process 7
2026-11-20 10:00:00.1 UTC [6] DETAIL:  Process 6 waits for ShareLock; blocked by process 7.
\tProcess 6: UPDATE mail SET text = 'hunter2x'
2026-11-20 10:00:00.1 UTC [5] DETAIL:  Failing row contains (1, hunter2x).
2026-11-20 10:00:00.1 UTC [1] DETAIL:  Failed system call was shmget(key=1, size=56, 03600).
"""
"""A log of PostgreSQL 18 with statements that fail."""


def test_a_full_disk_leaves_no_part_of_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be written under the same name when there is space again."""
    bundle, path = SupportBundle(), tmp_path / "s.tgz"
    bundle.add("a", "text")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", _FullFile)
        with pytest.raises(ReplayerError, match="No space left on device: free some space, or gi"):
            bundle.write(path)
    assert list(tmp_path.iterdir()) == []

    bundle.write(path)
    with tarfile.open(path) as written:
        assert written.getnames() == ["replayer-support/a"]


class _FullFile(io.FileIO):
    """A file whose disk has room for the first bytes only."""

    def write(self, _: object, /) -> int:
        """Write a part, and no more."""
        super().write(b"part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://app:hunter2x@db/shop",
        "password=hunter2x host=db",
        "PGPASSWORD='hunter2x' psql",
        'CREATE USER a IDENTIFIED BY "hunter2x"',
        "ALTER USER a IDENTIFIED WITH mysql_native_password AS 'hunter2x'",
        '{"api_key": "hunter2x"}',
        "ALTER ROLE app PASSWORD = 'hunter2x'",
        "ALTER ROLE app PASSWORD 'hunter2x'",
        "Authorization token: hunter2x",
        "what the variable holds: from-the-environment",
        "postgresql://app:p@hunter2x@db/shop",
        "MYSQL_PWD=hunter2x mysql",
        "Driver=x;UID=sa;PWD=hunter2x",
        "passphrase: hunter2x",
        "mysqldump --password hunter2x shop",
        "SET PASSWORD FOR 'a'@'h' = PASSWORD('hunter2x')",
        "ALTER ROLE app PASSWORD 'it''s hunter2x'",
        "ALTER ROLE app PASSWORD E'hunter2x'",
        "ALTER ROLE app PASSWORD $$hunter2x$$",
        '"DB_PASSWORD"=hunter2x',
    ],
)
def test_no_form_of_a_secret_is_left(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """URLs, assignments, statements and values of variables: the secret goes, the rest stays."""
    monkeypatch.setenv("MY_TOKEN", "from-the-environment")
    shown = without_secrets(text)

    assert "hunter2x" not in shown
    assert "from-the-environment" not in shown
    assert "***" in shown
    assert shown.split()[0][:8] == text.split(maxsplit=1)[0][:8]


def test_statements_of_a_log_are_left_out_with_their_values() -> None:
    """Of PostgreSQL's log the errors stay, and not what the statements of a replay held."""
    bundle = SupportBundle()
    bundle.add_log("data", LOG)

    assert "hunter2x" not in bundle.texts["data.log"]
    assert "duplicate key value" in bundle.texts["data.log"]
    assert "blocked by process 7" in bundle.texts["data.log"]
    assert "Failed system call" in bundle.texts["data.log"]


@pytest.mark.parametrize("piece", ["a-", "--", "a.", "password", "://a:b@", "'", "$$"])
def test_a_long_word_is_searched_in_time(piece: str) -> None:
    """A log whose last line is one long word is read in time."""
    with at_once(piece):
        without_secrets(piece * (200_000 // len(piece)))


def test_what_is_no_secret_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, numbers and the layout of JSON are left alone, although their names look alike."""
    monkeypatch.setenv("PWD", "/srv/results")
    text = json.dumps({"tokens": 5, "password_known": True, "where": "/srv/results", "db": "a:b@c"})

    assert without_secrets(text) == text
