"""LongDocURL, DUDE and UDA."""

import pyarrow as pa
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers.finishing import CLAMPED, LENGTH, OUTSIDE, WINDOW
from docagent_rl.lab.importers.native import NO_ANSWER
from docagent_rl.samples.sample import Split
from docagent_rl.samples.selection import Selection
from tests.lab.importers.conftest import Files, numbers, rows_of

URL_FILE = "LongDocURL_public.jsonl"


def url_row(**changes: object) -> dict[str, object]:
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


def test_rows_of_longdocurl_become_samples(files, run):
    files.pdf("pdf_files/4026/4026369.pdf", 6)
    several = {
        "answer": ["a", 2],
        "answer_format": "List",
        "evidence_pages": [2, 3],
        "detailed_evidences": "",
    }
    none = {
        "answer": "Not answerable",
        "answer_format": "None",
        "evidence_pages": [],
        "evidence_sources": [],
    }
    files.jsonl(
        URL_FILE, [url_row(), url_row(question_id="b", **several), url_row(question_id="c", **none)]
    )
    first, listed, nothing = run("longdocurl", store=True)[0]
    assert first.question_id == "free_gpt4o_4026369_60_90_7"
    assert first.question == "What is the <b>ratio</b>?\nGive a number."
    assert (first.answers, first.answer_format, first.extra["gold"]) == (("3.5",), "Float", 3.5)
    assert first.evidence_pages == (4,)
    assert (first.extra["window"], first.extra["num_pages"]) == ([2, 5], 6)
    assert (listed.answers, listed.extra["gold"]) == (("a", "2"), ["a", 2])
    assert (nothing.answerable, nothing.answers, nothing.evidence_boxes) == (False, (), {})


@pytest.mark.parametrize(
    "name",
    [
        "LongDocURL_public_with_subtask_category.jsonl",
        "data/LongDocURL_public.jsonl",
        "data/LongDocURL.jsonl",
        "LongDocURL.jsonl",
    ],
)
def test_longdocurl_has_the_names_of_the_hub_and_of_the_repository(files, run, name):
    files.jsonl(name, [url_row()])
    (sample,), report = run("longdocurl")
    assert (sample.answers, list(report.files)) == (("3.5",), [name])


def test_the_sample_in_the_repository_is_not_read_beside_the_whole_file(files, run):
    files.jsonl("data/LongDocURL.jsonl", [url_row(question_id="sample")])
    files.jsonl("data/LongDocURL_public.jsonl", [url_row(question_id="whole")])
    (sample,), report = run("longdocurl")
    assert (sample.question_id, report.unread) == ("whole", ["data/LongDocURL.jsonl"])


def test_page_images_of_the_repository_stand_for_a_pdf_and_count_from_0(files, run):
    files.images("data/pdf_pngs/4000-4999/4026/4026369_{}.png", range(6))
    files.jsonl("data/LongDocURL.jsonl", [url_row()])
    (sample,), report = run("longdocurl", store=True)
    assert (sample.extra["num_pages"], sample.evidence_pages) == (6, (4,))
    assert report.documents == {"wanted": 1, "found": 1, "missing": 0, "failed": 0}


def test_bad_windows_and_lengths_are_counted(files, run):
    files.pdf("pdf_files/4026369.pdf", 5)
    spans = {"a": [2, 5], "b": [4, 6], "c": "4-6"}
    files.jsonl(
        URL_FILE, [url_row(question_id=name, start_end_idx=span) for name, span in spans.items()]
    )
    samples, report = run("longdocurl")
    assert [sample.extra["num_pages"] for sample in samples] == [5, 5, 5]
    assert [sample.extra.get("window") for sample in samples] == [[2, 5], None, None]
    assert [sample.extra.get("native_window") for sample in samples] == [None, [4, 6], "4-6"]
    assert rows_of(report.notes) == {LENGTH: [0, 1, 2], WINDOW: [1, 2]}


DUDE_FILE = "2023-03-23_DUDE_gt_test_PUBLIC.json"
NOTHING = {"answers": [], "answer_type": "not-answerable", "answers_page_bounding_boxes": []}


