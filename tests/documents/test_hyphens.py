"""A hyphen at a line's end stays where the pages write the compound with one."""

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents.hyphens import Spellings, splits_words
from docagent_rl.documents.store import DocumentStore


@pytest.mark.parametrize(
    ("seen", "split", "joined"),
    [
        ("Few-shot learning", "a few\x02shot task", "a few-shot task"),
        ("a zero-shot-like task", "zero\x02shot, shot\x02like", "zero-shot, shot-like"),
        ("copy-right copyright copyright", "copy\x02right", "copyright"),
        ("co-operation", "operation and eval\ufffeuation", "operation and evaluation"),
        ("a well-few-shots", "few\x02shot", "fewshot"),
        ("", "\x02 at \x02", " at "),
    ],
)
def test_which_hyphens_stay(seen, split, joined):
    assert splits_words(split)
    assert Spellings([seen]).joined(split) == joined


def test_a_compound_of_another_page_keeps_its_hyphen(inbox, store_path, ingested):
    canvas = Canvas(str(inbox / "a.pdf"), pagesize=(300, 200))
    for lines in (
        ("We test few-", "shot learning by evalu-", "ation"),
        ("Results of few-shot learning",),
    ):
        for row, line in enumerate(lines):
            canvas.drawString(10, 150 - 14 * row, line)
        canvas.showPage()
    canvas.save()
    ingested()
    text = DocumentStore(store_path).document("a").page(1).text()
    assert " ".join(text.split()) == "We test few-shot learning by evaluation"
