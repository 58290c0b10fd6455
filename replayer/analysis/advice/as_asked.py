"""Checks that a step read and wrote as requested: cold or warm, and where its data was."""

from replayer.machine import stack
from replayer.model import ReadOrigin, Run, StepResult, Temperature

_OTHER_WORK = 0.05
"""Share of a replay's statements: if more failed here alone, the work was not the source's."""


def other_than_asked(result: StepResult) -> str:
    """Return as text what a step was to read and what it read instead; "" if it read as requested.

    For example: `asked cold, got lukewarm, asked physical, got cached`.
    """
    return ", ".join(filter(None, (other_temperature(result), other_origin(result))))


def other_temperature(result: StepResult) -> str:
    """Return how cold or hot a step's data was to be, and was; "" if it was as requested."""
    cold = result.cold
    if cold is None or not is_not_cold(result):
        return ""
    return asked_and_got(cold.asked, cold.got)


def other_origin(result: StepResult) -> str:
    """Return from which layer a step's blocks were to come, and came; "" if it was as requested."""
    ledger = result.ledger
    if ledger is None or ledger.asked is None or not is_not_served(result):
        return ""
    return asked_and_got(ledger.asked, ledger.verdict)


def asked_and_got(asked: str, got: str) -> str:
    """Return a text of a requested and a measured state, such as `asked cold, got lukewarm`."""
    return f"asked {asked}, got {got}"


def is_not_cold(result: StepResult) -> bool:
    """Return whether the data of a step was not shown to be as cold or hot as requested.

    An unknown temperature is not as requested.  Returns False if none was requested.
    """
    cold = result.cold
    return cold is not None and cold.asked not in (cold.got, Temperature.UNKNOWN)


def is_not_served(result: StepResult) -> bool:
    """Return whether the blocks that a step read were not shown to come from the requested layer.

    A layer is buffers, page cache or device.  An unknown layer is not the requested one.  Returns
    False if none was requested.
    """
    ledger = result.ledger
    return ledger is not None and ledger.asked not in (ledger.verdict, ReadOrigin.UNKNOWN, None)


def is_other_work(result: StepResult) -> bool:
    """Return whether so much of a replay failed that its work was not that of the captured source.

    More than 5 percent of the executed statements must have failed although they had not failed in
    the source.
    """
    return sum(failures(result)) > _OTHER_WORK * executions(result)


def failures(result: StepResult) -> tuple[int, int]:
    """Return two numbers of statements of a replay that failed: by themselves, and as consequences.

    The first counts those that had not failed in the source of the capture.  The second counts
    those that failed only because an earlier one had failed; it is 0 if the first is 0.
    """
    here = sum(sum(one.failed_here.values()) for one in result.replayed)
    return here, sum(one.consequences for one in result.replayed) if here else 0


def executions(result: StepResult) -> int:
    """Return the number of statements that a replay executed, those that failed included."""
    return sum(one.executions for one in result.replayed)


def unproven(step: StepResult, run: Run) -> str:
    """Return why no disk is known to have served a step's reads or writes; "" if there is no doubt.

    A probe records it for its own files.  The writes of other steps are in doubt if the data of
    their database is in memory; where that data is, is not known of every database.
    """
    if run.engine is None or not run.engine.facts.get("data.directory") or step.step == "probe":
        return str(step.facts.get("storage.unproven") or "")
    kind, device = (str(run.host.get(key) or "") for key in ("fs.type", "device.name"))
    if step.writes and stack.is_memory(kind, device):
        return f"the data is on {device or kind}, which is memory, so that writes wait for no disk"
    return ""
