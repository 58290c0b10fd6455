"""Display of a flush: one sentence on whether it was proven that all of the table is on disk."""

from replayer.model import Fact, StepResult
from replayer.run.display import Brief, Form, Sentence, Tone
from replayer.units import show_count, show_duration, show_size

_GLOSSES = {"flush.elapsed": "by the server, then fsync of every file"}
_TOLD = frozenset({"proven", "buffers.dirty", "pages.dirty_bytes", "files"})


def form(result: StepResult) -> Form:
    """Return a sentence: proof that all of the table is on disk, or a warning if proof is missing.

    There is no sentence if the result of the step has no proof in either way.
    """
    get = result.facts.get
    if get("proven") is None:
        return Form(glosses=_GLOSSES, brief=_brief(result, proof=""))
    pages = get("pages.dirty_bytes")
    words = [
        f"{_known(get('buffers.dirty'))} dirty buffers in the server",
        f"{show_size(pages) if isinstance(pages, int) else 'unknown'} dirty in the page cache",
        f"in {_known(get('files'))} files",
    ]
    proven = bool(get("proven"))
    verdict = "proven clean" if proven else "NOT PROVEN CLEAN"
    sentence = Sentence(f"{verdict}: {', '.join(words)}", Tone.GOOD if proven else Tone.BAD)
    left = "0 dirty pages left" if proven else "not proven clean"
    return Form([sentence], facts=_TOLD, glosses=_GLOSSES, brief=_brief(result, proof=left))


def _brief(result: StepResult, *, proof: str) -> Brief:
    elapsed = result.value("flush.elapsed")
    results = [] if elapsed is None else [show_duration(elapsed)]
    return Brief("all of it written to disk", results, proof)


def _known(value: Fact) -> str:
    if value is None:
        return "an unknown number of"
    return show_count(value) if isinstance(value, int | float) else str(value)
