"""buffers: a share of blocks found is that of the buffers that the server had, and of full ones."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from replayer import units
from replayer.engines import engine as engines
from replayer.errors import Impossible
from replayer.load import dataset
from replayer.model import Status, StepResult
from replayer.run.display import Sentence, Tone
from replayer.run.step_recorder import StepRecorder
from replayer.servers import protocol
from replayer.steps.buffers import display
from replayer.steps.buffers import step as buffers
from replayer.steps.buffers.filling import BlockCounts, BufferFilling
from replayer.steps.buffers.spec import Spec

CHUNK = 128 << 20
MIB = 1 << 20
MISSED = 800


def filled(buffers: int, *windows: tuple[int, int], before: int = 0) -> BufferFilling:
    """Return the filling of buffers of so many blocks by windows of (found, missed) blocks."""
    filling = BufferFilling(buffers, before)
    for hits, reads in windows:
        filling.add(BlockCounts(hits, reads, 2.0))
    return filling


@pytest.mark.parametrize(
    ("filling", "share", "doubt"),
    [
        (filled(8192), None, "no block was asked for"),
        (filled(2048, (0, 0), (0, 0), (0, 0)), None, "no block was asked for in 6.00 s: set rate"),
        # 40 statements of three blocks in a window, of which the same share is missed by chance.
        (filled(8192, (79, 41), (79, 41)), 0.658, "only 240 blocks were asked for in 4.00 s, and "),
        (filled(8192, *[(79, 41)] * 30), 0.658, "1,230 of the 8,192 blocks that they hold were"),
        (filled(1000, (700, 800), (1200, 300)), 0.8, "the share of missed blocks still fell after"),
        (filled(1000, (700, 800), (1200, 300), (1200, 300)), 0.8, ""),
        (filled(1000, *[(800, 200)] * 2, before=950), 0.8, ""),
        # All data is in them, and there is room left.
        (filled(99_999, (1200, 1), (1200, 1)), 0.9992, ""),
    ],
)
def test_a_share_is_that_of_full_buffers_only_if_enough_blocks_were_read(
    filling: BufferFilling, share: float | None, doubt: str
) -> None:
    """Few blocks, or a share that falls, prove nothing; and no block gives no share."""
    assert filling.hit_share == (None if share is None else pytest.approx(share, abs=1e-3))
    assert filling.doubt().startswith(doubt)
    assert filling.full == (not doubt)


def test_the_answer_has_each_share_and_what_is_not_known() -> None:
    """The line of a run was empty; a share that is not known makes no measurement and no curve."""
    row: dict[str, Any] = {"completed_per_second": 9.0, "device_reads_per_second": None,
                           "seconds": 6.0}  # fmt: skip
    rows = (
        {**row, "buffers_bytes": 16 << 20, "hit_share": None, "full": False, "doubt": "no block"},
        {**row, "buffers_bytes": 32 << 20, "hit_share": 0.6, "full": False, "doubt": "few blocks"},
        {**row, "buffers_bytes": 64 << 20, "hit_share": 0.987, "full": True, "doubt": ""},
    )
    result = StepResult(step="buffers", name="buffers", repeat=1, status=Status.DONE, started="",
                        elapsed=1, spec={}, tables={"buffers": rows})  # fmt: skip
    form = display.form(result)

    assert form.brief.clause == (
        "not known with buffers of 16.0 MiB, 60 % with buffers of 32.0 MiB (not proven full), "
        "98.7 % with buffers of 64.0 MiB"
    )
    bad = [one.text for one in form.parts if isinstance(one, Sentence) and one.tone is Tone.BAD]
    assert bad == ["buffers of 16.0 MiB: no block", "buffers of 32.0 MiB: few blocks"]
    (chart,) = display.charts([[("run", result)]])
    assert chart.traces[0].x == [32, 64]


def spec_of(*sizes: str) -> Spec:
    """Return a step with these sizes of the buffers, on tables of 4 GiB."""
    keys = {"step": "buffers", "rate": 100, "memory": "direct", "scale": "1G"}
    return Spec.model_validate({**keys, "sizes": sizes})


def shown_in_bytes(size: int) -> str:
    """Return the size of a buffer pool as MariaDB shows it."""
    return str(size)


def shown_in_chunks(size: int) -> str:
    """Return the size of a buffer pool as MySQL shows it: above a chunk, a multiple of chunks."""
    return str(size if size < CHUNK else math.ceil(size / CHUNK) * CHUNK)


def shown_with_unit(size: int) -> str:
    """Return the size of the shared buffers as PostgreSQL shows it."""
    return f"{size >> 20}MB"


def context_of(name: str, show: Callable[[int], str]) -> Any:
    """Return the context of a server of replayer's own that shows its buffers by `show`."""
    engine = engines.load(name)
    keys = engine.spec.sessions.buffers
    assert keys is not None
    shown: dict[str, str] = {}

    @contextlib.contextmanager
    def started(settings: Mapping[str, str]) -> Iterator[None]:
        shown[keys.setting] = show(units.size(settings[keys.setting]))
        yield

    def execute(verb: object, *_: object, **__: object) -> Sequence[Mapping[str, str]]:
        rows = [{"name": name, "value": value} for name, value in shown.items()]
        return rows if verb is protocol.SETTINGS else []

    database = SimpleNamespace(execute=execute, engine=engine)
    task = SimpleNamespace(advance=lambda _: None)
    return SimpleNamespace(
        engine=engine,
        workload=SimpleNamespace(settings={}),
        server=SimpleNamespace(can_stop=True, version=99, settings=started),
        database=lambda: contextlib.nullcontext(database),
        progress=SimpleNamespace(task=lambda *_: contextlib.nullcontext(task)),
        findings=StepRecorder(),
    )


