"""A check that a step read the data as requested: cold or warm, and from the requested layer."""

from replayer.model import ReadOrigin, StepResult, Temperature

_OTHER_WORK = 0.05
"""Share of a replay's statements: if more failed here alone, the work was not the source's."""


def other_than_asked(result: StepResult) -> str:
    """Return what was requested and what was measured instead, as text; "" if they are the same."""
    cold, ledger = result.cold, result.ledger
    words = []
    if cold is not None and is_not_cold(result):
        words.append(asked_and_got(cold.asked, cold.got))
    if ledger is not None and ledger.asked is not None and is_not_served(result):
        words.append(asked_and_got(ledger.asked, ledger.verdict))
    return ", ".join(words)


def asked_and_got(asked: str, got: str) -> str:
    """Return a text of the requested and the measured state, such as `asked cold, got warm`."""
    return f"asked {asked}, got {got}"


def is_not_cold(result: StepResult) -> bool:
    """Return whether the data was not as cold or warm as requested; False if not known."""
    cold = result.cold
    return cold is not None and cold.asked not in (cold.got, Temperature.UNKNOWN)


def is_not_served(result: StepResult) -> bool:
    """Return whether the blocks came from another layer than requested; False if not known."""
    ledger = result.ledger
    return ledger is not None and ledger.asked not in (ledger.verdict, ReadOrigin.UNKNOWN, None)


def is_other_work(result: StepResult) -> bool:
    """Return whether so much of a replay failed that the work was not the source's."""
    return sum(failures(result)) > _OTHER_WORK * executions(result)


def failures(result: StepResult) -> tuple[int, int]:
    """Return how many statements of a replay failed though they had not failed in the source.

    The second number counts statements that failed only because an earlier one had failed; it is 0
    if the first number is 0.
    """
    here = sum(sum(one.failed_here.values()) for one in result.replayed)
    return here, sum(one.consequences for one in result.replayed) if here else 0


def executions(result: StepResult) -> int:
    """Return how many statements a replay executed, those that failed included."""
    return sum(one.executions for one in result.replayed)
