"""The words on the repeats of a step, combined into one text.

A number that differs becomes a range.  Words that differ are followed by the number of the repeats
that have them.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from replayer.analysis.repeats import in_part

_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
# A number begins where none before it can reach: so a search takes linear time.
_NUMBER = re.compile(rf"(?<![\w.\1\2-])(?<!\d[,:/]){_DIGITS}(?!\w|[.,:/-]\d)")
"""A number that is a word, or that begins one such as 5/s; not the digits of a name or a phrase."""
_AMOUNT = rf"-?{_DIGITS}(?:\s(?:h|min)\s\d\d)?"
_PHRASE = re.compile(
    rf"(?<![\w.,:/-])(?:{_AMOUNT}(?:[^\s\d]*|\s\S+)\sto\s{_AMOUNT}|{_AMOUNT}\sto(?!\S)"
    rf"|to\s{_AMOUNT}|{_DIGITS}\s(?:h|min)\s\d\d|-{_DIGITS})\s?"
)
"""A range, a time in two units or a negative number, with the space before its unit.

A range of such numbers could not be read: texts that differ in them are counted.
"""
_BEGINS, _SPACE = "\1", "\2"
"""The begin of a phrase, and a space in it: so it is one word.  A cleaned text has neither."""
_WORD = re.compile(rf"[,;](?=\s|$)|\s*(?:{_DIGITS}\s+)?\S+?(?=[,;]?(?:\s|$))")
"""A word with the space and the number before it, or the comma or semicolon after it."""
_PLURALS = {"its": "their", "is": "are", "has": "have"}
_SINGULAR = re.compile(rf"\b(?:{'|'.join(_PLURALS)})\b")
_COUNTED = re.compile(r"(\0 [a-z]{3,}?)s?(?![\w/])")
"""A noun after a number, with or without the `s` of a plural."""
_MOST = 3
"""The most different texts that are shown; of others, only the number is."""


def combine(texts: Sequence[str]) -> str:
    """Return one text for those of all repeats; "" is the text of a repeat without words.

    For example, `50 to 100 rows from memory in 2 of 3, the disk in 1 of 3, 4 sessions`.
    """
    # Without the spaces at the end: the search for a word after them takes quadratic time.
    words = [_WORD.findall(_joined(text.strip())) for text in texts if text.strip()]
    if not words:
        return ""
    return _parted(_combined(words, len(texts)))


def _combined(words: Sequence[Sequence[str]], total: int) -> str:
    """Return one text for the words of some of `total` repeats."""
    shapes = [list(map(_shape, one)) for one in words]
    begin = _common(shapes)
    end = _common([shape[begin:][::-1] for shape in shapes])
    kinds: dict[str, list[str]] = {}
    for one in words:
        between = "".join(one[begin : len(one) - end]).strip()
        kinds.setdefault(_shape(between), []).append(between)
    head = _span(["".join(one[:begin]) for one in words])
    if len(kinds) < 2:
        return in_part(head, len(words), total)
    shown = [same for kind, same in kinds.items() if kind]
    parts = [in_part(_span(same), len(same), total) for same in shown[:_MOST]]
    if others := sum(map(len, shown[_MOST:])):
        parts.append(f"others in {others} of {total}")
    tail = _span(["".join(one[len(one) - end :]) for one in words])
    return f"{head} {', '.join(parts)}{tail}".strip()


def _common(texts: Sequence[Sequence[str]]) -> int:
    """Return the number of words with which all texts begin."""
    same = takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False))
    return sum(1 for _ in same)


def _joined(text: str) -> str:
    """Return a text in which each phrase of numbers is one word: `_parted` undoes this."""
    return _PHRASE.sub(lambda found: _BEGINS + re.sub(r"\s", _SPACE, found[0]), text)


def _parted(text: str) -> str:
    return text.replace(_BEGINS, "").replace(_SPACE, " ")


def shape(text: str) -> str:
    """Return a text with NUL for each number, and with the words of a singular as a plural.

    Texts that differ only in numbers, and in words that agree with them, have the same shape.  The
    numbers of ranges, of times in two units and below 0 are kept.  A cleaned text has no other NUL.
    """
    return _shape(_joined(text))


def _shape(joined: str) -> str:
    plural = _SINGULAR.sub(lambda match: _PLURALS[match[0]], _NUMBER.sub("\0", joined))
    return _COUNTED.sub(r"\1s", plural)


def span(texts: Sequence[str]) -> str:
    """Return texts of the same shape as one, with ranges of numbers: `50 to 100 rows`."""
    return _parted(_span(list(map(_joined, texts))))


def _span(joined: Sequence[str]) -> str:
    columns = iter(zip(*map(_NUMBER.findall, joined), strict=True))
    # The words of a plural are longer, and a range has them if one of its numbers does.
    longest = max(joined, key=lambda text: len(_NUMBER.sub("", text)))
    return _NUMBER.sub(lambda _: _range(next(columns)), longest)


def _range(numbers: Sequence[str]) -> str:
    least, most = min(numbers, key=_amount), max(numbers, key=_amount)
    return least if _amount(least) == _amount(most) else f"{least} to {most}"


def _amount(number: str) -> float:
    return float(number.replace(",", ""))
