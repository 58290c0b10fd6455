"""buffers: a share of blocks found is recorded as that of full buffers only if they were full."""

from typing import Any

import pytest

from replayer.model import Status, StepResult
from replayer.run.display import Sentence, Tone
from replayer.steps.buffers import display
from replayer.steps.buffers.filling import BlockCounts, BufferFilling


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
