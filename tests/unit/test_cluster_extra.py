"""Several hosts are an extra: without it nothing else is slower, and one sentence says what is."""

import subprocess
import sys

import pytest

from replayer import cluster
from replayer.errors import Impossible


def test_without_the_library_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And names what is missing."""
    monkeypatch.setattr(cluster, "_there", lambda name: name != "distributed")

    with pytest.raises(Impossible, match=r"no distributed here: pip install 'replayer\[cluster\]'"):
        cluster.require_libraries()


def test_a_run_on_one_host_loads_nothing_of_it() -> None:
    """Every command's module can be loaded, and Dask is not: that would take 0.3 s each time."""
    program = (
        "import sys; from replayer import registry\n"
        "for name in registry.names('commands'): registry.load('commands', name)\n"
        "import replayer.cluster.hosts, replayer.cluster.pool, replayer.cluster.worker_process\n"
        "print({'distributed', 'dask', 'cryptography'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "set()\n"
