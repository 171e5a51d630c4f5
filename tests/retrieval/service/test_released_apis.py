"""What clients of the released servers send and expect."""

from __future__ import annotations

import base64

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.service.app import Served, make_app
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.server import describe_index
from docagent_rl.retrieval.service.vrag_api import image_name, page_of
from tests.retrieval.service.test_app import call

FOLDER = "./search_engine/corpus/img"
FORM = "Request form is wrong, please correct it!"
NUMBER = "Requested page number does not exist!"


@pytest.fixture(scope="module")
def app(store, bm25):
    info = describe_index(bm25, store, kind="bm25")
    return make_app(Served(store, SearchHost(bm25, threads=2), info), apis=tuple(ServerApi))


def post(app, path, **asked):
    return call(app, "POST", path, json=asked).json()


def test_vrag_rl_gets_image_files_by_rank(app, bm25):
    (hits,) = bm25.search(["cat"], top_k=10)
    files = [f"{FOLDER}/{hit.ref.doc_id}_{hit.ref.page}.jpg" for hit in hits]
    found = call(app, "GET", "/search", params={"queries": ["cat", "nothing"]}).json()
    assert found == [[{"idx": rank, "image_file": file} for rank, file in enumerate(files)], []]


@pytest.mark.parametrize("queries", ["cat", ["cat"]])
def test_the_newer_server_gives_scores_rows_and_data(app, bm25, queries):
    (hits,) = bm25.search(["cat"], top_k=2)
    data = [{"image_file": f"{FOLDER}/{image_name(hit.ref)}"} for hit in hits]
    expected = {"score": [hit.score for hit in hits], "indice": [0, 1], "data": data}
    assert post(app, "/search", queries=queries, top_k=2, search_corpus=None) == {"results": [expected]}


def test_names_of_images_are_split_at_the_last_underscore():
    for ref in (PageRef("a", 1), PageRef("b.plants_2", 12), PageRef("x y_", 3)):
        assert page_of(f"./img/deep/{image_name(ref)}") == ref
    for name in ("a.jpg", "a_0.jpg", "_1.jpg", "a_x.jpg", "a_1", "a_\u0661.jpg", "a_-1.jpg"):
        with pytest.raises(ValueError):
            page_of(name)


def test_alden_gets_pages_from_zero_as_jpeg(app, store, bm25):
    found = post(app, "/batch_search", query=["cat", "birds"], id=["animals", "numbers"], top_n=2)
    (cat,) = bm25.search(["cat"], doc_id="animals", top_k=2)
    numbers = [[page["id"] for page in pages] for pages in found]
    assert numbers == [[str(hit.ref.page - 1) for hit in cat], ["2"]]
    assert base64.b64decode(found[0][0]["contents"]) == store.page(cat[0].ref).image_bytes()
    # as many documents as queries
    reply = call(app, "POST", "/batch_search", json={"query": ["a", "b"], "id": ["animals"]})
    assert (reply.status_code, reply.json()["error"][:4]) == (422, "id: ")


@pytest.mark.parametrize("ocr", [False, True])
@pytest.mark.parametrize("score", [False, True])
def test_alden_gets_texts_and_scores_beside_images(app, store, bm25, ocr, score):
    """Images, their scores, texts, their scores; images alone are not in a list of parts."""
    found = post(app, "/batch_search", query=["cat"], id=["animals"], recall_ocr=ocr, return_score=score)
    (hits,) = bm25.search(["cat"], doc_id="animals", top_k=10)
    images, *others = found if ocr or score else [found]
    assert [len(pages) for pages in images] == [len(hits)]
    scores, texts = [[hit.score for hit in hits]], [[store.page(hit.ref).text() for hit in hits]]
    if score:
        assert others.pop(0) == scores
    if ocr:
        assert [[page["contents"] for page in pages] for pages in others.pop(0)] == texts
    assert others == ([scores] if ocr and score else [])


def test_alden_fetches_pages_by_number_in_either_form(app, store):
    page = store.page(PageRef("animals", 2))
    image = {"id": "image, 1", "contents": base64.b64encode(page.image_bytes()).decode()}
    text = {"id": "text, 1", "contents": page.text()}
    number, form = ({"id": "error", "contents": said} for said in (NUMBER, FORM))
    found = post(app, "/batch_fetch", query=["2-th", "9-th", "0-th", "second"], id=["animals"] * 4)
    assert found == [image, number, number, form]
    asked = {"query": ["text, 2", "image, 2", "2-th"], "id": ["animals"] * 3, "mm_fetch": True}
    assert post(app, "/batch_fetch", **asked) == [text, image, form]
    # names of documents lead nowhere else
    for name in ("../../../etc/passwd", "/etc/passwd", "animals/../animals", "\x00"):
        assert post(app, "/batch_fetch", query=["1-th"], id=[name]) == [number]
