"""Checks of each client host (whose processes are the sessions), one line for each check."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from replayer.cluster import hosts, link_probe, remote_calls
from replayer.engines.connection import connector_of, url_of
from replayer.errors import Impossible, ReplayerError
from replayer.run.checks.preflight import Answer, PreflightLine
from replayer.servers import remote
from replayer.units import show_duration, show_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replayer.cluster.host_clock import Offset
    from replayer.cluster.hosts import Hosts
    from replayer.cluster.remote_calls import HostDescription
    from replayer.engines.driver import Connector
    from replayer.engines.engine import Engine

_AT_ONCE = 16
_APART_NS = 10**9
_SLOW_TRIP = 0.005


def check_hosts(names: Sequence[str], engine: Engine | None, url: str) -> list[PreflightLine]:
    """Check the hosts in parallel; return the lines of all hosts, in the order of `names`.

    A host that is named twice is checked once. With an engine, each host also tries to reach the
    server at `url`. Raises Impossible if the server's password has to be looked up on this host,
    and that fails.
    """
    connector = _connector(engine, url) if engine else None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = pool.map(lambda name: list(_of(name, connector)), dict.fromkeys(names))
        return [line for part in parts for line in part]


def _connector(engine: Engine, url: str) -> Connector:
    try:
        return connector_of(url_of(remote.with_password(engine, url), engine))
    except ReplayerError as error:
        raise Impossible(str(error)) from error


def _of(name: str, connector: Connector | None) -> Iterator[PreflightLine]:
    try:
        with hosts.connect_hosts([name]) as connected:
            yield from _reached(name, connected, connector)
    except ReplayerError as error:
        yield PreflightLine(name, Answer.NO, *_sentence(error), needed=True)


def _reached(name: str, connected: Hosts, connector: Connector | None) -> Iterator[PreflightLine]:
    about = connected.about(name)
    yield PreflightLine(name, Answer.OK, _presence(about))
    yield _clock(name, about, connected.offset(name))
    yield _rights(name, about)
    if connector is not None:
        yield _database(name, connected, connector)


def _presence(about: HostDescription) -> str:
    return (
        f"an agent works there: replayer {about.version}, the same as here, Python {about.python}, "
        f"Linux {about.kernel}, {about.cores} cores, {show_size(about.memory_bytes)} of memory, "
        f"{show_size(about.free_bytes)} free for temporary files"
    )


def _clock(name: str, there: HostDescription, offset: Offset) -> PreflightLine:
    """Return the line that compares a remote host's two clocks with those of this host.

    The clocks are the monotonic one and the time of day. `there` has both clocks of the remote
    host, and `offset` is the measured difference of the monotonic clocks.
    """
    here = remote_calls.about()
    wall_ns = offset.ns + (there.realtime_ns - there.monotonic_ns)
    wall_ns -= here.realtime_ns - here.monotonic_ns
    answer = Answer.OK if abs(wall_ns) < _APART_NS else Answer.LIMITED
    apart = (
        f"{show_duration(abs(wall_ns) / 1e9)} {'ahead of' if wall_ns > 0 else 'behind'} this one"
    )
    if abs(wall_ns) <= offset.bound_ns:
        apart = "the same"
    words = (
        f"its clock is known to within {show_duration(offset.bound_ns / 1e9)}; its time of day is "
        f"{apart}"
    )
    todo = "" if answer is Answer.OK else "let chrony or the like set it: logs are hard to compare"
    return PreflightLine(f"{name}: clock", answer, words, todo)


def _rights(name: str, about: HostDescription) -> PreflightLine:
    lacking = [
        what
        for what, may in (
            ("drop the cache", about.may_drop_caches),
            ("make cgroups", about.may_make_cgroups),
        )
        if not may
    ]
    if not lacking:
        return PreflightLine(f"{name}: rights", Answer.OK, "may drop the cache and make cgroups")
    todo = "a client needs neither; the host of the database does, for a cold start and a limit"
    return PreflightLine(f"{name}: rights", Answer.LIMITED, f"may not {' or '.join(lacking)}", todo)


def _database(name: str, connected: Hosts, connector: Connector) -> PreflightLine:
    label = f"{name}: database"
    try:
        with connected.run(link_probe.measure_link, connector, on=name) as run:
            for _ in run.receive_messages():
                pass
            found: link_probe.Reach = run.result()
    except ReplayerError as error:
        return PreflightLine(label, Answer.NO, *_sentence(error), needed=True)
    answer = Answer.OK if found.trip_seconds < _SLOW_TRIP else Answer.LIMITED
    todo = "" if answer is Answer.OK else "a round trip takes longer than most statements"
    words = (
        f"a round trip takes {show_duration(found.trip_seconds)}, "
        f"{show_size(found.bytes_per_second)}/s come by one connection"
    )
    return PreflightLine(label, answer, words, todo)


def _sentence(error: ReplayerError) -> tuple[str, str]:
    return error.found, error.todo