def box(
    page: int, left: int = 100, top: int = 50, width: int = 400, height: int = 100
) -> dict[str, int]:
    return {"left": left, "top": top, "width": width, "height": height, "page": page}


def dude_row(**changes: object) -> dict[str, object]:
    return {
        "questionId": "0017b64b_a1",
        "question": "Who signed it?",
        "answers": ["Jane Roe"],
        "answers_page_bounding_boxes": [[box(1)]],
        "answers_variants": ["J. Roe"],
        "answer_type": "extractive",
        "docId": "0017b64b",
        "data_split": "train",
        **changes,
    }


def on(page: int, name: str = "0017b64b_a1") -> dict[str, object]:
    return dude_row(questionId=name, answers_page_bounding_boxes=[[box(page)]])


def write_dude(files: Files, rows: list[object]) -> None:
    files.json(
        DUDE_FILE, {"dataset_name": "DUDE Dataset", "dataset_version": "1.0.7", "data": rows}
    )


def test_boxes_are_pixels_at_200_dpi_of_pages_from_0(files, run):
    files.pdf("PDF/train/0017b64b.pdf", 3)
    two = [[box(0), box(2, 900, 400, 300, 50)], [box(2, 0, 0, 0, 9)]]
    listed = dude_row(questionId="b", answers=["A", "B"], answer_type="list/extractive")
    write_dude(files, [dude_row(), {**listed, "answers_page_bounding_boxes": two}])
    (first, second), report = run("dude", store=True)
    assert (first.dataset, first.split, first.doc_id) == ("dude", Split.TRAIN, "0017b64b")
    assert (first.answers, first.answer_format) == (("Jane Roe",), "extractive")
    assert first.evidence_pages == (2,)
    assert first.evidence_boxes == {2: (pytest.approx((0.1, 0.1, 0.5, 0.3)),)}
    assert first.extra["variants"] == ["J. Roe"]
    assert second.evidence_pages == (1, 3)
    assert second.evidence_boxes[3] == (pytest.approx((0.9, 0.8, 1.0, 0.9)),)
    assert (second.answers, second.answer_format) == (("A", "B"), "list/extractive")
    assert rows_of(report.notes).pop(CLAMPED) == [1]
    assert numbers(report.notes) == [[1], [1]]


def test_the_number_of_a_first_page_may_be_set(files, run):
    files.pdf("PDF/train/0017b64b.pdf", 3)
    write_dude(files, [on(3), on(1, "first")])
    for first, pages in ((None, [(), (2,)]), (1, [(3,), (1,)])):
        samples, report = run("dude", first_page=first)
        assert [sample.evidence_pages for sample in samples] == pages
        assert (report.first_page, OUTSIDE in report.notes) == (first or 0, first is None)


def test_the_archive_may_lie_where_it_unpacks_and_images_serve_without_a_pdf(files, run):
    folder = "data/DUDE_train-val-test_binaries/DUDE_train-val-test_binaries"
    files.pdf(f"{folder}/PDF/train/0017b64b.pdf", 3)
    files.images(folder + "/images/train/other_{}.jpg", range(3), size=(1000, 500))
    files.json(
        f"{folder}/{DUDE_FILE}", {"data": [dude_row(), dude_row(questionId="b", docId="other")]}
    )
    (_, other), report = run("dude", store=True)
    assert (other.extra["num_pages"], other.evidence_boxes) == (3, {2: ((0.1, 0.1, 0.5, 0.3),)})
    assert report.documents["missing"] == 0


def test_documents_of_questions_that_are_not_taken_stay_where_they_are(files, run, tmp_path):
    for name in ("a", "b", "c", "d"):
        files.pdf(f"PDF/train/{name}.pdf", 2)
    rows = [
        dude_row(questionId="a", docId="a"),
        dude_row(questionId="b", docId="b", data_split="val"),
        {"questionId": "c", "question": "Who?", "docId": "c", "data_split": "test"},
        dude_row(questionId="d", docId="d", **NOTHING),
    ]
    write_dude(files, rows)
    chosen = Selection(split=Split.TRAIN, answerable_only=True)
    (sample,), report = run("dude", store=True, selection=chosen)
    assert sample.doc_id == "a"
    assert DocumentStore(tmp_path / "store").doc_ids() == ["a"]
    assert numbers(report.skipped) == [[1], [2], [3]]


