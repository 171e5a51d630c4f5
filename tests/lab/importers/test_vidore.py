"""ViDoRe V3: a corpus of pages, queries in several languages, and graded relevance."""

from typing import Any

import pyarrow as pa
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers.vidore import _PAGES, _Relevant
from docagent_rl.samples.sample import Split
from tests.lab.importers.conftest import Files, picture, rows_of

BOX = {"annotator": 0, "x1": 20, "x2": 120, "y1": 50, "y2": 80}
FILE = "{}/test-00000-of-00001.parquet"


def page(number: int, document: str, place: int, **changes: Any) -> dict[str, Any]:
    """Return a row of the corpus with an image of 200 x 100 pixels."""
    image = {"bytes": picture(f"{document} {place}"), "path": f"{number}.jpg"}
    values = {"corpus_id": number, "image": image, "doc_id": document, "markdown": "# text"}
    return {**values, "page_number_in_doc": place, **changes}


def query(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "query_id": number,
        "query": "How many hours?",
        "language": "english",
        "query_types": ["numerical"],
        "query_format": "question",
        "content_type": ["Table"],
        "raw_answers": ["40", "forty"],
        "answer": "Forty hours.",
        **changes,
    }


def read_query() -> dict[str, Any]:
    """Return a query with its pages, as the importer reads it."""
    return query() | {_PAGES: [_Relevant(5, "eu", 0, 2, ((0.1, 0.2, 0.3, 0.4),))]}


def judged(
    query_id: int, corpus_id: int, score: int, boxes: list[Any] | None = None
) -> dict[str, Any]:
    place = {"query_id": query_id, "corpus_id": corpus_id, "score": score}
    return {**place, "content_type": ["Table"], "bounding_boxes": boxes or []}


QRELS = pa.schema(
    [
        ("query_id", pa.int64()),
        ("corpus_id", pa.int64()),
        ("score", pa.int64()),
        ("content_type", pa.list_(pa.string())),
        ("bounding_boxes", pa.list_(pa.struct([(name, pa.int64()) for name in BOX]))),
    ]
)


def write(files: Files, queries: list, qrels: list, corpus: list | None = None) -> None:
    """Write a corpus of two documents, not in order; the second has no page 1."""
    pages = [page(7, "eu", 1), page(3, "wages", 2), page(5, "eu", 0), page(4, "wages", 0)]
    files.parquet(FILE.format("corpus"), pages if corpus is None else corpus)
    files.parquet(FILE.format("queries"), queries)
    files.parquet(FILE.format("qrels"), qrels, QRELS)


def test_a_query_has_graded_pages_and_the_document_of_the_best(files, run, tmp_path):
    write(files, [query(12)], [judged(12, 7, 1), judged(12, 3, 2, [BOX])])
    (sample,), report = run("vidore_v3", store=True)
    assert (sample.dataset, sample.split, sample.question_id) == (
        "vidore_v3",
        Split.TEST,
        "wages#12",
    )
    assert (sample.question, sample.answers) == ("How many hours?", ("Forty hours.",))
    # the second page of the document, whatever its number in the corpus
    assert (sample.doc_id, sample.evidence_pages, sample.extra["page_ids"]) == (
        "wages",
        (2,),
        ["eu#2", "wages#2"],
    )
    assert sample.extra["relevance"] == {"eu#2": 1, "wages#2": 2}
    assert sample.evidence_boxes == {2: ((0.1, 0.5, 0.6, 0.8),)}
    assert (sample.extra["language"], sample.extra["query_types"]) == ("english", ["numerical"])
    assert (sample.extra["num_pages"], sample.extra["retrieval_scope"]) == (2, "corpus")
    store = DocumentStore(tmp_path / "store")
    assert [store.document(name).num_pages for name in store.doc_ids()] == [2, 2]
    assert report.documents == {"wanted": 2, "found": 2, "missing": 0, "failed": 0}


def test_translations_are_queries_of_their_own(files, run):
    queries = [query(0), query(1, query="Combien d'heures ?", language="french")]
    write(files, queries, [judged(0, 5, 2), judged(1, 5, 2)])
    samples, _ = run("vidore_v3")
    assert [(each.question_id, each.extra["language"]) for each in samples] == [
        ("eu#0", "english"),
        ("eu#1", "french"),
    ]


def test_queries_without_answer_or_relevant_page_are_counted(files, run):
    write(
        files,
        [query(0), query(1), query(2, answer=" ")],
        [judged(0, 5, 1), judged(1, 5, 0), judged(2, 5, 1)],
    )
    (sample,), report = run("vidore_v3")
    assert sample.question_id == "eu#0"
    assert rows_of(report.skipped) == {"no page is relevant to the query": [1], "answer": [2]}


def test_a_page_that_is_no_picture_has_no_boxes_and_its_document_fails(files, run):
    broken = page(5, "eu", 0, image={"bytes": b"no picture", "path": "x"})
    write(
        files,
        [query(0), query(1)],
        [judged(0, 5, 2, [BOX]), judged(1, 4, 2)],
        [broken, page(4, "wages", 0)],
    )
    (sample,), report = run("vidore_v3", store=True)
    assert sample.doc_id == "wages"
    assert list(report.failed) == ["eu"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"corpus": [page(1, "eu", 0)]}, r"qrels.*row 0: corpus/ has no page 5"),
        ({"corpus": [page(5, "../eu", 0)]}, r"corpus.*row 0: .*'doc_id' is not the name"),
        (
            {"corpus": [page(5, "eu", None)]},
            r"corpus.*row 0: .*'page_number_in_doc' is not a whole number",
        ),
        ({"corpus": [{"corpus_id": 5}]}, r"corpus.*no column doc_id, image, page_number_in_doc"),
        ({"qrels": [judged(0, 5, None)]}, r"qrels.*row 0: .*'score' is not a whole number"),
        (
            {"queries": [{"id": "0", "text": "What?"}]},
            r"queries.*no column answer, query, query_id",
        ),
    ],
)
def test_what_is_wrong_with_a_download_is_named(files, run, changes, named):
    write(files, **{"queries": [query(0)], "qrels": [judged(0, 5, 1)], **changes})
    with pytest.raises(UserError, match=named):
        run("vidore_v3")


def test_all_three_folders_are_needed(files, run):
    path = files.parquet(FILE.format("queries"), [query(0)])
    with pytest.raises(UserError, match=r"looked for corpus/"):
        run("vidore_v3")
    files.root = path
    with pytest.raises(UserError, match=r"name the folder with queries/, qrels/ and corpus/"):
        run("vidore_v3")
