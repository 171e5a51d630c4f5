from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.errors import UserError


def test_objects_are_named_by_their_content(tmp_path):
    objects = ObjectStore(tmp_path)
    digest = objects.put_image(b"jpeg")
    assert digest == hashlib.sha256(b"jpeg").hexdigest()
    assert objects.image(digest) == b"jpeg"
    text = objects.put_text("größer\n")
    assert text == hashlib.sha256("größer\n".encode()).hexdigest()
    assert objects.text(text) == "größer\n"


def test_an_object_is_written_once(tmp_path):
    objects = ObjectStore(tmp_path)
    objects.put_text("same")
    (path,) = tmp_path.glob("*/*")
    before = path.stat().st_ino
    objects.put_text("same")
    assert path.stat().st_ino == before


def test_writers_at_the_same_time_leave_one_whole_object(tmp_path):
    objects = ObjectStore(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(objects.put_image, [b"x" * 100_000] * 32))
    assert len(list(tmp_path.glob("*/*"))) == 1  # no temporary file is left
    assert objects.image(digests.pop()) == b"x" * 100_000


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_a_name_that_is_no_hash_never_becomes_a_path(tmp_path, name):
    with pytest.raises(UserError, match="not the name"):
        ObjectStore(tmp_path).image(name)


def test_missing_and_damaged_objects_are_named(tmp_path):
    objects = ObjectStore(tmp_path)
    with pytest.raises(UserError, match="0" * 64):
        objects.image("0" * 64)
    digest = objects.put_text("a long enough text " * 20)
    (path,) = tmp_path.glob("*/*")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(UserError, match=digest):
        objects.text(digest)


def test_a_batch_is_readable_at_once_and_forced_to_disk_before_it_is_named(tmp_path, monkeypatch):
    objects, forced = ObjectStore(tmp_path), []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (forced.append(os.fstat(handle).st_ino), fsync(handle)))
    batch = objects.batch()
    names = [batch.put_text(text) for text in ("one", "two", "one")]
    assert [objects.text(name) for name in names] == ["one", "two", "one"]
    assert forced == []
    batch.force()
    assert {objects.path(name, Kind.TEXT).stat().st_ino for name in names} == set(forced)
    assert not list(tmp_path.glob("*/.*"))


def test_what_was_there_before_is_forced_too_and_damage_is_mended(tmp_path, monkeypatch):
    """It may have been written by another process that has not come to it yet."""
    objects = ObjectStore(tmp_path)
    whole, damaged = objects.put_text("one"), objects.put_text("two")
    objects.path(damaged, Kind.TEXT).write_bytes(b"")
    forced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (forced.append(handle), fsync(handle)))
    batch = objects.batch()
    assert [batch.put_text("one"), batch.put_text("two")] == [whole, damaged]
    batch.force()
    assert len(forced) == 2
    assert objects.text(damaged) == "two"


def test_an_object_that_cannot_be_forced_to_disk_is_one_error(tmp_path):
    batch = ObjectStore(tmp_path).batch()
    name = batch.put_text("gone")
    ObjectStore(tmp_path).path(name, Kind.TEXT).unlink()
    with pytest.raises(UserError, match="cannot write"):
        batch.force()
