"""Documents of one's own are made ready once, by content."""

import shutil

import pytest

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.errors import UserError
from docagent_rl.eval.ask import library
from docagent_rl.eval.ask.library import cache_folder, shelve

SMALL = RenderSettings(dpi=36)


@pytest.fixture
def pdf(world, tmp_path):
    source = min((world.root / "synthetic" / "pdfs").glob("*.pdf"))
    return shutil.copyfile(source, tmp_path / "My report (2).pdf")


def test_the_same_document_is_there_at_once_whatever_its_folder(pdf, tmp_path, monkeypatch):
    first = shelve([pdf], tmp_path / "root", SMALL)
    (name,) = first.doc_ids
    assert name == "My_report__2"
    assert DocumentStore(first.store).document(name).num_pages >= 3
    assert not (first.workspace / "documents").exists()
    monkeypatch.setattr(library, "ingest", lambda *_, **__: pytest.fail("ingested again"))
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.copyfile(pdf, tmp_path / "elsewhere" / pdf.name)
    assert shelve([moved], tmp_path / "root", SMALL) == first


def test_other_content_and_sizes_are_other_shelves_and_what_was_interrupted_is_made_again(pdf, tmp_path):
    first = shelve([pdf], tmp_path / "root", SMALL)
    (first.workspace / "ready.json").write_text("{")
    assert shelve([pdf], tmp_path / "root", SMALL) == first
    shutil.rmtree(first.store)
    assert shelve([pdf], tmp_path / "root", SMALL) == first
    assert DocumentStore(first.store).doc_ids() == list(first.doc_ids)
    assert shelve([pdf], tmp_path / "root", RenderSettings(dpi=40)).workspace != first.workspace
    pdf.write_bytes(pdf.read_bytes() + b"\n% changed\n")
    assert shelve([pdf], tmp_path / "root", SMALL).workspace != first.workspace


def test_documents_of_one_name_stay_apart(world, pdf, tmp_path):
    other = max((world.root / "synthetic" / "pdfs").glob("*.pdf"))
    (tmp_path / "other").mkdir()
    shelf = shelve([pdf, shutil.copyfile(other, tmp_path / "other" / pdf.name)], tmp_path / "root", SMALL)
    assert len(set(shelf.doc_ids)) == 2
    assert sorted(shelf.doc_ids) == DocumentStore(shelf.store).doc_ids()
    with pytest.raises(UserError):
        shelve([pdf, pdf], tmp_path / "root", SMALL)


@pytest.mark.parametrize("name", ["missing", "bad"])
def test_what_is_no_document_is_named(tmp_path, name):
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 not really")
    with pytest.raises(UserError, match=rf"{name}\.pdf"):
        shelve([tmp_path / f"{name}.pdf"], tmp_path / "root")


def test_the_cache_follows_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "docagent-rl"
