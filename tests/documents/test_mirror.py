import json
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import mirror as module
from docagent_rl.documents.mirror import MARKS, mirror


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKS
    }


@pytest.fixture
def bucket():
    store = fsspec.filesystem("memory")
    store.pipe({"/corpus/a.pdf": b"a", "/corpus/deck/page_1.png": b"1", "/corpus/notes.txt": b"no"})
    yield store
    store.rm("/corpus", recursive=True)


def test_new_and_changed_files_are_copied_and_others_stay(bucket, tmp_path, monkeypatch):
    assert files(mirror("memory://corpus", tmp_path)) == {"a.pdf": b"a", "deck/page_1.png": b"1"}
    bucket.pipe({"/corpus/a.pdf": b"changed", "/corpus/b.PDF": b"b"})
    bucket.rm("/corpus/deck", recursive=True)
    copied, copy = [], module._copy
    monkeypatch.setattr(module, "_copy", lambda *file: (copied.append(file[1]), copy(*file)))
    mirror("memory://corpus/", tmp_path)
    assert copied == ["/corpus/a.pdf", "/corpus/b.PDF"]
    assert files(tmp_path) == {"a.pdf": b"changed", "b.PDF": b"b", "deck/page_1.png": b"1"}
    (tmp_path / "a.pdf").unlink()
    assert mirror("memory://corpus/a.pdf", tmp_path) == tmp_path
    assert files(tmp_path)["a.pdf"] == b"changed"


def test_what_is_gone_there_goes_from_a_copy_that_follows(bucket, tmp_path):
    bucket.pipe({f"/corpus/{name}.pdf": b"x" for name in "bcd"})
    mirror("memory://corpus", tmp_path)
    (tmp_path / "own.pdf").write_bytes(b"mine")
    for name in ("b.pdf", "deck/page_1.png"):
        bucket.rm(f"/corpus/{name}")
    mirror("memory://corpus", tmp_path, follow=True)
    assert files(tmp_path).keys() == {"a.pdf", "c.pdf", "d.pdf", "own.pdf"}
    for name in ("c.pdf", "d.pdf"):
        bucket.rm(f"/corpus/{name}")
    with pytest.raises(UserError, match="--however-many"):
        mirror("memory://corpus", tmp_path, follow=True)
    assert len(files(tmp_path)) == 4
    mirror("memory://corpus", tmp_path, follow=True, however_many=True)
    assert files(tmp_path).keys() == {"a.pdf", "own.pdf"}


def test_a_copy_follows_no_single_file(bucket, tmp_path):
    mirror("memory://corpus", tmp_path)
    with pytest.raises(UserError, match="is a file"):
        mirror("memory://corpus/a.pdf", tmp_path, follow=True)
    assert len(files(tmp_path)) == 2


def test_a_list_of_copies_that_was_edited_removes_nothing_elsewhere(bucket, tmp_path):
    copy = tmp_path / "copy"
    mirror("memory://corpus", copy)
    (tmp_path / "up.pdf").write_bytes(b"mine")
    marks = json.loads((copy / MARKS).read_text())
    (copy / MARKS).write_text(json.dumps({**marks, "../up.pdf": "mark"}))
    mirror("memory://corpus", copy, follow=True)
    assert (tmp_path / "up.pdf").is_file()


def test_what_was_copied_before_an_error_is_kept(bucket, tmp_path, monkeypatch):
    copy = module._copy

    def failing(store, place, path):
        if place.endswith("png"):
            raise PermissionError("not yours")
        copy(store, place, path)

    monkeypatch.setattr(module, "_copy", failing)
    with pytest.raises(UserError, match=r"memory://corpus .*not yours"):
        mirror("memory://corpus", tmp_path)
    assert files(tmp_path) == {"a.pdf": b"a"}
    monkeypatch.setattr(
        module, "_copy", lambda store, place, path: path.parent.mkdir(exist_ok=True)
    )
    mirror("memory://corpus", tmp_path)
    assert files(tmp_path) == {"a.pdf": b"a"}


@pytest.mark.parametrize(
    "url", ["s3://b/x", "foo://b/x", "memory://nothing", "http://127.0.0.1:1/x/"]
)
def test_what_cannot_be_read_is_named(url, tmp_path):
    with pytest.raises(UserError, match=url):
        mirror(url, tmp_path)


@pytest.mark.parametrize("name", ["../up.pdf", "a\nb.pdf"])
def test_names_that_lead_elsewhere_are_refused(name, tmp_path, monkeypatch):
    store = fsspec.filesystem("memory")
    monkeypatch.setattr(type(store), "find", lambda *_: [f"/corpus/{name}"])
    with pytest.raises(UserError, match=r"name cannot be used"):
        mirror("memory://corpus", tmp_path)
    assert not files(tmp_path)


def test_a_web_folder_is_read(tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a b.pdf").write_bytes(b"a")
    (source / "sub" / "c.pdf").write_bytes(b"c")
    os.utime(source / "a b.pdf", (1, 1))
    handler = partial(SimpleHTTPRequestHandler, directory=source)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        assert files(mirror(url, tmp_path / "copy")) == {"a b.pdf": b"a", "sub/c.pdf": b"c"}
        server.shutdown()
