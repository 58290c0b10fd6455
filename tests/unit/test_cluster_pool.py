"""How jobs are dealt to hosts."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies

from replayer.cluster.pool import _dealt


@given(strategies.integers(1, 9), strategies.integers(0, 40), strategies.integers(1, 40))
def test_every_job_is_dealt_once_and_evenly(hosts: int, many: int, processes: int) -> None:
    """Job i is host i modulo their number's, and processes go with the jobs."""
    members: list[Any] = [SimpleNamespace(name=str(number)) for number in range(hosts)]
    jobs = [f"job {number}" for number in range(many)]
    parts = list(_dealt(members, jobs, processes))

    dealt = {
        number: job for part in parts for number, job in zip(part.numbers, part.jobs, strict=True)
    }
    assert dealt == dict(enumerate(jobs))
    assert all(number % hosts == int(part.member.name) for part in parts for number in part.numbers)
    assert len(parts) == min(hosts, many)
    assert all(part.processes >= 1 for part in parts)
    if many:
        assert processes <= sum(part.processes for part in parts) <= processes + len(parts)


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_one_process_for_each_job_stays_so(hosts: int) -> None:
    """As the clients of a load want it."""
    members: list[Any] = [SimpleNamespace(name=str(number)) for number in range(hosts)]

    assert all(part.processes == len(part.jobs) for part in _dealt(members, list(range(7)), 7))
