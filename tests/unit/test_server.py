"""Settings, data folders and processes of a private server, without a server."""

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import make_url

from replayer import journal, trusted_path
from replayer.engines import engine
from replayer.engines.connection import Database, Row
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.machine import processes
from replayer.servers import (
    data_folder,
    private,
    programs,
    protocol,
    remote,
    settings,
    socket_folder,
)
from replayer.servers.data_folder import DataFolder, Marker
from replayer.servers.remote import Remote
from replayer.servers.server_log import ServerLog
from replayer.shell import User

KEYS = engine.load("postgres").spec.server
ROOT = os.geteuid() == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("port", "1", "replayer sets it itself"),
        ("Data_Directory", "/x", "replayer sets it itself"),
        ("shared buffers", "1", "not a name of a server setting"),
        ("work_mem", "1\nfsync = off", "line break"),
        ("data_checksums", "maybe", "there are: off, on"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(name: str, value: str, said: str) -> None:
    """A setting is refused before anything starts, and the sentence names it."""
    with pytest.raises(Impossible) as caught:
        settings.split(KEYS, 18, {name: value})

    assert said in str(caught.value)
    assert name.lower() in str(caught.value).lower()


def test_settings_of_a_new_data_directory_are_told_apart() -> None:
    """What only initdb can choose does not go into the settings file; names ignore case."""
    assert settings.split(KEYS, 18, {"DATA_checksums": "off", "Work_Mem": "1MB"}) == (
        {"data_checksums": "off"},
        {"work_mem": "1MB"},
    )


def test_checksums_off_is_an_argument_only_where_on_is_the_default() -> None:
    """The initdb of 17 does not know --no-data-checksums, and needs no word for it."""
    off = {"data_checksums": "off"}

    assert settings.init_arguments(KEYS, off, 17) == []
    assert settings.init_arguments(KEYS, off, 18) == ["--no-data-checksums"]
    assert settings.init_arguments(KEYS, off, 19) == ["--no-data-checksums"]
    assert settings.init_arguments(KEYS, {"data_checksums": "on"}, 13) == ["--data-checksums"]


@pytest.mark.parametrize(
    ("memory", "expected"), [(64 << 30, "1024MB"), (4 << 30, "1024MB"), (1 << 30, "256MB")]
)
def test_buffer_pool_is_the_same_until_memory_is_too_small(memory: int, expected: str) -> None:
    """Two machines with 4 GiB or more get the same buffer pool; a small one is not overfilled."""
    assert settings.standard(KEYS, 18, memory)["shared_buffers"] == expected


def test_a_quote_in_a_value_stays_in_the_value() -> None:
    """A value cannot end its own quotes and become another setting."""
    text = settings.text(KEYS, {"application_name": "it's a \\ 'x'"})

    assert text == "application_name = 'it''s a \\\\ ''x'''\n"


def test_the_message_that_names_a_setting_is_found() -> None:
    """`work_mem` is not found in a message about `maintenance_work_mem`."""
    lines = ['LOG: invalid value for parameter "maintenance_work_mem": "x"']

    assert settings.named_in(lines, {"work_mem": "x"}) is None
    assert settings.named_in(lines, {"maintenance_work_mem": "x"}) == (
        "maintenance_work_mem",
        lines[0],
    )


def test_a_setting_is_found_under_the_name_of_its_option() -> None:
    """MariaDB names its settings with dashes where it refuses their values."""
    lines = ["mariadbd: Error while setting value 'foo' to 'innodb-flush-method'"]

    assert settings.named_in(lines, {"innodb_flush_method": "foo"}) == (
        "innodb_flush_method",
        lines[0],
    )


def test_the_end_of_a_client_does_not_hide_why_it_ended() -> None:
    """A server notes last that its client is gone; what counts is what it noted before."""
    counts = KEYS.log_weight.search

    assert counts("FATAL: terminating connection due to administrator command")
    assert not counts("FATAL: connection to client lost")


def test_a_server_that_may_start_no_process_gives_that_as_the_reason(tmp_path: Path) -> None:
    """PostgreSQL logs it as a mere LOG, before the lines about its shutdown (`ulimit -u 8`)."""
    stamp = "2026-11-27 10:30:00.000 UTC [71] LOG:  "
    lines = (
        "starting PostgreSQL 18.0",
        'could not fork "checkpointer" process: Resource temporarily unavailable',
        "shutting down due to startup process failure",
        "database system is shut down",
    )
    log = tmp_path / "server.log"
    log.write_text("".join(f"{stamp}{line}\n" for line in lines))
    reason = ServerLog(log, KEYS).find_reason(ReplayerError("pg_ctl failed"))

    assert reason == 'LOG: could not fork "checkpointer" process: Resource temporarily unavailable'


def test_a_missing_folder_is_made_and_removed_again(tmp_path: Path) -> None:
    """A folder that replayer made goes away with its data; nothing beside it does."""
    folder = DataFolder(tmp_path / "new")
    folder.claim("postgres", 18, {}, made=folder.make())
    folder.data.mkdir()
    assert folder in data_folder.every()

    folder.remove()

    assert not folder.path.exists()
    assert tmp_path.is_dir()
    assert folder not in data_folder.every()


def test_a_data_folder_that_is_away_for_a_while_is_not_forgotten(tmp_path: Path) -> None:
    """A disk that was not mounted, or a wrong mode, while folders were listed loses no data."""
    folder = DataFolder(tmp_path / "disk")
    folder.claim("postgres", 18, {}, made=folder.make())
    away = folder.path.rename(tmp_path / "away")
    assert folder not in data_folder.every()
    folder.path.mkdir()  # the mount point without its disk
    assert folder not in data_folder.every()
    folder.path.rmdir()
    away.rename(folder.path)
    assert folder in data_folder.every()
    folder.path.chmod(0o777)
    assert folder not in data_folder.every()
    folder.path.chmod(0o755)

    assert folder in data_folder.every()


def test_a_claim_records_a_folder_that_has_its_marker(tmp_path: Path) -> None:
    """Data that are used again are listed, also if another home has the record of them."""
    folder = DataFolder(tmp_path / "new")
    folder.make()
    folder.write(Marker("postgres", 18, {}, made_folder=True))
    assert folder not in data_folder.every()

    folder.claim("postgres", 18, {}, made=False)

    assert folder in data_folder.every()


def test_an_empty_folder_of_the_user_is_left_empty(tmp_path: Path) -> None:
    """A folder that the user made stays, as empty as it was."""
    folder = DataFolder(tmp_path)
    folder.claim("postgres", 18, {}, made=folder.make())
    folder.data.mkdir()

    folder.remove()

    assert list(tmp_path.iterdir()) == []


def test_what_the_user_put_beside_the_data_stays(tmp_path: Path) -> None:
    """Only what replayer made is removed, also in a folder that replayer made."""
    folder = DataFolder(tmp_path / "new")
    folder.claim("postgres", 18, {}, made=folder.make())
    (folder.path / "notes.txt").write_text("mine")

    folder.remove()

    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_a_folder_with_foreign_files_is_refused_untouched(tmp_path: Path) -> None:
    """A folder that is not empty and not replayer's is named, with one thing that is in it."""
    (tmp_path / "family.jpg").touch()

    with pytest.raises(Impossible, match=r"not made by replayer \(family.jpg is in it\)"):
        DataFolder(tmp_path).make()

    assert [path.name for path in tmp_path.iterdir()] == ["family.jpg"]


def test_data_of_another_version_or_choice_is_refused(tmp_path: Path) -> None:
    """Data that another version, engine or initdb choice made is not started on."""
    folder = DataFolder(tmp_path)
    marker = folder.claim("postgres", 15, {}, made=False)
    folder.write(replace(marker, ready=True))

    with pytest.raises(Impossible, match="made by postgres 15, and this is postgres 18"):
        folder.claim("postgres", 18, {}, made=False)
    with pytest.raises(Impossible, match="with the defaults, and data_checksums=off was asked"):
        folder.claim("postgres", 15, {"data_checksums": "off"}, made=False)


@pytest.mark.parametrize("name", ['a"b', "a$(x)", "a`x`", "a\\b", "a\nb"])
def test_names_that_a_shell_reads_are_refused(tmp_path: Path, name: str) -> None:
    """pg_ctl hands the folder to a shell in double quotes: nothing may end or use them."""
    with pytest.raises(Impossible, match=r"has a quote.*line break"):
        DataFolder(tmp_path / name).check(None)


def test_a_folder_whose_parent_is_missing_is_refused(tmp_path: Path) -> None:
    """The first folder that is missing is named."""
    with pytest.raises(Impossible, match=f"{tmp_path}/no is not there"):
        DataFolder(tmp_path / "no" / "such").check(None)


def test_a_folder_that_cannot_be_written_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run, its dry run and `check` all refuse it, before anything is made."""
    monkeypatch.setattr(trusted_path, "refusal", lambda _: "Read-only file system")

    sentence = "x cannot be written: Read-only file system: give another --data-dir$"
    with pytest.raises(Impossible, match=sentence):
        DataFolder(tmp_path / "x").check(None)


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    """A path to a file, or through one, is refused in one sentence."""
    (tmp_path / "file").touch(mode=0o600)

    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Impossible, match=r"is not a folder|is not there"):
            DataFolder(path).check(None)


def test_too_little_space_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """The sentence has what is free and what is needed."""
    with pytest.raises(Impossible, match=r"has .*B free, and .* needs 1,024 TiB"):
        DataFolder(tmp_path).check_space(1 << 50)


def test_the_second_replayer_on_a_folder_is_told_who_the_first_is(tmp_path: Path) -> None:
    """The lock holds while its process lives, and is never stale after it."""
    folder = DataFolder(tmp_path)
    folder.claim("postgres", 18, {}, made=False)
    script = (
        "import pathlib, sys, time; from replayer.servers.data_folder import DataFolder\n"
        "with DataFolder(pathlib.Path(sys.argv[1])).locked():\n"
        "    print('locked', flush=True); time.sleep(600)"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(
            Impossible, match=rf"in use by another replayer \(process {other.pid}\)"
        ):
            folder.check_free()
        with pytest.raises(Impossible, match="in use"):
            folder.remove()
        other.kill()

    folder.check_free()


def test_a_lock_file_that_was_removed_meanwhile_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replayer that locked a file just removed by `clean` takes the new file instead."""
    folder = DataFolder(tmp_path)
    lock = tmp_path / "lock"
    opened = os.open

    def open_and_lose(
        path: Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        descriptor = opened(path, flags, mode, dir_fd=dir_fd)
        if path == lock:
            lock.unlink()
            monkeypatch.setattr(os, "open", opened)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    with folder.locked():
        assert lock.read_text() == str(os.getpid())


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_the_folder_that_blocks_the_servers_user_is_named() -> None:
    """The topmost closed folder is named, and a folder that is open to all is not."""
    nobody = User("nobody", 65534, 65534)
    # Not in pytest's folders: other runs of it open and close those that they share.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        closed = Path(folder, "closed")
        (closed / "too" / "deep").mkdir(parents=True)
        for path in (closed / "too", closed):
            path.chmod(0o700)

        assert programs.blocked(closed / "too" / "deep", nobody) == closed
        assert programs.blocked(Path("/usr/bin"), nobody) is None
        with pytest.raises(Impossible, match=r"as nobody, who cannot enter /.*`chmod o\+x /"):
            DataFolder(closed / "too" / "deep").check(nobody)


def test_root_without_any_of_the_users_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No user is ever made: the sentence says which ones were looked for."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(Impossible, match="none of the users no-such-user exists"):
        programs.server_user(["no-such-user"])


def test_programs_are_refused_by_what_is_missing(tmp_path: Path) -> None:
    """--pg-bindir without the server, or without what makes a cluster, names the missing one."""
    with pytest.raises(Impossible, match=f"there is no postgres in {tmp_path}"):
        programs.find("PostgreSQL", KEYS, tmp_path)

    (tmp_path / "postgres").touch()
    with pytest.raises(Impossible, match=f"there is no initdb in {tmp_path}"):
        programs.find("PostgreSQL", KEYS, tmp_path)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("postgres (PostgreSQL) 12.3", "needs 13 or later"), ("hello", "which is not a version")],
)
def test_a_server_that_is_too_old_or_no_server_is_refused(
    tmp_path: Path, said: str, expected: str
) -> None:
    """What the program prints as its version decides."""
    for name in ("postgres", "initdb", "pg_ctl"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / name).chmod(0o755)
    reached = [path for path in (tmp_path, *tmp_path.parents) if path.stat().st_uid == os.getuid()]
    modes = {path: path.stat().st_mode for path in reached if str(path).startswith("/tmp/")}
    for path in modes:
        path.chmod(0o755)

    with pytest.raises(Impossible, match=expected):
        programs.find("PostgreSQL", KEYS, tmp_path)

    for path, mode in modes.items():
        path.chmod(mode)