def test_unanswerable_hidden_doubled_and_broken_rows(files, run):
    nothing = dude_row(
        questionId="n", answers=[""], answer_type="not answerable", answers_page_bounding_boxes=[]
    )
    test = {"questionId": "t", "question": "Who?", "docId": "0017b64b", "data_split": "test"}
    blank = {
        **test,
        "questionId": "t2",
        "answers": [""],
        "answer_type": "",
        "answers_variants": None,
    }
    odd = [
        dude_row(questionId="o1", docId="nan/../x"),
        dude_row(questionId="o2", data_split="trial"),
        dude_row(questionId="o3", answer_type="guess"),
        dude_row(questionId="o4", answers=[]),
        dude_row(answers=["another"]),
        "no object",
    ]
    write_dude(files, [dude_row(), dude_row(), nothing, test, blank, *odd])
    (first, unanswerable), report = run("dude")
    assert first.question_id == "0017b64b_a1"
    assert (unanswerable.answerable, unanswerable.answers) == (False, ())
    assert (unanswerable.answer_format, unanswerable.extra["gold"]) == ("not-answerable", [""])
    skipped = rows_of(report.skipped)
    assert (skipped["docId"], skipped["answer_type"]) == ([5], [7])
    assert skipped[NO_ANSWER] == [3, 4, 8]
    assert numbers(report.skipped) == [[1, 9], [3, 4, 8], [5], [6], [7], [10]]
    # for the server, questions of the test are kept
    samples, report = run("dude", hidden=True)
    withheld = [sample for sample in samples if sample.extra.get("hidden")]
    assert [(each.question_id, each.answerable) for each in withheld] == [("t", None), ("t2", None)]
    assert {each.answers for each in withheld} == {("(the answer is withheld)",)}
    assert rows_of(report.skipped)[NO_ANSWER] == [8]


PAPER = "doc_name|q_uid|question|answer_1|answer_2|answer_3\n"
FETA = "doc_name|q_uid|question|answer|doc_url\n"


def test_papers_are_read_as_text(files, run):
    rows = '1912.01214|9a05|"Which ""pairs""\nare used?"|None| | \n1912.01214|9a06|Why?| | | \n'
    files.text("dataset/qa/paper_tab_qa.csv", PAPER + rows)
    files.pdf("src_doc_files/paper_docs/1912.01214.pdf", 2)
    (sample,), report = run("uda", store=True)
    assert (sample.dataset, sample.split, sample.doc_id) == (
        "uda_paper_tab",
        Split.TEST,
        "1912.01214",
    )
    assert (sample.question, sample.answers) == ('Which "pairs"\nare used?', ("None",))
    assert sample.extra["gold"] == ["None", " ", " "]
    assert (sample.answerable, sample.evidence_pages, sample.extra["num_pages"]) == (True, (), 2)
    assert list(map(len, numbers(report.skipped))) == [1]


def test_a_sample_broken_over_two_lines_is_one_row(files, run):
    name = "Ken (1955-58) [cut]"
    rows = f"{name}|8113|Who?|Ken|http://a\n{name}|8114|Where was\nhe?|Rome|http://b\n"
    files.text("dataset/qa/feta_qa.csv", FETA + rows + f"{name}|8115|When?|1958|http://c\n")
    files.pdf(f"src_doc_files/wiki_feta_docs/pdfs/{name}.pdf", 1)
    samples, report = run("uda", store=True)
    assert [sample.question_id for sample in samples] == ["8113", "8114", "8115"]
    middle = samples[1]
    assert (middle.doc_id, middle.question, middle.answers) == (name, "Where was\nhe?", ("Rome",))
    assert middle.extra["doc_url"] == "http://b"
    assert dict(report.read) == {"uda_feta/test": 3}


