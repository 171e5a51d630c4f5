"""A custom importer: questions as a labelling tool exports them, with pages such as "2, 4-6".

PYTHONPATH=examples docagent-rl data import custom_importer:LabelTool export/ \
    --store store --out data.jsonl
"""

from pathlib import PurePosixPath

from docagent_rl.lab.importers import Importer, document_id


class LabelTool(Importer):
    """Reads `train.jsonl` and `val.jsonl`, and the PDFs in `files/`.

    A line is `{"task": {"id": 7, "file": "leases/a.pdf"}, "ask": ..., "reply": ..., "pages": "2,
    4-6"}`.
    """

    name = "label_tool"
    dataset = "label_tool"
    files = ("train.jsonl val.jsonl",)
    id, question, gold = "task.id", "ask", "reply"
    nothing = "not in the document"
    kept = ("annotator",)
    pdf_files = ("files/**/*.pdf",)

    def document_of(self, row):
        return document_id(PurePosixPath(row.text("task.file")).name, "file")

    def complete(self, draft):
        draft.native_pages = draft.row.get("pages")
        draft.cites = [(draft.doc_id, page) for page in draft.parse("pages", pages_of, [])]


def pages_of(text):
    """Return the pages of a text like "2, 4-6".

    A text that cannot be parsed raises `ValueError`, which the importer counts.
    """
    pages = []
    for part in str(text).split(","):
        first, _, last = part.partition("-")
        pages.extend(range(int(first), int(last or first) + 1))
    return pages
