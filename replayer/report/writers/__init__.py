"""The writers of a report document, one for each medium."""
