import json

import pytest

from docagent_rl.documents.manifest import ChunkEntry, PageEntry, dump_record, read_record
from docagent_rl.documents.reading import TextReading, TextReason, TextSource
from docagent_rl.errors import UserError

DIGEST = "ab" * 32


def test_a_text_by_ocr_names_its_engine():
    with pytest.raises(ValueError, match="engine"):
        TextReading(TextSource.OCR, TextReason.EMPTY)


def test_records_keep_how_pages_were_read(tmp_path):
    reading = TextReading(TextSource.OCR, TextReason.GARBLED, "reader 1")
    record = ChunkEntry(first=1, pages=(PageEntry(5, 6, DIGEST, DIGEST, None, DIGEST, reading),))
    (tmp_path / "1.json").write_text(dump_record(record))
    assert read_record(ChunkEntry, tmp_path / "1.json").pages == record.pages


def test_records_of_earlier_versions_are_read(tmp_path):
    page = {"width": 5, "height": 6, "image": DIGEST, "text": None}
    (tmp_path / "1.json").write_text(json.dumps({"schema_version": 1, "first": 1, "pages": [page]}))
    assert read_record(ChunkEntry, tmp_path / "1.json").pages == (PageEntry(5, 6, DIGEST, None),)


@pytest.mark.parametrize(
    "reading",
    [{"source": "ocr", "reason": "empty"}, {"source": "book", "reason": "empty"}, {"reason": "sound"}, 5],
)
def test_other_readings_are_damage(tmp_path, reading):
    page = {"width": 5, "height": 6, "image": DIGEST, "text": None, "reading": reading}
    (tmp_path / "1.json").write_text(json.dumps({"schema_version": 1, "first": 1, "pages": [page]}))
    with pytest.raises(UserError, match="damaged"):
        read_record(ChunkEntry, tmp_path / "1.json")
