"""Passwords of a server: where they are looked for, and how they are kept out of sight.

An engine says in [password] of its engine.toml which option files and which environment variable
its own clients read; what a driver reads by itself, such as PGPASSFILE, is not said there.
"""

from __future__ import annotations

import configparser
import ctypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine import URL

    from replayer.engines.engine_spec import Password

_SECRET = re.compile(r"passw|passphrase|secret", re.IGNORECASE)
_IN_URL = re.compile(r"://[^:/@?]*:([^@]*)@|[?&][^=&]*(?:passw|passphrase|secret)[^=&]*=([^&]*)")
_TLS = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key", "ssl_cipher")
_ARGUMENTS = (45, 46)
"""arg_start and arg_end in proc_pid_stat(5), counted after the name of the program."""


def complete(url: URL, keys: Password) -> URL:
    """Return a URL with what it leaves out: from the user's option file, then the environment."""
    found = _options(url, keys)
    if url.username is None:
        url = url.set(username=found.get("user"))
    if url.password is None:
        password = found.get("password") or os.environ.get(keys.environment)
        url = url.set(password=password or None)
    if url.host is None and "unix_socket" not in url.query:
        if "host" in found:
            url = url.set(host=found["host"], port=url.port or _port(found))
        elif "socket" in found:
            url = url.update_query_dict({"unix_socket": found["socket"]})
    tls = {name: found[name] for name in _TLS if name in found and name not in url.query}
    # The file was read here: a driver may not know all that is in it.
    return url.update_query_dict(tls).difference_update_query(["read_default_file"])


def show(url: URL) -> str:
    """Return a URL without any of its secrets."""
    plain = url.set(drivername=url.get_backend_name()).difference_update_query(
        [name for name in url.query if _SECRET.search(name)]
    )
    return plain.render_as_string(hide_password=True)


def forget_argument(text: str) -> None:
    """Overwrite the passwords of a URL in this process's own command line, which `ps` shows.

    Where the kernel does not say where that is, nothing is done.
    """
    for secret in secrets(text):
        _overwrite(os.fsencode(secret))


def secrets(text: str) -> list[str]:
    """Return the passwords in a URL as they are written there."""
    return [secret for found in _IN_URL.findall(text) for secret in found if secret]


def _overwrite(secret: bytes) -> None:
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        begin, end = (int(fields[number]) for number in _ARGUMENTS)
        shown = Path("/proc/self/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return
    if not begin or end - begin < len(shown):
        return
    place = shown.find(secret)
    while place >= 0:
        ctypes.memset(begin + place, ord("x"), len(secret))
        place = shown.find(secret, place + len(secret))


def _options(url: URL, keys: Password) -> dict[str, str]:
    """Return what the user's option file says of a server; {} if there is none."""
    given = url.query.get("read_default_file")
    for name in [str(given)] if given else keys.option_files:
        path = Path(name).expanduser()
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
    # `!include` lines are not of this format.
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("!")]
    try:
        parser.read_string("\n".join(lines))
    except configparser.Error as error:
        # The error itself quotes the line, and a password may be in it.
        raise Impossible(f"the option file {path} is not in the format of one") from error
    for group in groups:
        if parser.has_section(group):
            yield from (
                (name.replace("-", "_"), value.strip().strip("'\""))
                for name, value in parser.items(group)
                if value
            )


def _port(found: Mapping[str, str]) -> int | None:
    port = found.get("port", "")
    return int(port) if port.isdigit() else None
