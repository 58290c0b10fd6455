"""Short texts from a server's error messages, for use as part of one sentence."""

from replayer.engines import login
from replayer.errors import one_line


def explain(error: BaseException) -> str:
    """Return a driver's error as part of one sentence: the first line of the server's message."""
    text = str(error.args[-1] if error.args else error).strip() or type(error).__name__
    lines = [one_line(line).strip() for line in text.splitlines() if line.strip()]
    return f"{(lines or ['it printed nothing'])[0].rstrip('.')}{login.remedy(text)}"


def explain_bytes(message: bytes) -> str:
    """Return the first line of a server's message, given as bytes, as part of one sentence."""
    return explain(Exception(message.decode("utf-8", "replace")))
