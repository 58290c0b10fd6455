"""Passwords of a server: lookup in files and environment, and hiding in messages.

An engine lists in [password] of its engine.toml the option files and the environment variable that
its own clients read.  Sources that a driver reads by itself, such as PGPASSFILE, are not listed
there.
"""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.cli.argv_secrets import PLAIN, SECRET
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine import URL

    from replayer.engines.engine_spec import Password

_TLS = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key", "ssl_cipher")


def complete(url: URL, keys: Password) -> URL:
    """Return a URL to which missing parts are added: user, password, host and TLS files.

    They come from the user's option file.  A password that is not in that file comes from the
    environment.  `keys` has the names of such files, and of the environment variable.
    """
    options = _options(url, keys)
    if url.username is None:
        url = url.set(username=options.get("user"))
    if url.password is None:
        password = options.get("password") or os.environ.get(keys.environment)
        url = url.set(password=password or None)
    if url.host is None and "unix_socket" not in url.query:
        if "host" in options:
            url = url.set(host=options["host"], port=url.port or _port(options))
        elif "socket" in options:
            url = url.update_query_dict({"unix_socket": options["socket"]})
    tls = {name: options[name] for name in _TLS if name in options and name not in url.query}
    # The file was read here: a driver may not know all of its options.
    return url.update_query_dict(tls).difference_update_query(["read_default_file"])


_OWN = re.compile("client_encoding|ch_.*")
"""Parameters that replayer adds to every URL: an encoding, settings of ClickHouse."""
_CALLED = "replayer "
"""Beginning of an application_name that replayer adds: `replayer capture`, `replayer profile`."""


def _is_own(name: str, text: str | tuple[str, ...]) -> bool:
    """Return whether replayer itself added the URL parameter `name` with the value `text`."""
    called = name == "application_name" and str(text).startswith(_CALLED)
    return called or _OWN.fullmatch(name) is not None


def show(url: URL) -> str:
    """Return a URL as text without its secrets, and without parts that may belong to a secret."""
    added = [name for name, text in url.query.items() if _is_own(name, text)]
    plain = url.set(drivername=url.get_backend_name()).difference_update_query(
        [*_hidden(url), *added]
    )
    return plain.render_as_string(hide_password=True)


def redact(text: str, url: URL) -> str:
    """Return a message in which every secret of the URL is replaced by ***."""
    secrets = [url.password or ""]
    for name in _hidden(url):
        value = url.query[name]
        secrets += [name, *([value] if isinstance(value, str) else value)]
    for secret in sorted(map(str, secrets), key=len, reverse=True):
        if len(secret) > 1 and not SECRET.fullmatch(secret):
            text = text.replace(secret, "***")
    return text


def _hidden(url: URL) -> list[str]:
    """Return the names of a URL's parameters that must not be shown.

    If one parameter is a secret, these are all parameters that are not known to be harmless.
    Otherwise returns [].
    """
    if not any(SECRET.search(name) for name in url.query):
        return []
    return [name for name in url.query if name not in PLAIN]


def _options(url: URL, keys: Password) -> dict[str, str]:
    """Return the options (name -> value) of the first option file that exists; {} if none does.

    The URL's parameter read_default_file names the file, else `keys` lists some.  Raises Impossible
    if the file cannot be read.
    """
    given = url.query.get("read_default_file")
    for name in [str(given)] if given else keys.option_files:
        path = Path(os.path.expanduser(name))  # noqa: PTH111 - a Path raises without a home
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise Impossible(f"the option file {path} cannot be read: {error}") from error
        return dict(_read(path, text, keys.option_groups))
    return {}


def _read(path: Path, text: str, groups: Iterable[str]) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False)
    # `!include` lines are not part of the ini format.
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("!")]
    try:
        parser.read_string("\n".join(lines))
    except configparser.Error as error:
        # The error itself quotes the line, which may contain a password.
        raise Impossible(f"the option file {path} is not in the format of one") from error
    for group in groups:
        if parser.has_section(group):
            yield from (
                (name.replace("-", "_"), value.strip().strip("'\""))
                for name, value in parser.items(group)
                if value
            )


def _port(options: Mapping[str, str]) -> int | None:
    port = options.get("port", "")
    return int(port) if port.isdigit() else None
