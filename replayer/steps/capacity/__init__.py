"""The step `capacity`: the highest rate that is sustained within an objective."""
