"""The text that fields, notes and stamps draw is in their page's text, once and in its place."""

import io

import pypdf
import pypdfium2
import pypdfium2.raw as pdfium_c
import pytest
from pypdf.annotations import FreeText
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from tests.documents.conftest import write_pdf_objects
from tests.documents.scans import TEXT

FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
LABELS = "BT /F 10 Tf 10 170 Td (Application) Tj 0 -40 Td (Name:) Tj 0 -40 Td (Signed below) Tj ET"


@pytest.fixture
def text_of(inbox, store_path, ingested):
    def read(name: str, **options) -> str:
        ingested(dpi=72, **options)
        return DocumentStore(store_path).document(name).page(1).text()

    return read


def write_form(path, *annotations: str, content: str = LABELS):
    """Return a page of 300 by 200 points with annotations, as objects from 7 on; 5 is a font, and 6
    draws `Okonkwo`.
    """
    look = "BT /F 10 Tf 2 4 Td (Okonkwo) Tj ET"
    appearance = (
        f"<</Subtype/Form/BBox[0 0 120 20]/Resources<</Font<</F 5 0 R>>>>/Length {len(look)}>>"
    )
    numbers = range(7, 7 + len(annotations))
    objects = (FONT, f"{appearance}stream\n{look}\nendstream", *annotations)
    write_pdf_objects(path, content, "/Font<</F 5 0 R>>", *objects, size="300 200")
    references = " ".join(f"{number} 0 R" for number in numbers)
    form = f"/AcroForm<</Fields[{references}]/DR<</Font<</F 5 0 R>>>>>>"
    with pypdf.PdfReader(path) as reader:
        assert len(reader.pages) == 1
    data = path.read_bytes().replace(b"/Pages 2 0 R>>", f"/Pages 2 0 R{form}>>".encode(), 1)
    path.write_bytes(data.replace(b"/Contents", f"/Annots[{references}]/Contents".encode(), 1))
    # the table of objects is wrong now: pypdf writes the file anew
    writer = pypdf.PdfWriter(clone_from=path)
    writer.write(path)


def field(look: str = "/AP<</N 6 0 R>>", rect: str = "60 125 180 145", flags: int = 4) -> str:
    kind = "/Type/Annot/Subtype/Widget/FT/Tx/T(name)/V(Okonkwo)/DA(/F 10 Tf 0 g)"
    return f"<<{kind}/Rect[{rect}]/F {flags}{look}>>"


def test_a_value_follows_the_label_of_its_field(inbox, text_of):
    write_form(inbox / "a.pdf", field())
    assert text_of("a") == "Application\nName: Okonkwo\nSigned below"


def test_a_note_without_label_has_a_line_below_what_is_above(inbox, text_of):
    write_form(inbox / "a.pdf", field(rect="10 100 130 120"))
    assert text_of("a") == "Application\nName:\nOkonkwo\nSigned below"


def test_fields_of_one_row_are_read_from_left_to_right(inbox, text_of):
    second = (
        field(look="", rect="190 126 290 146").replace("name", "given").replace("Okonkwo", "Adaeze")
    )
    write_form(inbox / "a.pdf", field(), second)
    assert text_of("a") == "Application\nName: Okonkwo Adaeze\nSigned below"


@pytest.mark.parametrize("flags", [2, 32])
def test_hidden_fields_are_not_read(inbox, text_of, flags):
    write_form(inbox / "a.pdf", field(flags=flags))
    assert "Okonkwo" not in text_of("a")


def test_what_the_content_shows_at_the_same_place_is_not_repeated(inbox, text_of):
    flat = f"{LABELS} BT /F 10 Tf 61 128 Td (Okonkwo) Tj ET"
    write_form(inbox / "a.pdf", field(), content=flat)
    assert text_of("a") == "Application\nName:\nSigned below\nOkonkwo"


def test_a_value_that_only_pdfium_draws_and_letters_in_cells(inbox, text_of):
    cells = "/Ff 16777216/MaxLen 10"  # a comb of ten cells
    write_form(inbox / "a.pdf", field(look=""), field(look=cells, rect="60 40 280 60"))
    assert text_of("a") == "Application\nName: Okonkwo\nSigned below\nOkonkwo"


