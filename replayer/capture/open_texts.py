"""Texts of MySQL's logs that end within a string: what follows may be a part of the string.

These logs have texts as clients sent them.  So a value may have a line that looks like the next
entry of the log, and must not become a statement.  A text within a string goes on up to the end of
that string.  A text with a wrong number of quotes, which its server refused, goes on, too: if its
string does not end within a few further entries, they are entries.  Two such texts with a few
entries between them look like a value: these entries are then lost, and counted.
"""

import re

from replayer.capture.entry import ReadCounts
from replayer.capture.inputs import LONGEST_LINE

IN_STRING = "lines in a string of a statement that look like entries: taken as text of the string"
ENDLESS = "statements whose text ends within a string: what follows is taken as entries"
_MOST_ENTRIES = 8
"""Lines like an entry's first after a text within a string, of which one must end the string.

With more, two honest statements with a wrong number of quotes would take more entries with them.
"""
_SURE = 2
"""Texts that are whole only with NO_BACKSLASH_ESCAPES, more than those whole only without it."""
_MOST_EVIDENCE = -20
"""At most so many texts must speak for the mode before it is believed."""
_MOST_CHARACTERS = LONGEST_LINE // 2
_REST = (
    r"`[^`]*+`|#[^\n]*+|--(?=\s|\Z)[^\n]*+|-(?!-(?:\s|\Z))|/\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/"
    r"|/(?!\*(?!M?!))"
)
_PLAIN = r"[^'\"`#/\-]*+"
_WHOLE = re.compile(
    rf"{_PLAIN}(?:(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|{_REST})"
    rf"{_PLAIN})*+",
    re.DOTALL,
)
"""A text of which no string, quoted name or comment is open; two strings for one with '' in it."""
_WHOLE_LITERALLY = re.compile(rf"{_PLAIN}(?:(?:'[^']*+'|\"[^\"]*+\"|{_REST}){_PLAIN})*+", re.DOTALL)
"""The same with the mode NO_BACKSLASH_ESCAPES of a server."""


def is_open(text: str, *, escapes: bool = True) -> bool:
    """Return whether an SQL text of MySQL ends within a string, a quoted name or a comment.

    Without `escapes` a backslash is an ordinary character, as with NO_BACKSLASH_ESCAPES.
    """
    if not ("\\" in text or '"' in text or "#" in text or "--" in text or "/*" in text):
        # With one kind of quotes only, an odd number of them is open.
        if "`" not in text:
            return text.count("'") % 2 == 1
        if "'" not in text:
            return text.count("`") % 2 == 1
    return (_WHOLE if escapes else _WHOLE_LITERALLY).fullmatch(text) is None


class OpenText:
    """Decides where the text of an entry ends, by the lines of its text so far."""

    def __init__(self, reading: ReadCounts) -> None:
        self._reading = reading
        self._literal = 0
        """Texts whole only with NO_BACKSLASH_ESCAPES, less those whole only without it."""
        self.since = 0
        """Number of lines before the first one that looks like an entry; 0 if there is none."""
        self._entries = 0

    def goes_on(self, lines: list[str]) -> bool:
        """Return whether the next line belongs to the text `lines`, though it looks like an entry.

        If not, call `give_back` before the text is used.
        """
        text = lines[0] if len(lines) == 1 else "\n".join(lines)
        if not self._is_open(text):
            if self.since:
                self._reading.skip(IN_STRING, self._entries)
                self.since = 0
            return False
        if not self.since:
            self.since, self._entries = len(lines), 0
        self._entries += 1
        return self._entries <= _MOST_ENTRIES and len(text) <= _MOST_CHARACTERS

    def _is_open(self, text: str) -> bool:
        """Return whether a text ends within a string, as its server most probably read it.

        A single text with a wrong quote, such as an injected one, must not change how all others
        are read: the texts that are whole in one way of reading only are counted.
        """
        opened = is_open(text)
        if "\\" not in text or len(text) > _MOST_CHARACTERS:
            return opened
        literally = is_open(text, escapes=False)
        if opened is not literally and not self.since:
            counted = self._literal + (1 if opened else -1)
            self._literal = max(_MOST_EVIDENCE, min(counted, _SURE))
        return literally if self._literal >= _SURE else opened

    def give_back(self, lines: list[str]) -> list[str]:
        """Remove from `lines`, and return, those that were wrongly taken for a part of the text."""
        since, self.since = self.since, 0
        if not since:
            return []
        if not is_open("\n".join(lines), escapes=self._literal < _SURE):
            self._reading.skip(IN_STRING, self._entries)
            return []
        rest = lines[since:]
        del lines[since:]
        self._reading.skip(ENDLESS)
        return rest
