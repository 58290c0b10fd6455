"""A replayer of realistic database workloads: it prints no number without proof."""

__version__ = "0.1.0"