def test_no_short_folder_for_a_socket_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket path that the kernel would cut off is never used."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(long))
    found = programs.Programs(Path("/"), "postgres", "18.1", 18, None)
    before = list(journal.notes())

    with pytest.raises(Impossible, match="too long a path"):
        socket_folder.make(KEYS.model_copy(update={"socket_folders": (str(long),)}), found)

    assert list(journal.notes()) == before


def test_cpu_seconds_of_a_child_that_ended_are_not_lost() -> None:
    """A family's CPU time counts a child while it lives, as a zombie, and once it is reaped."""
    script = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    while time.process_time() < 0.2: pass\n"
        "    os._exit(0)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "print('zombie', flush=True); sys.stdin.readline()\n"
        "os.wait()\n"
        "print('reaped', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        seconds = []
        assert parent.stdin
        assert parent.stdout
        for _ in range(2):
            parent.stdout.readline()
            family = processes.family(parent.pid, ended=True)
            seconds.append(sum(processes.cpu_seconds(family)))
            assert processes.family(parent.pid) == [parent.pid]
            parent.stdin.write("\n")
            parent.stdin.flush()

    assert min(seconds) >= 0.19
    assert processes.family(parent.pid) == []


def test_processes_of_a_data_directory_are_those_of_our_programs(tmp_path: Path) -> None:
    """A shell that stands in the data directory is not taken for a server."""
    with subprocess.Popen(["sleep", "600"], cwd=tmp_path) as sleeper:
        found = Path(os.readlink(f"/proc/{sleeper.pid}/exe")).parent  # noqa: PTH115
        try:
            assert processes.serving(tmp_path, found, None) == [sleeper.pid]
            assert processes.serving(tmp_path, tmp_path, None) == []
            assert processes.serving(tmp_path / "other", found, None) == []
        finally:
            sleeper.kill()

    assert processes.serving(tmp_path, found, None) == []


