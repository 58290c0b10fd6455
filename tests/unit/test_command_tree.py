"""The parser with every command: what it says of words that it does not know."""

import pytest

from replayer.cli.command_parser import parser


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rnu"], "there is no 'rnu' - did you mean run?"),
        (["runs", "lst"], "there is no 'lst' - did you mean list?"),
        (["list", "worklods"], "there is no 'worklods' - did you mean workloads?"),
        (["completion", "foo"], "there is no 'foo' (there are: bash, fish, zsh)"),
    ],
)
def test_a_mistyped_word_is_answered_by_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    """One of many choices is mistyped: the nearest is named, and all of them where none is near."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)

    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
