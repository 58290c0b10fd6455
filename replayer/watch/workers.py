"""Run one function in many fresh processes and threads that start together behind a barrier.

    with WorkerPool(work, jobs, processes=2) as pool:
        pool.ready(timeout=60)                      # every job has prepared itself
        opened_ns = pool.open()                     # CLOCK_MONOTONIC, the same in every process
        for report in pool.reports(timeout=1.0):    # None after that long without a report
            ...
        results = pool.results()                    # in the order of the jobs

`work(job, barrier, report)` is called once for each job, in a separate thread. It prepares itself
and calls `barrier.wait()`, which returns the instant at which the barrier was opened. Then it works
and returns an object that can be pickled. Each new process imports the module of `work`. So this
module must import little: never put a work function into a step, which imports SQLAlchemy.
"""

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, reduction, resource_tracker, util
from typing import Any, Protocol, Self, TypeVar

from replayer import signals
from replayer.errors import ReplayerError
from replayer.machine import threads

Report = Callable[[Any], None]
Work = Callable[[Any, "Barrier", Report], Any]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_HINTS = {
    "SIGKILL": " (often by the kernel's out-of-memory killer: see dmesg)",
    "SIGBUS": " (a mapped file shrank, or the disk could not read it: see dmesg)",
}
_PARENT_DECIDES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_STACK_BYTES = 512 << 10
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_INBLOCK = 512
"""The bytes of one unit of ru_inblock: getrusage(2) counts what a process read in sectors."""


class Counter:
    """A number that all processes of a pool share: put this object into the jobs.

    The number is the offset of one open file, which every process inherits. The kernel itself locks
    the offset of a regular file (not of a memfd) while it is moved, so a process that dies can
    never leave the number locked.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._fd = _unnamed_file() if fd is None else fd

    def take(self, many: int = 1) -> int:
        """Add `many` to the number and return the old value, the first of the caller's numbers."""
        return os.lseek(self._fd, many, os.SEEK_CUR) - many

    def value(self) -> int:
        """Return the number without a change."""
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._fd)

    def __reduce__(self) -> tuple[Any, ...]:
        return _counter, (reduction.DupFd(self._fd),)


def distributable(work: _Function) -> _Function:
    """Mark a work function that may run on another host: its jobs share nothing."""
    work.__dict__["replayer_distributable"] = True
    return work


def is_distributable(work: Callable[..., Any]) -> bool:
    """Return whether a work function may run on another host."""
    return getattr(work, "replayer_distributable", False) is True


def _unnamed_file() -> int:
    try:
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
    except OSError as error:
        raise ReplayerError(
            f"no temporary file could be made ({error.strerror}); set TMPDIR to a folder that you "
            f"may write"
        ) from error


def _counter(passed: Any) -> Counter:
    return Counter(passed.detach())


class Awaited(Protocol):
    """An object whose answers the jobs need, such as a server.

    Its descriptor becomes readable when no answer can be expected any more.
    """

    def begin(self) -> None:
        """Watch the object from now on."""
        ...

    def end(self) -> None:
        """Stop watching the object; a second call does nothing."""
        ...

    def handle_answer(self) -> None:
        """Record that a job has sent a message, which shows that the object still answers."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the object is silent."""
        ...

    def raise_silence(self) -> None:
        """Raise ReplayerError if the object is silent, that is, if its descriptor is readable."""
        ...


