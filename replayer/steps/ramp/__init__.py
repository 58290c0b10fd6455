"""The step `ramp`: how throughput grows with sessions, and what gives first."""
