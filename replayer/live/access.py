"""Access control of the live page: one-time links, cookies, and the accepted host names."""

import hmac
import secrets
import socket
from collections import OrderedDict

from replayer.cli.bind_address import Address

_BYTES = 24
_MOST_BROWSERS = 64


class PageAccess:
    """The access control of one live page: the tokens of its links, and the browsers' cookies.

    A link's token is valid for one browser; the next browser needs the next link.  A token that the
    user chose is valid for every browser.
    """

    def __init__(self, address: Address, chosen: str | None, *, loopback: bool) -> None:
        self.cookie = f"replayer-live-{address.port}"
        """The cookie's name.  It has the port, as browsers share cookies among a host's ports."""
        self._address, self._chosen = address, chosen
        self._token = chosen or secrets.token_urlsafe(_BYTES)
        self._browsers: OrderedDict[str, None] = OrderedDict()
        self._hosts = _hosts(address, loopback=loopback)

    @property
    def link(self) -> str:
        """Return the link that opens the page in the next browser.

        If the user chose the token, the link has the word TOKEN in its place.
        """
        host = self._address.host
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - it is compared, not listened on
            host = socket.gethostname()
        where = Address(host, self._address.port).shown
        # The user knows a token that they chose: keep it out of the log.
        return f"http://{where}/?token={'TOKEN' if self._chosen else self._token}"

    @property
    def refusal(self) -> str:
        """Return why a browser without access is refused, and what to do."""
        if self._chosen:
            return (
                "this browser has not opened the link of this run, or with another token: open it "
                "again with the token that was chosen"
            )
        return (
            "the link was used, or is not of this run: the newest one stands where the run was "
            "started"
        )

    @property
    def is_used(self) -> bool:
        """Return whether any browser has opened a link."""
        return bool(self._browsers)

    def is_ours(self, host: str) -> bool:
        """Return whether a request's Host header is one of this page's own names.

        This prevents DNS rebinding: a web page of another site cannot read this one through a name
        that resolves to this host.
        """
        return host.lower() in self._hosts

    def opened(self, token: str) -> str | None:
        """Return the value of a new cookie for the token of a request; None if it is not valid.

        A token that the user did not choose is valid only once: this replaces it by a new one.
        """
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        if self._chosen is None:
            self._token = secrets.token_urlsafe(_BYTES)
        browser = secrets.token_urlsafe(_BYTES)
        self._browsers[browser] = None
        while len(self._browsers) > _MOST_BROWSERS:
            self._browsers.popitem(last=False)
        return browser

    def knows(self, cookie: str | None) -> bool:
        """Return whether a cookie's value belongs to a browser that has opened a link."""
        own = (cookie or "").encode()
        return any([hmac.compare_digest(own, one.encode()) for one in self._browsers])  # noqa: C419 - all are compared, whichever it is


def _hosts(address: Address, *, loopback: bool) -> frozenset[str]:
    """Return the values of the Host header under which a browser may request this page.

    With `loopback`, `address` is one that only this host can reach.
    """
    names = {address.host}
    if loopback:
        names |= {"localhost", "127.0.0.1"}
    elif address.host in {"0.0.0.0", "::"}:  # noqa: S104 - it is compared, not listened on
        own = socket.gethostname()
        names |= {"localhost", "127.0.0.1", own, socket.getfqdn(), *_numbers(own)}
    shown = {Address(name.lower(), address.port).shown for name in names}
    return frozenset(shown | {one.removesuffix(":80") for one in shown})


def _numbers(name: str) -> set[str]:
    try:
        return {str(one[4][0]) for one in socket.getaddrinfo(name, None)}
    except OSError:
        return set()
