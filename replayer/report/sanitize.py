"""The cleaning of foreign text, so that it is safe to print on a terminal."""

import json
import unicodedata
from collections.abc import Iterable

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of characters that control a terminal, are invisible or change the direction
of text, and of lone surrogates."""


NAME = 120
"""The most characters of a label that are shown."""
NOTE = 600


def sanitize(text: object) -> str:
    """Return text on one line; each control or invisible character becomes a visible escape."""
    words = str(text)
    if words.isprintable():
        return words
    return "".join(map(_visible, words))


def visible_json(text: str) -> str:
    """Return JSON text with each control or invisible character escaped; its lines are kept."""
    return "\n".join(
        line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n")
    )


def short(text: object, most: int = NAME) -> str:
    """Return text on one line; cut it to `most` characters if it is longer, and add its length."""
    words = sanitize(text)
    if len(words) <= most:
        return words
    return f"{words[:most].rstrip()}… ({len(words):,} characters)"


def lines(texts: Iterable[object], separator: str = ", ") -> str:
    """Return cleaned texts in one line, with `separator` between them; empty ones are left out."""
    return separator.join(sanitize(text) for text in texts if str(text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _visible(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
