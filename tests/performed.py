"""Perform one step as the runner does; `from tests.performed import performed`."""

import dataclasses

from replayer.run.findings import Findings


def performed(module, spec, context):
    """Run a step with a recorder of its own and return what it found."""
    context = dataclasses.replace(context, findings=Findings())
    module.run(spec, context)
    return context.findings.outcome()
