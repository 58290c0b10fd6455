"""What a page that follows a run costs it: the same sessions with --live and without.

Issue 13's bar: at most 1 % of the RIOPS of a cached run, with a browser that hardly reads.
"""

import dataclasses
import http.client
import os
import re
import statistics
import threading
import time
from pathlib import Path

from replayer.cli.bind_address import parsed
from replayer.engines import engine
from replayer.live.launcher import Live
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.report.terminal.progress import Silence
from replayer.run.context import Context
from replayer.run.event_stream import events
from replayer.run.event_stream.event_file import EventFile
from replayer.run.event_stream.live_statistics import pulse
from replayer.run.event_stream.publisher import EventPublisher
from replayer.run.step_recorder import StepRecorder
from replayer.servers.open import Server, open_server
from replayer.steps.sessions import step as sessions
from replayer.watch.sampler import Sampler
from tests.benchmarks import Pairs, Row
from tests.benchmarks.sessions import TABLES, spec_of, value
from tests.known import known
from tests.performed import context_of

NAME = "live"
ROUNDS = 10
SECONDS = 6
BAR = ">= 0.99"
CPU_BAR = "<= 0.01"
_LINK = re.compile(r"http://([^/]+)(\S+)")
_AT_ONCE = 512
"""Bytes that the browser reads in a second."""


def run(workdir: Path) -> list[Row]:
    """Return the row; one server and one set of tables."""
    with open_server(engine.load("postgres"), data_dir=workdir / "data") as server:
        plain(server, 2)
        pairs: Pairs = []
        cpu: list[float] = []
        for number in range(ROUNDS):
            # Who is first changes from round to round, so that what drifts is nobody's.
            if number % 2:
                both = followed(server, workdir, cpu), plain(server)
            else:
                alone = plain(server)
                both = followed(server, workdir, cpu), alone
            pairs.append(both)
    return [
        {
            "what": "RIOPS followed by a page and one slow browser; cached",
            "against": "the same sessions, followed by nobody",
            "bar": BAR,
            "ratio": statistics.median(mine / theirs for mine, theirs in pairs),
            "samples": pairs,
        },
        {
            "what": "CPU of the page's process while it is followed",
            "against": "all processors, for as long",
            "bar": CPU_BAR,
            "ratio": statistics.median(cpu) / (os.cpu_count() or 1),
            "samples": cpu,
        },
    ]


def plain(server: Server, seconds: float = SECONDS) -> float:
    """Return the RIOPS of some seconds of which nobody is told."""
    host = Host()
    with Sampler(host, host.device_of(known(server.data_directory()))) as sampler:
        return riops(context_of(server, host, sampler), seconds)


def followed(server: Server, workdir: Path, cpu: list[float]) -> float:
    """Return the RIOPS of some seconds that a page follows, which a slow browser looks at.

    The processors that the page's process used are added to `cpu`.
    """
    host, telling = Host(), EventPublisher(Silence())
    links: list[str] = []
    result = workdir / "followed.json"
    with EventFile(result) as file, Live(parsed("", "--live"), None, links.append) as live:
        telling.add(file.write)
        telling.tell(events.RunState(id="followed", path=str(result), status="running"))
        live.follow(result)
        while not links:
            time.sleep(0.05)
        gone = threading.Event()
        browser = threading.Thread(target=look, args=(links[0], gone))
        browser.start()
        with Sampler(host, host.device_of(known(server.data_directory()))) as sampler:
            context = context_of(server, host, sampler)
            page, began = [live._process.pid], time.monotonic()
            before = sum(processes.cpu_seconds(page))
            with pulse(sampler, server, telling):
                per_second = riops(dataclasses.replace(context, progress=telling), SECONDS)
            used = sum(processes.cpu_seconds(page)) - before
            cpu.append(used / (time.monotonic() - began))
        gone.set()
        browser.join()
        telling.end()
    return per_second


def riops(context: Context, seconds: float) -> float:
    """Return the RIOPS of some seconds."""
    keys = {**TABLES, "num_threads": 1, "memory": "cached", "run_time": f"{seconds}s"}
    context = dataclasses.replace(context, findings=StepRecorder())
    sessions.run(spec_of(**keys), context)
    return value(context.findings.outcome(), "sessions.riops")


def look(link: str, gone: threading.Event) -> None:
    """Open a link and read a little of what the page is told, once a second."""
    host, path = known(_LINK.search(link)).groups()
    opened = http.client.HTTPConnection(host)
    opened.request("GET", path)
    answer = opened.getresponse()
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    answer.read()
    opened.request("GET", "/events", headers={"Cookie": cookie})
    answer = opened.getresponse()
    assert answer.status == 200, answer.read()
    while not gone.wait(1.0):
        answer.read1(_AT_ONCE)
    opened.close()
