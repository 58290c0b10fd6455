"""The step `replay`: run the statements of a capture again."""
