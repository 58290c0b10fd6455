"""A database-realistic workload replayer: no number without proof."""

__version__ = "0.1.0"
