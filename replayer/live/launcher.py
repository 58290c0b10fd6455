"""The launcher of the live page: binds the address, starts and ends the page's process."""

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from replayer import interpreter, shell, signals
from replayer.cli.bind_address import Address, bound, is_loopback
from replayer.errors import Impossible, Interrupted

OPTION = "--live"
_SHORTEST_TOKEN = 16
_PATIENCE = 5.0
"""The time in seconds that the page's process has to end by itself; then it is killed."""
_REPORT_SECONDS = 25.0
"""The time in seconds that the page's process has to end if a browser waits for the report."""


def refuse_open(address: Address, token: str | None) -> None:
    """Raise Impossible if the page would be open to viewers that the user did not intend.

    That is so for a token that is too short, and for an address that other hosts can reach if there
    is no token.
    """
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise Impossible(
            f"the {OPTION}-token has {len(token)} characters: give {_SHORTEST_TOKEN} or more: "
            f"any browser that has it can see the run"
        )
    if token is None and not is_loopback(address, OPTION):
        raise Impossible(
            f"{OPTION} {address.host}: other hosts reach that address, so restrict the viewers "
            f"with {OPTION}-token TOKEN, or leave the address out and use an ssh tunnel"
        )


class Live:
    """The live page of one run, as a context manager: the end of the `with` block ends the page."""

    def __init__(self, address: Address, token: str | None, say: Callable[[str], None]) -> None:
        """Bind the address, so that `with` can start the page; `say` gets each line for the user.

        Raises Impossible if the address is in use, if other hosts could reach it without a token,
        or if the token is too short.
        """
        refuse_open(address, token)
        self._address, self._token, self._say = address, token, say
        self._listening = bound(address, OPTION)
        self._listening.setblocking(False)
        self._open = contextlib.ExitStack()
        self._leaving = False

    def __enter__(self) -> Self:
        """Start the page's process; the kernel kills it if the process of the run ends."""
        with signals.shield():
            orders, self._orders = os.pipe()
            words, theirs = os.pipe()
            os.set_blocking(self._orders, False)
            passed = (self._listening.fileno(), orders, theirs)
            try:
                self._process = shell.start(
                    [*interpreter.module("replayer.live"), *map(str, passed)],
                    folder=Path("/"),
                    passed=passed,
                    bound=True,
                )
            except BaseException:
                self._listening.close()
                for fd in (orders, self._orders, words, theirs):
                    os.close(fd)
                raise
            for fd in (orders, theirs):
                os.close(fd)
            self._listening.close()
            self._open.callback(os.close, self._orders)
            threading.Thread(target=self._listen, args=(words,), daemon=True, name="live").start()
        host = self._address.host
        self._order(host=host, token=self._token, loopback=is_loopback(self._address, OPTION))
        return self

    def __exit__(self, *exception: object) -> None:
        self._leaving = True
        with signals.shield():
            self._open.close()
            if not shell.wait_until_ended(self._process, within=_PATIENCE):
                self._process.kill()
                self._process.wait()

    def follow(self, result: Path) -> None:
        """Make the page show the run that is stored in this result file."""
        # Path.cwd() fails if the current folder was removed: call it only if it is needed.
        folder = "/" if result.is_absolute() else str(Path.cwd())
        self._order(result=str(result.absolute()), folder=folder)

    def stay(self, seconds: float | None) -> None:
        """Keep the page with the finished report for `seconds`; None is until Ctrl-C.

        With 0, wait only until the pages that are open now have received the report.
        """
        if seconds == 0:
            self._leaving = True
            self._open.close()
            with contextlib.suppress(Interrupted):
                shell.wait_until_ended(self._process, within=_REPORT_SECONDS)
            return
        how_long = "until Ctrl-C" if seconds is None else f"for {seconds:.0f} s, or until Ctrl-C"
        self._say(f"the page of the run is there {how_long}")
        with contextlib.suppress(Interrupted):
            shell.wait_until_ended(
                self._process, within=threading.TIMEOUT_MAX if seconds is None else seconds
            )

    def _order(self, **about: object) -> None:
        # The run goes on if the page's process is gone.
        with contextlib.suppress(OSError):
            os.write(self._orders, f"{json.dumps(about)}\n".encode())

    def _listen(self, words: int) -> None:
        first = True
        with os.fdopen(words, encoding="utf-8", errors="replace") as lines:
            for link in lines:
                what = "live" if first else "live, for another browser"
                self._say(f"{what}: {link.strip()}")
                first = False
        if self._leaving:
            return
        became = "could not be started" if first else "was ended by another program"
        self._say(f"the page of --live {became}: the run continues without it")
