from __future__ import annotations

import random
import shutil

import pytest

from docagent_rl.documents import DocumentStore, PageContent
from docagent_rl.documents.audit import audit_store
from docagent_rl.errors import UserError
from tests.documents.here import ingest_here


@pytest.fixture(scope="module")
def whole(tmp_path_factory, write_pdf, write_image):
    root = tmp_path_factory.mktemp("whole")
    write_pdf(root / "in" / "report.pdf", ["alpha", "", "gamma"], outline=[("Start", 0, 1)])
    write_image(root / "in" / "deck" / "1.jpg", "red")
    write_image(root / "in" / "deck" / "2.jpg", "blue", size=(30, 20))
    ingest_here(root / "in", root / "store")
    return root / "store"


@pytest.fixture
def store(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "store")


def read(path) -> dict[str, tuple]:
    """All that a reader may ask for."""
    store = DocumentStore(path)
    found = {"": (store.fingerprint(PageContent.TEXT), store.fingerprint(PageContent.IMAGE))}
    for doc_id in store.doc_ids():
        document = store.document(doc_id)
        found[doc_id] = (document.outline, document.source)
    for ref in store.pages():
        page = store.page(ref)
        found[str(ref)] = (page.size, page.image().tobytes(), page.image_bytes(), page.text(), page.lines())
    return found


def damage(data: bytes, rng: random.Random) -> bytes:
    place, changed = rng.randrange(len(data)), bytearray(data)
    match rng.randrange(3):
        case 0:
            changed[place] ^= 1 << rng.randrange(8)
        case 1:
            del changed[place:]
        case _:
            changed[place : place + rng.randrange(1, 9)] = rng.randbytes(16)
    return bytes(changed)


def test_random_damage_to_a_store_is_named_or_changes_nothing(store):
    """The time and the name in a gzip header mean nothing; everything else is noticed, also by an audit."""
    files = sorted(path for path in store.rglob("*") if path.is_file() and path.suffix != ".lock")
    assert len(files) == 1 + 2 + 5 + 4  # the marker, manifests, pictures, texts and lines
    expected, rng, noticed = read(store), random.Random(0), 0
    for path in files:
        data = path.read_bytes()
        for _ in range(6):
            path.write_bytes(damage(data, rng))
            try:
                found, problem = read(store), ""
            except UserError as error:
                found, problem = None, str(error)
            if not problem:
                assert found == expected
                continue
            assert str(path) in problem
            noticed += 1
            if path.name != "docagent_store.json":
                assert [damaged.path for damaged in audit_store(store).damages] == [path]
        path.write_bytes(data)
    assert noticed > 0.9 * 6 * len(files)
    assert audit_store(store).damages == []


def test_what_no_page_needs_and_what_an_interrupted_ingest_left_is_checked_too(store):
    digest = DocumentStore(store).objects.put_text("of a document that was replaced")
    unused = store / "objects" / digest[:2] / f"{digest}.txt.gz"
    unused.write_bytes(unused.read_bytes()[:-3])
    partial = store / "partial" / "0123abcd" / "1.json"
    partial.parent.mkdir(parents=True)
    partial.write_text("{}")
    found = {damage.path: damage.users for damage in audit_store(store).damages}
    assert found == {unused: (), partial: ()}
