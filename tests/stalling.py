"""A network that stalls; `from tests.stalling import Network`."""

import contextlib
import select
import socket
import threading
import time


class Network:
    """A port that leads to a server's socket, until it is told to stall: then nothing passes."""

    def __init__(self, target: object) -> None:
        self._target = str(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._stalled = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stall(self) -> None:
        """Let nothing pass any more; connections stay, and new ones are accepted in vain."""
        self._stalled.set()

    def close(self) -> None:
        """Close everything."""
        self._over = True
        self._thread.join()
        for end in [self._listener, *(end for pair in self._pairs for end in pair)]:
            end.close()

    def _run(self) -> None:
        ways: dict[socket.socket, socket.socket] = {}
        while not self._over:
            if self._stalled.is_set():
                time.sleep(0.05)
                continue
            ready, _, _ = select.select([self._listener, *ways], [], [], 0.05)
            for end in ready:
                if end is self._listener:
                    client, _ = self._listener.accept()
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(self._target)
                    ways[client], ways[server] = server, client
                    self._pairs.append((client, server))
                elif end in ways and not self._stalled.is_set():
                    self._pass_on(end, ways)

    def _pass_on(self, end: socket.socket, ways: dict[socket.socket, socket.socket]) -> None:
        try:
            data = end.recv(1 << 16)
        except OSError:
            data = b""
        if data:
            ways[end].sendall(data)
            return
        other = ways.pop(end)
        ways.pop(other, None)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)