class WorkerPool:
    """Jobs distributed in turn to `processes` spawned processes, one thread for each job.

    The end of the `with` block, for whatever reason, kills and reaps every process.
    `first_done_ns`, `last_done_ns` (CLOCK_MONOTONIC), `usage` and `read_bytes` are complete after
    `results()`.
    """

    def __init__(
        self, work: Work, jobs: Sequence[Any], *, processes: int, awaited: Awaited | None = None
    ) -> None:
        """Take the jobs, and `work`, the function that is called for each of them.

        There are at most `processes` processes. `awaited` is the server whose answers the jobs
        need, None if there is none.
        """
        self._work = work
        self._jobs = list(jobs)
        self._count = max(1, min(processes, len(self._jobs))) if self._jobs else 0
        self._awaited = awaited
        self._members: list[_Member] = []
        self._said: deque[Any] = deque()
        self._results: dict[int, Any] = {}
        self._done_ns: list[int] = []
        self._barrier: _ParentBarrier | None = None
        self.opened_ns: int | None = None
        self.usage: tuple[float, float] = (0.0, 0.0)
        """User and system CPU seconds of all processes, from the barrier to the last job's end."""
        self.read_bytes = 0
        """Bytes that the processes read from devices in that time."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._barrier = barrier = _ParentBarrier()
        if self._awaited is not None:
            self._awaited.begin()
        try:
            with _signals_held():
                for number in range(self._count):
                    share = list(enumerate(self._jobs))[number :: self._count]
                    self._members.append(_Member(context, self._work, share, barrier))
        except OSError as error:
            self._end()
            raise ReplayerError(
                f"worker process {len(self._members) + 1} of {self._count} could not be started: "
                f"{error.strerror}"
            ) from error
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers."""
        return [member.process.pid for member in self._members if member.process.pid]

    @property
    def shares(self) -> tuple[()]:
        """Return an empty tuple: no other host has a share in this pool."""
        return ()

    @property
    def first_done_ns(self) -> int | None:
        """Return when the first job was done, in CLOCK_MONOTONIC ns; None if not yet known."""
        return min(self._done_ns, default=None)

    @property
    def last_done_ns(self) -> int | None:
        """Return when the latest job was done, in CLOCK_MONOTONIC ns; None if not yet known."""
        return max(self._done_ns, default=None)

    def ready(self, timeout: float = 60.0) -> None:
        """Wait until all jobs wait at the barrier; raise ReplayerError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not all(member.ready for member in self._members):
            left = deadline - time.monotonic()
            if left <= 0:
                missing = sum(not member.ready for member in self._members)
                raise ReplayerError(
                    f"{missing} of {self._count} worker processes were not ready "
                    f"after {timeout:g} s"
                )
            self._listen(left)

    def approach(self, lead: float) -> None:
        """Do nothing: on this host, `open` starts the jobs at once."""

    def open(self) -> int:
        """Start all jobs at once and return the instant, as CLOCK_MONOTONIC nanoseconds."""
        assert self._barrier is not None
        if self.opened_ns is None:
            self.ready()
            self.opened_ns = self._barrier.open()
        return self.opened_ns

    def reports(self, timeout: float = 1.0) -> Iterator[Any]:
        """Yield the jobs' reports until all are done; None after `timeout` seconds without one.

        Raises ReplayerError if a job failed, a process died, or the awaited server is silent.
        """
        while True:
            while self._said:
                yield self._said.popleft()
            if self._all_done():
                return
            if not self._listen(timeout):
                yield None

    def results(self, timeout: float | None = None) -> list[Any]:
        """Wait until all jobs are done and return their results in the order of the jobs.

        Raises ReplayerError if a job failed, or after `timeout` seconds; None means no limit.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._all_done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ReplayerError(f"the workers were not done after {timeout:g} s")
            self._listen(left)
        return [self._results[number] for number in range(len(self._jobs))]

    def _all_done(self) -> bool:
        return len(self._results) == len(self._jobs)

    def _listen(self, timeout: float | None) -> bool:
        """Process the workers' messages; return whether any came within `timeout` seconds."""
        pipes = {member.pipe: member for member in self._members if not member.done}
        awaited = self._awaited
        happened = connection.wait([*pipes, *([awaited.fileno()] if awaited else [])], timeout)
        if awaited is not None and happened:
            awaited.handle_answer()
            awaited.raise_silence()
        for member in [member for pipe, member in pipes.items() if pipe in happened]:
            for kind, *contents in member.messages():
                self._take_in(member, kind, contents)
            if member.ended and not member.done:
                raise member.obituary()
        return bool(happened)

    def _take_in(self, member: "_Member", kind: str, contents: list[Any]) -> None:
        if kind == "said":
            self._said.append(contents[0])
        elif kind == "ready":
            member.ready = True
        elif kind == "failed":
            raise _failure(*contents)
        else:
            results, user, system, read_bytes = contents
            member.ready = member.done = True
            for number, done_ns, result in results:
                self._results[number] = result
                self._done_ns.append(done_ns)
            self.usage = (self.usage[0] + user, self.usage[1] + system)
            self.read_bytes += read_bytes

    def _end(self) -> None:
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.end()
        self._members = []
        if self._awaited is not None:
            self._awaited.end()
        if self._barrier is not None:
            self._barrier.close()


