"""What another user can do to a replayer that runs as root: links, swaps, false notes."""

import contextlib
import itertools
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer import journal, trusted_path
from replayer.engines import engine as engines
from replayer.errors import Impossible, ReplayerError
from replayer.machine import processes
from replayer.report import files as report_files
from replayer.results import store
from replayer.run import recovery
from replayer.servers import programs, socket_folder
from replayer.servers.data_folder import DataFolder
from replayer.servers.open import open_server
from replayer.shell import User
from replayer.storage.files import PREFIX, Workspace
from tests.command import Replayer
from tests.fixture_types import RunOf
from tests.halting import go_on, halt
from tests.owners import ended_owner
from tests.told import line_with
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose to others"),
]

ATTACKER = 54321
PYTHON = shutil.which("python3", path=os.defpath) or "python3"
"""One that another user can run, too."""
POSTGRES = engines.load("postgres")
WRITTEN = ("replayer.json", "replayer.json.new", "lock", "server.log", "server.log.1", "data")
"""What replayer writes in a data folder."""
FREEZER = Path("/sys/fs/cgroup/freezer")
SYS_EXIT = 60 if os.uname().machine == "x86_64" else 93
"""Number of exit(2), which ends a thread only."""
SECRET = "root's own, and not to be touched\n"


def names(folder: Path | str) -> list[str]:
    """Return the sorted names of what is in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


def state(path: Path) -> tuple[object, ...]:
    """Return all that an attack could change of a file."""
    about = path.stat()
    return path.read_text(), about.st_uid, about.st_gid, about.st_mode, about.st_nlink


@pytest.fixture
def victim() -> Iterator[Path]:
    """Return a file of root's; at the end nothing of it may have changed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "victim"
        path.write_text(SECRET)
        path.chmod(0o644)
        before = state(path)
        yield path
        assert state(path) == before
        assert names(folder) == ["victim"]


@pytest.fixture
def theirs() -> Iterator[Path]:
    """Return a folder of the attacker's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chown(folder, ATTACKER, ATTACKER)
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def ours() -> Iterator[Path]:
    """Return a folder of root's that everybody can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_user(code: str, *arguments: object, user: int = ATTACKER) -> None:
    """Run some Python as another user, to its end."""
    subprocess.run(
        [PYTHON, "-c", code, *map(str, arguments)],
        check=True, cwd="/", user=user, group=user, extra_groups=[],
    )  # fmt: skip


@contextlib.contextmanager
def meanwhile(code: str, *arguments: object, user: int = ATTACKER) -> Iterator[None]:
    """Run some Python as another user, again and again, for as long as the `with` block runs."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    begin = "import contextlib, os, sys\na = sys.argv[1:]\nprint('go', flush=True)\n"
    loop = f"{begin}while True:\n{body}"
    with subprocess.Popen(
        [PYTHON, "-c", loop, *map(str, arguments)],
        stdout=subprocess.PIPE, cwd="/", user=user, group=user, extra_groups=[],
    ) as attacker:  # fmt: skip
        try:
            assert attacker.stdout
            attacker.stdout.readline()
            yield
            assert attacker.poll() is None, "the attack itself failed"
        finally:
            attacker.kill()


@pytest.mark.parametrize("name", WRITTEN)
def test_data_folder_of_another_owner_is_refused(
    own_home: Path, theirs: Path, victim: Path, name: str
) -> None:
    """No link there is followed, and one sentence says whose the folder is."""
    as_user("import os, sys; os.symlink(*sys.argv[1:])", victim, theirs / name)

    with pytest.raises(Impossible, match=f"belongs to user {ATTACKER}"):
        open_server(POSTGRES, data_dir=theirs).__enter__()

    assert names(theirs) == [name]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_data_folder_that_others_can_write_is_refused(
    own_home: Path, ours: Path, victim: Path, mode: int
) -> None:
    """A folder of root's is not root's alone if somebody else can place a link in it."""
    folder = ours / "data-folder"
    folder.mkdir()
    os.chown(folder, 0, ATTACKER)
    folder.chmod(mode)
    as_user("import os, sys; os.symlink(*sys.argv[1:])", victim, folder / "lock")

    with pytest.raises(Impossible, match="can be written by others"):
        open_server(POSTGRES, data_dir=folder).__enter__()

    assert names(folder) == ["lock"]


@pytest.mark.parametrize("there", [True, False])
def test_data_folder_below_another_owners_is_refused(
    own_home: Path, theirs: Path, *, there: bool
) -> None:
    """Who owns a folder on the way can put another one in its server."""
    if there:
        (theirs / "data-folder").mkdir()

    with pytest.raises(Impossible, match=f"belongs to user {ATTACKER}"):
        open_server(POSTGRES, data_dir=theirs / "data-folder").__enter__()

    assert names(theirs) == (["data-folder"] if there else [])
    if there:
        assert names(theirs / "data-folder") == []


def test_data_folder_behind_another_owners_link_is_refused(
    own_home: Path, theirs: Path, ours: Path
) -> None:
    """A link is followed only if it is root's own: the attacker does not choose where data goes."""
    as_user("import os, sys; os.symlink(*sys.argv[1:])", ours, theirs / "link")
    with pytest.raises(Impossible, match=r"link of user|belongs to user"):
        open_server(POSTGRES, data_dir=theirs / "link").__enter__()

    assert names(ours) == []


