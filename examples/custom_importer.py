"""A custom importer: questions as a labelling tool exports them, with pages such as "2, 4-6".

PYTHONPATH=examples docagent-rl data import custom_importer:LabelTool export/ \
    --store store --out data.jsonl

docs/extending.md lists all attributes and methods of `Importer`.
"""

from pathlib import PurePosixPath

from docagent_rl.lab.importers import ImportedQuestion, Importer, NativeRow, document_id


class LabelTool(Importer):
    """Reads `train.jsonl` and `val.jsonl`, and the PDFs in `files/`.

    A line is one question:
    `{"task": {"id": 7, "file": "leases/a.pdf"}, "ask": ..., "reply": ..., "pages": "2, 4-6"}`.
    """

    name = "label_tool"
    # the name of the data set in the samples
    dataset = "label_tool"
    # one pattern that matches both files, whose names also say which split a question belongs to
    files = ("train.jsonl val.jsonl",)
    pdf_files = ("files/**/*.pdf",)

    # the fields of a line; a dot leads into an object
    id = "task.id"
    question = "ask"
    gold = "reply"
    # the reply to a question that its document does not answer
    nothing = "not in the document"
    # fields that are copied to the sample's `extra`
    kept = ("annotator",)

    def document_of(self, row: NativeRow) -> str:
        """Return the id of the document: the name of its file without folder and `.pdf`."""
        file_name = PurePosixPath(row.text("task.file")).name
        return document_id(file_name, "file")

    def complete(self, draft: ImportedQuestion) -> None:
        """Set the evidence pages, which the base class cannot read in this form."""
        draft.native_pages = draft.row.get("pages")
        page_numbers = draft.parse("pages", pages_of, empty=[])
        draft.cites = [(draft.doc_id, page) for page in page_numbers]


def pages_of(text: object) -> list[int]:
    """Return the pages of a text like "2, 4-6".

    Raises:
        ValueError: the text cannot be parsed, which the importer's report counts.
    """
    pages: list[int] = []
    for part in str(text).split(","):
        first, dash, last = part.partition("-")
        end = last if dash else first
        pages.extend(range(int(first), int(end) + 1))
    return pages
