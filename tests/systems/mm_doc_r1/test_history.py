from __future__ import annotations

from itertools import pairwise

import pytest

from docagent_rl.envs.token_budget import estimated_tokens
from docagent_rl.systems.mm_doc_r1.history import (
    FoundPage,
    ReaderNotes,
    Step,
    histories,
    reasoning_of,
    trajectory_text,
)

SEARCH = Step(
    1,
    "Totals are missing.",
    '<search>["totals"]</search>',
    (FoundPage(4, "the totals", False), FoundPage(7, "sums", True)),
)
READ = Step(2, "Page 4 it is.", "<read>[]</read>", notes=(ReaderNotes((4, 5), "totals?", "n" * 500),))
FAULT = Step(3, "Hm.", remarks=("That step could not be carried out.",))
LAST = Step(4, "Again.", '<search>["x"]</search>', (FoundPage(2, "an extract", False),), remarks=("Cut.",))
STEPS = (SEARCH, READ, FAULT, LAST)


def test_a_step_in_full():
    (text,) = histories([SEARCH], 400)
    assert text == (
        "Step 1\nReasoning: Totals are missing.\n"
        'Action: <search>["totals"]</search>\nResult:\np.4: the totals\np.7 (already read): sums'
    )
    (text,) = histories([FAULT], 400)
    assert text == (
        "Step 3\nReasoning: Hm.\nAction: none that is valid\nResult:\nThat step could not be carried out."
    )
    assert "Notes on p.4, p.5 for the query: totals?\nnnn" in READ.result
    assert list(histories([], 400)) == [""]


def test_versions_grow_shorter_in_order():
    """Search results to ids, notes to 400 characters, reasoning to nothing; never the last step."""
    full, ids, notes, *silent = histories(STEPS, 400)
    assert "the totals" in full
    assert "Found: p.4, p.7" in ids
    assert "the totals" not in ids
    assert "n" * 500 in ids
    assert "n" * 399 + "\u2026" in notes
    assert [sum(f"Reasoning: {r}" in text for r in ("Totals are missing.", "Page 4 it is.", "Hm.", "Again."))
            for text in (notes, *silent)] == [4, 3, 2, 1]  # fmt: skip
    assert len(silent) == 3
    versions = [full, ids, notes, *silent]
    assert all(len(a) > len(b) for a, b in pairwise(versions))
    assert all("p.2: an extract" in text and "Reasoning: Again." in text for text in versions)
    assert all(text.count('<search>["totals"]</search>') == 1 for text in versions)


def test_the_oldest_go_first():
    one, two = (Step(n, "", "s", (FoundPage(n, f"extract {n}", False),)) for n in (1, 2))
    _, first, second = histories([one, two, LAST], 400)
    assert "extract 1" not in first
    assert "extract 2" in first
    assert "extract 2" not in second


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("  a\n b ", 5, "a b"),
        ("a b c d", 3, "a b c \u2026"),
        ("", 3, ""),
        ("x" * 100, 3, "x" * 35 + "\u2026"),
    ],
)
def test_reasoning(text, limit, line):
    assert reasoning_of(text, limit) == line


def embedded(steps, max_tokens=8192):
    return trajectory_text(
        steps, result_chars=60, short_result_chars=20, max_tokens=max_tokens, count=estimated_tokens
    )


def test_the_text_that_is_embedded():
    text = embedded(STEPS)
    assert text.startswith(
        'Totals are missing.\n<search>["totals"]</search>\np.4: the totals\np.7 (already read): sums\n'
    )
    assert "n" * 30 not in text
    assert text.endswith('Again.\n<search>["x"]</search>\np.2: an extract\nCut.')
    assert embedded([Step(1, "I know.", "<FINISH>")]) == "I know.\n<FINISH>"
    assert embedded([]) == ""


def test_a_long_text_is_shortened_and_loses_its_middle():
    whole, short = embedded(STEPS), embedded(STEPS, max_tokens=90)
    assert len(short) < len(whole)
    assert "sums" not in short
    tiny = embedded(STEPS, max_tokens=20)
    assert estimated_tokens(tiny) <= 20
    assert tiny.startswith("Totals")
    assert tiny.endswith("Cut.")
    assert " \u2026 " in tiny
