"""Fixtures of the steps that build and use the table."""

import io

import pytest

from replayer import table
from replayer.context import Context
from replayer.host import Host
from replayer.model import Workload
from replayer.report.progress import Lines
from replayer.sampler import Sampler


@pytest.fixture
def surroundings():
    """Return a function that makes a step's context on a place; its samplers end with the test."""
    samplers = []

    def make(place):
        host = Host()
        sampler = Sampler(host, host.device_of(place.data_directory()))
        samplers.append(sampler)
        return Context(
            host=host,
            workload=Workload(name="test", source="", description="", comment="", steps=()),
            progress=Lines(io.StringIO()),
            sampler=sampler.__enter__(),
            storage=place.data_directory(),
            database_place=place,
        )

    yield make
    for sampler in samplers:
        sampler.__exit__(None, None, None)


@pytest.fixture
def context(place, surroundings):
    """Return a step's context on the shared server."""
    return surroundings(place)


@pytest.fixture
def no_table(context):
    """Remove the table before the test and after it, also when the test stops the server."""

    def remove():
        with context.database() as database:
            found = table.state(database)
            if found is not None:
                table.drop(database, found.shape.layout)

    remove()
    yield
    remove()
