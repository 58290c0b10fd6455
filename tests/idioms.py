"""Count, in docstrings and comments of replayer, the idioms that a stranger stumbles over.

    python -m tests.idioms             # the counts; exit status 1 where one has grown
    python -m tests.idioms nobody      # the lines of each idiom whose name has this in it

The rules stand in CONTRIBUTING.md ("Names and words"); the limits below only shrink.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

REPLAYER = Path(__file__).resolve().parents[1] / "replayer"
IDIOMS: Mapping[str, str] = {
    "opens with a noun clause (What ..., Who ..., Whether ...)": (
        r"\A\W*(What|Who|Whose|Whom|Whoever|Whether|Where|How)\b(?!.*\?)"
    ),
    "say, said (for report, print)": r"\b(say|says|said|saying)\b",
    "tell, told (for report, return)": r"\b(tell|tells|told|telling)\b",
    "whoever, somebody, nobody, those who": r"\b(whoever|somebody|nobody|anybody|those who)\b",
    "of replayer's, of its own": r"\bof (replayer's|its own|their own|somebody's)\b",
    "beside, elsewhere, otherwise than": r"\b(beside|elsewhere|otherwise than)\b",
}
"""What to avoid -> the pattern that finds it, whatever the case of its letters."""
LIMITS: Mapping[str, int] = {
    "opens with a noun clause (What ..., Who ..., Whether ...)": 0,
    "say, said (for report, print)": 1,
    "tell, told (for report, return)": 0,
    "whoever, somebody, nobody, those who": 0,
    "of replayer's, of its own": 2,
    "beside, elsewhere, otherwise than": 0,
}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, field note and comment."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield node.lineno, re.sub(r"`[^`]*`", "`x`", text)  # names are no prose
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (noqa|type:)", token.string):
            yield token.start[0], token.string


def found() -> dict[str, list[str]]:
    """Return, for each idiom, `file:line: text` of each text that has it."""
    lines: dict[str, list[str]] = {idiom: [] for idiom in IDIOMS}
    patterns = {
        idiom: re.compile(pattern, 0 if "\\A" in pattern else re.IGNORECASE)
        for idiom, pattern in IDIOMS.items()
    }
    for path in sorted(REPLAYER.rglob("*.py")):
        for line, text in texts(path.read_text()):
            where = f"{path.relative_to(REPLAYER.parent)}:{line}: {' '.join(text.split())[:120]}"
            for idiom, pattern in patterns.items():
                if pattern.search(text):
                    lines[idiom].append(where)
    return lines


def main(words: list[str]) -> int:
    """Print the counts, or the lines of the idioms that are named; return the exit status."""
    status = 0
    for idiom, lines in found().items():
        if words:
            print(*(line for line in lines if any(word in idiom for word in words)), sep="\n")
            continue
        limit = LIMITS.get(idiom, 0)
        print(f"{len(lines):5} of at most {limit:5}  {idiom}")
        status |= len(lines) > limit
    if status:
        print("see CONTRIBUTING.md, Words: write plainly what has come in")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
