"""What travels between hosts: values of replayer, and nothing that could do something."""

import array
import contextlib
import dataclasses
import decimal
import enum
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import hypothesis
import msgpack
import numpy as np
import pytest
from hypothesis import strategies

from replayer.cluster import packing
from replayer.engines.driver import Connector
from replayer.errors import Impossible, ReplayerError
from replayer.load.clients import ClientReport, ClientResult
from replayer.load.requests import Keys
from replayer.load.statement_counts import LoadCounts
from replayer.storage.io_job import BlockOrder, IoJob, ThreadResult
from replayer.tables import pgio
from replayer.watch.histogram import Latencies
from replayer.watch.workers import Counter

PLAIN = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=False)
    | strategies.text()
    | strategies.binary(),
    lambda inner: (
        strategies.lists(inner)
        | strategies.lists(inner).map(tuple)
        | strategies.dictionaries(strategies.text() | strategies.integers(), inner)
    ),
    max_leaves=6,
)


@hypothesis.given(PLAIN)
def test_plain_values_arrive_as_they_were(value: Any) -> None:
    """Types, too: a tuple is not a list, and a number may have any size."""
    arrived = packing.unpack(packing.pack(value))

    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        Connector("postgres", {"host": "db", "password": "x"}, ("SET a = 1",)),
        ClientReport(0, 1.5, 7, 0.0),
        Latencies(bins={1: 2}, operations=2, total_ns=3, squares=4.0, least_ns=1, most_ns=2),
        pgio.SessionResult(1, "pgio1", 8, 8),
        pgio.Slice(*range(len(pgio.Slice._fields))),
        Keys(7, None),
        next(iter(BlockOrder)),
        {1, 2},
        frozenset({"a"}),
        {(1, 2): "tuple as key"},
        decimal.Decimal("1.10"),
        datetime(2026, 11, 22, tzinfo=UTC),
        Path("/a/b"),
        array.array("q", [1, 2]),
        1 << 200,
    ],
)
def test_values_of_replayer_arrive_as_they_were(value: Any) -> None:
    """Dataclasses, NamedTuples and enums with all their fields."""
    arrived = packing.unpack(packing.pack(value))

    assert type(arrived) is type(value)
    assert arrived == value


def test_arrays_arrive_as_they_were_and_can_be_written() -> None:
    """Of numbers; in a dataclass as everywhere."""
    busy: Any = np.int64(7)
    tally = LoadCounts(begun=np.arange(6).reshape(2, 3), busy_ns=busy)
    result = ClientResult(tally, 1, 2, (0.5, 0.25), 0.0, 1.0)
    arrived = packing.unpack(packing.pack(result))

    assert np.array_equal(arrived.tally.begun, result.tally.begun)
    assert arrived.tally.begun.dtype == result.tally.begun.dtype
    assert arrived.tally.begun.flags.writeable
    assert arrived.tally.busy_ns == 7
    assert arrived.cpu == (0.5, 0.25)
    assert packing.unpack(packing.pack(MappingProxyType({"a": 1}))) == {"a": 1}


class Foreign(NamedTuple):
    """A NamedTuple that is not replayer's."""

    a: int


@pytest.fixture(autouse=True)
def only_replayers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no package of values but replayer's own, whatever other tests have added for theirs."""
    monkeypatch.setattr(packing, "PACKAGES", {"replayer"})


@dataclasses.dataclass
class ForeignData:
    """A dataclass that is not replayer's."""

    a: int = 1


class ForeignEnum(enum.Enum):
    """An enum that is not replayer's."""

    A = 1


