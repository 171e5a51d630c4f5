"""Documents are stored as they are or refused by name, whatever they are and whatever happens
meanwhile.
"""

import io
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import EpsImagePlugin, Image
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import UserError
from docagent_rl.commands.ingest import check_command, ingest_command
from docagent_rl.documents import PageRef
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.references import Rotation
from docagent_rl.documents.settings import IngestLimits
from docagent_rl.documents.shown import ShownRasters, shown_folder
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upright import rotate
from docagent_rl.envs.images import render
from docagent_rl.systems.doc_v_star.overview import OverviewStyle, overview
from tests.commands.conftest import called
from tests.documents.conftest import write_image, write_pdf, write_pdf_objects, write_program
from tests.documents.here import files_of, ingest_here, interrupted_after
from tests.documents.scans import TEXT, draw_text

SELF = (
    "<</Type/XObject/Subtype/Form/BBox[0 0 200 100]/Group<</S/Transparency>>"
    "/Resources<</XObject<</F 5 0 R>>>>/Length 23>>stream\n/F Do /F Do /F Do /F Do\nendstream"
)
"""A form that draws itself."""


@pytest.fixture
def inbox(tmp_path):
    write_pdf(tmp_path / "inbox" / "good.pdf", ["hello"])
    return tmp_path / "inbox"


@pytest.fixture
def ingested(inbox, tmp_path):
    """Return the report of an ingest of the inbox, in this process."""
    return lambda **options: ingest_here(inbox, tmp_path / "store", **options)


@pytest.fixture
def stored(tmp_path):
    return lambda: DocumentStore(tmp_path / "store")


def reasons(report) -> dict[str, str]:
    return {failure.name: failure.reason for failure in report.failed}


