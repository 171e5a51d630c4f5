from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.errors import UserError


@pytest.fixture
def objects(tmp_path):
    return ObjectStore(tmp_path)


@pytest.fixture
def forced(monkeypatch):
    """The inodes of files that are forced to disk."""
    inodes, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (inodes.append(os.fstat(handle).st_ino), fsync(handle)))
    return inodes


def test_objects_are_named_by_their_content_and_written_once(objects, tmp_path):
    assert objects.put_image(b"jpeg") == hashlib.sha256(b"jpeg").hexdigest()
    assert objects.image(objects.put_image(b"jpeg")) == b"jpeg"
    text = objects.put_text("größer\n")
    assert text == hashlib.sha256("größer\n".encode()).hexdigest()
    assert objects.text(text) == "größer\n"
    before = objects.path(text, Kind.TEXT).stat().st_ino
    objects.put_text("größer\n")
    assert objects.path(text, Kind.TEXT).stat().st_ino == before


def test_writers_at_the_same_time_leave_one_whole_object(objects, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(objects.put_image, [b"x" * 100_000] * 32))
    assert len(list(tmp_path.glob("*/*"))) == 1  # no temporary file is left
    assert objects.image(digests.pop()) == b"x" * 100_000


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "a" * 63, "a" * 64 + "\n", "0" * 64])
def test_a_name_that_is_no_hash_never_becomes_a_path_and_a_missing_object_is_named(objects, name):
    with pytest.raises(UserError) as caught:
        objects.image(name)
    assert name.strip() in str(caught.value)


def test_a_batch_is_readable_at_once_and_forced_to_disk_before_it_is_named(objects, forced, tmp_path):
    batch = objects.batch()
    names = [batch.put_text(text) for text in ("one", "two", "one")]
    assert [objects.text(name) for name in names] == ["one", "two", "one"]
    assert forced == []
    batch.force()
    assert {objects.path(name, Kind.TEXT).stat().st_ino for name in names} == set(forced)
    assert not list(tmp_path.glob("*/.*"))


def test_what_was_there_before_is_forced_too_and_damage_is_mended(objects, forced):
    """It may have been written by another process that has not come to it yet."""
    whole, damaged = objects.put_text("one"), objects.put_text("two")
    objects.path(damaged, Kind.TEXT).write_bytes(b"")
    forced.clear()
    batch = objects.batch()
    assert [batch.put_text("one"), batch.put_text("two")] == [whole, damaged]
    batch.force()
    assert len(forced) == 2
    assert objects.text(damaged) == "two"


def test_an_object_that_cannot_be_forced_to_disk_is_one_error(objects):
    batch = objects.batch()
    objects.path(batch.put_text("gone"), Kind.TEXT).unlink()
    with pytest.raises(UserError, match=r"\.txt\.gz"):
        batch.force()
