"""Thumbnails that are drawn at ingestion: the same pixels, drawn once, checked and freed."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import thumbnails
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.shown import CAPACITY_MIB, ShownRasters, shown_folder
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import prune, remove
from docagent_rl.envs.images import render, undrawn
from docagent_rl.systems.doc_v_star.overview import OverviewStyle, overview
from tests.documents.conftest import write_pdf
from tests.documents.here import ingest_here

CELL = 56
PAGES = 3


@pytest.fixture
def inbox(tmp_path):
    for name, size in (("a", (200, 100)), ("b", (90, 160))):
        texts = [f"{name} {number}" for number in range(PAGES)]
        write_pdf(tmp_path / "inbox" / f"{name}.pdf", texts, size=size)
    return tmp_path / "inbox"


@pytest.fixture
def store_path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def ingested(inbox, store_path):
    """Ingest the inbox with thumbnails of the given sizes, and return how many were drawn."""
    return lambda *cells, **options: (
        ingest_here(inbox, store_path, dpi=72, thumbnails=cells, **options).thumbnails
    )


@pytest.fixture
def cached(store_path):
    return lambda: sorted(shown_folder(store_path).rglob("*.rgb"))


def sheets(store, cell=CELL):
    """Return the sheets of the overviews of all documents."""
    style = OverviewStyle(cell=cell, header=0)
    documents = [store.document(doc_id) for doc_id in store.doc_ids()]
    return [
        sheet
        for document in documents
        for sheet in overview(
            [document.page(number) for number in range(1, document.num_pages + 1)], style
        )
    ]


def with_cache(path):
    cache = ShownRasters([shown_folder(path)], capacity=CAPACITY_MIB << 20)
    return DocumentStore(path, shown=cache)


def test_an_overview_is_drawn_from_them_with_the_same_pixels(ingested, store_path, monkeypatch):
    assert ingested(CELL) == 2 * PAGES
    plain = DocumentStore(store_path)
    expected = [render(sheet, plain).tobytes() for sheet in sheets(plain)]
    store = with_cache(store_path)
    assert [piece for sheet in sheets(store) for piece in undrawn(sheet, store)] == []
    other = [piece for sheet in sheets(store, 40) for piece in undrawn(sheet, store)]
    assert len(other) == 2 * PAGES
    assert list(undrawn(sheets(plain)[0], plain)) == []  # nothing would be cached
    monkeypatch.setattr(DocumentStore, "decode", lambda *_: pytest.fail("drawn again"))
    assert [render(sheet, store).tobytes() for sheet in sheets(store)] == expected


def test_only_missing_ones_are_drawn_by_the_next_ingest(ingested, cached, inbox):
    assert ingested() == 0
    assert ingested(CELL) == 2 * PAGES
    assert ingested(CELL) == 0
    whole = {path: path.read_bytes() for path in cached()}
    gone, damaged, *_ = cached()
    gone.unlink()
    damaged.write_bytes(b"dgshown1")
    write_pdf(inbox / "c.pdf", ["c"])
    assert ingested(CELL) == 3
    assert all(path.read_bytes() == data for path, data in whole.items())
    assert ingested(CELL, 40) == 2 * PAGES + 1


def test_pages_that_have_the_size_already_are_not_cached(ingested, cached):
    assert ingested(200) == PAGES  # the pages of `a` are 200 x 100 pixels
    assert len(cached()) == PAGES


def test_check_counts_them_and_damage_is_no_loss(ingested, cached, store_path):
    ingested(CELL)
    folder = shown_folder(store_path)
    assert audit_store(store_path).notes == [f"{folder}: {2 * PAGES} drawn pages"]
    first, second, *_ = cached()
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(b"")
    audit = audit_store(store_path)
    assert audit.notes == [f"{folder}: {2 * PAGES} drawn pages, 2 damaged, which runs draw again"]
    assert not audit.damages


def test_prune_frees_those_of_removed_documents(ingested, cached, store_path):
    ingested(CELL, 40)
    before = cached()
    assert prune(store_path).files == 0
    remove(store_path, ["a"])
    assert cached() == before
    prune(store_path)
    assert len(cached()) == 2 * PAGES
    store = with_cache(store_path)
    assert not any(list(undrawn(sheet, store)) for sheet in sheets(store))


def test_sizes_and_room_are_checked(ingested, inbox, store_path, monkeypatch):
    for cell in (15, 1025):
        with pytest.raises(UserError, match=f"{cell} pixels"):
            ingest(inbox, store_path, thumbnails=[cell])
    assert not store_path.exists()
    monkeypatch.setattr(thumbnails, "_MOST", 1000)
    with pytest.raises(UserError, match="6 pages take"):
        ingested(CELL)
    assert len(DocumentStore(store_path)) == 2


def test_a_cache_that_cannot_be_written_is_an_error(ingested, store_path):
    shown_folder(store_path).write_text("a file")
    with pytest.raises(UserError, match="cannot be written"):
        ingested(CELL)
    assert len(DocumentStore(store_path)) == 2
