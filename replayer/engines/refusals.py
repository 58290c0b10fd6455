"""Advice after a refused connection, chosen by words in the driver's message."""

import re

_REMEDIES = (
    (
        re.compile(
            r"password authentication failed|Access denied .*using password: YES"
            r"|Authentication failed: password",
            re.IGNORECASE,
        ),
        "check the user's name and give its password {ways}",
    ),
    (
        re.compile(r"Connection refused|No such file or directory", re.IGNORECASE),
        "check that the server runs there, and that it listens at this address and port",
    ),
    (
        re.compile(r"could not translate|not known|getaddrinfo|name resolution", re.IGNORECASE),
        "check the name of the host",
    ),
    (
        re.compile(r"database \S+ does not exist|Unknown database", re.IGNORECASE),
        "create that database, or give the name of one that is there",
    ),
    (
        re.compile(r"pg_hba\.conf|not allowed to connect", re.IGNORECASE),
        "let the server's administrator allow this host and user (pg_hba.conf, or the user's host)",
    ),
    (
        re.compile(r"UNKNOWN_SETTING|unknown setting", re.IGNORECASE),
        "use a newer version of the server, or leave that setting out if the URL has it",
    ),
    (
        re.compile(r"timed? ?out|timeout expired", re.IGNORECASE),
        "a firewall may drop the packets: see whether the port can be reached from here",
    ),
)


def remedy_of(reason: str, ways: str) -> str:
    """Return advice for the user after a refused connection; "" if there is none.

    `reason` is the driver's message.  `ways` are the places where a password can be given, as text.
    """
    for pattern, remedy in _REMEDIES:
        if pattern.search(reason):
            return remedy.format(ways=ways)
    return ""
