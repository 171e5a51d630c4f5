"""Descriptions in a store: what they change, and what removes them."""

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.documents.describing import store_descriptions
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.objects import ObjectKind
from docagent_rl.documents.store import DocumentStore, PageContent, PageReplacement, derive
from tests.documents.test_store import edit_record

FIRST, SECOND = PageRef("deck", 1), PageRef("report", 1)


@pytest.fixture
def store(inbox, store_path, ingested, quick_ocr, write_pdf, write_image) -> DocumentStore:
    write_image(inbox / "deck" / "1.jpg", "red")
    write_image(inbox / "deck" / "2.jpg", "blue", size=(30, 20))
    write_pdf(inbox / "report.pdf", ["alpha"])
    ingested()
    return DocumentStore(store_path)


def described(store, **texts) -> DocumentStore:
    """The store with descriptions of first pages, by document."""
    found = {store.page(PageRef(doc_id, 1)).image_hash: text for doc_id, text in texts.items()}
    store_descriptions(store.path, store.doc_ids(), found)
    return DocumentStore(store.path)


def searched(store, ref=FIRST) -> str:
    return store.page(ref).searched_text()


def test_a_description_changes_the_fingerprint_of_texts_alone(store):
    texts, images = (store.fingerprint(each) for each in (PageContent.TEXT, PageContent.IMAGE))
    now = described(store, deck="a red sheet", report="a line")
    assert (searched(now), searched(now, SECOND)) == ("a red sheet", "alpha\n\na line")
    assert (now.page(FIRST).text(), now.page(SECOND).text()) == ("", "alpha")
    assert now.fingerprint(PageContent.TEXT) != texts
    assert now.fingerprint(PageContent.IMAGE) == images
    now = described(now, deck="", report="")
    assert (searched(now), now.fingerprint(PageContent.TEXT)) == ("", texts)
    # records that were written before there were descriptions
    for path in StoreLayout(store.path).manifests():
        edit_record(path, (',\n   "described": null', ""))
    assert DocumentStore(store.path).fingerprint(PageContent.TEXT) == texts


def test_a_derived_store_has_the_descriptions_of_pictures_that_it_shows(store, tmp_path):
    now = described(store, deck="a red sheet", report="a line")
    replacements = {
        "hidden": PageReplacement(None, SECOND),
        "white": PageReplacement(None, None),
        "same": PageReplacement(SECOND, SECOND),
        "mute": PageReplacement(SECOND, None),
        "mixed": PageReplacement(FIRST, SECOND),
    }
    made = {
        name: derive(
            now,
            tmp_path / name,
            ["report"],
            lambda _, replacement=replacement: replacement,
            lambda *_: (),
        )
        for name, replacement in replacements.items()
    }
    assert {name: searched(each, SECOND) for name, each in made.items()} == {
        "hidden": "alpha",
        "white": "",
        "same": "alpha\n\na line",
        "mute": "a line",
        "mixed": "alpha\n\na red sheet",
    }
    gone = now.page(SECOND).described_hash
    holders = [name for name, each in made.items() if each.objects.has(gone, ObjectKind.TEXT)]
    assert holders == ["same", "mute"]


def test_documents_keep_descriptions_until_they_are_replaced(store, inbox, ingested, write_pdf):
    described(store, deck="a red sheet", report="a line")
    write_pdf(inbox / "report.pdf", ["alpha", "beta"])
    report = ingested(replace=True)
    assert (report.skipped, report.replaced) == (["deck"], ["report"])
    now = DocumentStore(store.path)
    assert (searched(now), searched(now, SECOND)) == ("a red sheet", "alpha")
