"""The step `capacity`: finds the highest rate of statements that keeps a limit of latency."""