@pytest.mark.parametrize(
    "value",
    [
        object(),
        print,
        pgio.session,
        Connector,
        open(os.devnull),  # noqa: SIM115, PTH123
        np.array([object()]),
        Foreign(1),
        ForeignData(),
        ForeignEnum.A,
        lambda: None,
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_is_no_value_of_replayer_does_not_leave(value: Any) -> None:
    """In one sentence, before anything is sent."""
    with pytest.raises(ReplayerError, match="cannot be sent to another host"):
        packing.pack([value])


def test_a_counter_does_not_leave() -> None:
    """Two hosts cannot share it."""
    with pytest.raises(ReplayerError, match="Counter"):
        packing.pack((1, Counter()))


FIELDS, ENUM, NAMED = packing._FIELDS, packing._ENUM, packing._NAMED


@pytest.mark.parametrize("kind", [FIELDS, ENUM, NAMED])
@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "replayer.shell:run",
        "replayer.shell:subprocess.Popen",
        "replayer.shell:os",
        "replayer.watch.workers:WorkerPool",
        "replayer.cluster.packing:importlib.import_module",
        "replayer.errors:ReplayerError",
        "replayer.tables.pgio:session",
        "replayer.cluster.packing:dataclass",
        "replayer.tables.pgio:dataclass",
        "replayer.nowhere:Thing",
        "replayer.engines.driver:Nothing",
        "replayer.engines.driver:Connector.__init__",
        "replayer",
        "",
        ":",
        "..replayer:x",
    ],
)
def test_nothing_but_values_of_replayer_is_made_of_what_arrives(kind: int, name: str) -> None:
    """Whatever is named, no code of it runs: it is refused in a sentence."""
    packed = msgpack.packb(msgpack.ExtType(kind, msgpack.packb([name, "touch /tmp/harm"])))

    with pytest.raises(ReplayerError, match="another host"):
        packing.unpack(packed)


def test_no_constructor_runs() -> None:
    """A dataclass gets its fields; what it does upon being made it does not do."""
    of_type: dict[Any, Any] = {str: "", int: 1, float: 1.0, bool: False}
    fields = [of_type.get(one.type) for one in dataclasses.fields(IoJob)]
    name = "replayer.storage.io_job:IoJob"
    packed = msgpack.packb(msgpack.ExtType(FIELDS, msgpack.packb([name, *fields])))

    assert type(packing.unpack(packed)) is IoJob
    names = [one.name for one in dataclasses.fields(IoJob)]
    keys: dict[str, Any] = dict(zip(names, fields, strict=True))
    with pytest.raises(Impossible):
        IoJob(**keys)


def test_fields_of_a_result_have_their_types() -> None:
    """The class of a result is checked, however its module writes its annotations."""
    right = ThreadResult(
        0, 1, cut=False, issued=(0, 0), latencies=(Latencies(),) * 2, per_second=()
    )
    assert packing.unpack(packing.pack(right)) == right
    for forged in ({"refusal": {"x": 1}}, {"compiled": [1]}, {"last_ns": "1"}):
        with pytest.raises(ReplayerError, match="of its own"):
            packing.unpack(packing.pack(dataclasses.replace(right, **forged)))


@hypothesis.given(strategies.binary())
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    """Never another error."""
    with contextlib.suppress(ReplayerError):
        packing.unpack(data)


@pytest.mark.parametrize("name", ["os:system", "replayer.shell:run", "replayer.tables.pgio:load"])
def test_only_marked_functions_can_be_asked_for(name: str) -> None:
    """Being a function of replayer's is not enough."""
    with pytest.raises(ReplayerError):
        packing.work_of(name)


def test_a_marked_function_is_found_by_its_name() -> None:
    """That is how sessions get to another host."""
    assert packing.work_of(packing.name_of(pgio.session)) is pgio.session
    with pytest.raises(ReplayerError, match="not marked"):
        packing.name_of(subprocess.run)


def test_a_connector_tells_no_password() -> None:
    """It is in what travels, and in no text of it."""
    connector = Connector("postgres", {"password": "s3cret"})

    assert b"s3cret" in packing.pack(connector)
    assert "s3cret" not in repr(packing.unpack(packing.pack(connector)))
