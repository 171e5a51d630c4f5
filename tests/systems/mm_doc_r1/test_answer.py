from __future__ import annotations

from docagent_rl.systems.mm_doc_r1.answer import Evidence, answer_context
from docagent_rl.systems.mm_doc_r1.config import AnswerConfig
from docagent_rl.systems.mm_doc_r1.history import ReaderNotes

NOTES = [ReaderNotes((3,), "old?", "o" * 200), ReaderNotes((4, 5), "new?", "w" * 200)]
PAGES = {3: "three " * 500, 4: "  ", 5: "five"}
SNIPPETS = {8: "eight " * 50, 9: "nine"}


def context(max_tokens=12_000, evidence=None, **changes):
    evidence = evidence or Evidence(NOTES, PAGES, SNIPPETS)
    return answer_context(evidence, AnswerConfig(max_tokens=max_tokens, **changes), len)


def test_the_layout():
    text = context(100_000)
    marks = ["Notes on p.3:\nooo", "Notes on p.4, p.5", "Text of p.3:\nthree three",
    "Text of p.5:\nfive",
             "Found on p.8, not read: eight", "Found on p.9, not read: nine"]  # fmt: skip
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "Text of p.4" not in text
    assert context(evidence=Evidence([], {}, {})) == ""


def test_lengths():
    text = context(100_000, page_chars=100, snippet_chars=20)
    page = text.split("Text of p.3:\n")[1].split("\n\n")[0]
    snippet = text.split("Found on p.8, not read: ")[1].split("\n\n")[0]
    assert (len(page), len(snippet)) <= (100, 20)
    assert page.endswith("\u2026")
    assert snippet.endswith("\u2026")


def test_snippets_stay_within_their_share():
    found = dict.fromkeys(range(1, 40), "word " * 40)
    text = context(10_000, Evidence([], {}, found))
    assert 1000 - 150 < len(text) <= 1000 + 2 * 6
    assert text.index("p.1,") < text.index("p.2,")


def test_what_does_not_fit_is_cut_in_order():
    """Snippets, then page texts from the last, then the oldest notes."""
    everything = context(4000, page_chars=600)
    assert "Found on p.9" in everything
    no_snippets = context(1075, page_chars=600, snippet_share=1.0)
    assert "Found" not in no_snippets
    assert "Text of p.5" in no_snippets
    no_last_page = context(1050, page_chars=600, snippet_share=1.0)
    assert "Text of p.5" not in no_last_page
    assert "Text of p.3" in no_last_page
    no_pages = context(600, page_chars=600)
    assert "Text" not in no_pages
    assert "ooo" in no_pages
    newest = context(256)
    assert "ooo" not in newest
    assert "www" in newest


def test_the_last_notes_stay():
    text = context(256, Evidence([ReaderNotes((1,), "q", "n" * 1000)], PAGES, SNIPPETS))
    assert "n" * 1000 in text
    assert "Text" not in text


def test_words_of_the_seeker_are_no_evidence():
    guess = Evidence([ReaderNotes((3,), "the answer is 241", "a table")], {}, {})
    assert context(evidence=guess) == "Notes on p.3:\na table"


def test_ablations():
    assert "Text of" not in context(page_text=False)
    assert "Found on" not in context(snippets=False)
