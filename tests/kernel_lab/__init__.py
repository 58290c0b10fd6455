"""Two real kernels compared on one machine, without rebooting it: see __main__.py."""
