"""Benchmarks that take seconds: they run, and measure what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import captions, ocr, viewer
from benchmarks.retrieval import maxsim
from benchmarks.viewer_page import CHROMIUM
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.captions import Caption
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.retrieval.vectors.bank import make_bank
from tests.corpus import store  # noqa: F401  a fixture
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan
from tests.viewer_runs import run_folder, session


@pytest.mark.slow
def test_captions_of_reports_are_found_where_they_were_drawn(tmp_path) -> None:
    (tmp_path / "pdfs").mkdir()
    truth = captions.make(2, 3, tmp_path / "pdfs")
    ingest(tmp_path / "pdfs", tmp_path / "store", workers=1, ocr=OcrSettings(OcrMode.NEVER))
    score = captions.score(truth, DocumentStore(tmp_path / "store"))
    assert score.true == sum(len(rendered.labels) for rendered in truth.values()) > 0
    assert (score.found, score.right, score.placed) == (score.true, score.true, score.true)
    rendered = next(iter(truth.values()))
    key, label = next(iter(rendered.labels.items()))
    there = Caption(f"{label}. Title", rendered.spots[f"{key}/caption"].page, (0.0, 0.0, 0.1, 0.01))
    wrong = captions.Score()
    wrong.add(rendered, [there, Caption("Figure 99", 1)])
    assert (wrong.found, wrong.right, wrong.placed) == (2, 1, 0)


@pytest.mark.slow
def test_ours_is_exact_where_padding_wins() -> None:
    pages, query = maxsim.document(12, 30, 6)
    lengths = [len(page) for page in pages]
    assert (min(lengths) >= 12, max(lengths) <= 48) == (True, True)
    bank = make_bank(pages, maxsim.DIM)
    want = maxsim.exact(bank, query)
    found = {name: call() for name, call in maxsim.scorers(pages, bank, query).items()}
    for name in ("ours (numkong)", "ours (torch)", "sentence-transformers maxsim"):
        np.testing.assert_allclose(found[name], want, atol=1e-5)
    assert np.abs(found["colpali-engine score_multi_vector"] - want).max() > 0.1


@pytest.mark.slow
def test_the_table_of_the_viewer_has_a_row_a_part(tmp_path, store, capsys):  # noqa: F811
    run = run_folder(tmp_path / "run", [session(store, 0), session(store, 1)])
    viewer.main(run, sessions=30, tokens=7, turns=11, rows=4)
    said = capsys.readouterr().out
    assert "30 sessions" in said
    assert "11 turns" in said
    assert "scrolled" in said or CHROMIUM is None
    assert not (run / "view.sqlite").exists()


def test_words_are_counted_as_often_as_they_stand_there() -> None:
    score = ocr.Score()
    score.add(2.0, "one two two x9", "one two Two three")
    assert (score.found, score.held, score.read, score.worst) == (3, 4, 4, 0.75)
    score.add(1.0, "", "word")
    assert (score.seconds, score.held, score.worst) == (3.0, 5, 0.0)


@pytest.mark.slow
def test_every_engine_reads_the_same_pages() -> None:
    truth = "\n".join(TEXT)
    scores = ocr.measure([(draw_text(TEXT), truth)])
    assert len(scores) >= 2
    for score in scores.values():
        assert score.found == score.held == len(truth.split())
        assert score.seconds > 0


@pytest.mark.slow
def test_only_pages_with_a_sound_layer_are_taken(tmp_path) -> None:
    write_scan(tmp_path / "scan.pdf", [TEXT])
    lines = ["ten words on every line of the page are enough"] * 8
    write_layer(tmp_path / "text.pdf", lines)
    write_layer(tmp_path / "broken.pdf", lines, private=True)
    ((image, text),) = ocr.pages(tmp_path, 5, 72)
    assert text == "\n".join(lines)
    assert image.size == (400, 260)
