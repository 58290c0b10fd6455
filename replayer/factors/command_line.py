"""Any words on the kernel's command line, joined by +, such as none or slub_debug=P+nosmt."""

from replayer.factors import Scope

SCOPE: Scope = "boot"
NEEDS_ROOT = True
_NONE = "none"


def boot_words(level: str) -> tuple[str, ...]:
    """Return the words for the kernel's command line: `level`, split at +; () for `none`."""
    return () if level == _NONE else tuple(filter(None, level.split("+")))
