"""The collector `waits`: the waits of a step's sessions or threads."""