class _Member:
    """One worker process, as its parent sees it."""

    def __init__(
        self,
        context: multiprocessing.context.SpawnContext,
        work: Work,
        share: list[tuple[int, Any]],
        barrier: "_ParentBarrier",
    ) -> None:
        self.ready = False
        self.done = False
        self.ended = False
        self.pipe, theirs = context.Pipe(duplex=False)
        _widen(theirs)
        self.process = context.Process(
            target=_main,
            args=(work, share, barrier.passed(), theirs, os.getpid()),
            name="replayer-worker",
            daemon=True,
        )
        try:
            self.process.start()
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()
        # At its exit Python sends SIGTERM to each process that is left, and waits for its end
        # without a limit; a worker ignores SIGTERM. One is left if the pool's `with` block is in a
        # generator that was not ended.
        self._at_exit = util.Finalize(None, self.process.kill, exitpriority=0)

    def end(self) -> None:
        """Wait for the end of the process, which was killed, and close what belongs to it."""
        self.process.join()
        self._at_exit.cancel()
        self.process.close()
        self.pipe.close()

    def messages(self) -> Iterator[Any]:
        """Yield the messages that the process has sent so far; set `ended` if it has ended."""
        try:
            while not self.done and self.pipe.poll():
                yield self.pipe.recv()
        except (EOFError, OSError):
            self.ended = True

    def obituary(self) -> ReplayerError:
        """Return an error that describes how the process ended before all its results came."""
        self.process.join()
        status = self.process.exitcode or 0
        if status >= 0:
            return ReplayerError(
                f"a worker process ended with status {status} in the middle of its work"
            )
        name = signals.name_of(-status)
        return ReplayerError(
            f"a worker process was killed with {name} in the middle of its work"
            f"{_HINTS.get(name, '')}"
        )


class _ParentBarrier:
    """The barrier in the parent process.

    All jobs wait at the read end of one pipe. When the parent closes the write end, they all wake.
    """

    def __init__(self) -> None:
        self._theirs, self._ours = os.pipe()
        self._instant = os.memfd_create("replayer-barrier", os.MFD_CLOEXEC)
        self._fds = [self._theirs, self._ours, self._instant]

    def passed(self) -> tuple["Descriptor", "Descriptor"]:
        """Return the descriptors that a worker process needs to wait at the barrier."""
        return Descriptor(self._theirs), Descriptor(self._instant)

    def open(self) -> int:
        """Open the barrier and return the instant, as CLOCK_MONOTONIC nanoseconds."""
        now = time.monotonic_ns()
        os.pwrite(self._instant, now.to_bytes(8, "little"), 0)
        self._fds.remove(self._ours)
        os.close(self._ours)
        return now

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        while self._fds:
            os.close(self._fds.pop())


