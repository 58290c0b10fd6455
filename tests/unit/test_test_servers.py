"""The servers of `make test-slow` are installed once, however many ask for them at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import NAMES, home, programs
from tests.servers import __main__ as servers


def test_two_installers_at_a_time_install_each_server_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second waits for the first: both would put a folder of the same name in place."""
    monkeypatch.setenv("REPLAYER_TEST_SERVERS", str(tmp_path / "servers"))
    both = threading.Barrier(2)
    installed: list[str] = []

    def installer(draft: Path, missing: list[str]) -> None:
        for name in missing:
            (draft / name / "bin").mkdir(parents=True)
        # Two that install at the same time meet here; one alone goes on after a moment.
        try:
            both.wait(0.5)
        except threading.BrokenBarrierError:
            both.reset()
        for name in missing:
            (draft / name).rename(home() / name)
            installed.append(name)

    for kind in ("postgresql", "mysql", "python"):
        monkeypatch.setattr(servers, kind, installer)
    with ThreadPoolExecutor(2) as pool:
        assert [done.result() for done in [pool.submit(servers.main) for _ in range(2)]] == [0, 0]

    assert sorted(installed) == sorted(NAMES)
    assert capsys.readouterr().err == ""
    assert all(programs(name).is_dir() for name in NAMES)
