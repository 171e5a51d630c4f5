"""Double-Bench, VisR-Bench and DocBench, as their repositories lay them out."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers.finishing import OUTSIDE
from docagent_rl.samples.sample import Split
from tests.lab.importers.conftest import rows_of


def single(**changes: object) -> dict[str, object]:
    return {
        "uid": "0962",
        "question": "How many live there?",
        "answer": "16,280",
        "reference_page": [0, 2],
        "source_type": "table",
        "language": "en",
        "doc_path": "docs/English/0786",
        "query_type": "Comparison",
        "doc_type": "HTML Pages",
        **changes,
    }


def test_double_bench_counts_pages_from_0_and_names_documents_by_language(files, run):
    steps = [{"question0": "Which drug?", "answer0": "Gabapentin", "reference_page": [1]}]
    multi = single(source_type=["text", "table"], steps=steps, reference_page=[1])
    rows = [single(), single(uid="1", modality="figure", source_type=None, reference_page=[9])]
    files.json("Double_Bench/single_bench.json", rows)
    files.json("Double_Bench/multi_bench.json", [multi])
    files.images("docs/English/0786/{}.jpg", (0, 1, 2))
    files.images("docs/Arabic/0786/{}.jpg", (0,))
    (hop, first, second), report = run("double_bench", store=True)
    assert (first.question_id, hop.question_id) == ("single-0962", "multi-0962")
    assert (first.doc_id, first.split, first.answers) == ("English_0786", Split.TEST, ("16,280",))
    assert (first.evidence_pages, first.extra["num_pages"]) == ((1, 3), 3)
    assert (first.evidence_sources, second.evidence_sources) == (("table",), ("figure",))
    assert (hop.evidence_sources, hop.extra["steps"]) == (("text", "table"), steps)
    assert first.extra["language"] == "en"
    assert rows_of(report.notes) == {OUTSIDE: [1]}
    assert report.documents["found"] == 2


def test_double_bench_without_a_page_or_the_other_file_is_incomplete(files, run):
    files.json("single_bench.json", [single()])
    files.images("docs/English/0786/{}.jpg", (0, 2))
    samples, report = run("double_bench")
    assert (len(samples), report.documents["missing"]) == (1, 1)
    with pytest.raises(UserError, match="5168"):
        run("double_bench", any_count=False)


def visr(**changes: object) -> dict[str, object]:
    asked = {"question": "Which?", "answer": "That", "page_index": 1, "detected_language": "en"}
    return {
        "file_name": "DR--1",
        "all_page_images": ["DR--1_0.png", "DR--1_10.png"],
        "all_page_md_str": ["None", "text"],
        "qa_list": [asked, {**asked, "question": "Who?", "page_index": 0}],
        **changes,
    }


def visr_question(**changes: object) -> dict[str, object]:
    """Return a question as the importer reads it: with the fields of its document."""
    document = visr()
    (asked, _) = document.pop("qa_list")
    return {**asked, **document, **changes}


def test_visr_bench_has_the_questions_of_a_document_in_one_row(files, run):
    files.json("QA/figure_QA.json", [visr(), visr(qa_list=None), visr(qa_list=[{"question": "?"}])])
    outside = visr(file_name="DR--3", all_page_images=["a.png", "../b.png"])
    tables = [visr(file_name="DR--2", all_page_images=["a.png", "b.png"]), outside]
    files.json("QA/table_QA.json", tables)
    for name in ("DR--1_0", "DR--1_10"):
        files.image(f"VisR-Bench/Multimodal/DR--1/{name}.png", name)
    files.image("VisR-Bench/Multimodal/DR--2/a.png")
    (first, second, third, _), report = run("visr_bench")
    assert (first.question_id, first.doc_id, first.answers) == ("figure#000000", "DR--1", ("That",))
    assert (first.evidence_pages, second.evidence_pages) == ((2,), (1,))
    assert (first.evidence_sources, third.evidence_sources) == (("figure",), ("table",))
    assert (first.extra["num_pages"], first.extra["detected_language"]) == (2, "en")
    assert rows_of(report.skipped) == {
        "question": [2],
        "answer": [3],
        "all_page_images": [2, 3],
    }
    # one of its images is not there
    assert report.documents == {"wanted": 2, "found": 1, "missing": 1, "failed": 0}


def docbench_row() -> dict[str, object]:
    return {"question": "How many?", "answer": "7", "type": "text-only", "evidence": "seven"}


def test_docbench_has_a_folder_for_each_document(files, run):
    row = docbench_row()
    files.jsonl("data/17/17_qa.jsonl", [row, {**row, "type": "una-web", "answer": "Not said"}])
    files.pdf("data/17/2024.acl-long.1.pdf", 2)
    files.jsonl("data/18/18_qa.jsonl", [row])
    (first, second, third), report = run("docbench")
    assert (first.question_id, first.doc_id) == ("17-0", "docbench_17")
    assert (first.answers, first.evidence_pages, first.extra["evidence"]) == (("7",), (), "seven")
    assert (second.answerable, second.answers, second.extra["gold"]) == (False, (), "Not said")
    assert (third.question_id, first.extra["num_pages"]) == ("18-0", 2)
    assert first.evidence_sources == ("text-only",)
    assert report.documents == {"wanted": 2, "found": 1, "missing": 1, "failed": 0}
