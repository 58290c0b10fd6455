"""Secrets on the command line: they are hidden before anything else is done.

`hidden` returns the arguments with *** for every secret, so that no message that quotes an argument
can disclose it.  It also overwrites the secrets in the memory that `ps` shows.  `revealed` returns
the original argument; only the code that opens a connection, or needs the token, calls it.

Invalid URLs are handled, too: with @ / : ? # or & in a password, without the slashes of the scheme,
without a host.  Any text that may be a part of a secret is treated as secret.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECRET = re.compile(r"pass?w|pwd|passphrase|secret|token", re.IGNORECASE)
"""The names of URL parameters whose values are secret."""
PLAIN = frozenset(
    re.findall(
        r"\w+",
        """
        host hostaddr port user dbname database unix_socket service options application_name
        connect_timeout read_timeout write_timeout client_encoding charset target_session_attrs
        sslmode sslrootcert sslcert sslkey sslcrl sslcrldir ssl_min_protocol_version requirepeer
        ssl_max_protocol_version sslnegotiation gssencmode channel_binding keepalives
        keepalives_idle keepalives_interval keepalives_count tcp_user_timeout read_default_file
        read_default_group ssl_ca ssl_capath ssl_cert ssl_key ssl_cipher ssl_check_hostname
        require_auth enable_cleartext_plugin
        """,
    )
)
"""The names of URL parameters that end a secret value.

Text after & with any other name may still be a part of the secret.
"""

_ENGINE = "--engine"
_TOKEN = "--live-token"  # noqa: S105 - the option, not a token
_COLON = re.compile(r":|%3a", re.IGNORECASE)
_BARE = re.compile(r"[A-Za-z][\w+.-]*:.*@", re.DOTALL)
"""A URL without its slashes, such as `postgres:secret@host/db`."""
_DATABASE = re.compile(
    r"[\w+-]*(sql|postgres|maria|citus|columnstore)[\w+-]*:.*@", re.IGNORECASE | re.DOTALL
)
_ARGUMENTS = (45, 46)
"""The indices of arg_start and arg_end among the fields after the program's name.

The fields are those of /proc/PID/stat, see proc_pid_stat(5).
"""
_typed: dict[str, str] = {}


def hidden(words: Sequence[str]) -> list[str]:
    """Return a command line's arguments with *** for each secret, such as a password in a URL.

    The secrets are also overwritten in this process's memory from which `ps` reads the arguments.
    """
    shown, before = [], ""
    secrets: list[str] = []
    for word in words:
        spans = _spans(word, of_engine=_ENGINE in {before, word.partition("=")[0]})
        if _TOKEN in {before, word.partition("=")[0]} and word != _TOKEN:
            spans = [(0 if before == _TOKEN else len(_TOKEN) + 1, len(word))]
        # A word after another option is that option's value, unless it begins as a database's URL.
        bare = _DATABASE if before.startswith("-") else _BARE
        if not spans and bare.match(word):
            spans = _spans(word, of_engine=True)
        secrets += [word[begin:end] for begin, end in spans]
        shown.append(_masked(word, spans))
        before = word
    if secrets:
        _overwrite(sorted({os.fsencode(one) for one in secrets}, key=len, reverse=True))
    return shown


def revealed(text: str) -> str:
    """Return the original of an argument in which `hidden` replaced a secret by ***.

    Any other text is returned unchanged.
    """
    return _typed.get(text, text)


def _masked(word: str, spans: list[tuple[int, int]]) -> str:
    if not spans:
        return word
    stars = "***"
    while True:
        text, end = "", 0
        for begin, after in spans:
            text, end = text + word[end:begin] + stars, after
        text += word[end:]
        option = next((one for one in (_ENGINE, _TOKEN) if text.startswith(f"{one}=")), "")
        begin = len(option) + 1 if option else 0
        if _typed.setdefault(text[begin:], word[begin:]) == word[begin:]:
            return text
        # Another argument looks the same without its secret: add a * to distinguish them.
        stars += "*"


def _spans(word: str, *, of_engine: bool) -> list[tuple[int, int]]:
    """Return (begin, end), as indices of `word`, of each secret in it, in the order of the text.

    `word` is a command-line argument.  It is searched if it has `://`, or if `of_engine` is True:
    then it is the address of a database, even without `://`.
    """
    scheme = word.find("://")
    if scheme < 0 and not of_engine:
        return []
    start = scheme + 3 if scheme >= 0 else len(_ENGINE) + 1 if word.startswith(_ENGINE) else 0
    in_query = list(_of_query(word, start))
    before = word[: in_query[0][0]] if in_query else word
    spans = [*_of_user(before, start, slashes=scheme >= 0), *in_query]
    return [(begin, end) for begin, end in spans if begin < end]


def _of_user(word: str, start: int, *, slashes: bool) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of a URL's password: from the colon after the user name to the last @.

    Without an @, all text after the colon is yielded, but not a port number after a scheme with
    `//`.  `start` is the index after the scheme, and `slashes` is true if there is such a scheme.
    """
    last = word.rfind("@")
    colon = _COLON.search(word, start)
    if colon is None or word.startswith("[", start):
        return
    if colon.start() < last:
        yield colon.end(), last
    elif last < start:
        port = re.match(r"[^/?#]*", word[colon.end() :])
        if not slashes or port is None or not port[0].isdigit():
            yield colon.end(), len(word)


def _of_query(word: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the value of each secret parameter in a URL, such as a password.

    The search begins at the index `start`, after the URL's scheme.  A value may have an & in it, so
    it only ends at a parameter that is known to be harmless (PLAIN).
    """
    begin = -1
    for parameter in re.finditer(r"(?:^|[?&])([^=&?]*)=?", word[start:]):
        name, place = parameter[1], start + parameter.start()
        if begin >= 0 and name in PLAIN:
            yield begin, place
            begin = -1
        if begin < 0 and parameter[0].endswith("=") and SECRET.search(name):
            begin = start + parameter.end()
    if begin >= 0:
        yield begin, len(word)


def _overwrite(secrets: list[bytes]) -> None:
    """Overwrite each byte of the secrets with x in the memory that /proc/PID/cmdline shows.

    Does nothing if the kernel does not show the address of that memory.
    """
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        begin, end = (int(fields[number]) for number in _ARGUMENTS)
        shown = clean = Path("/proc/self/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return
    if not begin or end - begin < len(shown):
        return
    for secret in secrets:
        clean = clean.replace(secret, b"x" * len(secret))
    _put(begin, clean)


def _put(address: int, text: bytes) -> None:
    try:
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(text)
    except OSError:
        # This import takes 20 ms: do it only if /proc/self/mem cannot be written.
        import ctypes  # noqa: PLC0415

        ctypes.memmove(address, text, len(text))
