"""The bundle for support: what secrets look like, and what is left alone."""

import json

import pytest

from replayer.run.support_bundle import without_secrets


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


def test_what_is_no_secret_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, numbers and the layout of JSON are left alone, although their names look alike."""
    monkeypatch.setenv("PWD", "/srv/results")
    text = json.dumps({"tokens": 5, "password_known": True, "where": "/srv/results", "db": "a:b@c"})

    assert without_secrets(text) == text
