from itertools import pairwise

import pytest

from docagent_rl.envs.token_budget import estimated_tokens
from docagent_rl.systems.mm_doc_r1.state import (
    FoundPage,
    ReaderNotes,
    Step,
    histories,
    reasoning_of,
    trajectory_text,
)

FOUND = (FoundPage(4, "the totals", False), FoundPage(7, "sums", True))
SEARCH = Step(1, "Totals are missing.", '<search>["totals"]</search>', FOUND)
READ = Step(
    2, "Page 4 it is.", "<read>[]</read>", notes=(ReaderNotes((4, 5), "totals?", "n" * 500),)
)
FAULT = Step(3, "Hm.", remarks=("That step could not be carried out.",))
LAST = Step(
    4, "Again.", '<search>["x"]</search>', (FoundPage(2, "an extract", False),), remarks=("Cut.",)
)
STEPS = (SEARCH, READ, FAULT, LAST)


def test_a_step_in_full():
    assert list(histories([SEARCH], 400)) == [
        "Step 1\nReasoning: Totals are missing.\n"
        'Action: <search>["totals"]</search>\nResult:\np.4: the totals\np.7 (already read): sums'
    ]
    (fault,) = histories([FAULT], 400)
    assert fault.startswith("Step 3\nReasoning: Hm.\nAction: ")
    assert fault.endswith("\nResult:\nThat step could not be carried out.")
    assert "Notes on p.4, p.5 for the query: totals?\nnnn" in READ.result
    assert list(histories([], 400)) == [""]


def test_versions_grow_shorter_in_order():
    """Search results become ids, notes are cut to 400 characters, reasoning is dropped; the last
    step stays.
    """
    full, ids, notes, *silent = versions = list(histories(STEPS, 400))
    assert "the totals" in full
    assert "Found: p.4, p.7" in ids
    assert "the totals" not in ids
    assert "n" * 500 in ids
    assert "n" * 399 + "\u2026" in notes
    said = [f"Reasoning: {step.reasoning}" for step in STEPS]
    assert [sum(part in text for part in said) for text in (notes, *silent)] == [4, 3, 2, 1]
    assert all(len(a) > len(b) for a, b in pairwise(versions))
    assert all("p.2: an extract" in text and "Reasoning: Again." in text for text in versions)
    assert all(text.count('<search>["totals"]</search>') == 1 for text in versions)


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
    return trajectory_text(steps, max_tokens=max_tokens, count=estimated_tokens)


def test_the_text_that_is_embedded():
    whole, short, tiny = (
        embedded(STEPS),
        embedded(STEPS, max_tokens=140),
        embedded(STEPS, max_tokens=20),
    )
    begins = (
        'Totals are missing.\n<search>["totals"]</search>\np.4: the totals\np.7 (already '
        "read): sums\n"
    )
    assert whole.startswith(begins)
    assert "n" * 200 in whole
    assert "n" * 300 not in whole
    assert whole.endswith('Again.\n<search>["x"]</search>\np.2: an extract\nCut.')
    assert embedded([Step(1, "I know.", "<FINISH>")]) == "I know.\n<FINISH>"
    assert embedded([]) == ""
    # a long text is shortened, and then loses its middle
    assert len(short) < len(whole)
    assert "n" * 100 not in short
    assert "p.4: the totals" in short
    assert estimated_tokens(tiny) <= 20
    assert tiny.startswith("Totals")
    assert tiny.endswith("Cut.")
    assert " \u2026 " in tiny
