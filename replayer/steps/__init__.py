"""The verbs of a workload: one file or folder each, whose name is the step's name.

A step module has a docstring, a `Spec` (a subclass of the model's `StepSpec`: the keys of the TOML
table) and `run(spec, context) -> None`, which writes each measurement into `context.findings` as
soon as it is known.  What else it may have, and what holds where it leaves that out, is in
`run/step_plugin.py`.  A misspelt member, and one with other parameters, is an error that says so.

A step that is a folder may have a module `display` next to it: how its results are shown
(run/display.py).
"""

from replayer.run.step_plugin import Step

FACE = Step
