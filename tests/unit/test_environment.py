"""What the environment says of servers that are there already."""

from pathlib import Path

import pytest

from replayer.analysis.advice import warnings
from replayer.engines import engine, environment
from replayer.engines.verbs import VerbName
from replayer.model import EngineFacts, Run, Status, WorkloadFacts
from tests.known import known


def test_url_takes_the_engines_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """--engine NAME is that engine, whatever scheme its server's URL has; without a URL, None."""
    monkeypatch.setenv("REPLAYER_URL_CITUS", "postgresql://postgres@host:5433/db?sslmode=require")
    assert environment.url("citus") == "citus://postgres@host:5433/db?sslmode=require"
    assert engine.of_url(known(environment.url("citus"))).name == "citus"
    assert environment.url("postgres") is None
    assert environment.url("") is None


def test_folders_are_as_the_server_says_then_as_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory is looked for by its own name, then below the mount by every tail of it."""
    said = Path("/var/lib/postgresql/pgdata")
    assert list(environment.folders("my-engine", said)) == [said]
    monkeypatch.setenv("REPLAYER_FILES_MY_ENGINE", "/engines/mine")
    found = list(environment.folders("my-engine", said))
    assert found[0] == said
    assert found[1:] == [
        Path("/engines/mine/var/lib/postgresql/pgdata"),
        Path("/engines/mine/lib/postgresql/pgdata"),
        Path("/engines/mine/postgresql/pgdata"),
        Path("/engines/mine/pgdata"),
        Path("/engines/mine"),
    ]


def test_limits_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are told as they were set; 0 and nothing are no limit."""
    monkeypatch.delenv("REPLAYER_LIMITS", raising=False)
    assert environment.limits() == {}
    monkeypatch.setenv("REPLAYER_LIMITS", "cpus=1.5 memory=0")
    assert environment.limits() == {"server.container.cpus": "1.5", "server.container.memory": None}


def test_notes_of_an_engine_are_advice_on_its_runs() -> None:
    """What an engine's folder says of every number of it is said of every run, and of no other."""

    def told(name: str) -> str:
        about = EngineFacts(name=name, version="1", place="url", settings={}, facts={})
        work = WorkloadFacts(name="w", source="", digest="", repeat=1, settings={}, steps=())
        run = Run(
            format=1, id="x", version="0", label="", started="", status=Status.DONE, host={},
            engine=about, workload=work,
        )  # fmt: skip
        return str(warnings.engine_notes(run) or "")

    assert "not supported for production workloads or benchmarks" in told("singlestore")
    assert "2 partitions" in told("singlestore")
    assert told("postgres") == ""
    assert told("an engine of somebody else") == ""


def test_a_verb_taken_away_says_why() -> None:
    """A file of nothing but comments takes an inherited verb away; the comments are the reason."""
    citus = engine.load("citus")
    assert citus.named("slob/slice") is None
    assert citus.named("slob/layout") is not None
    assert "append-only" in citus.why_not(VerbName("slob/slice"))
    assert "no nowhere.sql" in citus.why_not(VerbName("nowhere"))