@pytest.mark.slow
def test_check_and_clean_leave_a_folder_of_another_owner_alone(
    own_home: Path, theirs: Path, victim: Path, replayer: Replayer
) -> None:
    """Neither writes a lock, nor removes what a forged marker claims."""
    marker = {"engine": "postgres", "major": 18, "init": {}, "made_folder": True}
    (theirs / "replayer.json").write_text(json.dumps(marker))
    (theirs / "lock").symlink_to(victim)
    (theirs / "data").symlink_to(victim.parent)
    for command in (["check"], ["clean", "--yes"]):
        out, err = replayer(*command, "--data-dir", theirs, status=2)
        # `check` breaks its lines between words.
        assert f"belongs to user {ATTACKER}" in " ".join((out + err).split())

    assert names(theirs) == ["data", "lock", "replayer.json"]


def test_remembered_folder_that_somebody_else_has_now_is_forgotten(
    own_home: Path, theirs: Path, victim: Path, replayer: Replayer
) -> None:
    """`clean` finds folders elsewhere by a note; what is another's by now is not replayer's."""
    folder = theirs.parent / f"{theirs.name}-data"
    DataFolder(folder).claim("postgres", 18, {}, made=DataFolder(folder).make())
    shutil.rmtree(folder)
    theirs.rename(folder)
    try:
        marker = {"engine": "postgres", "major": 18, "init": {}, "made_folder": True}
        (folder / "replayer.json").write_text(json.dumps(marker))
        (folder / "lock").symlink_to(victim)
        replayer("clean", "--yes")
        assert names(folder) == ["lock", "replayer.json"]
    finally:
        folder.rename(theirs)


# The server's own user, who owns what is in data/ and the socket's folder


def server_user() -> User:
    """Return who runs root's server."""
    user = programs.server_user(POSTGRES.spec.server.users)
    assert user is not None
    return user


ATTACKS = {
    "link": "os.symlink(victim, path)",
    "link to nothing": "os.symlink(victim + '.new', path)",
    "fifo": "os.mkfifo(path)",
}


ATTACKED = ["replayer.conf", "replayer.conf.new", "postmaster.pid"]


def attack(home: Path, victim: Path, name: str, code: str) -> None:
    """Put something of the server's user in the place of a file in data/."""
    path = home / "data" / "postgres-18" / "data" / name
    path.unlink(missing_ok=True)
    code = f"import os, sys; path, victim = sys.argv[1:]; {code}"
    as_user(code, path, victim, user=server_user().uid)


@pytest.mark.parametrize("way", ATTACKS)
def test_servers_user_cannot_have_root_write_elsewhere(
    made_home: Path, victim: Path, way: str
) -> None:
    """Whatever lies in data/, a start replaces it; nothing is written through it."""
    for name in ATTACKED:
        attack(made_home, victim, name, ATTACKS[way])
    with open_server(POSTGRES) as server:
        server.start()


