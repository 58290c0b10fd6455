"""Leave single cases of a quick test to `make test-slow`."""

import functools

import pytest

slow = functools.partial(pytest.param, marks=pytest.mark.slow)
"""slow(*values): a case of `parametrize` that only `make test-slow` runs."""
