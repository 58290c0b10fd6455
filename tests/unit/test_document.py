"""A report document: each writer has its answer, and what is in it is text alone."""

import csv
import io

import pytest

from replayer.report.document import (
    Bullets,
    Curve,
    Document,
    Facts,
    Figure,
    Numbered,
    Section,
    SparkLines,
    Table,
    Texts,
)
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, markdown_writer, page_writer, terminal_writer
from replayer.run.display import Sentence, Tone
from tests.made import drawn_in

EVIL = "<script>alert(1)</script>\x1b[31m|"


def made(word: str, *, is_answer_last: bool = False) -> Document:
    """Return a document with every part, and a word in all of its texts."""
    table = Table((word, "verdict", "n"), [(word, "fits", str(n)) for n in range(5)], (2,), most=2)
    parts = (
        Sentence(word, Tone.QUIET),
        Facts([(word, word), (word, Texts([word], gloss=word))]),
        Texts([word, word], tone=Tone.QUIET),
        Table(("share", "of", "function"), [("50.0%", word, word)], (0,), is_list=True),
        Table((word, "n"), [("1", "2")], (0, 1), is_dense=True),
        Bullets([word]),
        table,
        Table((word, "lines"), [(word, f"{word}\n{word}")], tones=[Tone.GOOD], is_wordy=True),
        Numbered([(1, Sentence(word, Tone.BAD))], word),
        SparkLines([(word, [1.0, None, 2.0], word)]),
        Figure("x", word, [Curve(word, [word], [1.0], texts=[word])], axes={"categories": [word]}),
        Section(f"{word} within", [Sentence(word)]),
        Section("Folded", [Sentence("for a page alone")], is_folded=True, is_for_page=True),
    )
    return Document(
        word,
        Sentence(f"the answer {word}"),
        [Section("Everything", parts), Section("Nothing", [Table(("a",), [])])],
        lead=[word],
        notes=[word],
        made=word,
        is_answer_last=is_answer_last,
        data=[("name", "value"), (f"={word}", 1.5)],
    )


def test_no_text_of_a_document_steers_its_medium() -> None:
    """Escaped on the page and in its charts, in Markdown, CSV, and on the terminal."""
    document = made(EVIL)
    page = page_writer.page(document)

    assert "<script>alert" not in page
    assert "<script>alert" not in drawn_in(page)
    assert "&lt;script&gt;alert" in drawn_in(page)
    assert "<script>" not in markdown_writer.page(document)
    assert csv_writer.page(document).splitlines()[1].startswith("'=<script>")
    for text in (console.text(terminal_writer.render(document)), markdown_writer.page(document)):
        assert "\x1b" not in text


@pytest.mark.parametrize("is_answer_last", [False, True])
def test_a_terminal_has_the_answer_at_the_end_that_it_is_to_have(*, is_answer_last: bool) -> None:
    """First below the title, or as the last line; no line is too long."""
    lines = console.text(
        terminal_writer.render(made("word", is_answer_last=is_answer_last)), width=60
    ).splitlines()

    assert lines[-1 if is_answer_last else 1].strip() == "the answer word"
    assert max(map(len, lines)) <= 60
    assert "  and 3 more" in lines


def test_a_section_that_begins_with_nothing_keeps_its_title() -> None:
    """In Markdown the title is the first heading of facts: of none, where there are none."""
    section = Section("Its title", [Facts([]), Bullets(["a word"])])
    text = markdown_writer.page(Document("it", Sentence("yes", Tone.PLAIN), [section]))

    assert text.index("**Its title**") < text.index("- a word")


def test_a_heading_that_is_a_name_is_shown_as_it_is() -> None:
    """A step's name keeps its capital, and stands also if there is nothing to show of it."""
    sections = [Section("Scan", [], is_named=True), Section("In short", [Sentence("x")])]
    text = console.text(terminal_writer.render_parts(sections))

    assert text.splitlines() == ["  Scan", "", "  in short", "  x"]


@pytest.mark.parametrize("width", [44, 60, 100])
def test_a_spark_line_and_its_text_are_one_line(width: int) -> None:
    """The blocks are as many as there is room for next to the text."""
    part = SparkLines([("riops", [1.0, 2.0] * 40, "5/s to 9/s")])
    lines = console.text(terminal_writer.render_parts([part]), width=width).splitlines()

    assert len(lines) == 1
    assert lines[0].endswith("  5/s to 9/s")


def test_each_writer_leaves_out_what_its_medium_has_no_room_for() -> None:
    """Folded parts are on the page alone, and a section without parts is nowhere."""
    document = made("word")
    texts = {
        "page": page_writer.page(document),
        "markdown": markdown_writer.page(document),
        "terminal": console.text(terminal_writer.render(document)),
    }

    assert [name for name, text in texts.items() if "for a page alone" in text] == ["page"]
    bodies = {**texts, "page": texts["page"].partition("<main>")[2].partition("</main>")[0]}
    assert not [name for name, text in bodies.items() if "nothing" in text.lower()]
    assert texts["markdown"].startswith("**the answer word**\n\n- word\n- word\n\n**Everything**")
    assert [*csv.reader(io.StringIO(csv_writer.page(document)))] == [
        ["name", "value"],
        ["'=word", "1.5"],
    ]
