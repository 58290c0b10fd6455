"""A kernel's command line: words for the kernel, and after `--` words for the first process."""

from __future__ import annotations


def split_line(line: str) -> tuple[list[str], list[str]]:
    """Return the words that the kernel reads, and the other words: `--` and all after it."""
    words = line.split()
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end:]


def join_line(line: str, *more: str) -> str:
    """Return a command line with more words at the end of those that the kernel reads."""
    words, others = split_line(line)
    return " ".join([*words, *more, *others])
