"""Who may look: links that open the page once each, cookies, and the names that it is called by."""

import hmac
import secrets
import socket
from collections import OrderedDict

from replayer.cli.bind_address import Address

_BYTES = 24
_MOST_BROWSERS = 64


class PageAccess:
    """The tokens and cookies of one page.

    A link's token is good for one browser: the next one takes the next link.  A token that somebody
    chose is good for all who know it.
    """

    def __init__(self, address: Address, chosen: str | None, *, loopback: bool) -> None:
        self.cookie = f"replayer-live-{address.port}"
        """Its name: browsers do not tell the ports of a host apart."""
        self._address, self._chosen = address, chosen
        self._token = chosen or secrets.token_urlsafe(_BYTES)
        self._browsers: OrderedDict[str, None] = OrderedDict()
        self._hosts = _hosts(address, loopback=loopback)

    @property
    def link(self) -> str:
        """Return the link that opens the page in the next browser."""
        host = self._address.host
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - it is compared, not listened on
            host = socket.gethostname()
        where = Address(host, self._address.port).shown
        # A token that somebody chose is known to those who need it, and stays out of the log.
        return f"http://{where}/?token={'TOKEN' if self._chosen else self._token}"

    @property
    def is_used(self) -> bool:
        """Tell whether any browser has opened a link."""
        return bool(self._browsers)

    def is_ours(self, host: str) -> bool:
        """Tell whether a request was meant for this page, and did not come by somebody's own name.

        That is what keeps a page from elsewhere from reading this one by a name that points here.
        """
        return host.lower() in self._hosts

    def opened(self, token: str) -> str | None:
        """Return a cookie for a link's token, which is good no more; None for any other."""
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
        """Tell whether a browser has opened a link."""
        own = (cookie or "").encode()
        return any([hmac.compare_digest(own, one.encode()) for one in self._browsers])  # noqa: C419 - all are compared, whichever it is


def _hosts(address: Address, *, loopback: bool) -> frozenset[str]:
    """Return what a browser may call this page."""
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
