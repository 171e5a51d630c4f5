from __future__ import annotations

import pytest

from docagent_rl.systems.mm_doc_r1.config import AnswerConfig
from docagent_rl.systems.mm_doc_r1.history import ReaderNotes
from docagent_rl.systems.mm_doc_r1.roles import Evidence, answer_context

NOTES = [ReaderNotes((3,), "old?", "o" * 200), ReaderNotes((4, 5), "new?", "w" * 200)]
PAGES = {3: "three " * 500, 4: "  ", 5: "five"}
SNIPPETS = {8: "eight " * 50, 9: "nine"}
MARKS = [
    "Notes on p.3:\nooo", "Notes on p.4, p.5", "Text of p.3:\nthree three", "Text of p.5:\nfive",
    "Found on p.8, not read: eight", "Found on p.9, not read: nine",
]  # fmt: skip


def context(max_tokens=12_000, evidence=None, **changes):
    evidence = evidence or Evidence(NOTES, PAGES, SNIPPETS)
    return answer_context(evidence, AnswerConfig(max_tokens=max_tokens, **changes), len)


def test_the_layout():
    text = context(100_000)
    places = [text.index(mark) for mark in MARKS]
    assert places == sorted(places)
    assert "Text of p.4" not in text
    assert context(evidence=Evidence([], {}, {})) == ""
    # words of the seeker are no evidence
    guess = Evidence([ReaderNotes((3,), "the answer is 241", "a table")], {}, {})
    assert context(evidence=guess) == "Notes on p.3:\na table"


def test_lengths():
    text = context(100_000, page_chars=100, snippet_chars=20)
    for label, most in (("Text of p.3:\n", 100), ("Found on p.8, not read: ", 20)):
        cut = text.split(label)[1].split("\n\n")[0]
        assert len(cut) <= most
        assert cut.endswith("\u2026")


def test_snippets_stay_within_their_share():
    found = dict.fromkeys(range(1, 40), "word " * 40)
    text = context(10_000, Evidence([], {}, found))
    assert 1000 - 150 < len(text) <= 1000 + 2 * 6
    assert text.index("p.1,") < text.index("p.2,")


@pytest.mark.parametrize(
    ("max_tokens", "changes", "kept"),
    [
        # snippets go first, then page texts from the last, then the oldest notes
        (4000, {"page_chars": 600}, MARKS),
        (1075, {"page_chars": 600, "snippet_share": 1.0}, MARKS[:4]),
        (1050, {"page_chars": 600, "snippet_share": 1.0}, MARKS[:3]),
        (600, {"page_chars": 600}, MARKS[:2]),
        # the last notes stay
        (256, {}, MARKS[1:2]),
        (100_000, {"page_text": False}, [*MARKS[:2], *MARKS[4:]]),
        (100_000, {"snippets": False}, MARKS[:4]),
    ],
)
def test_what_does_not_fit_is_cut_in_order(max_tokens, changes, kept):
    text = context(max_tokens, **changes)
    assert [mark for mark in MARKS if mark in text] == kept