def test_the_hub_s_files_and_one_of_them(files, run):
    names = ("doc_name", "q_uid", "question", "answer_1", "answer_2", "answer_3")
    paper = dict(zip(names, ("1912.1", "a", "Why?", "yes", "it is", None), strict=True))
    schema = pa.schema([(name, pa.string()) for name in names])
    files.parquet("paper_text/test-00000-of-00001.parquet", [paper], schema)
    feta = {"doc_name": "x", "q_uid": 7, "question": "Who?", "answer": "me", "doc_url": "u"}
    files.parquet("feta/test-00000-of-00001.parquet", [feta])
    (first, second), _ = run("uda")
    assert (first.dataset, first.question_id, first.answers) == (
        "uda_paper_text",
        "a",
        ("yes", "it is"),
    )
    assert (second.dataset, second.question_id) == ("uda_feta", "7")
    files.root = files.root / "feta" / "test-00000-of-00001.parquet"
    assert run("uda")[0] == [second]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/authors/pdfs/scan.pdf", "scan"),
        ("C:\\pdfs\\scan.PDF", "scan"),
        ("/home/authors/scan.png", "4026369"),
        (None, "4026369"),
    ],
)
def test_the_pdf_is_named_by_the_authors_path(files, run, path, name):
    files.pdf(f"pdf_files/{name}.pdf", 6)
    files.jsonl(URL_FILE, [url_row(pdf_path=path)])
    (sample,), report = run("longdocurl")
    assert (sample.doc_id, report.documents["found"]) == ("4026369", 1)
    assert list(report.files) == [URL_FILE]


@pytest.mark.parametrize(
    "odd",
    [
        {"page": "1"},
        {"page": True},
        {"left": "5"},
        {"width": None},
        {"height": float("nan")},
        {"top": True},
    ],
)
def test_a_box_that_is_none_costs_itself_alone(files, run, odd):
    files.pdf("PDF/train/0017b64b.pdf", 3)
    write_dude(
        files, [dude_row(answers_page_bounding_boxes=[[{**box(1), **odd}, box(2)], "no box"])]
    )
    (sample,), report = run("dude")
    assert (sample.evidence_pages, list(sample.evidence_boxes)) == ((3,), [3])
    assert numbers(report.notes) == [[0]]
    assert list(report.notes) == ["a box is not four numbers"]


def test_papers_with_one_answer_or_several(files, run):
    files.text("dataset/qa/feta_qa.csv", FETA + "a|1|Who?|Ken|u\na|2|Who?| |u\na|3|Where?|Rome|u\n")
    files.text("dataset/qa/paper_text_qa.csv", PAPER + "b|1|Why?|so| | \n")
    samples, report = run("uda")
    assert [(sample.dataset, sample.extra["row"]) for sample in samples] == [
        ("uda_paper_text", 0), ("uda_feta", 0), ("uda_feta", 2),
    ]  # fmt: skip
    assert [sample.extra["gold"] for sample in samples] == [["so", " ", " "], "Ken", "Rome"]
    assert dict(report.skipped) == {NO_ANSWER: ["feta_qa.csv:1"]}
    assert list(report.files) == ["dataset/qa/feta_qa.csv", "dataset/qa/paper_text_qa.csv"]


def test_breaks_of_lines_within_quotes_stay_as_they_are(files, run):
    path = files.text("dataset/qa/feta_qa.csv", "")
    path.write_bytes(FETA.encode() + b'a|1|"Who\r\nis it?"|"Ken ""K."" Roe"|u\r\n')
    (sample,), _ = run("uda")
    assert (sample.question, sample.answers) == ("Who\r\nis it?", ('Ken "K." Roe',))


def test_uda_without_its_files_names_them(files, run):
    files.root.mkdir()
    with pytest.raises(UserError, match=r"looked for dataset/qa/paper_tab_qa\.csv, .*feta_qa\.csv"):
        run("uda")
    files.text("dataset/qa/feta_qa.csv", "a|b\n1|2\n")
    with pytest.raises(UserError, match=r"feta_qa\.csv: the first line is not UDA's header"):
        run("uda")
