"""The log of a private server: its messages, how the server ended, why it did not start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from replayer.engines.engine_spec import ServerSpec
    from replayer.errors import ReplayerError


class ServerLog(NamedTuple):
    """The log since the last start of the server; engine.toml has patterns for its lines."""

    path: Path
    keys: ServerSpec

    def messages(self) -> list[str]:
        """Return the log's messages, one for each line, without time stamps; [] without a log."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        prefix = self.keys.log_prefix
        lines = (" ".join(prefix.sub("", raw).split()) for raw in text.splitlines())
        return [line for line in lines if line]

    def read_last_words(self) -> str:
        """Return the last message that the engine counts as important.

        Without an important one, returns the last message of any kind; "" if there is no message.
        """
        messages = self.messages()
        return (self._important(messages) or messages or [""])[-1]

    def find_complaints(self) -> list[str]:
        """Return the messages without those that the engine counts as notes."""
        return [line for line in self.messages() if not self.keys.log_note.search(line)]

    def find_end(self) -> str:
        """Return the message about the server's end; "" if the log does not mention one."""
        ends = [line for line in self.messages() if self.keys.log_end.search(line)]
        return ends[-1] if ends else ""

    def find_reason(self, error: ReplayerError) -> str:
        """Return why the server did not start: the last important message of its log.

        The HINT after that message is added, as the message alone may be too vague.  If the log
        has no important message, the reason is `error` and the last line of the log.
        """
        messages = self.messages()
        weighty = [n for n, line in enumerate(messages) if self.keys.log_weight.search(line)]
        if weighty:
            reason, *after = messages[weighty[-1] :]
            advice = [line for line in after if line.startswith("HINT:")][:1]
            return "; ".join([reason, *advice])
        last = f"; the last line of its log is: {messages[-1]}" if messages else ""
        return f"{str(error).rstrip('.')}{last}"

    def _important(self, messages: list[str]) -> list[str]:
        return [line for line in messages if self.keys.log_weight.search(line)]