class Descriptor:
    """A file descriptor to pass to a spawned process; its number in this process is `fd`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.fd),)


def _received(passed: Any) -> Descriptor:
    return Descriptor(passed.detach())


class Barrier:
    """The barrier at which the jobs of one process wait for the common start."""

    def __init__(self, opening: int, instant: int, arrived: Callable[[], None]) -> None:
        self._opening = opening
        self._instant = instant
        self._arrived = arrived

    def wait(self) -> int:
        """Wait for the start and return its instant: CLOCK_MONOTONIC ns, the same for all jobs."""
        self._arrived()
        os.read(self._opening, 1)
        return int.from_bytes(os.pread(self._instant, 8, 0), "little")


class _Share:
    """The jobs of one worker process while they run, and its messages to the parent process."""

    def __init__(self, jobs: int, pipe: "connection.Connection[Any, Any]") -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._counting = threading.Lock()
        self._absent = jobs
        self._working = jobs
        self._at_barrier = self._at_end = resource.getrusage(resource.RUSAGE_SELF)
        self._results: list[tuple[int, int, Any]] = []

    def send(self, *message: Any) -> None:
        """Send one message to the parent."""
        packed = reduction.ForkingPickler.dumps(message)
        with self._sending:
            self._pipe.send_bytes(packed)

    def report(self, message: Any) -> None:
        """Send a report of a job to the parent."""
        self.send("said", message)

    def arrived(self) -> None:
        """Count a job that is at the barrier; at the last one, note the CPU time used so far."""
        with self._counting:
            self._absent -= 1
            if self._absent:
                return
            self._at_barrier = resource.getrusage(resource.RUSAGE_SELF)
        self.send("ready")

    def run(self, work: Work, number: int, job: Any, barrier: Barrier) -> None:
        """Do one job and keep its result, or send the reason why there is none."""
        threads.call_this(threads.JOB)
        try:
            result = work(job, barrier, self.report)
        except BaseException as error:  # noqa: BLE001 - the parent needs to know, whatever it is
            self._fail(error)
            return
        done_ns = time.monotonic_ns()
        with self._counting:
            self._results.append((number, done_ns, result))
            self._working -= 1
            if not self._working:
                self._at_end = resource.getrusage(resource.RUSAGE_SELF)

    def finish(self) -> None:
        """Send all results, the CPU seconds and the bytes read; send nothing if a job failed."""
        if self._working:
            return
        user = self._at_end.ru_utime - self._at_barrier.ru_utime
        system = self._at_end.ru_stime - self._at_barrier.ru_stime
        read_bytes = (self._at_end.ru_inblock - self._at_barrier.ru_inblock) * _INBLOCK
        try:
            self.send("done", self._results, user, system, read_bytes)
        except (TypeError, AttributeError, ValueError) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(error))
        known = error if isinstance(error, ReplayerError) else None
        text = f"a worker failed: {type(error).__name__}: {error}"
        with contextlib.suppress(OSError):  # the parent is gone already
            self.send("failed", known, text, trace)


def _main(
    work: Work,
    jobs: list[tuple[int, Any]],
    barrier: tuple[Descriptor, Descriptor],
    pipe: "connection.Connection[Any, Any]",
    parent: int,
) -> None:
    """Run as a worker process: one thread for each job, then one message with all results."""
    for number in _PARENT_DECIDES:
        signal.signal(number, signal.SIG_IGN)
    die_with(parent)
    share = _Share(len(jobs), pipe)
    here = Barrier(barrier[0].fd, barrier[1].fd, share.arrived)
    threading.stack_size(_STACK_BYTES)
    crew = [
        threading.Thread(target=share.run, args=(work, number, job, here), daemon=True)
        for number, job in jobs
    ]
    started = 0
    try:
        for thread in crew:
            thread.start()
            started += 1
    except RuntimeError:
        text = f"only {started} of {len(crew)} threads could be started in one process"
        share.send("failed", None, f"{text}: see ulimit -u and the cgroup's pids.max", "")
        return
    for thread in crew:
        thread.join()
    share.finish()


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Make the kernel send `by` to this process when its parent ends; exit if it ended already.

    For the kernel the parent is the thread that started this process, so that thread must live as
    long as the parent process.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def allow_all_files() -> None:
    """Raise this process's limit of open files to the hard limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _failure(known: ReplayerError | None, text: str, trace: str) -> ReplayerError:
    error = known if known is not None else ReplayerError(text)
    error.add_note(f"in a worker process:\n{trace}")
    return error


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP here and in processes started in the `with` block.

    A new process inherits the signal mask, and keeps it until it ignores these signals itself. For
    this process the mask is not enough: another thread may take a signal, and Python then runs the
    handler in this thread. So `signals.shield` delays the handler's exception, too.
    """
    resource_tracker.ensure_running()  # if it started later, it would unblock the signals
    with signals.shield():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _PARENT_DECIDES)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _widen(pipe: "connection.Connection[Any, Any]") -> None:
    """Enlarge a pipe for many reports, so that a busy parent does not block a worker."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
