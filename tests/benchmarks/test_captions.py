from __future__ import annotations

import pytest

from benchmarks import captions
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.captions import Caption
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.ocr import OcrMode, OcrSettings


@pytest.mark.slow
def test_captions_of_reports_are_found_where_they_were_drawn(tmp_path) -> None:
    (tmp_path / "pdfs").mkdir()
    truth = captions.make(2, 3, tmp_path / "pdfs")
    ingest(tmp_path / "pdfs", tmp_path / "store", workers=1, ocr=OcrSettings(OcrMode.NEVER))
    score = captions.score(truth, DocumentStore(tmp_path / "store"))
    assert score.true == sum(len(rendered.labels) for rendered in truth.values()) > 0
    assert (score.found, score.right, score.placed) == (score.true, score.true, score.true)
    (rendered,) = list(truth.values())[:1]
    wrong = captions.Score()
    label, spot = next((label, rendered.spots[f"{key}/caption"]) for key, label in rendered.labels.items())
    wrong.add(
        rendered, [Caption(f"{label}. Title", spot.page, (0.0, 0.0, 0.1, 0.01)), Caption("Figure 99", 1)]
    )
    assert (wrong.found, wrong.right, wrong.placed) == (2, 1, 0)
