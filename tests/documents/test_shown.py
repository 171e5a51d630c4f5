import hashlib
import os
import pickle

import numpy as np
import pytest
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.objects import ObjectKind, ObjectStore, sync_to_disk
from docagent_rl.documents.shown import ShownRasters, shown_folder

MIB = 1 << 20
SIZE = (40, 30)


def picture(seed, size=SIZE):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def key(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


def kept(shown, name, size=SIZE):
    """Return the cached pixels, or None."""
    found = shown.get(key(name), size)
    return found if found is None else found.tobytes()


@pytest.fixture
def folder(tmp_path):
    return shown_folder(tmp_path / "store")


@pytest.fixture
def shown(folder):
    return ShownRasters([folder], capacity=256 * MIB)


def test_what_was_put_is_got_pixel_by_pixel_by_others(shown, folder, tmp_path):
    assert folder == tmp_path / "store.shown"
    assert kept(shown, "a") is None
    shown.put(key("a"), picture(1))
    for reader in (shown, ShownRasters([folder], capacity=MIB), pickle.loads(pickle.dumps(shown))):
        found = reader.get(key("a"), SIZE)
        assert (found.mode, found.size, found.tobytes()) == ("RGB", SIZE, picture(1).tobytes())
    found.putpixel((0, 0), (1, 2, 3))  # the caller's own
    assert kept(shown, "a") == picture(1).tobytes()
    assert kept(shown, "a", (30, 40)) is None
    assert not list(folder.rglob("*.tmp"))


def test_damage_is_as_if_it_was_not_there(shown, folder):
    for name in "ab":
        shown.put(key(name), picture(name == "a"))
    path, other = (folder / key(name)[:2] / f"{key(name)}.rgb" for name in "ab")
    data = path.read_bytes()
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in (9, len(data) - 1000)]
    for damaged in (data[:-1], *flipped, b"", other.read_bytes()):
        path.write_bytes(damaged)
        assert kept(shown, "a") is None
        shown.put(key("a"), picture(7))
        assert kept(shown, "a") == picture(7).tobytes()


def test_the_folder_is_bounded_and_the_oldest_go(folder):
    size = 3 * 40 * 30 + 48
    shown = ShownRasters([folder], capacity=256 * 4 * size)
    names = [f"ab{number:062x}" for number in range(8)]  # all in one bucket
    for age, name in enumerate(names):
        shown.put(name, picture(age))
        os.utime(folder / "ab" / f"{name}.rgb", (age, age))
    assert {path.stem for path in (folder / "ab").glob("*.rgb")} == set(names[4:])
    assert sum(path.stat().st_size for path in folder.rglob("*.rgb")) <= 4 * size
    shown.put(key("large"), picture(0, (400, 300)))
    assert kept(shown, "large", (400, 300)) is None


def test_nowhere_to_write_is_as_without_and_what_is_there_is_read(
    shown, folder, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    nowhere = ShownRasters([tmp_path / "file" / "shown"], capacity=256 * MIB)
    nowhere.put(key("a"), picture(1))
    assert kept(nowhere, "a") is None
    shown.put(key("a"), picture(1))
    # root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder)
    both = ShownRasters([folder, tmp_path / "spare"], capacity=256 * MIB)
    both.put(key("b"), picture(2))
    assert (tmp_path / "spare" / key("b")[:2] / f"{key('b')}.rgb").is_file()
    assert all(kept(both, name) is not None for name in "ab")


def test_a_full_disk_ends_the_keeping_not_the_trajectory(shown, folder, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    shown.put(key("a"), picture(1))
    with monkeypatch.context() as patched:
        patched.setattr("docagent_rl.documents.objects.os.fchmod", full)
        shown.put(key("b"), picture(2))
    shown.put(key("c"), picture(3))
    assert len(caplog.records) == 1
    assert [kept(shown, name) is not None for name in "abc"] == [True, False, False]
    assert not list(folder.rglob("*.tmp"))


@pytest.fixture
def objects(tmp_path):
    return ObjectStore(tmp_path)


@pytest.fixture
def forced(monkeypatch):
    """Return the inodes of the files that are forced to disk."""
    inodes, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (inodes.append(os.fstat(handle).st_ino), fsync(handle))
    )
    return inodes


def test_objects_are_named_by_their_content_and_written_once(objects, tmp_path):
    assert objects.put(b"jpeg") == hashlib.sha256(b"jpeg").hexdigest()
    assert objects.image(objects.put(b"jpeg")) == b"jpeg"
    text = objects.put("größer\n")
    assert text == hashlib.sha256("größer\n".encode()).hexdigest()
    assert objects.text(text) == "größer\n"
    before = objects.path(text, ObjectKind.TEXT).stat().st_ino
    objects.put("größer\n")
    assert objects.path(text, ObjectKind.TEXT).stat().st_ino == before


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "", "A" * 64, "a" * 63, "a" * 64 + "\n", "0" * 64]
)
def test_a_name_that_is_no_hash_never_becomes_a_path_and_a_missing_object_is_named(objects, name):
    with pytest.raises(UserError, match=name.strip() or None):
        objects.image(name)


def test_a_batch_is_readable_at_once_and_forced_to_disk_before_it_is_named(
    objects, forced, tmp_path
):
    batch = []
    names = [objects.put(text, batch) for text in ("one", "two", "one")]
    assert [objects.text(name) for name in names] == ["one", "two", "one"]
    assert forced == []
    sync_to_disk(batch)
    assert {objects.path(name, ObjectKind.TEXT).stat().st_ino for name in names} == set(forced)
    assert not list(tmp_path.glob("*/.*"))


def test_what_was_there_before_is_forced_too_and_damage_is_mended(objects, forced):
    """Another process may have written the file and not have finished yet."""
    whole, damaged = objects.put("one"), objects.put("two")
    objects.path(damaged, ObjectKind.TEXT).write_bytes(b"")
    forced.clear()
    batch = []
    assert [objects.put("one", batch), objects.put("two", batch)] == [whole, damaged]
    sync_to_disk(batch)
    assert len(forced) == 2
    assert objects.text(damaged) == "two"
    # what cannot be forced is one error
    objects.path(objects.put("gone", batch), ObjectKind.TEXT).unlink()
    with pytest.raises(UserError, match=r"\.txt\.gz"):
        sync_to_disk(batch)
