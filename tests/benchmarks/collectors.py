"""What the collectors that do something beside a step cost it: the same sessions with and without.

The bars are issue 12's: all that watch by default, together, at most 2 % of the RIOPS of a physical
run and 3 % of a cached one; `profile` by itself at most 2 %.
"""

import dataclasses
import statistics
from collections.abc import Mapping
from pathlib import Path

from replayer.engines import engine
from replayer.machine.host import Host
from replayer.run import watching
from replayer.run.findings import Findings
from replayer.servers.open import Server, open_server
from replayer.steps.sessions import step as sessions
from replayer.watch import recordings
from replayer.watch.sampler import Sampler
from tests.benchmarks import Pairs, Row
from tests.benchmarks.sessions import TABLES, context_of, spec_of, value
from tests.known import known

NAME = "collectors"
ROUNDS = 8
SECONDS = 6
KINDS = {"cached": ">= 0.97", "direct": ">= 0.98"}
PROFILE_BAR = ">= 0.98"


def run(workdir: Path) -> list[Row]:
    """Return all rows; one server and one set of tables for all of them."""
    everyone = _by_default()
    with open_server(engine.load("postgres"), data_dir=workdir / "data") as server:
        rows = [_compared(server, kind, everyone, bar) for kind, bar in KINDS.items()]
        rows.append(_compared(server, "cached", ("profile",), PROFILE_BAR))
    return rows


def _by_default() -> tuple[str, ...]:
    """Return all active collectors that watch when nobody says otherwise."""
    return tuple(name for name in recordings.active() if recordings.is_default(name))


def _compared(server: Server, kind: str, names: tuple[str, ...], bar: str) -> Row:
    """Return the ratio of RIOPS with collectors to those without, of rounds in turn."""
    _riops(server, kind, (), seconds=2)
    pairs: Pairs = []
    failures: dict[str, str] = {}
    costs: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        # Who is first changes from round to round, so that what drifts is nobody's.
        order = (True, False) if number % 2 else (False, True)
        both: dict[bool, float] = {}
        for watched in order:
            both[watched], failed, cost = _riops(server, kind, names if watched else ())
            failures |= failed
            for name, seconds in cost.items():
                costs.setdefault(name, []).append(seconds / SECONDS)
        pairs.append((both[True], both[False]))
    row: Row = {
        "what": f"RIOPS watched by {', '.join(names)}; {kind}",
        "against": "the same sessions, unwatched",
        "bar": bar,
        "ratio": statistics.median(watched / plain for watched, plain in pairs),
        "samples": pairs,
        "cores": {name: statistics.median(shares) for name, shares in costs.items()},
        "failures": failures,
    }
    if len(failures) == len(names):
        row["skipped"] = "; ".join(f"{name}: {why}" for name, why in failures.items())
    return row


def _riops(
    server: Server, kind: str, names: tuple[str, ...], seconds: float = SECONDS
) -> tuple[float, Mapping[str, str], Mapping[str, float]]:
    """Return RIOPS of some seconds, and what failed and what was used of those who watched."""
    host = Host()
    device = host.device_of(known(server.data_directory()))
    keys = {**TABLES, "num_threads": 1, "memory": kind, "run_time": f"{seconds}s"}
    spec = spec_of(**keys)
    with watching.recordings(names, host, device, server) as watched:
        with Sampler(host, device, watcher=watched) as sampler:
            context = context_of(server, host, sampler)
            context = dataclasses.replace(context, findings=Findings())
            sessions.run(spec, context)
        watched.end()
        watching.keep(context.findings, watched)
    outcome = context.findings.outcome()
    return value(outcome, "sessions.riops"), watched.failures, watched.costs
