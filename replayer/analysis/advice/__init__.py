"""What a reader has to know of a run: headline, warnings, estimates."""