def test_a_bad_document_is_listed_and_the_rest_goes_on(inbox, tmp_path):
    whole = (inbox / "good.pdf").read_bytes()
    (inbox / "cut.pdf").write_bytes(whole[: len(whole) // 2])
    write_pdf(inbox / "locked.pdf", ["x"], user_password="secret")
    write_image(inbox / "deck" / "1.png").write_bytes(b"no image")
    options = ("--store", tmp_path / "store", "--workers", 1, "--dpi", 20)
    told = called(ingest_command, inbox, *options, status=2).output
    assert all(name in told for name in ("cut.pdf", "locked.pdf", "deck"))
    assert DocumentStore(tmp_path / "store").doc_ids() == ["good"]


def test_a_page_that_takes_all_memory_costs_its_own_document_alone(inbox, tmp_path):
    write_pdf_objects(inbox / "endless.pdf", "/F Do", "/XObject<</F 5 0 R>>", SELF)
    report = ingest(inbox, tmp_path / "store", limits=IngestLimits(memory_gib=0.3), workers=1)
    assert report.ingested == ["good"]
    assert "0.3 GiB" in reasons(report)["endless.pdf"]


def test_a_white_page_of_a_damaged_document_is_no_success(inbox, ingested):
    write_pdf_objects(inbox / "gone.pdf", "/Gone Do", "")
    path = write_pdf_objects(inbox / "tree.pdf", "0 0 9 9 re f", "")
    path.write_bytes(path.read_bytes().replace(b"/Kids[3 0 R]", b"/Kidz[3 0 R]"))
    assert reasons(ingested(dpi=72)).keys() == {"gone.pdf", "tree.pdf"}


def test_a_page_that_could_never_be_shown_is_refused_when_stored(inbox, ingested):
    write_image(inbox / "deck" / "1.png", size=(804, 4))
    assert "804x4" in reasons(ingested())["deck"]


def test_an_image_of_a_format_that_is_not_listed_reaches_no_decoder(inbox, ingested, monkeypatch):
    called_with = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: called_with.append(1))
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n%%EOF\n"
    write_image(inbox / "deck" / "1.png").write_bytes(script)
    assert "deck" in reasons(ingested())
    assert called_with == []


def test_pages_stand_in_the_order_of_their_numbers_and_a_gap_is_refused(inbox, ingested, stored):
    for number, colour in ((1, "red"), (2, "lime"), (10, "blue")):
        write_image(inbox / "gap" / f"p_{number}.png", colour)
    for number in range(1, 11):
        write_image(inbox / "sub" / "deck" / f"p_{number}.png", "blue" if number == 10 else "red")
    assert "page 3 is missing" in reasons(ingested())["gap"]
    red, _, blue = stored().document("sub/deck").page(10).image().getpixel((5, 5))
    assert blue > 200 > red


def test_an_image_that_cannot_be_read_is_named_and_not_passed_over(inbox, ingested):
    write_image(inbox / "b" / "1.png")
    (inbox / "b" / "2.HEIC").write_bytes(b"x")
    report = ingested()
    assert report.ingested == ["good"]
    assert "b/2.HEIC" in reasons(report)


def test_a_folder_that_cannot_be_read_is_named(inbox, ingested, monkeypatch):
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    (inbox / "a" / "shut").mkdir(parents=True)
    assert "a/shut" in reasons(ingested())


def test_equal_names_in_different_folders_are_no_clash(inbox, ingested, stored):
    write_pdf(inbox / "2019" / "good.pdf", ["of 2019"])
    write_pdf(inbox / "2020" / "good.pdf", ["of 2020"])
    assert ingested().failed == []
    assert stored().page(PageRef("2019/good", 1)).text() == "of 2019"
    assert stored().page(PageRef("2020/good", 1)).text() == "of 2020"


def test_two_files_that_would_be_one_document_are_named_and_stop_no_other(inbox, ingested, stored):
    write_pdf(inbox / "twin.pdf", ["x"])
    write_image(inbox / "twin" / "1.png")
    named = reasons(ingested())
    assert named.keys() == {"twin.pdf", "twin"}
    assert "twin.pdf" in named["twin"]
    assert stored().doc_ids() == ["good"]


def test_an_emptied_folder_does_not_empty_a_store(inbox, ingested, stored, tmp_path):
    for name in ("a", "b"):
        write_pdf(inbox / f"{name}.pdf", [name])
    ingested(mirror=True)
    shutil.move(inbox, tmp_path / "elsewhere")
    with pytest.raises(UserError, match="inbox"):
        ingested(mirror=True)  # the disk is not there
    inbox.mkdir()
    with pytest.raises(UserError, match="inbox"):
        ingested(mirror=True)
    shutil.move(tmp_path / "elsewhere" / "a.pdf", inbox)  # most of it is not there
    assert ingested(mirror=True).withheld == ["b", "good"]
    assert stored().doc_ids() == ["a", "b", "good"]


def test_one_more_pdf_costs_one_pdf(inbox, ingested):
    ingested()
    write_pdf(inbox / "new.pdf", ["new"])
    report = ingested(mirror=True)
    assert (report.ingested, report.skipped) == (["new"], ["good"])


def test_a_renamed_file_costs_nothing(inbox, ingested, stored):
    ingested()
    (inbox / "good.pdf").rename(inbox / "better.pdf")
    with interrupted_after(0) as read:
        assert ingested(mirror=True).removed == ["good"]
    assert read == []
    assert stored().page(PageRef("better", 1)).text() == "hello"


def test_links_out_of_a_folder_are_not_followed(inbox, ingested, stored, tmp_path):
    write_pdf(tmp_path / "elsewhere" / "secret.pdf", ["secret"])
    (inbox / "deck").symlink_to(tmp_path / "elsewhere")
    (inbox / "a.pdf").symlink_to(tmp_path / "elsewhere" / "secret.pdf")
    assert reasons(ingested()).keys() == {"deck", "a.pdf"}
    assert stored().doc_ids() == ["good"]


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[2Jb", "a\u202eb"], ids=["break", "escape", "turned"]
)
def test_an_id_that_acts_on_a_terminal_is_refused(inbox, ingested, name):
    write_pdf(inbox / f"{name}.pdf", ["x"])
    report = ingested()
    assert report.ingested == ["good"]
    assert len(report.failed) == 1


def test_no_id_becomes_a_path(inbox, ingested, stored, tmp_path):
    names = ["long" * 60, "x\\..\\..\\x#1", "..x"]
    for name in names[:2]:
        write_pdf(inbox / f"{name}.pdf", [name[:4]])
    assert set(names[:2]) <= set(ingested().ingested)
    assert all(len(path.stem) == 64 for path in StoreLayout(tmp_path / "store").manifests())
    with pytest.raises(UserError, match="passwd"):
        stored().document("../../etc/passwd")


def test_stored_pages_of_another_version_are_replaced_when_asked_alone(inbox, ingested, stored):
    ingested()
    write_pdf(inbox / "good.pdf", ["changed"])
    assert ingested(replace=False).kept == ["good"]
    assert stored().page(PageRef("good", 1)).text() == "hello"
    ingested(replace=True)
    assert stored().page(PageRef("good", 1)).text() == "changed"


def test_an_ingest_that_was_interrupted_goes_on_and_makes_the_same_store(inbox, ingested, tmp_path):
    write_pdf(inbox / "long.pdf", [f"page {n}" for n in range(40)])
    with interrupted_after(2):
        with pytest.raises(KeyboardInterrupt):
            ingested()
        resumed = ingested()
    assert resumed.resumed_pages > 0
    ingest_here(inbox, tmp_path / "at once")
    assert files_of(tmp_path / "store") == files_of(tmp_path / "at once")


def test_two_ingests_of_one_store_take_turns(ingested, tmp_path):
    ingested()
    with ThreadPoolExecutor(1) as pool, StoreLayout(tmp_path / "store").lock():
        waiting = pool.submit(ingested)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
    assert waiting.result().skipped == ["good"]


@pytest.mark.parametrize("what", ["jpg", "txt.gz"])
def test_a_page_that_is_not_the_one_that_was_stored_is_never_shown(
    inbox, ingested, stored, tmp_path, what
):
    write_pdf(inbox / "other.pdf", ["other words"])
    ingested()
    objects = sorted((tmp_path / "store" / "objects").rglob(f"*.{what}"))
    first, second = objects
    data = first.read_bytes(), second.read_bytes()
    first.write_bytes(data[1])
    second.write_bytes(data[0])
    page = stored().page(PageRef("good", 1))
    with pytest.raises(UserError, match=what):
        page.image() if what == "jpg" else page.text()
    told = called(check_command, tmp_path / "store", status=1).output
    assert "2 damaged" in told
    # and the next ingest mends it
    assert set(ingested().repaired) == {"good", "other"}
    assert stored().page(PageRef("good", 1)).text() == "hello"


def test_a_turned_page_is_read_and_shown_upright(inbox, ingested, stored):
    (inbox / "deck").mkdir()
    for number, turn in enumerate(Rotation, start=1):
        rotate(draw_text(TEXT), turn).save(inbox / "deck" / f"{number}.png")
    ingested()
    pages = [stored().document("deck").page(number) for number in (1, 2, 3, 4)]
    assert [page.text() for page in pages] == ["\n".join(TEXT)] * 4
    assert len({page.size for page in pages}) == 1
    assert [page.turned for page in pages] == [0, 270, 180, 90]


def test_what_could_not_be_read_for_want_of_time_or_memory_is_tried_again_and_told_by_status_3(
    inbox, tmp_path, monkeypatch
):
    tried = tmp_path / "tried"
    write_program(tmp_path / "bin" / "java", f"echo x >> {tried}; echo 'no memory' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    options = ("--store", tmp_path / "store", "--workers", 1, "--dpi", 20, "--layout")
    for times in (1, 2):
        assert "no memory" in called(ingest_command, inbox, *options, status=3).output
        assert len(tried.read_text().split()) == times


def test_a_picture_in_a_store_is_opened_in_the_stores_own_format_alone(ingested, stored):
    ingested()
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PNG")
    store = stored()
    digest = store.objects.put(buffer.getvalue())
    with pytest.raises(UserError, match=digest):
        store.decode(digest)


def test_what_is_filled_into_a_form_is_in_the_text_once(inbox, ingested, stored):
    canvas = Canvas(str(inbox / "form.pdf"), pagesize=(300, 100))
    canvas.drawString(10, 50, "City:")
    canvas.acroForm.textfield(value="Velmora", x=80, y=45, width=100, height=20, name="city")
    canvas.save()
    ingested(dpi=72)
    assert stored().document("form").page(1).text() == "City: Velmora"


def test_an_overview_of_ingested_thumbnails_decodes_no_page_and_has_the_same_pixels(
    inbox, ingested, stored, tmp_path, monkeypatch
):
    write_pdf(inbox / "good.pdf", ["one", "two", "three"])
    ingested(dpi=72, thumbnails=[56])
    cache = ShownRasters([shown_folder(tmp_path / "store")], capacity=1 << 30)
    plain = stored()
    keeping = DocumentStore(plain.path, shown=cache)
    pages = [plain.page(ref) for ref in plain.pages()]
    (sheet,) = overview(pages, OverviewStyle(cell=56))
    expected = render(sheet, plain).tobytes()
    monkeypatch.setattr(DocumentStore, "decode", lambda *_: pytest.fail("decoded a page"))
    assert render(sheet, keeping).tobytes() == expected
