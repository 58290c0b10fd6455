"""Words that came from elsewhere, made safe for a terminal."""

import unicodedata
from collections.abc import Iterable

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what steers, hides or turns text round, and of lone surrogates."""


NAME = 120
"""Characters of a label that are shown: more is no name any more."""
NOTE = 600


def sanitize(text: object) -> str:
    """Return text on one line in which nothing can steer a terminal or hide: it is written out."""
    words = str(text)
    if words.isprintable():
        return words
    return "".join(map(_visible, words))


def short(text: object, most: int = NAME) -> str:
    """Return text on one line, cut where it is longer than `most`, with how long it was."""
    words = sanitize(text)
    if len(words) <= most:
        return words
    return f"{words[:most].rstrip()}… ({len(words):,} characters)"


def lines(texts: Iterable[object], separator: str = ", ") -> str:
    """Return cleaned texts in one line, without the empty ones."""
    return separator.join(sanitize(text) for text in texts if str(text))


def _visible(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
