"""ClickHouse's HTTP interface in front of chdb: the engine is real, and only the front is ours.

    python -m tests.clickhouse_front FOLDER PASSWORD [SETTING=VALUE&...]

A setting is the server's, such as uncompressed_cache_size; its cache is then used whatever a client
asks for.  The module prints its port, writes the files that a server writes into its folder, and
ends when its standard input is closed.
"""

import base64
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb as library

_NOT_SETTINGS = ("query", "database", "wait_end_of_query", "client_protocol_version", "query_id")
_USE_CACHE = "use_uncompressed_cache"
_DENIED = "Code: 516. DB::Exception: default: Authentication failed: password is incorrect"


class Front(BaseHTTPRequestHandler):
    """Requests of clickhouse-connect: a statement in the body, settings in the address."""

    protocol_version = "HTTP/1.1"
    library: Any = None
    login = ""
    ignored: tuple[str, ...] = ()
    """Settings that a client asks for in vain."""
    turn = threading.Lock()

    def do_GET(self) -> None:
        """Answer /ping."""
        self._reply(200, b"Ok.\n")

    def do_POST(self) -> None:
        """Execute a statement with its settings, after those of other connections."""
        statement = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        if self.headers.get("Authorization") != self.login:
            return self._reply(403, _DENIED.encode(), code="516")
        try:
            with self.turn:
                return self._reply(200, self._answer(statement or asked["query"], asked))
        except Exception as error:
            text = str(error)
            code = text.partition("Code: ")[2].partition(".")[0] or "1002"
            return self._reply(500, text.encode(), code=code)

    def _answer(self, statement: str, asked: dict[str, str]) -> bytes:
        self.library.query(f"USE {asked.get('database') or 'default'}")
        for name, value in asked.items():
            if name not in (*_NOT_SETTINGS, *self.ignored) and "http" not in name:
                self.library.query(f"SET {name} = '{value}'")
        answer: bytes = self.library.query(statement, "TabSeparated").bytes()
        return answer

    def _reply(self, status: int, body: bytes, *, code: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(folder: Path, password: str, settings: str = "") -> None:
    """Serve until standard input ends."""
    os.chdir(folder)
    opened: Any = library
    Front.library = opened.connect(f"{folder}?{settings}" if settings else str(folder))
    if settings:
        Front.ignored = (_USE_CACHE,)
        Front.library.query(f"SET {_USE_CACHE} = 1")
    Front.login = "Basic " + base64.b64encode(f"default:{password}".encode()).decode()
    uuid = Front.library.query("SELECT serverUUID()", "TabSeparated").bytes()
    (folder / "uuid").write_bytes(uuid)
    (folder / "status").write_text(f"PID: {os.getpid()}\nStarted at: now\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()
        server.shutdown()
    Front.library.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