@pytest.mark.parametrize(
    ("argument", "ours"),
    [
        ("{0}", True),
        ("-D{0}/", True),
        ("--datadir={0}", True),
        ("--defaults-file={0}/replayer.cnf", True),
        ("{0}2", False),
        ("--datadir=/mnt{0}", False),
    ],
)
def test_a_server_whose_folder_has_a_similar_name_is_not_ours(
    tmp_path: Path, argument: str, *, ours: bool
) -> None:
    """/mnt/pg/data contains the text /pg/data, and so does /pg/data2."""
    data = tmp_path / "data"
    command = ["sh", "-c", "echo; read line", "sh", argument.format(data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        found = Path(os.readlink(f"/proc/{server.pid}/exe")).parent  # noqa: PTH115
        try:
            assert processes.serving(data, found, None) == ([server.pid] if ours else [])
        finally:
            server.kill()


def test_unknown_engine_choice_names_the_nearest() -> None:
    """A misspelt choice is answered with the right one."""
    with pytest.raises(NotFound, match="did you mean off"):
        settings.init_arguments(KEYS, {"data_checksums": "of"}, 18)


def test_every_server_keeps_the_contract() -> None:
    """Both kinds of server have every method that a Server promises."""
    promised = {name for name in vars(protocol.Server) if not name.startswith("_")}
    for kind in (private.PrivateServer, Remote):
        assert all(callable(getattr(kind, name)) for name in promised)


class Answers:
    """A database whose server answers with one row."""

    def __init__(self, **row: object) -> None:
        self._row = Row(row)

    def row(self, _verb: object) -> Row:
        """Return the row."""
        return self._row


def told(**row: object) -> Remote:
    """Return a server after it has reported where its data is."""
    server = Remote(engine.load("postgres"), make_url("postgresql://db/shop"))
    server.locate(cast("Database", Answers(**row)))
    return server


@pytest.mark.parametrize("file", ["device", "long", "no path"])
def test_a_file_that_a_server_names_is_read_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """A broken or hostile server may name a device, or a file without an end."""
    text = "7" * (1 << 20)
    (tmp_path / "long").write_text(text)
    (tmp_path / "short").write_text("1")
    (tmp_path / "short.pid").write_text(f"{os.getpid()}\n")
    (tmp_path / "long.pid").write_text(f"{text}\n{os.getpid()}\n")
    monkeypatch.chdir(tmp_path)
    about = {"directory": str(tmp_path), "file": "short", "content": "1", "process": None}
    wrong = {
        "device": {"directory": "/dev", "file": "null", "content": ""},
        "long": {"file": "long", "content": text},
        "no path": {"file": "short\0"},
    }[file]

    assert os.getpid() in told(**about, pid_file="short.pid").pids()
    assert told(**about, pid_file="long.pid").pids() == []
    assert told(**{**about, **wrong}).data_directory() is None


def test_parts_of_the_cpu_time_never_shrink() -> None:
    """A clock tick may move between them, as the kernel splits the exact sum anew at each look."""
    earlier = processes.CpuSeconds(user=0.02, system=0.01)

    assert processes.CpuSeconds(0.01, 0.025).since(earlier) == pytest.approx((0, 0.005))
    assert processes.CpuSeconds(0.04, 0.005).since(earlier) == pytest.approx((0.015, 0))
    assert processes.CpuSeconds(0.04, 0.03).since(earlier) == pytest.approx((0.02, 0.02))
    assert processes.CpuSeconds(0.0, 0.0).since(earlier) == (0, 0)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/zero"])
def test_a_file_of_the_kernel_that_a_server_names_is_not_read(path: str) -> None:
    """Reading some of them changes them, and others have no end."""
    with pytest.raises(OSError, match=path):
        remote._beginning(Path(path))
