import os

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.sources import SourceKind, discover


def _touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def _found(folder):
    return [
        (
            document.doc_id,
            document.kind,
            [path.relative_to(folder).as_posix() for path in document.files],
        )
        for document in discover(folder).documents
    ]


def test_documents_and_their_files(inbox):
    _touch(
        inbox,
        "report.v1.2.pdf",
        "sub/SCAN.PDF",
        "notes.txt",
        "._a.pdf",
        ".cache/b.pdf",
        "sub/report.v1.2/1.png",
    )
    _touch(
        inbox,
        *(f"deck.a/{each}" for each in ("p10_3.jpg", "page2.png", "Page01.jfif", "readme.md")),
    )
    _touch(inbox, *(f"my_deck_{page}.jpg" for page in range(1, 12)), "other_1.png")
    _touch(inbox, "store/docagent_store.json", "store/objects/ab/x.jpg")
    assert _found(inbox) == [
        (
            "deck.a",
            SourceKind.IMAGES,
            ["deck.a/Page01.jfif", "deck.a/page2.png", "deck.a/p10_3.jpg"],
        ),
        ("my_deck", SourceKind.IMAGES, [f"my_deck_{page}.jpg" for page in range(1, 12)]),
        ("other", SourceKind.IMAGES, ["other_1.png"]),
        ("report.v1.2", SourceKind.PDF, ["report.v1.2.pdf"]),
        ("sub/SCAN", SourceKind.PDF, ["sub/SCAN.PDF"]),
        ("sub/report.v1.2", SourceKind.IMAGES, ["sub/report.v1.2/1.png"]),
    ]
    assert discover(inbox).failed == []
    assert discover(inbox).passed_over == {".txt": 1, ".md": 1}
    assert [document.doc_id for document in discover(inbox / "report.v1.2.pdf").documents] == [
        "report.v1.2"
    ]


@pytest.mark.parametrize(
    ("names", "failed", "reason"),
    [
        (["a_2.jpg", "a_7.jpg"], "a_*", "page 1 is"),
        (["a_1.jpg", "a_100000000.jpg"], "a_*", "page 2 is"),
        (["b/1.png", "b/2.HEIC"], "b/2.HEIC", "PNG"),
        (["a_1.png", "a_2.heif"], "a_2.heif", "PNG"),
        (["a_1.jpg", "a_01.png"], "a_*", "a_01.png and a_1.jpg"),
        (["a_0.jpg", "a_1.gif"], "a_*", "a_0.jpg"),
        (["b/a/p_1.png", "b/a/p_3.png"], "b/a", "page 2 is missing before p_3.png"),
        (["b/1.jp2", "b/cover.png"], "b", "cover.png"),
    ],
)
def test_images_that_do_not_make_a_document_are_reported(inbox, names, failed, reason):
    _touch(inbox, *names, "good.pdf")
    found = discover(inbox)
    assert [document.doc_id for document in found.documents] == ["good"]
    assert [failure.name for failure in found.failed] == [failed]
    assert reason in found.failed[0].reason


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ("a/report.pdf", "a/report/1.jpg", "a/report"),
        ("report.pdf", "report_1.jpg", "report_*"),
        ("report.pdf", "report.PDF", "report.PDF"),
    ],
)
def test_documents_of_one_name_are_left_out_and_named_with_one_another(inbox, one, other, named):
    _touch(inbox, one, other, "good.pdf")
    found = discover(inbox)
    assert [document.doc_id for document in found.documents] == ["good"]
    reasons = {failure.name: failure.reason for failure in found.failed}
    assert reasons.keys() == {one, named}
    assert named in reasons[one]
    assert one in reasons[named]


def test_links_out_of_the_folder_are_reported_and_useless_sources_refused(inbox, tmp_path):
    _touch(tmp_path, "elsewhere/secret.pdf", "elsewhere/1.png", "inbox/own/b.pdf")
    links = {"a.pdf": "elsewhere/secret.pdf", "deck": "elsewhere", "own/1.png": "elsewhere/1.png"}
    for link, target in {**links, "c.pdf": "inbox/own/b.pdf", "own/back": "inbox"}.items():
        (inbox / link).symlink_to(tmp_path / target)
    found = discover(inbox)
    assert [document.doc_id for document in found.documents] == ["c", "own/b"]
    assert {
        each.name: str(tmp_path / links[each.name]) in each.reason for each in found.failed
    } == dict.fromkeys(links, True)
    (inbox / "empty").mkdir()
    _touch(inbox, "a.txt")
    for name in ("empty", "nowhere", "a.txt"):
        with pytest.raises(UserError, match=name):
            discover(inbox / name)


def test_folders_that_cannot_be_read_are_reported(inbox, monkeypatch):
    """The error is simulated, since the administrator may read everything."""
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    _touch(inbox, "good.pdf", "a/shut/hidden.pdf")
    found = discover(inbox)
    assert [document.doc_id for document in found.documents] == ["good"]
    assert [failure.name for failure in found.failed] == ["a/shut"]
