"""What a hostile host may answer is a sentence, and never a traceback, a flood or an address."""

import asyncio
import dataclasses
import json
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from replayer.boots import ssh_driver
from replayer.boots.responder import MARK as BOOTS
from replayer.cluster import answers, packing, remote_calls, reply
from replayer.cluster.agent_line import MARK
from replayer.cluster.member import Member
from replayer.errors import ReplayerError
from replayer.watch.histogram import Latencies

launch = pytest.importorskip("replayer.cluster.launch")

HOSTILE: list[Any] = [
    {},
    None,
    [],
    7,
    "text",
    "\x1b[2J",
    math.inf,
    [[[]]],
    {"ns": "soon"},
    {"ns": None, "child": -1, "opened": "x", "piece": "text", "bytes": -1},
    {"ns": 1.5, "child": True, "opened": [], "piece": None, "bytes": None},
    {"error": None},
    {"error": {"a": "\x1b]0;x\x07"}},
    {"error": "\x1b[31m" * 1000},
    {"address": None},
    {"address": "tcp://192.0.2.1:80"},
    {"address": "tls://[::1"},
    {"address": "tls://h:1\x1b[2J"},
    {"address": {"tls": 1}},
    {"piece": b"", "bytes": 1 << 40},
    {"piece": b"", "bytes": 1},
    {"state": "none", "child": 0.5, "reports": [None], "first": 0, "silent": math.nan},
]
NAMES = [str(number) for number in range(len(HOSTILE))]


def sentence(error: BaseException) -> None:
    """Assert that an error is one line in which nothing steers a terminal."""
    assert str(error).isprintable()
    assert len(str(error)) < 1000


class Rpc:
    """A connection to an agent that answers this to everything."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def replayer(self, call: str, arguments: dict[str, Any]) -> object:
        """Answer."""
        await asyncio.sleep(0)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def member(answer: object) -> Member:
    """Return a host whose agent answers so."""
    return Member("a", "tls://h:1", Rpc(answer), changed=lambda: None)


@pytest.mark.parametrize("answer", [*HOSTILE, ValueError("\x1b[2J"), KeyError("x")])
@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.join(),
        lambda one: one.offset(),
        lambda one: one.begin("share", "a:b", b"", 1),
        lambda one: one.collected(),
    ],
    ids=["join", "offset", "begin", "collected"],
)
def test_answers_of_agents_are_checked(call: Callable[[Member], Any], answer: object) -> None:
    """Whatever an agent answers, and whatever Dask makes of it."""
    with pytest.raises(ReplayerError) as raised:
        asyncio.run(asyncio.wait_for(call(member(answer)), 20))
    sentence(raised.value)


def test_beats_are_checked() -> None:
    """A host whose beats are none is lost, with a sentence."""

    async def beaten(answer: object) -> str:
        one = member(answer)
        await asyncio.wait_for(one._beat(), 20)
        return one.lost

    for answer in HOSTILE:
        lost = asyncio.run(beaten(answer))
        assert lost
        sentence(ReplayerError(lost))


def test_true_answers_pass() -> None:
    """What an agent of this version answers arrives as it was, lists as tuples or lists."""
    here = remote_calls.about()
    plain = dataclasses.asdict(here)
    for addresses in (list(here.addresses), tuple(here.addresses)):
        assert answers.about(answers.checked("about", {**plain, "addresses": addresses})) == here
    assert answers.checked("beat", {"child": 0}) == {"child": 0}
    beat = {
        "child": 3, "state": "working", "sentence": "", "trace": "a\nb", "opened": 7,
        "reports": (b"x",), "first": 0, "more": False, "silent": 0.1, "cpu_share": None,
        "agent_cpu": 0.5,
    }  # fmt: skip
    assert answers.checked("beat", beat) == beat


def agent(data: bytes) -> str:
    """Return the address that an agent gives which prints this."""
    theirs, ours = pipe(data)
    try:
        one = launch.SshAgent("tls://h:1", name="a", host="a", secret=None, talking=None)
        answer = reply.read(theirs, MARK.encode(), 5)
        return "" if answer is None else str(one._address(answer))
    finally:
        os.close(theirs)
        ours.join()


def pipe(data: bytes) -> tuple[int, threading.Thread]:
    """Return what can be read of this, and the thread that writes it."""
    theirs, ours = os.pipe()

    def write() -> None:
        with os.fdopen(ours, "wb") as file, pytest.MonkeyPatch.context():
            try:
                file.write(data)
                file.flush()
            except BrokenPipeError:
                file.detach()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return theirs, thread


@pytest.mark.parametrize(
    "line",
    [
        *[json.dumps(one, default=repr).encode() for one in HOSTILE],
        b"",
        b"{",
        b"NaN",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"address": "tls://h:1"' + b" " * 1000,
    ],
    ids=[*NAMES, "nothing", "open", "nan", "bytes", "deep", "cut"],
)
def test_what_an_agent_prints_is_checked(line: bytes) -> None:
    """The line with which it says where it is reached, also after a login's chatter."""
    with pytest.raises(ReplayerError) as raised:
        agent(b"Welcome!\n\x1b[2J\n" + MARK.encode() + line + b"\n")
    sentence(raised.value)


