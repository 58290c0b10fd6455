"""A plan of boots: the machine restarts into one kernel after the other, with a run in each boot.

A kernel is chosen for one boot only, so that the machine's default stays as it is. The run that is
due at a boot is called its step.
"""
