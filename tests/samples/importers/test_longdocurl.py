from __future__ import annotations

from docagent_rl.samples.importers.finishing import CLAMPED, EMPTY, LENGTH, WINDOW
from tests.samples.importers.conftest import numbers, rows_of

FILE = "LongDocURL_public.jsonl"


def row(**changes: object) -> dict[str, object]:
    return {
        "question_id": "free_gpt4o_4026369_60_90_7",
        "doc_no": "4026369",
        "total_pages": 6,
        "start_end_idx": [2, 5],
        "question_type": "extract",
        "question": "What is the <b>ratio</b>?\nGive a number.",
        "answer": 3.5,
        "detailed_evidences": "The ratio stands on page 4: <box>(0.1, 0.2, 0.5, 0.4)</box>.",
        "evidence_pages": [4],
        "evidence_sources": ["Table"],
        "answer_format": "Float",
        "task_tag": "Understanding",
        "images": ["/home/authors/png/4026/4026369_1.png"],
        "pdf_path": "/home/authors/pdfs/4026369.pdf",
        **changes,
    }


def test_rows_become_samples(files, run):
    files.pdf("pdf_files/4026/4026369.pdf", 6)
    several = {
        "answer": ["a", 2],
        "answer_format": "List",
        "evidence_pages": [2, 3],
        "detailed_evidences": "",
    }
    none = {"answer": "Not answerable", "answer_format": "None", "evidence_pages": [], "evidence_sources": []}
    files.jsonl(FILE, [row(), row(question_id="b", **several), row(question_id="c", **none)])
    first, listed, nothing = run("longdocurl", store=True)[0]
    assert first.question_id == "free_gpt4o_4026369_60_90_7"
    assert first.question == "What is the <b>ratio</b>?\nGive a number."
    assert (first.answers, first.answer_format, first.extra["gold"]) == (("3.5",), "Float", 3.5)
    assert first.evidence_pages == (4,)
    assert first.evidence_boxes == {4: ((0.1, 0.2, 0.5, 0.4),)}
    assert (first.extra["window"], first.extra["num_pages"]) == ([2, 5], 6)
    assert (listed.answers, listed.extra["gold"]) == (("a", "2"), ["a", 2])
    assert (nothing.answerable, nothing.answers, nothing.evidence_boxes) == (False, (), {})


def test_boxes_go_to_the_page_named_beside_them(files, run):
    boxes = [f"<box>({left}, 0.5, 0.9, 0.6)</box>" for left in (0.1, 0.2, 0.3)]
    text = f"On page 2 there is {boxes[0]} and {boxes[1]} on page 5. {'x' * 100} {boxes[2]}"
    files.jsonl(FILE, [row(evidence_pages=[2, 5], detailed_evidences=text)])
    (sample,), report = run("longdocurl")
    assert sample.evidence_boxes == {2: ((0.1, 0.5, 0.9, 0.6),), 5: ((0.2, 0.5, 0.9, 0.6),)}
    assert numbers(report.notes) == [[0]]


def test_bad_boxes_windows_and_lengths_are_counted(files, run):
    files.pdf("pdf_files/4026369.pdf", 5)
    text = "<box>(0.1, 0.2, 1.5, 0.4)</box> <box>(0.3, 0.3, 0.3, 0.4)</box>"
    rows = [row(detailed_evidences=text), row(question_id="b", start_end_idx=[4, 6], detailed_evidences="")]
    rows.append(row(question_id="c", start_end_idx="4-6", detailed_evidences=""))
    files.jsonl(FILE, rows)
    (clamped, windowless, textual), report = run("longdocurl")
    assert clamped.evidence_boxes == {4: ((0.1, 0.2, 1.0, 0.4),)}
    assert clamped.extra["num_pages"] == 5
    assert "window" not in windowless.extra
    assert (windowless.extra["native_window"], textual.extra["native_window"]) == ([4, 6], "4-6")
    noted = {CLAMPED: [0], EMPTY: [0], LENGTH: [0, 1, 2], WINDOW: [1], "start_end_idx": [2]}
    assert rows_of(report.notes) == noted


def test_page_images_count_from_0_and_only_whole_documents_are_taken(files, run):
    files.images("png/4026/4026369_{}.png", range(6))
    files.images("png/4026/4026370_{}.png", range(3))
    files.jsonl(FILE, [row(), row(question_id="b", doc_no="4026370")])
    (sample,), report = run("longdocurl", store=True)
    assert (sample.doc_id, sample.extra["num_pages"]) == ("4026369", 6)
    assert (report.missing, numbers(report.skipped)) == (["4026370"], [[1]])
