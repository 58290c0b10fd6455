"""Made-up parts of results that several tests need; `from tests.made import ledger`."""

import base64
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.samples import Side
from replayer.model import Account, Cold, Ledger, ReadOrigin, Run, Spent, Temperature
from replayer.report.documents import comparison, runs
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, markdown_writer, page_writer, terminal_writer

_Model = TypeVar("_Model", bound=BaseModel)
USUAL = {
    Spent.SERVER: 5.0e-6,
    Spent.ENTRY: 0.9e-6,
    Spent.COPY: 1.2e-6,
    Spent.PAGE_CACHE: 1.1e-6,
    Spent.FILE_SYSTEM: 0.7e-6,
    Spent.SCHEDULER: 0.6e-6,
    Spent.NETWORK: 0.4e-6,
    Spent.RUN_QUEUE: 0.8e-6,
    Spent.CLIENT: 3.1e-6,
    Spent.OTHER: 0.2e-6,
}
"""Seconds a block of a cached run, 14 us."""
SAMPLES = 2000
"""That a part's share is known by, as of a profile of 5 s on 4 processors at 99 Hz."""


def altered(model: _Model, /, **changes: object) -> _Model:
    """Return a copy of a model with other values, which are not validated."""
    return model.model_copy(update=changes)


def with_step(run: Run, **changes: object) -> Run:
    """Return a run whose steps have other values."""
    return altered(run, steps=tuple(altered(step, **changes) for step in run.steps))


def reached(got: Temperature) -> Callable[[Run], Run]:
    """Return a function that makes the step of a run one that was asked to be cold."""
    return lambda run: with_step(
        run, cold=Cold(asked=Temperature.COLD, got=got, method="", proof="")
    )


def ledger(verdict: ReadOrigin = ReadOrigin.PHYSICAL, **changed: Any) -> Ledger:
    """Return the ledger of 30 s of physical reads of 8 KiB blocks, with this verdict."""
    plain: dict[str, Any] = {
        "asked": ReadOrigin.PHYSICAL,
        "verdict": verdict,
        "window_seconds": 30.0,
        "riops": 1000.0,
        "buffer_hits": 10.0,
        "page_cache_hits": 0.0,
        "device_reads": 1000.0,
        "device_read_bytes": 1000.0 * 8192,
        "ratio": 1.0,
        "device": "vda",
    }
    return Ledger(**{**plain, **changed})


def account(
    random: np.random.Generator,
    parts: Mapping[Spent, float] | None = None,
    noise: float = 0.015,
    **changes: Any,
) -> Account:
    """Return the account of one window: noise that all parts share, and that of sampling."""
    exact = parts or USUAL
    whole = sum(exact.values()) * np.exp(random.normal(0, noise))
    shares = np.array(list(exact.values())) / sum(exact.values())
    drawn = random.multinomial(SAMPLES, shares) / SAMPLES
    residue = random.normal(0, 0.01) * whole
    seconds, sessions = 5.0, 4.0
    made: dict[str, Any] = {
        "operation": "block",
        "operations": sessions * seconds / whole,
        "sessions": sessions,
        "seconds": seconds,
        "session": dict(zip(exact, ((whole - residue) * drawn).tolist(), strict=True)),
        "residue": residue,
        "samples": 200,
    }
    return Account(**{**made, **changes})


def at_once(side: Side) -> Side:
    """Return a side whose runs all began at one time, so that none came after another."""
    runs = (run.model_copy(update={"started": "2026-11-20T10:00:00+00:00"}) for run in side.runs)
    return Side(side.name, tuple(runs))


def drawn_in(page: str) -> str:
    """Return the JSON of what the script of a page's text draws."""
    packed = re.search(r'id="data">([^<]*)<', page)
    assert packed is not None
    return gzip.decompress(base64.b64decode(packed[1])).decode()


def page_of(sides: Sequence[Side], compared: Comparison | None = None) -> str:
    """Return the page of runs, or of their comparison."""
    return page_writer.page(runs.document(sides, compared))


def markdown_of(sides: Sequence[Side], compared: Comparison | None = None) -> str:
    """Return the Markdown of runs, or of their comparison."""
    return markdown_writer.page(runs.document(sides, compared, for_page=False))


def csv_of(sides: Sequence[Side], compared: Comparison | None = None) -> str:
    """Return the CSV of runs, or of their comparison."""
    return csv_writer.written(runs.data(sides, compared))


def screen_of(
    compared: Comparison, asked: str = "", *, full: bool = False, width: int = 100
) -> str:
    """Return what a terminal shows of a comparison."""
    report = comparison.document(compared, asked, full=full)
    return console.text(terminal_writer.render(report), width=width)
