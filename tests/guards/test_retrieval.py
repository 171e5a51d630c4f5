"""An index finds what it was built from, reports that it does not match, and is replaced as a
whole.
"""

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.commands.index import app
from docagent_rl.commands.ingest import check_command
from docagent_rl.commands.store import app as store_app
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval.base import QueryRefusedError
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.retrieval.indexes import open_index
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.index import VectorKind
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm
from tests.checkpoints.saved import flip
from tests.commands.conftest import called
from tests.documents.conftest import write_pdf
from tests.documents.here import files_of, ingest_here
from tests.retrieval.conftest import make_store  # noqa: F401  a fixture
from tests.retrieval.engines.beside import HOLDS, WAITS, Builder
from tests.retrieval.engines.killed import Killed, build_there
from tests.retrieval.vectors.encoders import HashingEncoder, vectors


@pytest.fixture
def made(store, tmp_path):
    """Return a store and its index, which a test may change."""
    shutil.copytree(store.path, tmp_path / "store")
    BM25Retriever.build(DocumentStore(tmp_path / "store")).save(tmp_path / "index")
    return tmp_path


def index(folder, *arguments, **expected):
    return called(app, *arguments, "--store", folder / "store", **expected).output


def test_a_page_is_found_by_its_own_words_in_any_spelling(made):
    at = "--index", made / "index"
    for query in ("pagek3", "PAGEK3", "page\u00adk3"):
        assert "K#3" in index(made, "search", query, *at)
    assert "#" not in index(made, "search", "zebra", *at)


def test_an_index_of_other_documents_than_the_stores_is_refused(made):
    write_pdf(made / "inbox" / "new.pdf", ["another page"])
    ingest_here(made / "inbox", made / "store")
    with pytest.raises(UserError, match="index build"):
        index(made, "search", "pagek3", "--index", made / "index")


def test_what_is_removed_is_not_found_any_more(made):
    assert "K#3" in index(made, "search", "pagek3", "--index", made / "index")
    called(store_app, "remove", made / "store", "K")
    with pytest.raises(UserError, match="index"):
        index(made, "search", "pagek3", "--index", made / "index")
    index(made, "update", made / "index")
    assert "#" not in index(made, "search", "pagek3", "--index", made / "index")
    called(store_app, "prune", made / "store")
    assert "all intact" in called(check_command, made / "store").output
    with pytest.raises(UserError, match="'K'"):
        DocumentStore(made / "store").document("K")


def test_an_index_is_replaced_when_asked_alone(made):
    before = files_of(made / "index")
    with pytest.raises(UserError, match="--force"):
        index(made, "build", "--out", made / "index", "--k1", "0.5")
    assert files_of(made / "index") == before
    index(made, "build", "--out", made / "index", "--k1", "0.5", "--force")
    assert BM25Retriever.load(made / "index").settings.k1 == 0.5


def test_every_damaged_file_of_an_index_is_named_and_never_searched(made):
    written = [
        path for path in (made / "index").rglob("*") if path.is_file() and path.stat().st_size
    ]
    assert len(written) > 3
    for path in written:
        whole = path.read_bytes()
        flip(path, len(whole) // 2)
        with pytest.raises(UserError, match=str(made / "index")):
            BM25Retriever.load(made / "index").search(["everypage"], top_k=3)
        assert "damaged" in called(check_command, made / "index", status=1).output
        path.write_bytes(whole)
    assert BM25Retriever.load(made / "index").search(["pagek3"], top_k=1)


def test_an_index_can_be_read_while_it_is_replaced(made, store):
    retrievers = [BM25Retriever.build(store, settings=BM25Settings(k1=k1)) for k1 in (0.5, 1.5)]

    def replace(retriever):
        for _ in range(15):
            retriever.save(made / "index")

    with ThreadPoolExecutor(2) as writers:
        writing = [writers.submit(replace, retriever) for retriever in retrievers]
        while not all(each.done() for each in writing):
            found = BM25Retriever.load(made / "index").search(["pagek3"], top_k=1)
            assert found[0][0].ref == PageRef("K", 3)
        for each in writing:
            each.result()
    assert len([path for path in (made / "index").iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("moment", ["_Build.publish", "LanceCollection._partitions"])
def test_a_build_that_is_killed_is_continued_and_ends_as_one_that_was_not(store, tmp_path, moment):
    killed, whole, embedded = (
        tmp_path / "index",
        tmp_path / "other" / "index",
        moment.startswith("_Build"),
    )
    engine = "embedded" if embedded else "lancedb"
    assert build_there(engine, store, killed, Killed(engine, moment)) == -signal.SIGKILL
    for folder in (killed, whole):
        assert build_there(engine, store, folder) == 0
    found = [VectorRetriever(open_index(folder), HashingEncoder) for folder in (killed, whole)]
    one, other = (retriever.search(["everypage", "pagek3"], top_k=50) for retriever in found)
    assert one == other != [[], []]
    found[0].index.check(store)
    if not embedded:
        columns = [
            {each.columns[0] for each in each.index.collection._pages.list_indices()}
            for each in found
        ]
        assert columns == [{"doc_id", "vectors"}] * 2


def test_a_second_build_of_an_index_waits_for_the_first(store, tmp_path):
    first = Builder("lancedb", store, tmp_path / "index", hold=True)
    assert first.says() == HOLDS
    second = Builder("lancedb", store, tmp_path / "index")
    assert second.says() == WAITS
    first.go_on()
    assert (first.says(), second.says()) == (len(list(store.pages())), 0)
    open_index(tmp_path / "index").check(store)


def test_scores_of_binary_vectors_are_those_of_whole_ones(make_store, tmp_path):  # noqa: F811
    words = [f"word{number}" for number in range(40)]
    texts = [" ".join(words[page % 40 :: page % 7 + 3]) for page in range(150)]
    store, folder = make_store(tmp_path / "store", {"long": texts}), tmp_path / "binary"
    found = {}
    for form in (VectorForm(), VectorForm(precision=Precision.BINARY)):
        build_index(
            store, vectors(), folder, kind=VectorKind.LATE_INTERACTION, form=form, replace=True
        )
        (hits,) = VectorRetriever(open_index(folder), HashingEncoder).search(
            ["word3 word9"], top_k=7
        )
        found[form.precision] = [(hit.ref, hit.score) for hit in hits]
    assert len(found[Precision.BINARY]) == 7
    assert dict(found[Precision.BINARY]) == pytest.approx(dict(found[Precision.BFLOAT16]), abs=1e-5)


async def test_a_query_without_hits_is_an_answer_and_one_that_is_refused_is_the_policys(services):
    service = services.retriever
    assert await service.search("zebra", doc_id=None, top_k=3) == []

    class Refusing:
        def search(self, *_, **__):
            raise QueryRefusedError("too long")

    with noting() as notes:
        assert await RetrieverService(Refusing()).search("x", doc_id=None, top_k=3) == []
    assert notes[0].refused


async def test_a_search_that_fails_is_no_empty_result():
    class Broken:
        def search(self, *_, **__):
            raise InfrastructureError("gone")

    with pytest.raises(InfrastructureError, match="gone"):
        await RetrieverService(Broken(), attempts=1, backoff_s=0).search("x", doc_id=None, top_k=3)
