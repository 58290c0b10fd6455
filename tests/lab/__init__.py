"""The compose lab, tried with a Docker engine: `python -m tests.lab`."""
