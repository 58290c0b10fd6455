"""Small things that hurt new users: names, lists, refusals, the browser, Tab, and the bundle."""

import json
import os
import pty
import select
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replayer.engines.connection import Database
from replayer.model import Run, Status
from replayer.results import store
from replayer.servers.protocol import Server
from tests.command import Replayer
from tests.conftest import missing

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "runs" / f"format-{store.FORMAT}.json"
RUNS = {
    "20261120-150000-demo-3f2a": "stock",
    "20261120-150100-demo-77be": "",
    "20261121-090000-smoke-77cd": "uek",
}
TRY_TAB = """
source ./script
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_shtab_replayer 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder of three runs, of which the second failed."""
    folder = tmp_path / "results"
    folder.mkdir()
    plain = {
        key: value for key, value in json.loads(FIXTURE.read_text()).items() if key != "sizing"
    }
    for name, label in RUNS.items():
        status = Status.DONE if label else Status.FAILED
        changed = {"id": name, "label": label, "status": status, "started": _started(name)}
        store.save(folder / f"{name}.json", Run.model_validate({**plain, **changed}))
    return folder


@pytest.fixture
def entered() -> Iterator[Path]:
    """Return an empty folder that the user of a server can enter."""
    with tempfile.TemporaryDirectory(prefix="replayer-programs-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _started(name: str) -> str:
    return f"{name[:4]}-{name[4:6]}-{name[6:8]}T{name[9:11]}:{name[11:13]}:00+00:00"


def test_a_run_is_found_by_any_unique_part_of_its_id(replayer: Replayer, results: Path) -> None:
    """Its last letters are enough; a part of two ids names both, and a wrong one is a sentence."""
    assert "20261120-150000-demo-3f2a" in replayer("show", "3f2a").out
    assert "20261121-090000-smoke-77cd" in replayer("show", "smoke-77").out

    assert "there is no run or label '77'" in replayer("show", "77", status=2).err
    assert "did you mean latest?" in replayer("show", "lates", status=2).err
    refused = replayer("show", "00-", status=2).err
    assert "is a part of 3 runs" in refused
    assert all(name in refused for name in RUNS)


def test_both_lists_of_runs_are_one_and_leave_out_what_failed(
    replayer: Replayer, results: Path
) -> None:
    """What failed is counted, and listed if it is asked for; JSON has every run."""
    first, second = replayer("list", "runs"), replayer("runs", "list")

    assert (first.out, first.err) == (second.out, second.err)
    assert "150100" not in first.out
    assert "1 failed run is not listed: --all" in first.err
    for words in (("--all",), ("--where", "status=failed")):
        assert "150100" in replayer("runs", "list", *words).out
    assert replayer("list", "runs", "--all").out == replayer("runs", "list", "--all").out
    assert len(json.loads(replayer("list", "runs", "--json").out)["runs"]) == len(RUNS)


def test_metrics_are_listed_with_the_names_that_tables_show(
    replayer: Replayer, results: Path
) -> None:
    """Each metric of the stored runs stands there with its shown name and its direction."""
    out = " ".join(replayer("list", "metrics").out.split())

    assert "walk.throughput throughput, of walk; bytes/s; more is better" in out
    assert "sessions.latency.p99.9 latency p99.9, of sessions; s; less is better" in out


def test_a_workload_in_the_place_of_a_command_is_told(replayer: Replayer) -> None:
    """`replayer smoke` is what many type first."""
    assert "`replayer run smoke`" in replayer("smoke", status=2).err


def test_an_impossible_request_leaves_no_file_and_one_error(
    replayer: Replayer, tmp_path: Path
) -> None:
    """A server that is not there: one sentence with the next step, no report, nothing stored."""
    url = "postgresql://nobody@127.0.0.1:1/none"
    done = replayer("run", "smoke", "--engine", url, status=2)

    assert done.out == ""
    assert done.err.count("Connection refused") == 1
    assert "check that the server runs there" in done.err
    assert "client_encoding" not in done.err
    assert [*(tmp_path / "results").glob("*")] == []


@pytest.mark.slow
def test_check_of_a_server_ends_with_what_can_run_there(server: Server, replayer: Replayer) -> None:
    """A role that may make nothing is told so, with the grant; with it the same line says yes."""
    own = server.start()
    url = own.set(username="poor").render_as_string(hide_password=False)
    with closing(Database(server.engine, own)) as database:
        database.query("CREATE ROLE poor LOGIN")
        database.query(f'REVOKE CREATE ON DATABASE "{own.database}" FROM PUBLIC')
        try:
            refused = replayer("check", "--engine", url, status=2).out
            database.query(f'GRANT CREATE ON DATABASE "{own.database}" TO poor')
            allowed = replayer("check", "--engine", url).out
            database.query(f'REVOKE ALL ON DATABASE "{own.database}" FROM poor')
        finally:
            database.query("DROP ROLE poor")

    assert "is impossible here: server rights" in " ".join(refused.split())
    assert "GRANT CREATE ON DATABASE" in " ".join(refused.split())
    assert refused.index("in the way") < refused.index("worth doing")
    last = " ".join(allowed[allowed.rindex("\n\n") :].split())
    assert last.startswith("`replayer run demo --engine postgresql://poor@")
    assert "can run here; steps that need these rights are skipped" in last


def test_another_servers_program_is_called_by_its_name(replayer: Replayer, entered: Path) -> None:
    """MariaDB's mysqld given as MySQL's: the name of the engine that it is."""
    real = shutil.which("mariadbd", path="/usr/sbin:/usr/libexec")
    if real is None:
        pytest.skip("MariaDB is not installed")
    (entered / "mysqld").symlink_to(real)
    refused = replayer("run", "smoke", "--engine", "mysql", "--bindir", entered, status=2).err

    assert "is MariaDB, not MySQL: give --engine mariadb" in refused


@pytest.mark.slow
def test_a_report_without_a_file_is_a_page_for_the_browser(
    replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """The page is in a private temporary file, whose path is printed; --text prints the report."""
    done = replayer.process("report", "3f2a", TMPDIR=str(tmp_path), BROWSER="true", DISPLAY="")
    (page,) = tmp_path.glob("replayer-report-*.html")

    assert str(page) in done.err
    assert done.out == ""
    assert page.stat().st_mode & 0o077 == 0
    assert '<nav class="sections"' in page.read_text()
    assert "in short" in replayer("report", "3f2a", "--text").out


def test_tab_completes_runs_labels_keys_and_metrics(
    replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """The script looks runs up when Tab is pressed, and starts no replayer for it."""
    (tmp_path / "script").write_text(replayer("completion", "bash").out)

    def tab(*words: str) -> list[str]:
        shell: list[str] = ["bash", "-c", TRY_TAB, "bash", "replayer", *words]
        done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert {"latest", "stock", "uek", *RUNS} <= set(tab("show", ""))
    assert tab("show", "20261121") == ["20261121-090000-smoke-77cd"]
    assert tab("run", "--set", "walk.th") == ["walk.threads="]
    assert "walk.throughput" in tab("compare", "--metric", "walk.")
    assert tab("help", "compl") == ["completion"]


TRY_ZSH = """
compadd() { print -l -- ${(P)@[-1]} }
source ./script 2>/dev/null
_replayer_runs; _replayer_metrics; _replayer_command
"""
TRY_FISH = """
source ./script
for words in 'show ' 'compare --metric ' 'help '
    complete -C "replayer $words"
end
"""


@pytest.mark.parametrize(
    ("shell", "tab"), [(["zsh", "-f"], TRY_ZSH), (["fish", "--no-config"], TRY_FISH)]
)
def test_other_shells_complete_what_is_stored_as_well(
    shell: list[str], tab: str, replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """Zsh and fish can read their scripts, and are offered ids, labels, metrics and topics."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]}")
    assert results.is_dir()
    (tmp_path / "script").write_text(replayer("completion", shell[0]).out)
    command = [*shell, "-c", tab]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    offered = {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert {"latest", "stock", "uek", "walk.throughput", "completion", *RUNS} <= offered


def heard_until(prompt: int, words: str, seconds: float = 60) -> str:
    """Return what a terminal shows until it has shown these words, or nothing more for so long."""
    heard = ""
    while words not in heard and select.select([prompt], [], [], seconds)[0]:
        heard += os.read(prompt, 65536).decode(errors="replace")
    return heard


def test_zsh_completes_every_run_of_a_comparison(
    replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """At a real prompt, also the second run and those that follow."""
    zsh = shutil.which("zsh") or missing("zsh", "apt-get install zsh")
    assert results.is_dir()
    (tmp_path / "_replayer").write_text(replayer("completion", "zsh").out)
    prompt, terminal = pty.openpty()
    shell = subprocess.Popen(
        [zsh, "-f", "-i"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    begin = "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; echo beg''un\n"
    try:
        os.write(prompt, begin.encode())
        assert "begun" in heard_until(prompt, "begun")
        for words in ("compare stock ", "runs delete stock "):
            os.write(prompt, f"\x15replayer {words}\t".encode())
            heard = heard_until(prompt, "latest", 10)
            assert "latest" in heard, heard
    finally:
        shell.kill()
        shell.wait()
        os.close(prompt)


def test_the_bundle_for_support_has_no_secret(
    replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """Result, check, versions: readable by its owner alone, and not over another file."""
    path = results / "20261120-150000-demo-3f2a.json"
    stored = json.loads(path.read_text()) | {"notes": ["postgresql://app:s3cretword@db/shop"]}
    path.write_text(json.dumps(stored))
    words = ("support", "3f2a", "--output", tmp_path / "help.tar.gz")
    replayer(*words, PGPASSWORD="s3cretword", REPLAYER_HOME=str(tmp_path / "home"))
    with tarfile.open(tmp_path / "help.tar.gz") as bundle:
        texts = {
            Path(one.name).name: bundle.extractfile(one).read().decode()  # type: ignore[union-attr]
            for one in bundle
        }

    assert {"result.json", "check.json", "versions.txt"} <= set(texts)
    assert "s3cretword" not in "".join(texts.values())
    assert json.loads(texts["result.json"])["id"] == stored["id"]
    assert json.loads(texts["check.json"])["lines"]
    assert "numpy" in texts["versions.txt"]
    assert (tmp_path / "help.tar.gz").stat().st_mode & 0o077 == 0
    assert "is already there" in replayer(*words, status=2).err


@pytest.mark.parametrize("damaged", ["host", "steps"])
def test_support_bundles_the_rest_where_the_newest_result_is_damaged(
    replayer: Replayer, tmp_path: Path, damaged: str
) -> None:
    """The note names the file, be its head damaged or what follows it."""
    stored = json.loads(FIXTURE.read_text())
    folder, name = tmp_path / "only", "20991120-150000-demo-3f2a.json"
    folder.mkdir()
    (folder / name).write_text(json.dumps(stored | {damaged: None}))
    home, out = str(tmp_path / "home"), tmp_path / "help.tar.gz"
    done = replayer("support", "--results", folder, "--output", out, REPLAYER_HOME=home)
    with tarfile.open(out) as bundle:
        names = {Path(one.name).name for one in bundle}

    assert {"check.json", "versions.txt"} <= names
    assert "result.json" not in names
    (noted,) = [line for line in done.err.splitlines() if "the bundle has no run" in line]
    assert name in noted


def test_a_newer_file_that_cannot_be_read_is_named(
    replayer: Replayer, results: Path, tmp_path: Path
) -> None:
    """`latest` is the newest run that can be read, and what it passes over is not hidden."""
    stored = json.loads(next(results.glob("*.json")).read_text())
    name = "20991120-150000-demo-3f2a.json"
    (results / name).write_text(json.dumps(stored | {"host": None}))
    words = ("support", "--output", tmp_path / "help.tar.gz")

    assert f"{name} is newer and cannot be read" in replayer("show", "latest").err
    assert f"{name} is newer, and is not in" in replayer(*words, REPLAYER_HOME=str(tmp_path)).err


@pytest.mark.slow
def test_a_half_made_environment_is_made_again(tmp_path: Path) -> None:
    """One without pip, as Debian leaves it without python3-venv, is not an end of `make`."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    subprocess.run(["python3", "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    environment = {**os.environ, "PIP_NO_INDEX": "1"}
    for _ in range(2):
        subprocess.run(
            ["make", "-C", tmp_path, ".venv/.made"],
            env=environment,
            capture_output=True,
            check=False,
        )
    asked = [str(tmp_path / ".venv/bin/python"), "-m", "pip", "--version"]

    assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