@pytest.mark.parametrize("name", ATTACKED)
def test_folder_in_the_place_of_a_file_in_data_is_refused(
    made_home: Path, victim: Path, name: str
) -> None:
    """What cannot be replaced ends the start in one sentence."""
    attack(made_home, victim, name, "os.mkdir(path)")
    with pytest.raises(ReplayerError, match=r"^[^\n]*$"), open_server(POSTGRES) as server:
        server.start()


def test_hard_link_in_data_is_not_written_through(made_home: Path, victim: Path) -> None:
    """A hard link to a file of root's is replaced, and not emptied and given away."""
    path = made_home / "data" / "postgres-18" / "data" / "replayer.conf"
    path.unlink(missing_ok=True)
    os.link(victim, path)
    with open_server(POSTGRES) as server:
        server.start()

    assert path.stat().st_uid == server_user().uid
    assert path.read_text() != SECRET


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_file_of_roots_is_not_copied_for_the_servers_user(
    own_home: Path, ours: Path, victim: Path, kind: str
) -> None:
    """The file that includes the settings is read only if it is the server's user's own."""
    folder = DataFolder(ours / "own")
    folder.make()
    folder.new_data(server_user())
    path = folder.data / "postgresql.conf"
    os.link(victim, path) if kind == "hard" else path.symlink_to(victim)

    with pytest.raises(OSError, match=r"belongs to root|symbolic links"):
        folder.add_to_data(path.name, "x", server_user())

    path.unlink()


def test_servers_user_cannot_have_the_files_of_another_folder_removed(
    made_home: Path, victim: Path
) -> None:
    """The socket's folder is its own: it may swap it for a link, and root then empties nothing."""
    with open_server(POSTGRES) as server:
        server.start()
        [path] = [note.details["path"] for note in journal.notes("socket")]
        server.stop()
        code = "import os, sys; a, b = sys.argv[1:]; os.rename(a, a + '-'); os.symlink(b, a)"
        as_user(code, path, victim.parent, user=server_user().uid)
        with pytest.raises(ReplayerError, match=r"the socket's folder .* cannot be used"):
            server.start()

    assert victim.exists()
    Path(path).unlink()
    shutil.rmtree(f"{path}-")


# What goes where the user is: results, reports, plans, the files of probes


def test_results_in_another_owners_folder_follow_no_link(
    theirs: Path, victim: Path, run_of: RunOf
) -> None:
    """A link in the place of the draft is replaced; what it points to stays."""
    path = store.reserve(theirs / "results", run := run_of([1.0]))
    os.chown(theirs / "results", ATTACKER, ATTACKER)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    as_user("import os, sys; os.symlink(*sys.argv[1:])", victim, draft)
    store.save(path, run)
    assert store.load(path) == run

    code = "with contextlib.suppress(OSError): os.symlink(a[0], a[1])\n"
    with meanwhile(code, victim, draft):
        for _ in range(300):
            with contextlib.suppress(ReplayerError):
                store.save(path, run)
    assert not path.is_symlink() or state(victim)


def test_results_behind_another_owners_link_are_refused(
    theirs: Path, victim: Path, run_of: RunOf
) -> None:
    """The attacker does not choose the folder that root writes a result in."""
    as_user("import os, sys; os.symlink(*sys.argv[1:])", victim.parent, theirs / "results")
    with pytest.raises(Impossible, match=f"is a link of user {ATTACKER}'s"):
        store.reserve(theirs / "results", run_of([1.0]))


def test_folder_swapped_for_a_link_is_never_walked_into(theirs: Path, victim: Path) -> None:
    """Whatever happens between looking and using, a path of real folders leads to nowhere else."""
    real = theirs / "results"
    as_user("import os, sys; os.mkdir(sys.argv[1])", real)
    swap = (
        "os.rename(a[0], a[0] + '-')\nos.symlink(a[1], a[0])\n"
        "os.unlink(a[0])\nos.rename(a[0] + '-', a[0])"
    )
    opened = 0
    with meanwhile(swap, real, victim.parent):
        for number in itertools.count():
            # The attacker may be halted for a while in the middle of a swap.
            if number >= 3000 and opened:
                break
            with contextlib.suppress(OSError, Impossible), trusted_path.Folder(real) as folder:
                os.close(folder.create(f"{number}", 0o600))
                opened += 1


