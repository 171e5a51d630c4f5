from __future__ import annotations

import os
import subprocess
import sys

import pytest

from docagent_rl.documents.sources import SourceKind, discover
from docagent_rl.errors import UserError


def _touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_pdf_is_named_by_its_file_without_the_last_suffix_only(inbox):
    _touch(inbox, "report.v1.2.pdf", "sub/SCAN.PDF", "notes.txt")
    found = discover(inbox)
    assert [(d.doc_id, d.kind, d.name) for d in found.documents] == [
        ("SCAN", SourceKind.PDF, "sub/SCAN.PDF"),
        ("report.v1.2", SourceKind.PDF, "report.v1.2.pdf"),
    ]
    assert found.failed == []


def test_a_folder_of_images_is_a_document_in_natural_order(inbox):
    _touch(inbox, "deck.a/page10.jpg", "deck.a/page2.png", "deck.a/Page1.jpg", "deck.a/readme.md")
    (document,) = discover(inbox).documents
    assert (document.doc_id, document.kind) == ("deck.a", SourceKind.IMAGES)
    assert [path.name for path in document.files] == ["Page1.jpg", "page2.png", "page10.jpg"]


def test_flat_images_are_split_at_the_last_underscore(inbox):
    _touch(inbox, *(f"my_deck_{page}.jpg" for page in range(1, 12)), "other_1.png")
    documents = discover(inbox).documents
    assert [d.doc_id for d in documents] == ["my_deck", "other"]
    assert [path.name for path in documents[0].files] == [f"my_deck_{page}.jpg" for page in range(1, 12)]


@pytest.mark.parametrize(
    ("names", "failed", "reason"),
    [
        (["a_1.jpg", "a_3.jpg"], "a_*", "page 2 is missing"),
        (["a_2.jpg", "a_7.jpg"], "a_*", "page 1 is missing"),
        (["a_1.jpg", "a_100000000.jpg"], "a_*", "pages 2 to 99999999 are missing"),
        (["a_1.jpg", "a_01.png"], "a_*", "page 1 is there twice: a_01.png and a_1.jpg"),
        (["a_0.jpg"], "a_0.jpg", "page numbers start at 1"),
        (["cover.jpg"], "cover.jpg", "not named <document>_<page>"),
        (["_1.jpg"], "_1.jpg", "not named <document>_<page>"),
    ],
)
def test_flat_images_that_do_not_make_a_document_are_reported(inbox, names, failed, reason):
    _touch(inbox, *names, "good.pdf")
    found = discover(inbox)
    assert [d.doc_id for d in found.documents] == ["good"]
    assert [f.name for f in found.failed] == [failed]
    assert reason in found.failed[0].reason


@pytest.mark.parametrize("other", ["b/report.pdf", "report/1.jpg", "report_1.jpg"])
def test_two_documents_of_one_name_are_an_error_that_names_both(inbox, other):
    _touch(inbox, "a/report.pdf", other)
    with pytest.raises(UserError, match=r"'report'") as caught:
        discover(inbox)
    assert "a/report.pdf" in str(caught.value)
    assert other.replace("/1.jpg", "").replace("_1.jpg", "_*") in str(caught.value)


def test_hidden_files_and_stores_are_passed_over(inbox):
    _touch(inbox, "a.pdf", "._a.pdf", ".cache/b.pdf", "store/docagent_store.json", "store/objects/ab/x.jpg")
    assert [d.doc_id for d in discover(inbox).documents] == ["a"]


def test_links_to_folders_are_followed_but_not_in_circles(inbox, tmp_path):
    _touch(tmp_path, "elsewhere/linked.pdf")
    (inbox / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(inbox)
    assert [d.doc_id for d in discover(inbox).documents] == ["linked"]


def test_a_name_that_is_not_utf8_is_reported(inbox):
    try:
        (inbox / os.fsdecode(b"caf\xe9.pdf")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system refuses such names")
    (failure,) = discover(inbox).failed
    assert "UTF-8" in failure.reason
    failure.name.encode("utf-8")


def test_one_pdf_may_be_given(inbox):
    _touch(inbox, "a.pdf", "b.pdf")
    assert [d.doc_id for d in discover(inbox / "a.pdf").documents] == ["a"]


def test_useless_sources_are_refused(inbox):
    with pytest.raises(UserError, match="no PDF and no page image"):
        discover(inbox)
    with pytest.raises(UserError, match="does not exist"):
        discover(inbox / "nowhere")
    _touch(inbox, "a.txt")
    with pytest.raises(UserError, match="neither a folder nor a PDF"):
        discover(inbox / "a.txt")


DISCOVER = """
import sys
from pathlib import Path
from docagent_rl.documents.sources import discover
found = discover(Path(sys.argv[1]))
print(ascii([d.doc_id for d in found.documents]), ascii([f.reason for f in found.failed]))
"""


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"LC_ALL": "C"}, r"['\xfc'] []"),
        (
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            "[] ['names of files are read as ascii here: set PYTHONUTF8=1 or a UTF-8 locale']",
        ),
    ],
)
def test_a_document_has_one_id_under_all_locales_or_none(tmp_path, environment, said):
    (tmp_path / "ü.pdf").write_bytes(b"%PDF-1.4")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHONUTF8"))}
    done = subprocess.run(
        [sys.executable, "-c", DISCOVER, str(tmp_path)],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == said