@pytest.mark.parametrize("address", ["tls://192.0.2.7:8786", "tls://[fe80::1%eth0]:1", "tls://h:1"])
def test_where_an_agent_is(address: str) -> None:
    """What an agent says of itself, in any pieces and after anything."""
    line = MARK.encode() + json.dumps({"address": address}).encode()
    assert agent(b"x\n" + line + b"\nmore\n") == address
    assert agent(b"x" * 100_000 + b"\n" + line + b"\n") == address
    assert agent(line) == "", "it is not whole"


@pytest.mark.parametrize("piece", [b"x", b"x\n", b"\n", b"\nreplayer-agen"])
def test_a_flood_ends_at_once(piece: bytes) -> None:
    """Whatever comes without end is read for as long as it may be long, and no longer."""
    theirs, ours = os.pipe()
    over = threading.Event()

    def flood() -> None:
        block = piece * (1 << 16)
        try:
            while not over.is_set():
                os.write(ours, block)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    begun = time.thread_time()
    with pytest.raises(reply.InvalidReply, match="bytes that are no answer"):
        reply.read(theirs, MARK.encode(), None)
    assert time.thread_time() - begun < 10
    over.set()
    os.close(theirs)
    thread.join()
    os.close(ours)


def test_a_deadline_holds_while_something_comes() -> None:
    """Who drips a byte now and then is not waited for longer than anybody else."""
    theirs, ours = os.pipe()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.01):
            os.write(ours, b".")

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    assert reply.read(theirs, MARK.encode(), 0.3) is None
    over.set()
    thread.join()
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    "answer",
    [
        *HOSTILE[:19],
        {"boot": 7, "release": None},
        {"kernels": [], "arguments": {}, "release": "", "boot": "", "way": "", "default": ""},
        {"runs": [1]},
    ],
)
@pytest.mark.parametrize("verb", ["begin", "runs"])
def test_answers_of_a_machine_under_test_are_checked(
    answer: object, verb: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A plan of boots that is driven from here tells in a sentence what it cannot use."""
    line = BOOTS + json.dumps(answer, default=repr)
    ssh = tmp_path / "ssh"
    (tmp_path / "line").write_text(f"{line}\n")
    ssh.write_text(f"#!/bin/sh\nexec cat {tmp_path / 'line'}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("REPLAYER_SSH", str(ssh))
    with pytest.raises(ReplayerError) as raised:
        _use(ssh_driver.RemoteMachine("there").ask(verb, patience=20.0), verb)
    sentence(raised.value)


def _use(answered: Any, verb: str) -> None:
    _ = answered["kernels"].values() if verb == "begin" else answered["runs"].items()
    _ = answered["nothing of it"]


@pytest.mark.parametrize(
    ("field", "value"), [(0, "text"), (0, None), (0, [1]), (0, {}), (1, {"a": 1})]
)
def test_values_of_another_host_have_their_types(field: int, value: object) -> None:
    """A number of a class of replayer's is a number, whatever came."""
    name = f"{remote_calls.HostDescription.__module__}:HostDescription"
    here = remote_calls.about()
    values = [getattr(here, one.name) for one in dataclasses.fields(here)]
    values[[7, 0][field]] = value
    data = msgpack.packb(msgpack.ExtType(0, packing.pack([name, *values])))
    with pytest.raises(ReplayerError, match="of its own"):
        packing.unpack(data)
    assert packing.unpack(packing.pack(here)) == here
    assert packing.unpack(packing.pack(Latencies()))
