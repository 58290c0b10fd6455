"""The server process: `python -m replayer.engines.inprocess GUEST DATA SOCKET PID_FILE UID GID`.

It is started by servers/private.py.  It loads the library with the rights of its caller, gives them
up (root becomes the user UID), opens the data and listens on SOCKET.  It ends at SIGTERM, and when
the process that started it is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from replayer.engines.inprocess.server import Places, serve

if __name__ == "__main__":
    guest, data, socket, pid_file, uid, gid = sys.argv[1:]
    sys.exit(serve(guest, Places(Path(data), Path(socket), Path(pid_file)), int(uid), int(gid)))
