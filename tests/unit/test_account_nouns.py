"""The nouns of an account: what is empty is in no result, and a profile unpacks to what it was."""

import json

import pytest

from replayer.model import Account, Outcome, Run, Spent, StackProfile
from replayer.report.documents import time_spent

STACKS = {
    "server;user;postgres;main;std::map<int, std::less<int> >::find": 3,
    "server;kernel;postgres;main;entry_SYSCALL_64_[k];do_syscall_64_[k]": 12,
}


def profile(payload: str) -> StackProfile:
    """Return a profile of that payload."""
    return StackProfile(payload=payload, samples=15, event="cpu-clock", hertz=99, seconds=1.0)


def test_a_profile_unpacks_to_what_was_packed_with_blanks_in_its_names() -> None:
    """Names of C++ have blanks: the count is what follows the last one."""
    assert profile(StackProfile.packed(STACKS)).stacks() == STACKS
    assert profile(StackProfile.packed({})).stacks() == {}


def test_the_same_stacks_are_the_same_payload() -> None:
    """Whatever the order in which they were counted, so that results can be compared."""
    assert StackProfile.packed(STACKS) == StackProfile.packed(dict(reversed(STACKS.items())))


@pytest.mark.parametrize("payload", ["no base 64!", "QUJD", StackProfile.packed(STACKS)[:40]])
def test_a_payload_that_is_damaged_is_a_value_error(payload: str) -> None:
    """Not one of zlib's own kinds, which nobody expects."""
    with pytest.raises(ValueError, match="cannot be unpacked"):
        profile(payload).stacks()


def test_what_is_empty_is_not_in_a_result() -> None:
    """So results in which nothing was collected are as they were."""
    assert not {"account", "profile", "costs"} & set(json.loads(Outcome().model_dump_json()))


def test_an_account_survives_json() -> None:
    """Its parts are keys of objects there."""
    account = Account(
        operation="block",
        operations=100,
        sessions=2,
        seconds=1,
        session={Spent.SERVER: 0.015, Spent.DEVICE: 0.004},
        residue=0.001,
    )
    outcome = Outcome(account=account)
    assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome
    assert account.residue_share == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("residue", "words"), [(0.01, "50% not explained"), (-0.01, "50% counted twice")]
)
def test_time_in_two_parts_is_not_called_unexplained(
    residue: float, words: str, stored: Run
) -> None:
    """Shares whose sum is more than 100 % leave nothing to explain."""
    account = Account(operation="block", operations=100, sessions=2, seconds=1, residue=residue,
                      session={Spent.SERVER: 0.02 - residue})  # fmt: skip
    step = stored.steps[0].model_copy(update={"account": account})
    assert words in time_spent.sentence(step)
