"""The step `ramp`: throughput by the number of sessions, and the limiting resource."""
