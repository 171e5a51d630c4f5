"""What clients of the released servers send and expect."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.service.app import Served, make_app
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.server import describe_index
from docagent_rl.retrieval.service.vrag_api import image_name, page_of
from tests.retrieval.service.test_app import call


@pytest.fixture(scope="module")
def app(store, bm25):
    info = describe_index(bm25, store, kind="bm25")
    return make_app(Served(store, SearchHost(bm25, threads=2), info), apis=tuple(ServerApi))


def test_vrag_rl_gets_image_files_by_rank(app, bm25):
    found = call(app, "GET", "/search", params={"queries": ["cat", "nothing"]}).json()
    pages = [hit.ref for hit in bm25.search(["cat"], top_k=10)[0]]
    assert found == [
        [
            {"idx": rank, "image_file": f"./search_engine/corpus/img/{ref.doc_id}_{ref.page}.jpg"}
            for rank, ref in enumerate(pages)
        ],
        [],
    ]


@pytest.mark.parametrize("queries", ["cat", ["cat"]])
def test_the_newer_server_gives_scores_rows_and_data(app, bm25, queries):
    asked = {"queries": queries, "top_k": 2, "search_corpus": None}
    (hits,) = bm25.search(["cat"], top_k=2)
    assert call(app, "POST", "/search", json=asked).json() == {
        "results": [
            {
                "score": [hit.score for hit in hits],
                "indice": [0, 1],
                "data": [{"image_file": f"./search_engine/corpus/img/{image_name(hit.ref)}"} for hit in hits],
            }
        ]
    }


@pytest.mark.parametrize("ref", [PageRef("a", 1), PageRef("b.plants_2", 12), PageRef("x y_", 3)])
def test_names_of_images_are_split_at_the_last_underscore(ref):
    assert page_of(f"./img/deep/{image_name(ref)}") == ref


@pytest.mark.parametrize("name", ["a.jpg", "a_0.jpg", "_1.jpg", "a_x.jpg", "a_1", "a_\u0661.jpg", "a_-1.jpg"])
def test_other_names_are_no_pages(name):
    with pytest.raises(ValueError):
        page_of(name)


def test_alden_gets_pages_from_zero_as_jpeg(app, store, bm25):
    asked = {"query": ["cat", "birds"], "id": ["animals", "numbers"], "top_n": 2}
    found = call(app, "POST", "/batch_search", json=asked).json()
    (cat,) = bm25.search(["cat"], doc_id="animals", top_k=2)
    assert [[page["id"] for page in pages] for pages in found] == [
        [str(hit.ref.page - 1) for hit in cat],
        ["2"],
    ]
    data = base64.b64decode(found[0][0]["contents"])
    assert data == store.page(cat[0].ref).image_bytes()
    assert Image.open(io.BytesIO(data)).format == "JPEG"


@pytest.mark.parametrize("ocr", [False, True])
@pytest.mark.parametrize("score", [False, True])
def test_alden_gets_texts_and_scores_beside_images(app, store, bm25, ocr, score):
    """Images, their scores, texts, their scores; images alone are not in a list of parts."""
    asked = {"query": ["cat"], "id": ["animals"], "recall_ocr": ocr, "return_score": score}
    found = call(app, "POST", "/batch_search", json=asked).json()
    (hits,) = bm25.search(["cat"], doc_id="animals", top_k=10)
    images, *others = found if ocr or score else [found]
    assert [len(pages) for pages in images] == [len(hits)]
    scores, texts = [[hit.score for hit in hits]], [[store.page(hit.ref).text() for hit in hits]]
    if score:
        assert others.pop(0) == scores
    if ocr:
        assert [[page["contents"] for page in pages] for pages in others.pop(0)] == texts
    assert others == ([scores] if ocr and score else [])


def test_alden_fetches_pages_by_number(app, store):
    page = base64.b64encode(store.page(PageRef("animals", 2)).image_bytes()).decode()
    wanted = ["2-th", "9-th", "0-th", "second"]
    found = call(app, "POST", "/batch_fetch", json={"query": wanted, "id": ["animals"] * 4}).json()
    assert found[0] == {"id": "image, 1", "contents": page}
    assert [each["id"] for each in found[1:]] == ["error"] * 3
    assert [each["contents"] for each in found[1:]] == [
        "Requested page number does not exist!",
        "Requested page number does not exist!",
        "Request form is wrong, please correct it!",
    ]


def test_alden_fetches_either_form(app, store):
    asked = {"query": ["text, 2", "image, 2", "2-th"], "id": ["animals"] * 3, "mm_fetch": True}
    text, image, wrong = call(app, "POST", "/batch_fetch", json=asked).json()
    assert text == {"id": "text, 1", "contents": store.page(PageRef("animals", 2)).text()}
    assert image["id"] == "image, 1"
    assert wrong == {"id": "error", "contents": "Request form is wrong, please correct it!"}


def test_names_of_documents_lead_nowhere_else(app):
    for name in ("../../../etc/passwd", "/etc/passwd", "animals/../animals", "\x00"):
        found = call(app, "POST", "/batch_fetch", json={"query": ["1-th"], "id": [name]}).json()
        assert found == [{"id": "error", "contents": "Requested page number does not exist!"}]


def test_as_many_documents_as_queries(app):
    reply = call(app, "POST", "/batch_search", json={"query": ["a", "b"], "id": ["animals"]})
    assert reply.status_code == 422
    assert reply.json()["error"].startswith("id: ")
    assert call(app, "GET", "/health").json()["retrievers"] == {"total": 1, "available": 1}
