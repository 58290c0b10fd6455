"""Rules for when libpq may send a password in clear text: only if no host in between can read it.

The server, or a machine that has taken its place, chooses the login method, and may ask for the
password itself.  mysql_login.py does the same for MySQL's protocol.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRE = "require_auth"
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})
_REFUSED = "server requested a cleartext password"


def required(query: Mapping[str, Any], host: str | None) -> dict[str, str]:
    """Return URL parameters with which libpq sends no password that others could read.

    `query` are the parameters of the URL.  Returns {} if none are needed: the server is on this
    host, the connection is encrypted, or the user chose a method in the URL or in libpq's
    environment variables.
    """
    variables = {"sslmode": "PGSSLMODE", REQUIRE: "PGREQUIREAUTH", "service": "PGSERVICE"}
    asked = {name: os.environ.get(variable) for name, variable in variables.items()} | dict(query)
    if asked[REQUIRE] or asked["sslmode"] in _ENCRYPTED:
        return {}
    places = asked.get("hostaddr") or asked.get("host") or host
    places = places or os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST") or ""
    hosts = places.split(",") if isinstance(places, str) else places
    # A libpq service may point to another host.
    if all(map(is_here, hosts)) and not asked["service"]:
        return {}
    return {REQUIRE: "!password"}


def remedy(text: str) -> str:
    """Return advice if libpq refused to send a password, as the end of a sentence; "" if not.

    `text` is the message of libpq.
    """
    if _REFUSED not in text:
        return ""
    return (
        ", which others could read on the way: encrypt the connection with ?sslmode=require, or "
        "allow it with ?require_auth=password"
    )


def is_here(host: str) -> bool:
    """Return whether a host is this machine: a folder of sockets, or a loopback address."""
    name = host.partition(":")[0] if host.count(":") == 1 else host
    if not name or name.startswith(("/", "@")) or name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
