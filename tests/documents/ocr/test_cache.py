import pytest

from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.documents.ocr.cache import OcrCache
from docagent_rl.documents.ocr.words import OcrLine, Word

PICTURE, ENGINE = "ab" * 32, "reader 1.0"
LINES = (OcrLine((Word("two", (0.1, 0.1, 0.2, 0.2)), Word("words", (0.3, 0.1, 0.5, 0.2)))),)


@pytest.fixture
def cache(tmp_path) -> OcrCache:
    return OcrCache(tmp_path / "ocr", ObjectStore(tmp_path / "objects"))


def _record(cache):
    (path,) = cache.root.rglob("*.json")
    return path


def test_what_was_read_is_found_by_picture_and_engine(cache):
    cache.put(PICTURE, ENGINE, LINES)
    assert cache.get(PICTURE, ENGINE) == LINES
    assert cache.get(PICTURE, "reader 1.1") is None
    assert cache.get("cd" * 32, ENGINE) is None


def test_a_picture_without_text_is_known_too(cache):
    cache.put(PICTURE, ENGINE, ())
    assert cache.get(PICTURE, ENGINE) == ()


def test_a_damaged_record_or_object_is_as_if_not_there(cache):
    cache.put(PICTURE, ENGINE, LINES)
    path, data = _record(cache), _record(cache).read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert cache.get(PICTURE, ENGINE) is None
    path.write_bytes(data)
    (words,) = cache.objects.root.rglob(f"*{Kind.TEXT.value}")
    words.write_bytes(b"no words")
    assert cache.get(PICTURE, ENGINE) is None
    cache.put(PICTURE, ENGINE, LINES)
    assert cache.get(PICTURE, ENGINE) == LINES


def test_a_record_of_another_picture_is_not_taken(cache):
    cache.put(PICTURE, ENGINE, LINES)
    data = _record(cache).read_bytes()
    _record(cache).unlink()
    cache.put("cd" * 32, ENGINE, ())
    _record(cache).write_bytes(data)
    assert cache.get("cd" * 32, ENGINE) is None