@pytest.fixture
def steady_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each window of a load by one of a second, in which 800 of 2,300 blocks are missed."""
    counted = SimpleNamespace(hits=1500, reads=MISSED)
    use = SimpleNamespace(device=None, foreign=None)
    level = SimpleNamespace(activity=counted, use=use, seconds=1.0, completed=100.0)
    monkeypatch.setattr(buffers, "measure_level", lambda *_: level)
    monkeypatch.setattr(dataset, "provide_tables", lambda *_: [])


@pytest.mark.usefixtures("steady_load")
@pytest.mark.parametrize(
    ("name", "show", "sizes", "had"),
    [
        ("mysql", shown_in_chunks, ("192M", "256M", "300M"), [256 * MIB, 384 * MIB]),
        ("mysql", shown_in_chunks, ("16M", "64M"), [16 * MIB, 64 * MIB]),
        ("mariadb", shown_in_bytes, ("8M", "192M"), [8 * MIB, 192 * MIB]),
        ("postgres", shown_with_unit, ("1M", "1.5M", "64M"), [MIB, 64 * MIB]),
    ],
)
def test_a_share_is_recorded_with_the_size_that_the_server_shows(
    name: str, show: Callable[[int], str], sizes: tuple[str, ...], had: list[int]
) -> None:
    """Each such size once, with a note where another one was asked for; full is judged by it."""
    context = context_of(name, show)
    buffers.run(spec_of(*sizes), context)
    found = context.findings

    assert [row["buffers_bytes"] for row in found.tables["buffers"]] == had
    assert {one.metric for one in found.measurements} == {
        f"buffers.hit_ratio.{units.show_size(size).replace(' ', '')}" for size in had
    }
    other = [size for size in map(units.size, sizes) if units.size(show(size)) != size]
    assert sum("the server made" in note for note in found.notes) == len(other)
    # Buffers of the others are empty when the load begins.
    empty = 0.05 if name == "postgres" else 1
    for row in found.tables["buffers"]:
        assert row["full"]
        assert MISSED * row["seconds"] >= empty * row["buffers_bytes"] / context.engine.block_size
    setting = f"settings.{context.engine.spec.sessions.buffers.setting}"
    assert found.facts[setting] == show(max(map(units.size, sizes)))


@pytest.mark.parametrize(
    ("name", "least"), [("mariadb", "8M"), ("mysql", "8M"), ("postgres", "1M")]
)
def test_buffers_with_which_a_server_does_not_work_are_refused(name: str, least: str) -> None:
    """A larger size would be measured in their place; the least one itself is not refused."""
    context = context_of(name, shown_in_bytes)
    buffers.check(spec_of(least, "1G"), context)
    with pytest.raises(Impossible, match=f"sizes has 512k, and .* needs buffers of {least}: leave"):
        buffers.check(spec_of("1G", "512k"), context)


@pytest.mark.parametrize("sizes", ["0", "127k", "1,024M", "64M, 1"])
def test_sizes_have_the_lower_limit_of_shared_buffers(sizes: str) -> None:
    """A size of nothing is none, and a comma separates sizes, not thousands."""
    with pytest.raises(ValidationError, match="greater than or equal to 131072"):
        Spec.model_validate({"step": "buffers", "rate": 1, "sizes": sizes})
