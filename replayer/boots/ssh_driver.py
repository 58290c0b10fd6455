"""A plan of boots for another machine, driven from here with the system's ssh.

The machine under test keeps only the plan and its runs; this machine keeps the state. The runs are
fetched after each boot. If the machine under test was installed anew, they are sent to it again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import select
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer import shell, signals
from replayer.analysis.differences import boot_plan
from replayer.boots import sequence, state, turns
from replayer.boots.responder import MARK, PLAN
from replayer.boots.sequence import BootObservation
from replayer.boots.state import BootsState
from replayer.cluster import reply, ssh
from replayer.errors import Impossible, Interrupted, ReplayerError, expected, one_line
from replayer.units import show_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from replayer.analysis.differences.boot_plan import BootSchedule
    from replayer.boots.state import Attempt

VARIABLE = "REPLAYER_REMOTE"
RETURN_SECONDS = 1800.0
_ANSWER_SECONDS = 300.0
_POLL_SECONDS = 2.0
_WORDS_BYTES = 4096
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,200}\.json")
_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=8")


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("boot", "release", "title", "way", "default", "reason"), str),
    **dict.fromkeys(("kernels", "arguments", "runs"), dict),
    **dict.fromkeys(("still", "lacking"), list),
}
"""Key of an answer -> the type of its value."""


class NoAnswer(ReplayerError):
    """The error that is raised if the other machine does not answer now."""


@dataclass(frozen=True)
class RemoteMachine:
    """The machine under test, reached by ssh."""

    host: str

    def ask(self, verb: str, *, patience: float | None = _ANSWER_SECONDS, **request: Any) -> Any:
        """Send a request, such as the `verb` `look`, to the machine; return its answer, a dict.

        `request` are the request's values. `patience` is the number of seconds to wait; None waits
        without end. Raises ReplayerError with the machine's own error, and NoAnswer if no answer
        comes.
        """
        command = ssh.remote("boots remote", VARIABLE)
        process = shell.converse([*ssh.words(), *_ALIVE, "--", self.host, command])
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                _write(process.stdin.fileno(), json.dumps({"verb": verb, **request}) + "\n")
            answer = self._answer(process, patience)
        finally:
            # A step that still runs there ends as soon as its stdin is closed.
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            if not shell.wait_until_ended(process, within=2.0):
                process.kill()
                process.wait()
        if "error" in answer:
            raise ReplayerError(f"{self.host}: {one_line(answer['error'])}")
        for key, kind in _KINDS.items():
            if key in answer and not isinstance(answer[key], kind):
                raise ReplayerError(f"{self.host}: its answer has a {key!r} of a wrong type")
        plain = {key: one_line(value) for key, value in answer.items() if isinstance(value, str)}
        return reply.Reply(answer | plain)

    def wait(self, plan: str) -> None:
        """Wait until the machine, which has the folder of a plan `plan`, answers again.

        Raises NoAnswer if that takes longer than RETURN_SECONDS.
        """
        deadline = time.monotonic() + RETURN_SECONDS
        while True:
            try:
                self.ask("runs", plan=plan, known=[], patience=60.0)
            except NoAnswer:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _answer(self, process: shell.Conversation, patience: float | None) -> reply.Reply:
        assert process.stdout is not None
        try:
            answer = reply.read(process.stdout.fileno(), MARK.encode(), patience)
        except reply.InvalidReply as error:
            raise ReplayerError(f"{self.host}: {error}") from error
        if answer is None:
            raise NoAnswer(f"{self.host} did not answer: {_last_words(process)}")
        return answer


def _write(fd: int, text: str) -> None:
    data = memoryview(text.encode())
    while data:
        data = data[os.write(fd, data) :]


def _last_words(process: shell.Conversation) -> str:
    assert process.stderr is not None
    shell.wait_until_ended(process, within=0.5)
    text = b""
    if select.select([process.stderr], [], [], 0)[0]:
        text = os.read(process.stderr.fileno(), _WORDS_BYTES)
    lines = text.decode(errors="replace").strip().splitlines()
    return one_line(lines[-1]) if lines else "ssh printed nothing"


@dataclass(frozen=True)
class BootDriver:
    """A plan of boots on this machine, and the other `machine` that restarts for it.

    It has the methods of `BootedMachine`. `then` is the user's command for the end of the plan.
    """

    machine: RemoteMachine
    plan: Path
    schedule: BootSchedule
    files: Mapping[str, str]
    """Files of the workload in the plan's folder: name -> text."""
    then: str
    _left: set[str] = field(default_factory=set, init=False)
    """Ids of the boots that the machine has been ordered to end."""

    @functools.cached_property
    def name(self) -> str:
        """Return the name of the plan's folder on the other machine.

        It has a digest of the plan, because two plans may have the same file name. It stays the
        same if the plan's file is edited while the machine does the plan.
        """
        digest = hashlib.sha256(self.plan.read_bytes()).hexdigest()
        return f"{state.DRIVEN}{digest[:16]}"

    def begin(self, way: str) -> Any:
        """Ask the other machine whether it can do the plan; return its answer, a dict of facts.

        `way` is the name of the boot loader to use, "" for the machine's choice. The facts are the
        loader, its default entry and the kernels. Raises ReplayerError if the machine cannot do the
        plan.
        """
        return self.machine.ask("begin", text=self._text(), way=way)

    def _text(self) -> str:
        return self.plan.read_text(encoding="utf-8")

    def lines(self, answer: Mapping[str, Any], left: int, time: str) -> Iterator[str]:
        """Yield lines that describe to the user what the plan will do.

        `answer` is the answer of `begin`, `left` the number of boots that are left, and `time` a
        sentence about the duration.
        """
        yield f"plan      {self.plan}: {left} of {len(self.schedule.order)} boots are left"
        yield f"machine   {self.machine.host}, by ssh, which runs {answer['release']}"
        yield f"kernels   {', '.join(map(one_line, answer['kernels'].values()))}"
        yield f"way       {answer['title']}, for one boot at a time"
        yield f"default   {answer['default']}: stays as it is"
        yield (
            f"restarts  {left + 1}: one before each boot's step, and one at the end into the "
            f"default; a boot that fails costs one more, three of them end the plan"
        )
        yield f"time      {time}"
        for release in answer["still"]:
            yield (
                f"remark    {one_line(release)} would stand still after a panic until a user "
                f"restarts it: give it panic=30 on its command line"
            )

    def follow(self, answer: Mapping[str, Any], say: Callable[[str], None]) -> BootsState:
        """Do the plan to its end; return its last state, with the reason if an error ended it.

        A signal ends it, too: see `signals.interruption`. `answer` is the answer of `begin`. `say`
        is called with a line of text for each event.
        """
        current = self._state(answer)
        self._give()
        reason, boot = "", str(answer["boot"])
        try:
            while (after := turns.choose_next(self, current, boot, say)) is not None:
                current = after
                seen = self._returned(current)
                current, boot = turns.judge(self, current, seen, say), seen.boot
        except NoAnswer as error:
            reason = str(error)
        except (ReplayerError, OSError, Interrupted) as error:
            reason = str(expected(error) or error)
            if current.last is not None and current.last.outcome in {"asked", "working"}:
                current = sequence.ended(current, "failed", reason, state.now())
        phase = "stopped" if reason else "done"
        with contextlib.suppress(Interrupted), signals.shield():
            reason = "; ".join(filter(None, (reason, self._end(current, restart=not reason))))
        # An output that is gone may be what ended the plan.
        with contextlib.suppress(OSError):
            say(f"the plan is {phase}" + (f": {reason}" if reason else ""))
        return sequence.closed(current, phase, reason)

    @property
    def title(self) -> str:
        """Return the other machine's host name for messages."""
        return self.machine.host

    def save(self, current: BootsState) -> BootsState:
        """Return the state unchanged: this process survives the boots, so nothing must be saved."""
        return current

    def find_due(self, current: BootsState) -> tuple[int, str, str] | None:
        """Fetch new runs, and return the next turn, one boot of the plan; None after the last.

        It is a tuple: number of the turn, kernel as the plan names it, installed release.
        """
        self._fetch()
        return sequence.due(current, len(self._finished()))

    def list_finished(self, _: BootsState) -> list[str]:
        """Return the ids of the boots that have a finished run."""
        return self._finished()

    def choose(self, current: BootsState, attempt: Attempt, arguments: str) -> None:
        """Let the other machine choose the kernel of `attempt` for one boot, and then restart."""
        # A choice that is still being made could not be removed.
        with signals.shield():
            answer = self.machine.ask(
                "choose",
                plan=self.name,
                way=current.way,
                release=attempt.release,
                arguments=arguments,
            )
        # If the machine restarted by itself in a step, it is in another boot than that step.
        self._left.add(answer["boot"])

    def _returned(self, current: BootsState) -> BootObservation:
        """Wait until the machine answers from a new boot, and return the facts about that boot.

        Raises NoAnswer if that takes longer than RETURN_SECONDS.
        """
        attempt = current.last
        assert attempt is not None
        deadline = time.monotonic() + RETURN_SECONDS
        last = f"it is in the same boot as before, and was to start {attempt.release}"
        while time.monotonic() < deadline:
            try:
                answer = self.machine.ask(
                    "look",
                    way=current.way,
                    release=attempt.release,
                    kernel=attempt.kernel,
                    patience=60.0,
                )
                if answer["boot"] not in self._left:
                    return self._seen(current, answer)
            except NoAnswer as error:
                last = str(error)
            time.sleep(_POLL_SECONDS)
        raise NoAnswer(
            f"{self.machine.host} was not back {show_duration(RETURN_SECONDS)} after its restart "
            f"({last}): look at it, and start the plan again"
        )

    def _seen(self, current: BootsState, answer: Mapping[str, Any]) -> BootObservation:
        return BootObservation(
            boot=answer["boot"],
            release=answer["release"],
            came=answer["came"],
            untaken=answer["untaken"],
            finished=frozenset(self._finished()),
            default=current.began_as,
            missing="",
            now=state.now(),
            lacking=tuple(map(one_line, answer["lacking"])),
        )

    def do_step(self, current: BootsState) -> str:
        """Let the other machine do this boot's run, and fetch it; return why it failed, or ""."""
        assert current.last is not None
        try:
            answer = self.machine.ask("step", plan=self.name, turn=current.last.turn, patience=None)
            reason = str(answer["reason"])
        except NoAnswer as error:
            # The machine restarts or lost its power. The next boot judges what comes up then.
            reason = f"the machine was lost in the middle of the step ({error})"
            self.machine.wait(self.name)
        self._fetch()
        return reason

    def _finished(self) -> list[str]:
        runs = boot_plan.finished(self.schedule, boot_plan.runs(self.plan))
        return [str(run.host.get("boot.id")) for run in runs]

    def _known(self) -> list[Path]:
        return sorted(boot_plan.folder(self.plan).glob("*.json"))

    def _give(self) -> None:
        """Send the plan and all of its runs: a machine that was installed anew has none."""
        give = functools.partial(self.machine.ask, "give", plan=self.name)
        give(files={**self.files, PLAN: self._text()}, runs={})
        for path in self._known():
            if _RUN.fullmatch(path.name):
                give(files={}, runs={path.name: path.read_text(encoding="utf-8")})

    def _fetch(self) -> None:
        """Copy the other machine's new runs into the folder of the plan's runs here.

        Each file is written completely or not at all.
        """
        known = [path.name for path in self._known()]
        answer = self.machine.ask("runs", plan=self.name, known=known)
        if not answer["runs"]:
            return
        with boot_plan.made_folder(self.plan) as runs:
            for name, text in answer["runs"].items():
                if not _RUN.fullmatch(str(name)) or not isinstance(text, str):
                    raise Impossible(f"{self.machine.host} gave no run but {str(name)[:100]!r}")
                runs.replace(str(name), text)

    def _end(self, current: BootsState, *, restart: bool) -> str:
        """Remove the machine's choice for the next boot; return what is not as before the plan.

        The result is part of a sentence, "" if all is as before. With `restart` the plan is done:
        the machine then restarts into its default kernel if it was booted for the plan.
        """
        restarts = restart and any(one.boot for one in current.attempts)
        try:
            answer = self.machine.ask(
                "end", way=current.way, plan=self.name, done=restart, restart=restarts
            )
        except ReplayerError as error:
            return f"a choice for the next boot could not be taken back ({error})"
        if answer["default"] != current.default:
            return f"the default was {current.default} and is {answer['default']} now"
        return ""

    def _state(self, answer: Mapping[str, Any]) -> BootsState:
        kernels = {str(kernel): str(release) for kernel, release in answer["kernels"].items()}
        if set(kernels) != set(self.schedule.kernels):
            raise Impossible(f"{self.machine.host} answered about another plan")
        return BootsState(
            plan=str(self.plan),
            digest="",
            schedule=self.schedule,
            folder=str(Path.cwd()),
            way=str(answer["way"]),
            kernels=kernels,
            arguments={str(key): str(value) for key, value in answer["arguments"].items()},
            default=str(answer["default"]),
            mounts=(),
            command=(),
            started=state.now(),
            began_as=str(answer["release"]),
            then=self.then,
        )


def of(
    host: str, plan: Path, schedule: BootSchedule, words: Sequence[str], then: str
) -> BootDriver:
    """Return the driver of the plan file `plan`, which is to be done on `host`.

    `words` may name files of the plan's workload; those in the plan's folder are sent along. `then`
    is the user's command for the end of the plan. Raises Impossible for a host that ssh would read
    as an option.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][^\s]*", host):
        raise Impossible(f"{host!r} is not a host for ssh")
    files = {}
    for word in words:
        path = plan.parent / word
        if path.name == word.removeprefix("./") and path.is_file():
            files[path.name] = path.read_text(encoding="utf-8")
    return BootDriver(RemoteMachine(host), plan, schedule, files, then)
