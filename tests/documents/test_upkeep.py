"""Stores that mirror a folder, removal of documents, and the space that they took."""

import shutil

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal, read_seal
from docagent_rl.documents import PageRef, page_text
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.chunks import store_chunk
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.references import Rotation
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import prune, remove
from docagent_rl.documents.upright import Scan
from tests.documents.conftest import write_image, write_pdf
from tests.documents.here import HerePool, files_of, ingest_here, interrupted_after
from tests.documents.scans import draw_text


@pytest.fixture
def mirrored(ingested):
    """Ingest the inbox with the store as its mirror."""
    return lambda **options: ingested(mirror=True, **options)


@pytest.fixture
def stored(store_path):
    return lambda: DocumentStore(store_path)


@pytest.fixture
def whole(store_path):
    """Assert that `check` finds nothing."""

    def check():
        audit = audit_store(store_path)
        return not (audit.damages or audit.unsealed)

    return check


def fill(inbox, *names):
    for name in names:
        write_pdf(inbox / f"{name}.pdf", [f"words of {name}"])


def scan(path, text):
    path.parent.mkdir(exist_ok=True)
    draw_text([text]).save(path)


def objects_of(store_path):
    return {name for name in files_of(store_path) if name.startswith("objects")}


def test_new_changed_gone_and_renamed_files(inbox, mirrored, stored, whole):
    fill(inbox, "stays", "changes", "goes", "old/name")
    mirrored()
    fill(inbox, "new")
    write_pdf(inbox / "changes.pdf", ["other words"])
    (inbox / "goes.pdf").unlink()
    shutil.move(inbox / "old", inbox / "newer")
    report = mirrored()
    assert report.ingested == ["changes", "new", "newer/name"]
    assert (report.replaced, report.reused, report.skipped) == (
        ["changes"],
        ["newer/name"],
        ["stays"],
    )
    assert report.removed == ["goes", "old/name"]
    assert stored().doc_ids() == ["changes", "new", "newer/name", "stays"]
    assert stored().page(PageRef("changes", 1)).text() == "other words"
    assert stored().document("newer/name").source.name == "newer/name.pdf"
    assert whole()
    assert mirrored().removed == []


def test_a_renamed_document_is_the_one_that_a_new_ingest_makes(
    inbox, mirrored, tmp_path, store_path
):
    write_pdf(inbox / "a.pdf", ["one", "two"], outline=[("Top", 0, 1)])
    mirrored()
    (inbox / "a.pdf").rename(inbox / "b.pdf")
    assert mirrored().reused == ["b"]
    ingest_here(inbox, tmp_path / "afresh")
    assert files_of(store_path) == files_of(tmp_path / "afresh")


def test_pages_that_are_damaged_are_not_taken_for_a_renamed_document(
    inbox, mirrored, store_path, whole
):
    fill(inbox, "a")
    mirrored()
    next(path for path in (store_path / "objects").rglob("*.jpg")).write_bytes(b"x")
    (inbox / "a.pdf").rename(inbox / "b.pdf")
    report = mirrored()
    assert (report.ingested, report.reused, report.removed) == (["b"], [], ["a"])
    assert whole()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda inbox: (inbox / "bad.pdf").write_bytes(b"no PDF"),
        lambda inbox: write_image(inbox / "bad" / "1.png"),  # beside bad.pdf
        lambda inbox: (inbox / "deck" / "2.heic").write_bytes(b"x"),
        lambda inbox: (inbox / "deck" / "2.png").rename(inbox / "deck" / "3.png"),
        lambda inbox: (inbox / "loose_2.png").rename(inbox / "loose_3.png"),
    ],
)
def test_what_is_there_and_cannot_be_read_is_not_gone(inbox, mirrored, stored, spoil):
    fill(inbox, "bad", "goes", "good")
    for number in (1, 2):
        write_image(inbox / "deck" / f"{number}.png")
        write_image(inbox / f"loose_{number}.png")
    mirrored()
    spoil(inbox)
    (inbox / "goes.pdf").unlink()
    report = mirrored()
    assert report.failed
    assert report.removed == ["goes"]
    assert stored().doc_ids() == ["bad", "deck", "good", "loose"]


def test_a_folder_that_lost_most_of_its_files_takes_them_from_no_store(inbox, mirrored, stored):
    fill(inbox, "a", "b", "c", "d", "e")
    mirrored()
    for name in "abc":
        (inbox / f"{name}.pdf").unlink()
    report = mirrored()
    assert (report.removed, report.withheld) == ([], ["a", "b", "c"])
    assert len(stored()) == 5
    assert mirrored(however_many=True).removed == ["a", "b", "c"]
    assert stored().doc_ids() == ["d", "e"]


def test_all_files_may_be_renamed_at_once(inbox, mirrored, stored):
    fill(inbox, "a", "b", "c")
    mirrored()
    for name in "abc":
        (inbox / f"{name}.pdf").rename(inbox / f"{name}{name}.pdf")
    assert mirrored().removed == ["a", "b", "c"]
    assert stored().doc_ids() == ["aa", "bb", "cc"]


def test_only_a_folder_is_mirrored_and_an_empty_one_is_not(
    inbox, mirrored, ingested, store_path, stored
):
    fill(inbox, "a")
    mirrored()
    with pytest.raises(UserError, match="is not a folder"):
        ingest_here(inbox / "a.pdf", store_path, mirror=True)
    (inbox / "a.pdf").unlink()
    with pytest.raises(UserError, match="no PDF"):
        mirrored()
    assert stored().doc_ids() == ["a"]


