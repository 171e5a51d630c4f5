from __future__ import annotations

import json
from pathlib import Path

import pytest

from docagent_rl.errors import UserError
from tools.documents.manifest import MANIFEST, DocumentKind, read_manifest


def test_the_documents_are_of_many_kinds() -> None:
    manifest = read_manifest()
    assert len(manifest.documents) >= 8
    assert 600 <= sum(document.pages for document in manifest.documents) <= 1500
    assert {document.kind for document in manifest.documents} == set(DocumentKind)
    assert any(d.kind is DocumentKind.GUIDE and d.pages >= 300 for d in manifest.documents)
    assert manifest.scans
    pages = manifest.pages()
    assert all(pages[scan.doc_id] == pages[scan.of] for scan in manifest.scans)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("doc_id", "../up"),
        ("package", "-o Dir::Bin::x"),
        ("version", "1; rm"),
        ("sha256", "12"),
        ("pages", 0),
        ("path", "/etc/x.pdf"),
        ("kind", "novel"),
        ("colour", "red"),
    ],
)
def test_a_wrong_entry_is_refused(tmp_path: Path, field: str, value: object) -> None:
    data = json.loads(MANIFEST.read_text())
    data["documents"][0][field] = value
    path = tmp_path / "documents.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=rf"documents\.json(.|\n)*{field}"):
        read_manifest(path)


def test_ids_are_unique_and_scans_have_originals(tmp_path: Path) -> None:
    data = json.loads(MANIFEST.read_text())
    path = tmp_path / "documents.json"
    path.write_text(json.dumps({**data, "documents": data["documents"] + data["documents"][:1]}))
    with pytest.raises(UserError, match=data["documents"][0]["doc_id"]):
        read_manifest(path)
    path.write_text(json.dumps({**data, "scans": [{"doc_id": "s", "of": "nothing", "dpi": 150, "seed": 0}]}))
    with pytest.raises(UserError, match=r"'s'.*'nothing'"):
        read_manifest(path)
