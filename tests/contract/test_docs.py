"""What the README promises is there and runs."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from replayer import registry

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]


def test_the_readme_says_where_all_commands_are():
    """A new command is found by those who read the README, without an edit of it."""
    assert "replayer --help" in README


def test_the_readme_names_no_command_that_is_not_there():
    """What stands there as a command can be typed."""
    named = {line.split()[1] for line in EXAMPLES if line.split()[0].endswith("replayer")}

    assert {name for name in named if name[0] != "-"} <= set(registry.names("commands"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Return an empty folder, in which one example finds what the one before it left."""
    # A home of its own too: the server of other tests may be running in theirs.
    home = Path(tempfile.mkdtemp(prefix="replayer-test-", dir="/tmp"))
    home.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLAYER_HOME", str(home))
        yield tmp_path_factory.mktemp("readme")
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize("example", EXAMPLES)
def test_readme_example_runs(example, fresh):
    """Every console example of the README ends with 0, in the order in which it stands there."""
    words = shlex.split(example)
    if words[0] == "make":
        # demo takes minutes, test would run this again: make must know what to do for them.
        command = ["make", "--dry-run", "-C", str(ROOT), *words[1:]]
    else:
        assert words[0].endswith("replayer")
        command = [sys.executable, "-m", "replayer", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=fresh)

    assert done.returncode == 0, done.stderr
