"""The step `replay`: what a capture recorded, run again."""
