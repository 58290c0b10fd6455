"""Tags of a run, parsed from NAME=VALUE on a command line."""

import re
from collections.abc import Iterable

from replayer.errors import Impossible

NOT_COUNTED = "not-counted"
"""Tag of a run that does not count: its factor was not active, or other programs disturbed it."""
SPOILT = "spoilt"
"""Value of the tag `not-counted` for a run that other programs disturbed and that was repeated."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


def given(words: Iterable[str], *, empty: bool = False) -> dict[str, str]:
    """Return tag name -> value of words that are NAME=VALUE.

    An empty value is allowed only with `empty`.  Raises Impossible for a word that is not a tag.
    """
    named = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not _NAME.fullmatch(name) or not (value or empty):
            raise Impossible(
                f"--tag {word!r}: it must be NAME=VALUE, such as disk=nvme; a name has letters, "
                f"digits, dots, _ and -"
            )
        named[name] = value
    return named
