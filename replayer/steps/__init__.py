"""The steps (verbs) of a workload file: one Python file or folder for each, named like the step.

A step module has a docstring, a `Spec` (a subclass of the model's `StepSpec`: the keys of the TOML
table) and `run(spec, context) -> None`.  `run` writes each measurement into `context.findings` as
soon as it is known.  The optional members and their defaults are in `run/step_plugin.py`.  A
misspelt member, or one with other parameters, is reported as an error.

A step that is a folder may have a module `display`: it decides how the step's results are shown
(run/display.py).
"""

from replayer.run.step_plugin import Step

FACE = Step
