"""Compare the captions that are found in synthetic reports with those that were drawn."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import show
from docagent_rl.documents.contents import Caption, list_of_figures
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.synth.layout import Rendered, render_document
from docagent_rl.lab.synth.plan import DocumentPlan
from docagent_rl.lab.synth.settings import SynthSettings

_LABEL = re.compile(r"(?:Table|Figure) \d+")


@dataclass
class Score:
    """Counts of captions.

    Args:
        true: captions that were drawn.
        found: captions that were found.
        right: found captions with the label ("Table 3") and the page of one that was drawn.
    """

    true: int = 0
    found: int = 0
    right: int = 0

    def add(self, truth: Rendered, captions: Iterable[Caption]) -> None:
        """Count the captions that were found in one document."""
        drawn = {
            (label, spot.page)
            for key, label in truth.labels.items()
            if (spot := truth.spots.get(f"{key}/caption"))
        }
        self.true += len(drawn)
        for caption in captions:
            label = _LABEL.match(caption.text)
            self.found += 1
            if label is not None and (label[0], caption.page) in drawn:
                drawn.remove((label[0], caption.page))
                self.right += 1


def score(documents: Mapping[str, Rendered], store: DocumentStore) -> Score:
    """Find the captions of stored documents and compare them with what was drawn, by id."""
    total = Score()
    for doc_id, truth in documents.items():
        document = store.document(doc_id)
        pages = {number: document.page(number) for number in range(1, document.num_pages + 1)}
        texts = {number: page.text() for number, page in pages.items()}
        total.add(truth, list_of_figures(texts))
    return total


def make(count: int, seed: int, folder: Path) -> dict[str, Rendered]:
    """Draw `count` reports, write their PDFs to `folder`, and return them by id."""
    settings = SynthSettings(documents=count, seed=seed)
    documents = {}
    for index in range(count):
        plan = DocumentPlan(settings, index)
        documents[plan.doc_id] = rendered = render_document(plan)
        (folder / f"{plan.doc_id}.pdf").write_bytes(rendered.pdf)
    return documents


def main(
    documents: Annotated[int, typer.Option(help="Number of reports.")] = 24,
    seed: Annotated[int, typer.Option(help="Seed of the reports.")] = 11,
    ocr: Annotated[int, typer.Option(help="Number of reports that are also read by OCR.")] = 2,
) -> None:
    """Print precision and recall of captions found in the text layer and in text read by OCR."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for mode, count in {OcrMode.NEVER: documents, OcrMode.ALWAYS: ocr}.items():
            folder = Path(name) / mode.value
            (folder / "pdfs").mkdir(parents=True)
            truth = make(count, seed, folder / "pdfs")
            ingest(folder / "pdfs", folder / "store", ocr=mode, strict=True)
            store = DocumentStore(folder / "store")
            result = score(truth, store)
            pages = sum(store.document(doc_id).num_pages for doc_id in truth)
            shares = (result.right / max(1, result.found), result.right / max(1, result.true))
            rows.append(
                [
                    "rapidocr" if mode is OcrMode.ALWAYS else "text layer",
                    str(pages),
                    str(result.true),
                    *(f"{share:.3f}" for share in shares),
                ]
            )
    columns = ["text by", "pages", "captions", "precision", "recall"]
    show(f"Captions of {documents} reports", columns, rows)


if __name__ == "__main__":
    typer.run(main)
