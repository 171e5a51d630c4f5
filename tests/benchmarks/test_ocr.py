import pytest

from benchmarks import ocr
from tests.documents.scans import TEXT, draw_text


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
    from tests.documents.scans import write_layer, write_scan

    write_scan(tmp_path / "scan.pdf", [TEXT])
    lines = ["ten words on every line of the page are enough"] * 8
    write_layer(tmp_path / "text.pdf", lines)
    write_layer(tmp_path / "broken.pdf", lines, private=True)
    ((image, text),) = ocr.pages(tmp_path, 5, 72)
    assert text == "\n".join(lines)
    assert image.size == (400, 260)
