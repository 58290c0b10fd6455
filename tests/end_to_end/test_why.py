"""A cause that was planted in a real server is named, with its size, from run to comparison."""

import csv
import io
import json
import re
import tempfile
from pathlib import Path

import pytest

from replayer.model import Spent
from tests.command import Replayer
from tests.limited import slow_flushes

WORKLOAD = """# commits
description = "commits"
[[step]]
step = "sessions"
memory = "cached"
num_schemas = 2
num_threads = 2
scale = "8M"
run_time = "1s"
mix = "update=100"
"""


@pytest.mark.slow
def test_commits_that_wait_for_the_log_are_named(
    replayer: Replayer, made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6 repeats with synchronous commits against 6 without: the log flush, and what it costs.

    A flush takes 5 ms, so that it is most of the difference whatever the neighbours do.
    """
    # The server's user must be able to read it.
    folder = Path(tempfile.mkdtemp(prefix="replayer-test-", dir=made_home))
    folder.chmod(0o755)
    monkeypatch.setenv("LD_PRELOAD", str(slow_flushes(folder, 0.005)))
    workload, results = tmp_path / "commits.toml", tmp_path / "results"
    workload.write_text(WORKLOAD)
    # The collectors that an account is made from watch.
    monkeypatch.setenv("REPLAYER_WITHOUT", "profile")
    report = ""
    for value in ("off", "on"):
        setting = f"synchronous_commit={value}"
        repeats = ["--label", value, "--repeat", 6, "--results", results]
        report += replayer("run", workload, *repeats, "--pg-set", setting, "--verbose").out
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    allowed = ["--allow", "*.settings.synchronous_commit"]
    compare = ["compare", "off", "on", "--results", results, *allowed]
    text = " ".join(replayer(*compare, "--full", "--html", page, "--csv", table).out.split())
    (why,) = json.loads(replayer(*compare, "--json").out)["why"]

    assert re.search(r"where the time went: .* of a session's time a statement", report)
    assert re.search(r"why: sessions\.[a-z0-9.]+ [\d.]+ .*worse in these runs: \+[\d.]+ [mµ]s a "
                     r"statement of [\d.]+: log flush \+[\d.]+ \(", text)  # fmt: skip
    assert "may explain: engine.settings.synchronous_commit: off in off, on in on" in text
    assert why["parts"][0]["part"] == Spent.LOG
    # Most of what a statement takes longer is the log.
    assert why["parts"][0]["shift"] > 0.5 * why["whole"]["shift"] > 0
    assert "log flush" in page.read_text()
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert any(row["metric"] == "sessions.time.log flush" for row in rows)