@pytest.mark.usefixtures("quick_ocr")
def test_pictures_that_ocr_has_read_are_not_read_again(inbox, mirrored, monkeypatch, stored):
    for number in (1, 2, 3):
        scan(inbox / "deck" / f"{number}.png", f"page {number}")
    mirrored()
    texts = [stored().document("deck").page(number).text() for number in (1, 2, 3)]
    read, read_scan = [], page_text.read_scan
    monkeypatch.setattr(page_text, "read_scan", lambda image: (read.append(1), read_scan(image))[1])
    scan(inbox / "deck" / "4.png", "page 4")
    report = mirrored()
    assert (report.replaced, report.ocr_pages, len(read)) == (["deck"], 4, 1)
    assert [stored().document("deck").page(number).text() for number in (1, 2, 3)] == texts


def test_turned_pictures_are_known_by_what_was_read(inbox, mirrored, monkeypatch, stored):
    """The stored picture of turned pages is another one, which a folder may contain as well."""
    turns = iter([Rotation.RIGHT, Rotation.NONE, Rotation.NONE])
    read = []

    def read_scan(image):
        read.append(image.size)
        return Scan("A text that is long enough to be one.", next(turns))

    monkeypatch.setattr(page_text, "read_scan", read_scan)
    scan(inbox / "deck" / "1.png", "page 1")
    scan(inbox / "deck" / "2.png", "page 2")
    mirrored()
    first = stored().document("deck").page(1)
    assert first.turned is Rotation.RIGHT
    scan(inbox / "deck" / "3.png", "page 3")
    mirrored()
    again = stored().document("deck").page(1)
    assert len(read) == 3
    assert (again.turned, again.image_hash) == (first.turned, first.image_hash)


def test_removed_documents_are_forgotten_and_others_are_not(
    inbox, ingested, store_path, stored, whole
):
    fill(inbox, "a", "b", "c")
    ingested()
    with pytest.raises(UserError, match="'x'"):
        remove(store_path, ["a", "x"])
    assert len(stored()) == 3
    remove(store_path, ["a"])
    assert stored().doc_ids() == ["b", "c"]
    with pytest.raises(UserError, match="'a'"):
        stored().document("a")
    assert whole()
    StoreLayout(store_path).manifest("b").unlink()
    assert not whole()
    remove(store_path, ["b"])
    assert whole()


def test_what_no_document_shows_is_freed(inbox, ingested, store_path, stored, whole, tmp_path):
    fill(inbox, "a", "b")
    shutil.copyfile(inbox / "a.pdf", inbox / "same.pdf")
    ingested()
    assert prune(store_path).files == 0
    remove(store_path, ["b", "same"])
    (store_path / "objects" / "ab").mkdir(exist_ok=True)
    (store_path / "objects" / "ab" / "notes.txt").write_text("mine")
    pruned = prune(store_path)
    assert pruned.files == 2  # the picture and the text of b
    assert pruned.bytes > 0
    assert whole()
    assert stored().page(PageRef("a", 1)).text() == "words of a"
    assert (store_path / "objects" / "ab" / "notes.txt").is_file()


def test_pages_of_an_interrupted_ingest_are_not_freed(inbox, ingested, store_path):
    write_pdf(inbox / "long.pdf", [f"page {n}" for n in range(40)])
    with interrupted_after(2), pytest.raises(KeyboardInterrupt):
        ingested()
    before = objects_of(store_path)
    assert before
    pruned = prune(store_path)
    assert (pruned.files, pruned.ranges) == (0, 2)
    assert objects_of(store_path) == before
    assert ingested().resumed_pages == 32


@pytest.mark.parametrize("spoil", ["damaged", "lost"])
def test_nothing_is_freed_where_nobody_knows_what_a_document_needs(
    inbox, ingested, store_path, spoil
):
    fill(inbox, "a", "b")
    ingested()
    manifest = StoreLayout(store_path).manifest("a")
    manifest.unlink() if spoil == "lost" else manifest.write_text("{}")
    before = objects_of(store_path)
    with pytest.raises(UserError, match="'a'" if spoil == "lost" else manifest.name):
        prune(store_path)
    assert objects_of(store_path) == before


@pytest.mark.parametrize("files", range(3))
def test_a_removal_that_was_killed_leaves_no_damage_and_goes_on(inbox, ingested, store_path, files):
    """The kill comes after this many of the two manifests were removed."""
    fill(inbox, "a", "b", "c")
    ingested()
    layout = StoreLayout(store_path)
    paths = [layout.manifest("a"), layout.manifest("b")]
    Seal(store_path).begin(paths)
    for path in paths[:files]:
        path.unlink()
    assert audit_store(store_path).damages == []
    remove(store_path, ["a", "b"])
    assert DocumentStore(store_path).doc_ids() == ["c"]
    audit = audit_store(store_path)
    assert audit.damages == []
    assert audit.unsealed == []
    assert not read_seal(store_path).begun


def test_a_removal_that_was_killed_is_settled_by_the_next_ingest(
    inbox, ingested, store_path, whole
):
    fill(inbox, "a", "b")
    ingested()
    path = StoreLayout(store_path).manifest("a")
    Seal(store_path).begin([path])
    path.unlink()
    (inbox / "a.pdf").unlink()
    ingested()
    assert whole()
    assert DocumentStore(store_path).doc_ids() == ["b"]


def test_nothing_is_removed_before_all_else_is_stored(inbox, mirrored, stored, monkeypatch):
    fill(inbox, "a", "b", "goes")
    mirrored()
    (inbox / "goes.pdf").unlink()
    fill(inbox, "new")
    run = HerePool.run

    def interrupted(self, function, tasks):
        yield from run(self, function, tasks)
        if function is store_chunk:
            raise KeyboardInterrupt

    monkeypatch.setattr(HerePool, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mirrored()
    assert "goes" in stored()
    monkeypatch.undo()
    assert mirrored().removed == ["goes"]