@pytest.mark.parametrize("kind", ["soft", "hard", "fifo", "dangling"])
def test_report_in_another_owners_folder_follows_no_link(
    theirs: Path, victim: Path, kind: str
) -> None:
    """A report that the user named is written into a plain file, or not at all."""
    path = theirs / "report.html"
    if kind == "hard":
        os.link(victim, path)
    else:
        code = {
            "soft": "os.symlink(*sys.argv[1:])",
            "dangling": "os.symlink(sys.argv[1] + '.new', sys.argv[2])",
            "fifo": "os.mkfifo(sys.argv[2])",
        }[kind]
        as_user(f"import os, sys; {code}", victim, path)

    with pytest.raises(Impossible, match=r"report\.html"):
        report_files.put(str(path), "<html>")

    path.unlink()


def test_report_goes_where_the_user_wants_it(
    theirs: Path, ours: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """New and old files, root's own links and what is not a file at all are written as before."""
    for folder in (theirs, ours):
        for text in ("first", "2nd"):
            report_files.put(str(folder / "report"), text)
            assert (folder / "report").read_text() == text
    (ours / "link").symlink_to(ours / "report")
    report_files.put(str(ours / "link"), "by a link")
    assert (ours / "report").read_text() == "by a link"
    for path in ("/dev/stdout", "/dev/fd/1"):
        report_files.put(path, "printed")
        assert capfd.readouterr().out == "printed"


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_probe_makes_no_files_where_others_can_swap_its_folder(
    own_home: Path, theirs: Path, ours: Path, mode: int
) -> None:
    """Its folder is root's own, but who can rename it can put links in the place of its files."""
    if mode == 0o777:
        theirs = ours
        ours.chmod(mode)
    with pytest.raises(Impossible, match=r"belongs to user|can be written by others"):
        Workspace(theirs).__enter__()
    assert names(theirs) == []
    assert list(journal.notes()) == []

    theirs.chmod(0o1777)
    if mode == 0o777:
        with Workspace(theirs) as workspace:
            assert workspace.folder.parent == theirs


def test_home_of_another_owner_is_refused(
    theirs: Path, ours: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes, programs and data in it are believed: nobody else may write there."""
    as_user("import os, sys; os.symlink(*sys.argv[1:])", victim.parent, theirs / "taken")
    (ours / "open").mkdir()
    (ours / "open").chmod(0o777)
    for home in (theirs, theirs / "a" / "b" / "new", ours / "open", ours / "open" / "new"):
        monkeypatch.setenv("REPLAYER_HOME", str(home))
        with pytest.raises(Impossible, match=r"belongs to user|can be written by others"):
            journal.home()

    assert names(theirs) == ["taken"]
    assert names(ours / "open") == []


# Notes


BYSTANDER = Path(f"/tmp/replayer-{secrets.token_hex(4)}")
"""A folder with the name of a socket's, and something else in it."""


def hostile(victim: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return notes that nobody's replayer wrote: kind and details of each."""
    folder, boot = str(victim.parent), Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    server = {"data": f"{folder}/data", "programs": "/tmp", "engine": "postgres", "identity": ""}
    user = server_user()
    right = [user.name, user.uid, user.gid]
    return [
        ("files", {"path": folder}),
        ("files", {"path": f"{folder}/{PREFIX}0123456789ab/../../{victim.parent.name}"}),
        ("files", {"path": f"{BYSTANDER}/link/{PREFIX}0123456789ab"}),
        ("files", {"path": ["/"]}),
        ("files", {"path": f"/{PREFIX}0123456789ab\0"}),
        ("files", {"path": "/" * 9000}),
        ("files", {}),
        ("draft", {"path": str(victim)}),
        ("draft", {"path": f"{folder}/.victim.2.new"}),
        ("draft", {"path": f"{BYSTANDER}/link/.victim.1.new"}),
        ("draft", {}),
        ("socket", {"path": folder}),
        ("socket", {"path": f"{folder}/../{victim.parent.name}"}),
        ("socket", {"path": 7}),
        ("socket", {"path": str(BYSTANDER)}),
        ("server", {**server, "user": right}),
        ("server", {**server, "user": ["root", 0, 0]}),
        ("server", {**server, "engine": "../../etc", "user": right}),
        ("server", {**server, "data": folder, "user": right}),
        ("server", {"data": None}),
        ("cgroup", {"group": folder, "home": folder}),
        ("cgroup", {"group": f"{folder}/replayer-1-ab", "home": {}}),
        ("hugepages", {"path": str(victim), "before": 0, "pages": 1}),
        ("hugepages", {"path": "/proc/sys/vm/nr_hugepages", "before": "x", "pages": -1}),
        ("ballast", {"child": journal.identity(os.getpid()), "bytes": 1 << 30}),
        ("ballast", {"child": f"{boot}:x:1"}),
        ("rubbish", {"path": folder}),
    ]


def test_hostile_notes_remove_nothing_and_are_told(
    own_home: Path, victim: Path, replayer: Replayer
) -> None:
    """Each is one sentence; `clean` then removes the notes, and nothing else."""
    notes = hostile(victim)
    precious = BYSTANDER / f"{PREFIX}0123456789ab" / "precious"
    precious.parent.mkdir(parents=True)
    try:
        precious.write_text(SECRET)
        (BYSTANDER / "link").symlink_to(BYSTANDER)
        for kind, details in notes:
            note = journal.take(kind, **details)
            text = json.loads(note.path.read_text())
            note.path.write_text(json.dumps({**text, "owner": ended_owner()}))

        said: list[str] = []
        recovery.give_back(said.append)
        assert len(said) == len(notes)
        wrong = [line for line in said if "is not believed" not in line or "\n" in line]
        assert wrong == []
        assert precious.read_text() == SECRET

        replayer("clean", "--yes")
        assert list(journal.notes()) == []
        assert precious.read_text() == SECRET
    finally:
        shutil.rmtree(BYSTANDER)


MALFORMED = [
    b"", b"{", b"[]", b"null", b"7", b"\xff\xfe", b"[" * 100_000, b'{"kind": "files"}',
    b'{"kind": 1, "details": {}, "owner": ""}', b'{"kind": "files", "details": [], "owner": ""}',
    b'{"kind": "files", "details": {}, "owner": 7}', b"x" * (2 << 20),
]  # fmt: skip


def test_malformed_notes_are_told_and_removed_by_clean(
    own_home: Path, victim: Path, replayer: Replayer
) -> None:
    """Files, links, pipes and folders among the notes are told in a sentence each."""
    journal.take("files", path="/").drop()
    taken = own_home / "taken"
    for number, text in enumerate(MALFORMED):
        (taken / f"files-{number}.json").write_bytes(text)
    (taken / "link.json").symlink_to(victim)
    (taken / "folder.json").mkdir()
    os.mkfifo(taken / "fifo.json")
    note = {"kind": "files", "details": {"path": str(victim.parent)}, "owner": ""}
    (taken / "another.json").write_text(json.dumps(note))
    os.chown(taken / "another.json", ATTACKER, ATTACKER)

    said: list[str] = []
    recovery.give_back(said.append)
    assert len(said) == len(MALFORMED) + 4
    assert all("is not a note of replayer's" in line and "\n" not in line for line in said), said

    replayer("clean", "--yes")
    assert not taken.exists() or names(taken) == []


def test_socket_folder_of_a_note_is_removed_only_with_sockets(own_home: Path) -> None:
    """A folder of the right name is a socket's only if there is nothing but sockets in it."""
    folder = Path(f"/tmp/replayer-{secrets.token_hex(4)}")
    for name, removed in ((".s.PGSQL.5432", True), ("precious", False)):
        folder.mkdir()
        try:
            if removed:
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(str(folder / name))
            else:
                (folder / name).write_text(SECRET)
            note = journal.take("socket", path=str(folder))
            with contextlib.suppress(journal.Untrusted):
                socket_folder.recover(note)
            note.drop()
            assert folder.exists() is not removed
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def test_what_a_killed_replayer_was_starting_holds_nothing(own_home: Path) -> None:
    """A process that it was just starting has all its open files, until it is executed."""
    code = (
        "import os, time; from replayer import journal; journal.take('events', path='/tmp/x'); "
        "os.fork() and os.kill(os.getpid(), 9); print('starting', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        line_with(killed.stdout, re.compile("starting"))
        killed.wait(600)
        (note,) = journal.notes()
        (starting,) = [pid for pid in processes.every() if code in processes.arguments(pid)]
        try:
            assert note.abandoned
        finally:
            os.kill(starting, signal.SIGKILL)
            note.drop()


@contextlib.contextmanager
def first_thread_ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Make a process a zombie that has another thread for the `with` block."""
    assert process.stdin is not None
    process.stdin.write("end\n")
    process.stdin.flush()
    wait_until(lambda: processes.state(process.pid) == "Z")
    yield
    process.stdin.close()


@contextlib.contextmanager
def killed_while_frozen(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Kill a process that cannot end for the `with` block."""
    group = FREEZER / f"replayer-test-{process.pid}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
        (group / "freezer.state").write_text("FROZEN")
        wait_until(lambda: (group / "freezer.state").read_text() == "FROZEN\n")
        process.kill()
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        process.wait(60)
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@pytest.mark.parametrize(
    "dying",
    [
        first_thread_ended,
        pytest.param(
            killed_while_frozen,
            marks=pytest.mark.skipif(
                not FREEZER.is_dir(), reason="the freezer of cgroup v1 is not mounted"
            ),
        ),
    ],
)
@pytest.mark.usefixtures("own_home")
def test_what_a_dying_replayer_holds_is_given_back_once_it_is_gone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dying: Callable[["subprocess.Popen[str]"], contextlib.AbstractContextManager[None]],
) -> None:
    """A killed process keeps its locks until its last thread has ended: that is awaited."""
    events, exits = tmp_path / ".run.events", recovery._exits
    events.write_text('{"event"')
    code = (
        "import ctypes, sys, threading; from replayer import journal\n"
        f"journal.take('events', path={str(events)!r}); print('taken', flush=True)\n"
        "sys.stdin.readline(); threading.Thread(target=sys.stdin.read).start()\n"
        f"ctypes.CDLL(None).syscall({SYS_EXIT}, 0)\n"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        line_with(process.stdout, re.compile("taken"))
        stack.enter_context(dying(process))
        kept = []

        def last_look(owner: str) -> bool:
            """Tell whether the owner is dying; if so, let it end."""
            found = exits(owner)
            if found:
                kept.append(events.exists())
                stack.close()
            return found

        monkeypatch.setattr(recovery, "_exits", last_look)
        recovery.give_back(print)

        assert kept[0]
        assert not events.exists()


def test_what_a_replayer_in_another_container_holds_is_not_given_back(own_home: Path) -> None:
    """Its process is not seen from another process id namespace; after its end, its note is.

    Its run is not called killed there, and cannot be changed or removed.
    """
    owner = journal.identity(os.getpid())
    code = (
        "from replayer import journal; from replayer.results import editing; "
        "print([note.abandoned for note in journal.notes()], "
        f"editing.cut('running', {owner!r}), bool(editing.written_by({owner!r})))"
    )
    elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]

    def seen() -> str:
        return subprocess.run(
            elsewhere, check=True, capture_output=True, text=True, timeout=600
        ).stdout.strip()

    note = journal.take("events", path=str(own_home / ".run.events"))
    assert seen() == "[False] False True"
    # As the kernel does it when a process is killed.
    os.close(journal._locked.pop(note.path))
    assert seen() == "[True] True False"
    note.drop()


@pytest.mark.slow
def test_a_machine_that_stands_still_is_noticed(replayer: Replayer, own_home: Path) -> None:
    """The clock goes on while neither replayer nor the server runs, as in a paused machine."""
    keys = {"scale": "8M", "num_schemas": 2, "run_time": "12s"}
    words = [word for key, of in keys.items() for word in ("--set", f"sessions.{key}={of}")]
    running = replayer.start(
        "run", "slob-cached", *words, "--without", "all", "--results", "results"
    )
    line_with(running.stderr, re.compile("RIOPS"))
    everything = processes.family(running.pid)
    halt(everything)
    time.sleep(4)
    go_on(everything)
    _, said = running.communicate(timeout=600)

    assert running.returncode == 0, said
    (file,) = (replayer.folder / "results").glob("*.json")
    assert "stood_still" in {one.name for one in store.load(file).advice}