def test_fields_of_a_page_that_was_taken_out_of_its_form_are_drawn_and_read(inbox, text_of):
    write_form(inbox / "form.pdf", field())
    writer = pypdf.PdfWriter(clone_from=inbox / "form.pdf")
    del writer.root_object["/AcroForm"]
    writer.write(inbox / "a.pdf")
    assert text_of("a") == text_of("form")


def test_a_form_by_reportlab(inbox, text_of):
    canvas = Canvas(str(inbox / "a.pdf"), pagesize=(300, 200))
    canvas.drawString(10, 170, "City:")
    canvas.acroForm.textfield(value="Velmora", x=80, y=165, width=100, height=20, name="city")
    canvas.drawString(10, 130, "Colour:")
    options = ["teal", "amber", "violet"]
    canvas.acroForm.choice(
        value="amber", options=options, x=80, y=125, width=100, height=20, name="colour"
    )
    for row, (label, checked) in enumerate((("Ferry", True), ("Train", False))):
        canvas.acroForm.checkbox(checked=checked, x=10, y=85 - 40 * row, size=18, name=label)
        canvas.drawString(40, 90 - 40 * row, label)
    canvas.save()
    city, colour, ferry, train = text_of("a").splitlines()
    assert (city, colour, train) == ("City: Velmora", "Colour: amber", "Train")
    mark, label = ferry.split()
    assert label == "Ferry"
    assert not mark.isalnum()


def test_a_form_filled_in_and_a_note_by_pypdf(inbox, text_of):
    write_form(inbox / "a.pdf", field())
    writer = pypdf.PdfWriter(clone_from=inbox / "a.pdf")
    writer.update_page_form_field_values(
        writer.pages[0], {"name": "Adaeze Tanaka"}, auto_regenerate=False
    )
    note = FreeText(text="Approved on 3 May", rect=(10, 10, 200, 40), font_size="12pt")
    writer.add_annotation(0, note)
    writer.write(inbox / "a.pdf")
    assert text_of("a").splitlines()[1] == "Name: Adaeze Tanaka"


def stamp(path, draw):
    """Put a stamp on the first page of a PDF with PDFium; `draw` makes the object that it shows."""
    with pypdfium2.PdfDocument(path) as pdf:
        page = pdf[0]
        note = pdfium_c.FPDFPage_CreateAnnot(page, pdfium_c.FPDF_ANNOT_STAMP)
        pdfium_c.FPDFAnnot_SetRect(note, pdfium_c.FS_RECTF(10, 50, 210, 10))
        assert pdfium_c.FPDFAnnot_AppendObject(note, draw(pdf))
        pdfium_c.FPDFPage_CloseAnnot(note)
        page.close()
        buffer = io.BytesIO()
        pdf.save(buffer)
    path.write_bytes(buffer.getvalue())


def test_a_stamp_by_pdfium(inbox, text_of, write_pdf):
    def approved(pdf):
        item = pdfium_c.FPDFPageObj_NewTextObj(pdf, b"Helvetica", 12)
        pdfium_c.FPDFText_SetText(item, (pdfium_c.FPDF_WCHAR * 9)(*map(ord, "Approved")))
        pdfium_c.FPDFPageObj_Transform(item, 1, 0, 0, 1, 12, 20)
        return item

    stamp(write_pdf(inbox / "a.pdf", ["The budget of the bridge"], size=(300, 200)), approved)
    assert text_of("a") == "The budget of the bridge\nApproved"


@pytest.mark.usefixtures("quick_ocr")
@pytest.mark.parametrize(("ocr", "read"), [(OcrMode.AUTO, f"\n{TEXT[0]}"), (OcrMode.NEVER, "")])
def test_a_stamp_whose_letters_are_curves_is_read_by_ocr(inbox, text_of, ocr, read):
    curves = "<</Subtype/Form/BBox[0 0 120 20]/Length 16>>stream\n10 8 90 6 re f \nendstream"
    write_form(
        inbox / "a.pdf",
        "<</Type/Annot/Subtype/Stamp/Rect[10 20 130 40]/F 4/AP<</N 8 0 R>>>>",
        curves,
    )
    assert text_of("a", ocr=ocr) == f"Application\nName:\nSigned below{read}"
