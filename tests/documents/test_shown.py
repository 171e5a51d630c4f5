from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from PIL import Image

from docagent_rl.documents.shown import MARKER, ShownRasters, beside

MIB = 1 << 20


def picture(seed, size=(40, 30)):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def key(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


@pytest.fixture
def folder(tmp_path):
    return beside(tmp_path / "store")


def test_what_was_put_is_got_pixel_by_pixel_by_others(folder, tmp_path):
    assert folder == tmp_path / "store.shown"
    first = ShownRasters([folder], capacity=256 * MIB)
    assert first.get(key("a"), (40, 30)) is None
    first.put(key("a"), picture(1))
    for reader in (first, ShownRasters([folder], capacity=MIB), pickle.loads(pickle.dumps(first))):
        found = reader.get(key("a"), (40, 30))
        assert found is not None
        assert (found.mode, found.size) == ("RGB", (40, 30))
        assert found.tobytes() == picture(1).tobytes()
    found.putpixel((0, 0), (1, 2, 3))  # the caller's own
    again = first.get(key("a"), (40, 30))
    assert again is not None
    assert again.tobytes() == picture(1).tobytes()
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "header"])
def test_damage_is_as_if_it_was_not_there(folder, damage):
    shown = ShownRasters([folder], capacity=256 * MIB)
    for name in "ab":
        shown.put(key(name), picture(name == "a"))
    path, other = (folder / key(name)[:2] / f"{key(name)}.rgb" for name in "ab")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-1]
    elif damage == "flipped":
        data[-1000] ^= 1
    elif damage == "header":
        data[9] ^= 1
    elif damage == "empty":
        data.clear()
    else:
        data = other.read_bytes()
    path.write_bytes(data)
    assert shown.get(key("a"), (40, 30)) is None
    shown.put(key("a"), picture(7))
    found = shown.get(key("a"), (40, 30))
    assert found is not None
    assert found.tobytes() == picture(7).tobytes()


def test_another_size_is_another_picture(folder):
    shown = ShownRasters([folder], capacity=256 * MIB)
    shown.put(key("a"), picture(1))
    assert shown.get(key("a"), (30, 40)) is None


def test_the_folder_is_bounded_and_the_least_used_go(folder):
    size = 3 * 40 * 30 + 48
    shown = ShownRasters([folder], capacity=256 * 4 * size)
    names = [f"ab{number:062x}" for number in range(8)]  # all in one bucket
    for age, name in enumerate(names):
        shown.put(name, picture(age))
        os.utime(folder / "ab" / f"{name}.rgb", (age, age))
        if age == 4:
            assert shown.get(names[2], (40, 30)) is not None  # notes that it was used
    kept = {path.stem for path in (folder / "ab").glob("*.rgb")}
    assert kept == {names[2], *names[5:]}
    assert sum(path.stat().st_size for path in folder.rglob("*.rgb")) <= 4 * size
    shown.put(key("large"), picture(0, (400, 300)))
    assert shown.get(key("large"), (400, 300)) is None


def test_folders_of_others_are_left_alone(tmp_path):
    theirs = tmp_path / "store.shown"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("mine")
    shown = ShownRasters([theirs, tmp_path / "workspace" / "shown"], capacity=256 * MIB)
    shown.put(key("a"), picture(1))
    assert [path.name for path in theirs.iterdir()] == ["thesis.txt"]
    assert (tmp_path / "workspace" / "shown" / MARKER).is_file()
    assert shown.get(key("a"), (40, 30)) is not None


def test_nowhere_to_write_is_as_without(tmp_path):
    (tmp_path / "file").write_text("")
    shown = ShownRasters([tmp_path / "file" / "shown"], capacity=256 * MIB)
    shown.put(key("a"), picture(1))
    assert shown.get(key("a"), (40, 30)) is None


def test_a_folder_that_cannot_be_written_is_read(folder, tmp_path, monkeypatch):
    ShownRasters([folder], capacity=256 * MIB).put(key("a"), picture(1))
    spare = tmp_path / "spare"
    # root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder)
    shown = ShownRasters([folder, spare], capacity=256 * MIB)
    shown.put(key("b"), picture(2))
    assert (spare / key("b")[:2] / f"{key('b')}.rgb").is_file()
    assert all(shown.get(key(name), (40, 30)) is not None for name in "ab")


def test_a_full_disk_ends_the_keeping_not_the_session(folder, monkeypatch, caplog):
    shown = ShownRasters([folder], capacity=256 * MIB)
    shown.put(key("a"), picture(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("docagent_rl.documents.writing.os.fchmod", full)
        shown.put(key("b"), picture(2))
    shown.put(key("c"), picture(3))
    assert "not kept any more" in caplog.text
    assert [shown.get(key(name), (40, 30)) is not None for name in "abc"] == [True, False, False]
    assert not list(folder.rglob("*.tmp"))


def _race(arguments):
    shown, seed = arguments
    for turn in range(40):
        name = (seed + turn) % 20
        found = shown.get(key(name), (40, 30))
        if found is None:
            shown.put(key(name), picture(name))
        elif found.tobytes() != picture(name).tobytes():
            return name
    return None


def test_many_processes_keep_and_drop_at_the_same_time(folder):
    """Room for a few only: files go while others read them."""
    shown = ShownRasters([folder], capacity=256 * 4000)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        assert list(pool.map(_race, [(shown, seed) for seed in range(4)])) == [None] * 4
