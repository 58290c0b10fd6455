"""What `make dist` makes, in a bare venv of an old and a new Python, far from the checkout."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import replayer
from tests import servers
from tests.conftest import missing

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = 54321
"""Of no user: it has no name, no home and no login."""
VERSIONS = ("3.11", "3.13")


def called(
    *words: object, user: int = 0, cwd: Path | str = "/", status: int = 0, **environment: str
) -> str:
    """Run a program as a user whose environment is empty but for this; return what was printed."""
    other = None if user in {0, os.geteuid()} else user
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "REPLAYER_WITHOUT": "all", **environment},
        user=other,
        group=other,
        extra_groups=None if other is None else [],
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout or done.stderr


def answers(python: Path | str, user: int) -> bool:
    """Tell whether a user can start a Python: one below /root serves root alone."""
    try:
        called(python, "-c", "import sys, os; os.listdir(sys.prefix)", user=user)
    except (OSError, AssertionError):
        return False
    return True


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="replayer-dist-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def archives(folder: Path) -> tuple[Path, Path]:
    """Return the wheel and the source archive, made as `make dist` makes them."""
    recipe = called("make", "--dry-run", "--always-make", "-C", ROOT, "dist").splitlines()
    made = [line.rsplit(" -m ")[-1] for line in recipe if " -m " in line][-2:]
    assert made == ["build", "twine check --strict dist/*"]
    build = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    (source,) = (folder / "dist").glob("*.tar.gz")
    called(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    return wheel, source


@pytest.fixture(scope="module", params=VERSIONS)
def installed(request: pytest.FixtureRequest, archives: tuple[Path, Path], folder: Path) -> Path:
    """Return the folder of a venv with nothing but the wheel and what it asks for."""
    name = f"python{request.param}"
    own = servers.programs(f"python-{request.param}") / name
    usual = (shutil.which(name, path=os.defpath), shutil.which(name))
    user = ORDINARY if os.geteuid() == 0 else os.geteuid()
    pythons = [one for one in (*usual, own) if one and answers(one, user)]
    if not pythons:
        missing(f"python-{request.param}", f"no {name} here that every user may run")
    venv = folder / f"venv-{request.param}"
    called(pythons[0], "-m", "venv", "--without-pip", venv)
    pip(venv, archives[0])
    return venv


def pip(venv: Path, *words: object) -> None:
    """Install into a venv that has no pip of its own, with this machine's settings of pip."""
    command = [sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "-q"]
    subprocess.run([*map(str, command), *map(str, words)], check=True, cwd="/")


def test_the_version_stands_in_one_place(archives: tuple[Path, Path]) -> None:
    """Archives are named, and say, what the package says; nobody wrote it down a second time."""
    wheel, source = archives

    assert wheel.name.startswith(f"replayer-{replayer.__version__}-")
    assert source.name == f"replayer-{replayer.__version__}.tar.gz"
    assert replayer.__version__ not in (ROOT / "pyproject.toml").read_text().split("\n[tool.")[0]


def test_the_wheel_has_all_that_a_run_reads(archives: tuple[Path, Path]) -> None:
    """Each file of the package, of the workloads and of the schemas is in it, and no test."""
    with zipfile.ZipFile(archives[0]) as wheel:
        names = set(wheel.namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "replayer", "workloads", "schemas"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.splitlines()  # fmt: skip
    if not tracked:
        pytest.skip("this is not a checkout of git")
    where = [name if name.startswith("replayer/") else f"replayer/_data/{name}" for name in tracked]

    assert set(where) <= names
    assert {name.split("/")[0] for name in names} == {
        "replayer",
        f"replayer-{replayer.__version__}.dist-info",
    }


def test_the_source_archive_is_a_whole_checkout(archives: tuple[Path, Path]) -> None:
    """Who unpacks it has the documents, the tests, and what makes and runs them."""
    with tarfile.open(archives[1]) as source:
        top = {name.split("/")[1] for name in source.getnames()}
    wanted = {"README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml"}

    assert top >= wanted | {"replayer", "workloads", "schemas", "tests", "docker-compose.yml"}


def test_the_source_archive_installs_the_same_files(
    installed: Path, archives: tuple[Path, Path]
) -> None:
    """Where a wheel cannot be taken, what is installed is the same to the byte."""
    before = recorded(installed)
    pip(installed, "--force-reinstall", "--no-deps", archives[1])

    assert recorded(installed) == before


def recorded(venv: Path) -> dict[str, str]:
    """Return the digest of each file that was installed, but of those that name their origin."""
    (record,) = venv.glob(f"lib/*/site-packages/replayer-{replayer.__version__}.dist-info/RECORD")
    rows = csv.reader(record.read_text().splitlines())
    return {name: digest for name, digest, _ in rows if "direct_url" not in name and digest}


@pytest.mark.parametrize("user", [0, ORDINARY])
def test_it_runs_from_another_folder(installed: Path, folder: Path, user: int) -> None:
    """Root, and a user id of nobody without a home, list what ships and measure all of `smoke`."""
    if os.geteuid() != 0 and user == 0:
        pytest.skip("we are not root")
    if os.geteuid() != 0:
        user = os.geteuid()
    work = folder / f"{installed.name}-{user}"
    work.mkdir()
    os.chown(work, user, user)
    program, home = installed / "bin/replayer", str(work / "home")

    assert called(program, "--version", cwd=work, user=user).strip() == (
        f"replayer {replayer.__version__}"
    )
    listed = json.loads(called(program, "list", "--json", cwd=work, user=user, REPLAYER_HOME=home))
    assert {one["name"] for one in listed["workloads"]} == {
        path.stem for path in (ROOT / "workloads").glob("*.toml")
    }
    assert {one["name"] for one in listed["engines"]} == {
        path.parent.name for path in (ROOT / "schemas").glob("*/engine.toml")
    }
    run = json.loads(
        called(program, "run", "smoke", "--json", cwd=work, user=user, REPLAYER_HOME=home)
    )
    assert run["status"] == "done", run["error"]
    assert {step["status"] for step in run["steps"]} == {"done"}
    page = work / "page.html"
    called(program, "report", "latest", "--html", page, cwd=work, user=user, REPLAYER_HOME=home)
    assert "<html" in page.read_text()


def test_a_user_without_a_home_is_told_what_to_set(installed: Path, folder: Path) -> None:
    """Where there is no folder of its own to make, a sentence names the variable."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    work = folder / f"{installed.name}-homeless"
    work.mkdir()
    os.chown(work, ORDINARY, ORDINARY)
    words = called(installed / "bin/replayer", "run", "smoke", cwd=work, user=ORDINARY, status=2)

    assert words.startswith("replayer: error: this user has no home folder: set REPLAYER_HOME")
