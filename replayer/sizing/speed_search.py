"""The search for the highest speed at which a machine can replay a capture.

It estimates its time, and waits for a quiet machine if other programs disturbed replays.
"""

from statistics import median

from replayer.machine.host import Host
from replayer.model import Run, Status, StepResult, StepSpec
from replayer.run.context import Progress
from replayer.run.time_promise import TimePromise
from replayer.sizing import capture_sizing
from replayer.sizing.capture_sizing import HOLD, CaptureRequirement, disturbance, named, trials
from replayer.units import show_duration
from replayer.watch import quiet_machine

_USUAL_TRIALS = 8
_LEAST_TRIALS = 2


def estimate(speed: CaptureRequirement, run: Run | None = None) -> float:
    """Return the seconds that the search for a speed still takes, approximately.

    `run` is its unfinished run; None, before it begins, gives the seconds of a whole search.  After
    the first replay the estimate includes the time to restore the data before each replay.
    """
    replay = speed.window / speed.required
    hold = 0.0 if speed.hold is None else (speed.hold[1] - speed.hold[0]) / speed.required
    if run is None or not run.steps:
        return (1 + _USUAL_TRIALS) * replay + hold
    if named(run, HOLD) is not None:
        return 0.0
    before = max(0.0, median(step.elapsed - _replayed_seconds(step) for step in run.steps))
    counted = sum(not trial.void for trial in trials(speed, run))
    return max(_LEAST_TRIALS, _USUAL_TRIALS - counted) * (replay + before) + hold + before


def _replayed_seconds(step: StepResult) -> float:
    return step.value("replay.elapsed") or 0.0


class SpeedSearch:
    """The search for the highest speed at which a machine can replay a capture, step by step."""

    def __init__(self, wanted: CaptureRequirement, promise: TimePromise, wait: float) -> None:
        """Prepare the search that tests a machine for `wanted`; it keeps to the promised time.

        Waiting for other programs may add up to `wait` seconds to this time.
        """
        self.promise = promise
        self._wanted, self._wait = wanted, wait
        self._next = capture_sizing.following(wanted)
        self._gave_up = False

    def following(self, run: Run) -> StepSpec | None:
        """Return the next step of the run; None at its end, or if the search was given up."""
        return None if self._gave_up else self._next(run)

    def continue_with(self, run: Run, progress: Progress) -> None:
        """Print the progress, and wait if other programs disturbed the last replays (void ones).

        The search is given up if these programs do not end in time.
        """
        if not run.steps or run.status is not Status.RUNNING:
            return
        left, last = estimate(self._wanted, run), run.steps[-1]
        progress.say(f"{last.name}: {last.status.value} ({self.promise.progress})")
        if words := self.promise.renewed(left, "the replays take longer than that"):
            progress.say(words)
        if why := disturbance(self._wanted, run):
            self._wait_until_quiet(why, left, progress)

    def _wait_until_quiet(self, why: str, left: float, progress: Progress) -> None:
        most = max(0.0, self._wait or self.promise.spare(left))
        limit = show_duration(max(1.0, float(round(most))))
        progress.say(f"{why}: waiting until they are done, for up to {limit}")
        with progress.task("wait for a quiet machine", most) as task:
            waited, quiet = quiet_machine.wait_until_quiet(
                Host(),
                most,
                watched=lambda past, share: task.update(done=past, note=f"{share:.0%}"),
            )
        given = min(waited, self._wait)
        self.promise.postpone(given)
        self._wait -= given
        self._gave_up = not quiet
